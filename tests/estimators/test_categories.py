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

from distforest import SMERF, Distances, Embedding, Labels, SimForestClassifier, Targets, URerF, load
from distforest.errors import DistforestWarning, InputError
from tests.messages import naming
from tests.samples import PAPER_RULE

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
    "bins": {"max_bins": 8},
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


@pytest.mark.slow
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


@pytest.mark.parametrize("truth", TRUTHS)
@pytest.mark.parametrize("lacks", [False, True])
def test_bins_of_numbers_change_no_cut_of_categories(truth: str, lacks: bool) -> None:
    """If each number has a bin of its own, rows end in the same nodes, also with more categories than bins."""
    frame = FRAME.assign(size=FRAME["size"].round())
    if lacks:
        frame = frame.assign(colour=frame["colour"].mask(SIZE > 0.9), size=frame["size"].mask(COLOUR == 1))
    exact, binned = (smerf(n_estimators=8, max_bins=m).fit(frame, TRUTHS[truth]) for m in (None, 16))
    np.testing.assert_array_equal(binned.forest_.training_nodes, exact.forest_.training_nodes)
    sizes = [forest.forest_.table.category_size for forest in (exact, binned)]
    np.testing.assert_array_equal(*sizes)
    assert sizes[0].any()
    np.testing.assert_array_equal(binned._nodes(frame)[binned.forest_.in_bag > 0], inside(binned))


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


@pytest.mark.slow
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
        with pytest.warns(
            DistforestWarning, match=naming("X:", "column 'colour'", (COLOUR == 3).sum(), "'mauve'")
        ) as found:
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


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:DF013:distforest.errors.DistforestWarning")
def test_tens_of_thousands_of_categories() -> None:
    n = 65_536
    rng = np.random.default_rng(2)
    names = np.array([f"c{k}" for k in rng.permutation(n)])
    y = rng.normal(size=n) + 3.0 * (np.arange(n) % 2)
    frame = pd.DataFrame({"c": names, "x": np.zeros(n)})
    forest = smerf(n_estimators=1, bootstrap=False, min_samples_leaf=2_000).fit(frame, Targets(y))
    np.testing.assert_array_equal(forest.apply(frame).T, forest.forest_.training_nodes)
    assert forest.forest_.table.category_codes is not None
    assert len(forest.forest_.table.category_codes) < 10 * n
    with pytest.raises(InputError, match=naming("65,536", "column 'c'", "65,537")):
        smerf().fit(pd.DataFrame({"c": [f"c{k}" for k in range(n + 1)]}), Targets(np.zeros(n + 1)))


def test_a_column_of_one_category_or_of_none_is_never_cut() -> None:
    for value in ("all", None):
        frame = FRAME.assign(colour=value).astype({"colour": object})
        forest = smerf().fit(frame, KIND)
        assert forest.feature_importances_[0] == 0.0


# --- without a ground truth -------------------------------------------------------------------------------

RULES: dict[str, dict[str, Any]] = {
    "default": {},
    "all features": {"feature_weights": None},
    "large leaves": {"min_samples_leaf": 8},
    "best": {"criterion": "fast_bic", "splitter": "best", "n_witnesses": 0},
    "means": {"criterion": "two_means", "splitter": "best", "relative": False},
    "mixture": {"criterion": "mclust_bic", "splitter": "best"},
    "paper": PAPER_RULE,
}
GROUP = RNG.integers(0, 3, 900)
OF_GROUP = pd.DataFrame(
    {
        "kind": [f"kind {k}" for k in np.where(RNG.random(900) < 0.85, GROUP, RNG.integers(0, 3, 900)) * 4 + GROUP % 2],
        "place": [f"place {k}" for k in np.where(RNG.random(900) < 0.85, GROUP, RNG.integers(0, 3, 900))],
        "size": GROUP + 0.5 * RNG.normal(size=900),
        "noise": RNG.normal(size=900),
        "word": COLOURS[RNG.integers(0, 7, 900)],
    }
)


def urerf(**params: Any) -> URerF:
    return URerF(**{"n_estimators": 6, "min_samples_split": 40, "random_state": 0, **params})


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("lacks", [False, True])
def test_other_names_and_codes_change_no_proximity(rule: str, lacks: bool) -> None:
    """In nodes that some of their rows judge, too; and rows in bag end where they grew."""
    frame, words = OF_GROUP, ["kind", "place", "word"]
    if lacks:
        hole = RNG.random(OF_GROUP.shape) < 0.1
        frame = OF_GROUP.astype(dict.fromkeys(words, object)).mask(hole)
    forest = urerf(**RULES[rule]).fit(frame)
    np.testing.assert_array_equal(forest._nodes(frame), forest.forest_.training_nodes)
    assert forest.feature_importances_[[0, 1]].min() > 0.0
    renamed = frame.assign(kind="the " + frame["kind"], place=frame["place"].str.upper())
    other = urerf(**RULES[rule]).fit(renamed)
    np.testing.assert_array_equal(other.feature_weights_, forest.feature_weights_)
    np.testing.assert_array_equal(other.apply(renamed), forest.apply(frame))
    if not lacks:
        permuted = coded(frame, permuted=True)
        other = urerf(**RULES[rule], categorical_features=[0, 1, 4]).fit(permuted)
        np.testing.assert_array_equal(other.apply(permuted), forest.apply(frame))


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["default", "all features", "best"])
@pytest.mark.parametrize("columns", [["kind", "place", "word"], ["kind", "place", "size", "noise", "word"]])
def test_planted_groups_are_found_in_categories(rule: str, columns: list[str]) -> None:
    """Near rows are of one group, more often than among the one-hot forms of the same columns."""
    shares = {}
    for name, frame in {"words": OF_GROUP[columns], "one-hot": pd.get_dummies(OF_GROUP[columns], dtype=float)}.items():
        proximity = urerf(n_estimators=20, **RULES[rule]).fit(frame).proximity()
        np.fill_diagonal(proximity, -1.0)
        near = np.argsort(-proximity, axis=1, kind="stable")[:, :20]
        shares[name] = (GROUP[near] == GROUP[:, None]).mean()
    assert shares["words"] > 0.75
    assert shares["words"] > shares["one-hot"] - 0.02


def test_the_screen_reads_categories() -> None:
    """Words that go together are drawn, words that do not are not; whatever the words are."""
    forest = urerf(n_estimators=1).fit(OF_GROUP)
    kind, place, size, noise, word = forest.feature_weights_
    assert min(kind, place, size) > 1.9 * max(noise, word)
    assert forest.dependence_ is not None
    np.testing.assert_array_equal(forest.dependence_ > 0.0, [True, True, True, False, False])
    taught = smerf(feature_weights="dependence").fit(OF_GROUP, GROUP)
    np.testing.assert_array_equal(taught.feature_weights_, forest.feature_weights_)


def test_words_alone_are_not_clusters() -> None:
    """A column of categories is cut by what others say of it, so alone it is not cut."""
    with pytest.warns(DistforestWarning, match="DF012"):
        forest = urerf().fit(OF_GROUP[["kind"]])
    assert (forest.proximity() == 1.0).all()


def test_weighted_words_are_words_of_equal_rows() -> None:
    weights = RNG.integers(1, 3, len(OF_GROUP))
    rule = {"feature_weights": None, "splitter": "best", "n_witnesses": 0, "max_samples": None, "coefficients": "sign"}
    weighted = urerf(**rule).fit(OF_GROUP, sample_weight=weights)
    doubled = urerf(**rule).fit(OF_GROUP.loc[OF_GROUP.index.repeat(weights)])
    np.testing.assert_array_equal(weighted.apply(OF_GROUP), doubled.apply(OF_GROUP))


def test_unseen_words_count_as_missing_without_a_truth() -> None:
    forest = urerf().fit(OF_GROUP)
    new = OF_GROUP.assign(place="nowhere")
    with pytest.warns(DistforestWarning, match=naming("X:", "column 'place'", 900, "'nowhere'")):
        nodes = forest.apply(new)
    lacking = OF_GROUP.assign(place=pd.Series([None] * 900, dtype=object))
    np.testing.assert_array_equal(nodes, forest.apply(lacking))


# --- what is refused --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ([3], ("categorical_features:", "3 columns", [3])),
        (["weight"], ("categorical_features:", "3 columns", ["weight"])),
        ([True], ("categorical_features:", "3 columns", [True])),
        (["size"], ("X:", "column 'size'", "float")),
        (None, ("X:", "column 'colour'")),
        (["room"], ("X:", "column 'colour'", "categorical_features")),
    ],
)
def test_what_does_not_go_with_categories_is_refused(given: Any, named: tuple[object, ...]) -> None:
    with pytest.raises(InputError, match=naming(*named)):
        smerf(categorical_features=given).fit(FRAME, KIND)


def test_other_methods_refuse_categories() -> None:
    with pytest.raises(InputError, match=naming("X:", "column 'colour'")):
        SimForestClassifier("linear", n_estimators=3).fit(FRAME, KIND)


def test_numbers_that_become_strings_are_refused() -> None:
    forest = smerf().fit(FRAME, KIND)
    with pytest.raises(InputError, match=naming("X:", "column 'size'")):
        forest.apply(FRAME.assign(size="large"))
    with pytest.raises(ValueError, match="same order"):
        forest.apply(FRAME[["room", "size", "colour"]])
    numbers = smerf().fit(FRAME[["size"]], KIND)
    with pytest.raises(InputError, match=naming("X:", "column 'size'")):
        numbers.apply(FRAME[["size"]].assign(size="large"))


def test_dates_beside_categories_are_counted_and_durations_refused() -> None:
    dated = FRAME.assign(size=pd.date_range("2020-01-01", periods=len(FRAME)))
    days = FRAME.assign(size=np.arange(float(len(FRAME))))
    assert smerf().fit(dated, KIND).digest_ == smerf().fit(days, KIND).digest_
    with pytest.raises(InputError, match=naming("X:", "column 'size'", "timedelta64")):
        smerf().fit(dated.assign(size=dated["size"] - dated["size"][0]), KIND)


@pytest.mark.parametrize("unit", ["ns", "us", "s"])
def test_durations_are_no_categories_in_any_unit(unit: str) -> None:
    lasted = pd.Series(np.arange(len(FRAME)), dtype=f"timedelta64[{unit}]")
    with pytest.raises(InputError, match=naming("X:", "column 'size'", "timedelta64", "total_seconds()")):
        smerf().fit(pd.DataFrame({"size": lasted, "other": 1.0}), KIND)


def test_a_cure_names_no_parameter_that_the_estimator_lacks() -> None:
    with pytest.raises(InputError, match=naming("X:", "column 'colour'", "OneHotEncoder")) as caught:
        SimForestClassifier("rbf").fit(FRAME, KIND)
    assert "categorical_features" not in str(caught.value)


def test_a_forest_that_is_fitted_again_forgets_categories() -> None:
    forest = smerf().fit(FRAME, KIND).fit(FRAME[["size"]], KIND)
    assert forest.digest_ == smerf().fit(FRAME[["size"]], KIND).digest_
    assert clone(smerf(categorical_features=[0])).categorical_features == [0]


def test_columns_in_another_order_are_refused_with_those_to_give() -> None:
    forest = smerf().fit(FRAME, KIND)
    with pytest.raises(ValueError, match="same order"):
        forest.apply(FRAME.iloc[:, ::-1])
    with pytest.raises(ValueError, match="- more"):
        forest.apply(FRAME.assign(more=1.0))
    with pytest.raises(ValueError, match="- size") as lacking:
        forest.apply(FRAME.drop(columns="size"))
    assert "feature_names_in_" not in str(lacking.value)
    assert np.array_equal(forest.apply(FRAME.assign(more=1.0)[forest.feature_names_in_]), forest.apply(FRAME))


def test_an_array_without_names_is_refused_by_the_name_of_the_column() -> None:
    forest = smerf().fit(FRAME, KIND)
    rows = FRAME.assign(size="large").to_numpy()
    with (
        pytest.warns(UserWarning, match="valid feature names"),
        pytest.raises(InputError, match=naming("X:", "column 'size'", "str")),
    ):
        forest.apply(rows)


def test_codes_of_words_are_refused_without_the_words() -> None:
    forest = smerf().fit(FRAME, KIND)
    with pytest.raises(InputError, match=naming("X:", "'black'", "column 'colour'")):
        forest.apply(FRAME.assign(colour=np.arange(len(FRAME)) % 3))


def test_numbers_where_words_were_learned_are_reported_by_what_to_make_of_them() -> None:
    forest = smerf().fit(FRAME, KIND)
    with pytest.raises(InputError, match=naming("X:", "column 'colour'", "float '0.5'")):
        forest.predict(FRAME.assign(colour=0.5))
