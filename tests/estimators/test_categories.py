"""Features that are categories: what they are called, how they are coded and who hands them in changes no answer."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy.spatial.distance import cdist
from sklearn.base import clone

from distforest import RFD, SMERF, Distances, Embedding, Labels, SimForestClassifier, Targets, URerF, load
from distforest.errors import InputError

N = 240
RNG = np.random.default_rng(0)
COLOURS = np.array(["red", "green", "blue", "black", "white", "pink", "grey"])
COLOUR, SIZE, ROOM = RNG.integers(0, 7, N), RNG.normal(size=N).round(3), RNG.integers(0, 40, N)
VECTORS = np.column_stack([np.isin(COLOUR, [0, 2, 5]) + 0.2 * RNG.normal(size=N), ROOM % 3 + 0.2 * RNG.normal(size=N)])
KIND = np.isin(COLOUR, [0, 2, 5]) ^ (SIZE > 0.5)
FRAME = pd.DataFrame({"colour": COLOURS[COLOUR], "size": SIZE, "room": [f"room {k}" for k in ROOM]})
TRUTHS: dict[str, Any] = {
    "two classes": Labels(KIND.astype(int)),
    "classes": Labels(ROOM % 3 + 3 * KIND),
    "targets": Targets(VECTORS[:, 0] + SIZE),
    "embedding": Embedding(VECTORS),
    "distances": Distances(cdist(VECTORS, VECTORS)),
}
WAYS: dict[str, dict[str, Any]] = {
    "plain": {},
    "random": {"splitter": "random"},
    "sums": {"feature_combinations": 2.0, "max_features": 4},
    "normal": {"feature_combinations": 2.0, "max_features": 4, "coefficients": "normal"},
    "weighted": {"feature_weights": [1.0, 2.0, 1.0]},
    "large leaves": {"min_samples_leaf": 5, "bootstrap": False},
}


def smerf(**params: Any) -> SMERF:
    return SMERF(**{"n_estimators": 5, "random_state": 0, **params})


def coded(frame: pd.DataFrame, permuted: bool = False) -> np.ndarray:
    """The frame with codes in place of strings, in the order of the strings or in another one."""
    own = np.random.default_rng(1)
    columns = []
    for name in frame:
        column = frame[name].to_numpy()
        if column.dtype == object or column.dtype.kind not in "fi":
            names, column = np.unique(column.astype(str), return_inverse=True)
            column = own.permutation(len(names))[column] if permuted else column
        columns.append(column.astype(float))
    return np.column_stack(columns)


@pytest.mark.parametrize("truth", TRUTHS)
@pytest.mark.parametrize("way", WAYS)
def test_other_names_and_codes_change_no_answer(truth: str, way: str) -> None:
    forest = smerf(**WAYS[way]).fit(FRAME, TRUTHS[truth])
    np.testing.assert_array_equal(forest._nodes(FRAME)[forest.forest_.in_bag > 0], inside(forest))
    renamed = FRAME.assign(colour="the " + FRAME["colour"], room=FRAME["room"].str.upper())
    permuted = coded(FRAME, permuted=True)
    for given in (renamed, permuted):
        other = smerf(**WAYS[way], categorical_features=["colour", "room"] if given is renamed else [0, 2])
        other.fit(given, TRUTHS[truth])
        np.testing.assert_array_equal(other.distance(given[:50]), forest.distance(FRAME[:50]))
        np.testing.assert_array_equal(other.apply(given), forest.apply(FRAME))
        np.testing.assert_array_equal(other.feature_importances_, forest.feature_importances_)


def inside(forest: SMERF) -> np.ndarray:
    """The nodes of training rows in bag."""
    return forest.forest_.training_nodes[forest.forest_.in_bag > 0]


def test_every_way_to_hand_in_a_table_gives_one_forest() -> None:
    forest, y = smerf().fit(FRAME, KIND), KIND
    objects = FRAME.astype(object).to_numpy()
    tables: dict[str, Any] = {
        "categories": FRAME.astype({"colour": "category", "room": "category"}),
        "strings": FRAME.astype({"colour": "string"}),
        "arrow": pa.Table.from_pandas(FRAME),
        "dictionaries": pa.table({name: pa.array(FRAME[name]).dictionary_encode() for name in ("colour", "room")}),
        "objects": objects,
        "lists": objects.tolist(),
    }
    tables["dictionaries"] = tables["dictionaries"].add_column(1, "size", pa.array(SIZE))
    for name, given in tables.items():
        other = smerf().fit(given, y)
        assert other.digest_ == forest.digest_, name
        np.testing.assert_array_equal(other.apply(given), forest.apply(FRAME))
    mask = smerf(categorical_features=[True, False, True]).fit(coded(FRAME), y)
    positions = smerf(categorical_features=[0, -1]).fit(FRAME, y)
    assert mask.digest_ == positions.digest_ == forest.digest_


@pytest.mark.parametrize("column", ["category", "int", "bool", "object"])
def test_values_of_any_dtype_can_be_categories(column: str) -> None:
    given = {
        "category": pd.Categorical(ROOM, categories=range(39, -1, -1)),
        "int": ROOM,
        "bool": ROOM > 20,
        "object": np.where(ROOM > 20, ROOM.astype(object), "few"),
    }[column]
    frame = FRAME.assign(room=given)
    forest = smerf(categorical_features=["colour", "room"]).fit(frame, ROOM % 3)
    assert forest.forest_.meaning.rows.n_categories[2] == len(set(np.asarray(given).tolist()))
    spelled = frame.assign(room=[str(value) for value in given])
    np.testing.assert_array_equal(forest.apply(spelled), forest.apply(frame))


def test_a_forest_keeps_its_categories(tmp_path: Path) -> None:
    for name, given in {"named": FRAME, "unnamed": FRAME.astype(object).to_numpy()}.items():
        forest = smerf().fit(given, TRUTHS["distances"])
        forest.save(tmp_path / name)
        opened = load(tmp_path / name)
        assert opened.digest_ == forest.digest_
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            np.testing.assert_array_equal(opened.distance(given[:9]), forest.distance(given[:9]))
        assert hasattr(opened, "feature_names_in_") == (name == "named")


# --- missing and unseen -----------------------------------------------------------------------------------


def test_an_unseen_category_counts_as_missing() -> None:
    for truth, values in TRUTHS.items():
        forest = smerf().fit(FRAME, values)
        lacking = FRAME.assign(colour=FRAME["colour"].where(COLOUR != 3, None))
        unseen = FRAME.assign(colour=FRAME["colour"].where(COLOUR != 3, "mauve"))
        expected = forest.apply(lacking)
        told = (
            rf"^X: column 'colour': {(COLOUR == 3).sum()} rows have a category .* \('mauve'\), which counts as missing$"
        )
        with pytest.warns(UserWarning, match=told) as found:
            nodes = forest.apply(unseen)
        assert found[0].filename == __file__, truth
        np.testing.assert_array_equal(nodes, expected)
        np.testing.assert_array_equal(nodes[COLOUR != 3], forest.apply(FRAME)[COLOUR != 3])


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA])
def test_missing_categories_are_learned_from(missing: object) -> None:
    """Rows that lack their colour have a class of their own."""
    lacks = RNG.random(N) < 0.3
    y = np.where(lacks, 2, np.isin(COLOUR, [0, 2, 5]))
    frame = FRAME.assign(colour=FRAME["colour"].astype(object).mask(lacks, missing))  # type: ignore[arg-type]
    forest = smerf(n_estimators=20, max_features=None).fit(frame, y)
    assert (forest.predict(frame) == y).mean() > 0.99
    np.testing.assert_array_equal(forest._nodes(frame)[forest.forest_.in_bag > 0], inside(forest))


def test_a_category_that_a_node_has_not_seen_goes_where_missing_values_go() -> None:
    """Out of bag and in bag rows of a category that one row has; the forest is that of the row's number alone."""
    colour = FRAME["colour"].to_numpy().copy()
    colour[7] = "only once"
    forest = smerf(n_estimators=30).fit(FRAME.assign(colour=colour), KIND)
    out = forest.forest_.in_bag[:, 7] == 0
    assert out.any()
    lacking = FRAME.assign(colour=pd.Series(colour).where(colour != "only once", None))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (forest.apply(lacking)[7, out] == forest.forest_.training_nodes[out, 7]).all()


# --- many and few categories ------------------------------------------------------------------------------


def test_tens_of_thousands_of_categories() -> None:
    n = 65_536
    rng = np.random.default_rng(2)
    names = np.array([f"c{k}" for k in rng.permutation(n)])
    y = rng.normal(size=n) + 3.0 * (np.arange(n) % 2)
    frame = pd.DataFrame({"c": names, "x": np.zeros(n)})
    with pytest.warns(UserWarning, match="column 'c' has another category in each row"):
        forest = smerf(n_estimators=1, bootstrap=False, min_samples_leaf=2_000).fit(frame, Targets(y))
    np.testing.assert_array_equal(forest.apply(frame).T, forest.forest_.training_nodes)
    assert forest.forest_.table.category_codes is not None
    assert len(forest.forest_.table.category_codes) < 10 * n
    with pytest.raises(InputError, match=r"at most 65,536 were expected in column 'c', found 65,537 categories; leave"):
        smerf().fit(pd.DataFrame({"c": [f"c{k}" for k in range(n + 1)]}), Targets(np.zeros(n + 1)))


def test_a_column_of_one_category_or_of_none_is_never_cut() -> None:
    for value in ("all", None):
        frame = FRAME.assign(colour=value).astype({"colour": object})
        forest = smerf().fit(frame, KIND)
        assert forest.feature_importances_[0] == 0.0


# --- what is refused --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"max_bins": 16}, "max_bins=16 bins numbers, found 2 features of categories; leave it out"),
        ({"feature_weights": "dependence"}, "feature_weights='dependence' compares the ranks of numbers, found 2"),
        (
            {"categorical_features": [3]},
            r"categorical_features: a mask, positions or names of 3 columns, .*found \[3\]",
        ),
        ({"categorical_features": ["weight"]}, r"categorical_features: .* found \['weight'\]"),
        ({"categorical_features": [True]}, r"categorical_features: .* found \[True\]"),
        ({"categorical_features": ["size"]}, "X: strings or whole numbers were expected in column 'size', found float"),
        ({"categorical_features": None}, "X: numbers were expected in column 'colour'"),
        ({"categorical_features": ["room"]}, "X: numbers were expected in column 'colour', found"),
    ],
)
def test_what_does_not_go_with_categories_is_refused(params: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        smerf(**params).fit(FRAME, KIND)


def test_other_methods_refuse_categories() -> None:
    with pytest.raises(InputError, match="urerf splits on numbers, found 2 features of categories; encode them"):
        URerF(3).fit(FRAME)
    for other in (RFD(3), SimForestClassifier("linear", n_estimators=3)):
        with pytest.raises(InputError, match="X: numbers were expected in column 'colour'"):
            other.fit(FRAME, KIND)


def test_numbers_that_become_strings_are_refused() -> None:
    forest = smerf().fit(FRAME, KIND)
    with pytest.raises(InputError, match="X: numbers were expected in column 'size', found"):
        forest.apply(FRAME.assign(size="large"))
    with pytest.raises(ValueError, match="feature names should match"):
        forest.apply(FRAME[["room", "size", "colour"]])
    numbers = smerf().fit(FRAME[["size"]], KIND)
    with pytest.raises(InputError, match="X: numbers were expected in column 'size'"):
        numbers.apply(FRAME[["size"]].assign(size="large"))


def test_dates_beside_categories_are_to_be_numbers() -> None:
    dated = FRAME.assign(size=pd.date_range("2020-01-01", periods=len(FRAME)))
    with pytest.raises(
        InputError, match=r"column 'size', found datetime64.*; turn dates into numbers, such as days since"
    ):
        smerf().fit(dated, KIND)


def test_a_forest_that_is_fitted_again_forgets_categories() -> None:
    forest = smerf().fit(FRAME, KIND).fit(FRAME[["size"]], KIND)
    assert forest.digest_ == smerf().fit(FRAME[["size"]], KIND).digest_
    assert clone(smerf(categorical_features=[0])).categorical_features == [0]


def test_what_may_be_no_category_is_told() -> None:
    names = FRAME.assign(colour=[f"customer {k}" for k in range(len(FRAME))])
    with pytest.warns(UserWarning, match="X: column 'colour' has another category in each row; leave it out"):
        smerf().fit(names, KIND)
    dates = FRAME.assign(colour=[f"2024-01-{k % 28 + 1:02d}" for k in range(len(FRAME))])
    with pytest.warns(UserWarning, match="X: column 'colour' holds dates as words, .*; turn them into numbers"):
        smerf().fit(dates, KIND)


def test_codes_of_words_are_refused_without_the_words() -> None:
    forest = smerf().fit(FRAME, KIND)
    with pytest.raises(InputError, match=r"words such as '.*' were expected in column 'colour', found numbers; give"):
        forest.apply(FRAME.assign(colour=np.arange(len(FRAME)) % 3))
