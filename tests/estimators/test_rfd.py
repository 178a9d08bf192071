"""RFD as an estimator: distances from labels or pairs, its error out of bag, importances, neighbours, one digest."""

from __future__ import annotations

import copy
import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from distforest import RFD, TreeRank, load
from distforest.errors import ArtifactError, DistforestWarning, InputError, SpecError
from distforest.growth.methods import METHODS
from distforest.growth.pairs.pair_methods import given_pairs
from distforest.growth.pairs.sampling import GivenPairs
from distforest.growth.problem import Data
from distforest.jobs.input_staging import stage_inputs
from distforest.jobs.preview import preview
from distforest.sources.files.ingest import ingest
from distforest.sources.point_pairs import PairColumns
from distforest.sources.truth import Truth, TruthKind
from tests.estimators.jobs import spec_of, write_arrays
from tests.estimators.rows import NAMES, SMALL, SMALL_Y, X, Y
from tests.growth.test_rfd import as_tree
from tests.messages import naming
from tests.reference import naive_trees_of_pairs as ref

RNG = np.random.default_rng(0)
PAIRS = np.array([[i, j] for i in range(len(SMALL)) for j in range(i)])[RNG.permutation(len(SMALL) * 37 // 2)[:200]]
SIMILAR = SMALL_Y[PAIRS[:, 0]] == SMALL_Y[PAIRS[:, 1]]


def small(n_estimators: int = 8, **params: Any) -> RFD:
    return RFD(n_estimators, **{"n_constraints": 40, "random_state": 3, "min_samples_leaf": 2, **params})


def sampling_of(forest: RFD, similar: np.ndarray | None = None) -> GivenPairs:
    """The pairs that a fitted forest has learned from."""
    meaning = forest.forest_.meaning
    if similar is None:
        codes = np.unique(SMALL_Y, return_inverse=True)[1].astype(np.int32)
        data = Data(meaning.rows, forest.forest_.points, Truth(TruthKind.LABELS, codes, [0, 1, 2]))
    else:
        links = np.where(similar, 0, 1).astype(np.uint8)
        data = Data(meaning.rows, forest.forest_.points, Truth(TruthKind.LINKS, links), pairs=PAIRS.astype(np.int32))
    return given_pairs(data, meaning.params, meaning.seed)


# --- distances --------------------------------------------------------------------------------------------


def test_labels_are_told_apart() -> None:
    forest = RFD(30, n_constraints=200, random_state=0).fit(X[::2], Y[::2])
    apart = forest.distance(X[1::2], X[::2])
    assert apart.shape == (75, 75)
    nearest = Y[::2][apart.argmin(axis=1)]
    assert (nearest == Y[1::2]).mean() > 0.9
    same = Y[1::2][:, None] == Y[::2]
    assert apart[same].mean() < 0.2 < 0.8 < apart[~same].mean()


@pytest.mark.parametrize("voting", ["majority", "mean", "evidence"])
@pytest.mark.parametrize("position", [True, False])
def test_distances_are_those_of_the_formulas_and_symmetric(position: bool, voting: str) -> None:
    forest = small(voting=voting, position=position).fit(SMALL, SMALL_Y)
    trees = [as_tree(forest.forest_, tree) for tree in range(8)]
    points, family = SMALL.astype(np.float32), "difference_mean" if position else "difference"
    apart = forest.distance()
    assert apart.tobytes() == np.ascontiguousarray(apart.T).tobytes()
    assert apart.tobytes() == forest.distance(SMALL).tobytes() == forest.distance(SMALL, SMALL).tobytes()
    for i, j in PAIRS[:25]:
        row = ref.pair_columns(points[i], points[j], family)
        assert apart[i, j] == pytest.approx(float(ref.distance(trees, row, voting, ref.Fraction(1, 2))), abs=1e-14)
    left, right = SMALL[PAIRS[:, 0]], SMALL[PAIRS[:, 1]]
    assert forest.pair_distance(left, right).tobytes() == apart[tuple(PAIRS.T)].tobytes()
    assert forest.pair_distance(left, right).tobytes() == forest.pair_distance(right, left).tobytes()


def test_pairs_given_by_hand_lead_to_the_trees_of_the_same_pairs_drawn() -> None:
    """The pairs that were drawn from the labels, handed over as they are."""
    drawn = small().fit(SMALL, SMALL_Y)
    pairs, codes = sampling_of(drawn).pairs, sampling_of(drawn).codes
    given = small().fit_pairs(SMALL, pairs, codes == 0)
    assert given.forest_.table.arrays().keys() == drawn.forest_.table.arrays().keys()
    for name, array in given.forest_.table.arrays().items():
        assert array.tobytes() == drawn.forest_.table.arrays()[name].tobytes()
    np.testing.assert_array_equal(given.distance(), drawn.distance())


@pytest.mark.parametrize("similar", [SIMILAR.astype(int), np.where(SIMILAR, 1, -1), SIMILAR.astype(float), [*SIMILAR]])
def test_links_may_be_said_in_several_ways(similar: Any) -> None:
    expected = small().fit_pairs(SMALL, PAIRS, SIMILAR)
    found = small().fit_pairs(SMALL.tolist(), PAIRS.tolist(), similar)
    assert found.digest_ == expected.digest_
    assert not hasattr(found, "classes_")


def test_a_pair_may_be_turned() -> None:
    first, second = (small().fit_pairs(SMALL, own, SIMILAR) for own in (PAIRS, PAIRS[:, ::-1]))
    assert first.digest_ == second.digest_


@pytest.mark.parametrize("balance", ["points", "classes", "pairs"])
@pytest.mark.parametrize("resample", ["points", "pairs"])
def test_every_way_to_draw_tells_the_labels_apart(balance: str, resample: str) -> None:
    forest = small(20, balance=balance, resample=resample).fit(X, NAMES)
    apart = forest.distance(X[::15])
    same = Y[::15, None] == Y[::15]
    assert apart[same].mean() + 0.4 < apart[~same].mean()
    assert forest.classes_.tolist() == sorted(set(NAMES))


def test_the_number_of_constraints_needs_no_thought() -> None:
    forest = RFD(3, random_state=0).fit(X, Y)  # fewer pairs than the default asks for, and no warning
    assert forest.get_params()["n_constraints"] == "auto"
    assert forest.forest_.meaning.params["n_constraints"] == "auto"
    with pytest.warns(DistforestWarning, match=naming("3,675", 6000, "n_constraints")):
        RFD(3, n_constraints=2000, balance="pairs", random_state=0).fit(X, Y)


def test_the_smallest_problems_there_are() -> None:
    three = np.array([[0.0], [1.0], [5.0]])
    with pytest.warns(DistforestWarning, match=naming(1, 2, "n_constraints")):
        by_labels = small(n_constraints=1, min_samples_leaf=1, bootstrap=False).fit(three, [0, 0, 1])
    assert by_labels.distance().shape == (3, 3)
    by_pairs = small(min_samples_leaf=1, bootstrap=False).fit_pairs(three, [[0, 1], [1, 2]], [True, False])
    assert by_pairs.distance()[[0, 1], [1, 2]].tolist() == [0.0, 1.0]
    assert by_pairs.kneighbors(n_neighbors=1, return_distance=False).tolist() == [[1], [0], [0]]


def test_features_that_say_nothing_are_let_be() -> None:
    """A constant column, a column twice, points that are the same, and a mirrored cloud."""
    rows = np.column_stack([SMALL[:, 2], SMALL[:, 2], np.full(len(SMALL), 7.0)])
    rows = np.concatenate([rows, rows, rows * [-1, -1, 1]])
    labels = np.concatenate([SMALL_Y, SMALL_Y, SMALL_Y + 3])
    forest = small(n_constraints=100).fit(rows, labels)
    assert forest.feature_importances_[2] == 0.0
    assert len(set(forest.distance(rows[:1], rows[[0, len(SMALL)]])[0].tolist())) == 1
    with pytest.warns(DistforestWarning, match=naming("split", "features")):
        silent = small(n_constraints=2, balance="pairs").fit(np.ones((9, 2)), np.arange(9) % 3)
    assert silent.feature_importances_.tolist() == [0.0, 0.0]
    assert set(silent.forest_.table.tree_size.tolist()) == {1}


# --- out of bag -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("links", [None, SIMILAR])
def test_the_score_out_of_bag_is_that_of_the_formulas(links: np.ndarray | None) -> None:
    forest = small(20, oob_score=True, max_samples=0.5)
    forest = forest.fit(SMALL, SMALL_Y) if links is None else forest.fit_pairs(SMALL, PAIRS, links)
    own = sampling_of(forest, links)
    trees = [as_tree(forest.forest_, tree) for tree in range(20)]
    drawn = [set(np.flatnonzero(bag).tolist()) for bag in forest.forest_.in_bag]
    table, right = ref.pair_table(SMALL.astype(np.float32), own.pairs, "difference_mean"), []
    for pair, row, code in zip(own.pairs.tolist(), table, own.codes, strict=True):
        found = ref.out_of_bag_distance(trees, drawn, tuple(pair), row, "majority", ref.Fraction(1, 2))
        right += [] if found is None else [(found > ref.Fraction(1, 2)) == (code == 1)]
    assert len(right) > 50
    assert forest.oob_score_ == pytest.approx(np.mean(right), abs=1e-14)


def test_the_score_out_of_bag_is_an_honest_estimate() -> None:
    rng = np.random.default_rng(0)
    noise, labels = rng.normal(size=(60, 4)), np.arange(60) % 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some pairs have no tree that drew neither point
        lost = small(60, oob_score=True, n_constraints=300).fit(noise, labels)
        known = small(60, oob_score=True, n_constraints=300).fit(noise + 4.0 * labels[:, None], labels)
    assert abs(lost.oob_score_ - 0.5) < 0.1
    assert known.oob_score_ > 0.95


def test_pairs_without_a_tree_are_reported() -> None:
    with pytest.warns(DistforestWarning, match=naming(240, "out-of-bag")):
        small(6, oob_score=True).fit(SMALL, SMALL_Y)
    with pytest.raises(InputError, match=naming("oob_score", "bootstrap=True", "max_samples")):
        small(oob_score=True, bootstrap=False).fit(SMALL, SMALL_Y)
    with pytest.raises(InputError, match=naming("oob_score", "resample='points'")):
        small(oob_score=True, resample="pairs").fit(SMALL, SMALL_Y)


# --- importances and neighbours ---------------------------------------------------------------------------


def test_importances_are_shares_of_the_gain_of_differences_and_middles() -> None:
    forest = small(30).fit(X, Y)
    table = forest.forest_.table
    gains = np.zeros(8)
    inner = table.left >= 0
    np.add.at(gains, table.columns, table.gain[inner])
    relative, absolute = forest.relative_importances_, forest.absolute_importances_
    np.testing.assert_allclose(np.concatenate([relative, absolute]), gains / gains.sum(), rtol=1e-12)
    np.testing.assert_array_equal(forest.feature_importances_, relative + absolute)
    assert forest.feature_importances_.sum() == pytest.approx(1.0)
    assert set(np.argsort(forest.feature_importances_)[2:].tolist()) == {2, 3}  # petals


def test_without_position_middles_have_no_share() -> None:
    forest = small(position=False).fit(SMALL, SMALL_Y)
    assert forest.absolute_importances_.tolist() == [0.0] * 4
    np.testing.assert_array_equal(forest.relative_importances_, forest.feature_importances_)
    assert forest.feature_importances_.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("n_neighbors", [1, 5, 37])
def test_neighbours_are_the_nearest_of_all(n_neighbors: int) -> None:
    forest = small().fit(SMALL, SMALL_Y)
    distances, indices = forest.kneighbors(X[1::9], n_neighbors)
    apart = forest.distance(X[1::9], SMALL)
    order = np.argsort(apart, axis=1, kind="stable")[:, :n_neighbors]
    assert indices.tolist() == order.tolist()
    assert distances.tolist() == np.take_along_axis(apart, order, axis=1).tolist()
    assert forest.kneighbors(X[1::9], n_neighbors, return_distance=False).tolist() == order.tolist()
    own = forest.distance()
    np.fill_diagonal(own, np.inf)
    expected = np.argsort(own, axis=1, kind="stable")[:, :n_neighbors]
    assert forest.kneighbors(n_neighbors=n_neighbors)[1].tolist() == expected.tolist()


# --- one forest -------------------------------------------------------------------------------------------


def test_threads_and_types_change_nothing() -> None:
    digests = {small(n_jobs=n).fit(SMALL, SMALL_Y).digest_ for n in (None, 2, -1)}
    numpy = RFD(np.int64(8), n_constraints=np.int32(40), random_state=np.int64(3), min_samples_leaf=np.int64(2))
    digests |= {numpy.fit(SMALL.astype(np.float32), NAMES_AS_NUMBERS).digest_}
    assert len(digests) == 1
    forest = small(n_jobs=3).fit(SMALL, SMALL_Y)
    assert forest.distance().tobytes() == forest.set_params(n_jobs=None).distance().tobytes()


NAMES_AS_NUMBERS = SMALL_Y.astype(np.int8)


def test_random_state_and_parameters_are_part_of_the_digest() -> None:
    first = small().fit(SMALL, SMALL_Y).digest_
    assert small().fit(SMALL, SMALL_Y).digest_ == first
    for changed in ({"random_state": 4}, {"voting": "mean"}, {"max_bins": None}, {"balance": "pairs"}):
        assert small(**changed).fit(SMALL, SMALL_Y).digest_ != first


def test_clones_and_copies_answer_alike() -> None:
    forest = small(client=None).fit(SMALL, SMALL_Y)
    assert clone(forest).fit(SMALL, SMALL_Y).digest_ == forest.digest_
    for twin in (pickle.loads(pickle.dumps(forest)), copy.deepcopy(forest)):
        assert twin.digest_ == forest.digest_
        assert twin.distance(X[:5]).tobytes() == forest.distance(X[:5]).tobytes()
    with pytest.raises(NotFittedError):
        clone(forest).distance(X)
    with pytest.raises(NotFittedError):
        _ = clone(forest).feature_importances_


@pytest.mark.slow
@pytest.mark.parametrize(
    "params", [{}, {"position": False, "voting": "evidence"}, {"voting": "mean", "max_bins": None}]
)
def test_a_saved_forest_answers_as_before(params: dict[str, Any], tmp_path: Path) -> None:
    for number, fitted in enumerate(
        (small(**params).fit(SMALL, NAMES[::4]), small(**params).fit_pairs(SMALL, PAIRS, SIMILAR))
    ):
        place = tmp_path / f"{number}.forest.zarr"
        assert fitted.save(place) == fitted.digest_
        loaded = load(place)
        assert isinstance(loaded, RFD)
        assert loaded.get_params() == fitted.get_params()
        assert (loaded.digest_, loaded.n_features_in_) == (fitted.digest_, 4)
        assert loaded.distance(X[::9]).tobytes() == fitted.distance(X[::9]).tobytes()
        assert loaded.distance().tobytes() == fitted.distance().tobytes()
        assert loaded.kneighbors()[1].tolist() == fitted.kneighbors()[1].tolist()
        assert loaded.feature_importances_.tolist() == fitted.feature_importances_.tolist()
        assert loaded.forest_.points.tobytes() == fitted.forest_.points.tobytes()
        with pytest.raises(ArtifactError, match=naming(place, "exists")):
            fitted.save(place)
    assert (
        clone(load(tmp_path / "0.forest.zarr")).fit(SMALL, NAMES[::4]).digest_
        == load(tmp_path / "0.forest.zarr").digest_
    )


def test_input_on_disk_is_the_same_input(tmp_path: Path) -> None:
    arrays = {"X": SMALL, "y": SMALL_Y, "pairs": PAIRS, "similar": SIMILAR}
    at = write_arrays(f"{tmp_path}/d.zarr", arrays, chunk_bytes=256)
    assert small().fit(at["X"], at["y"]).digest_ == small().fit(SMALL, SMALL_Y).digest_
    there = small().fit_pairs(at["X"], at["pairs"], at["similar"])
    assert there.digest_ == small().fit_pairs(SMALL, PAIRS, SIMILAR).digest_
    assert there.distance(at["X"]).tobytes() == there.distance().tobytes()


# --- what is refused --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "named"),
    [
        ({"balance": "class"}, ("balance", "'points'", "'classes'", "'pairs'", "'class'")),
        ({"voting": "soft", "resample": "rows"}, ("voting", "'soft'", "resample", "'rows'")),
        ({"n_constraints": 0}, ("n_constraints", "'auto'", 0)),
        ({"max_bins": 257}, ("max_bins", [2, 256], 257)),
        ({"max_features": 1.5}, ("max_features", "'sqrt'", 1.5)),
        ({"max_samples": 39}, ("max_samples=39", 38)),
        ({"n_jobs": 0}, ("n_jobs", 0)),
    ],
)
def test_bad_parameters_are_refused_by_fit(params: dict[str, Any], named: tuple[object, ...]) -> None:
    with pytest.raises(InputError, match=naming(*named)):
        small(**params).fit(SMALL, SMALL_Y)


@pytest.mark.filterwarnings("ignore:DF007:distforest.errors.DistforestWarning")
@pytest.mark.parametrize(
    ("rows", "labels", "named"),
    [
        (SMALL, None, ("RFD", "y")),
        (SMALL, SMALL_Y[:-1], (38, 37, "labels")),
        (SMALL, np.zeros(38), ("labels:", "cannot-link")),
        (SMALL, np.arange(38), ("labels:", "must-link")),
        (SMALL[:2], SMALL_Y[:2], ("n_samples=2",)),
        (np.where(np.arange(38)[:, None] == 3, np.inf, SMALL), SMALL_Y, ("features", "NaN", "row 3", "inf")),
        (np.where(np.arange(38)[:, None] == 3, 3e38, SMALL), SMALL_Y, ("features", "1.70141e+38", "3e+38")),
        (np.where(np.arange(38)[:, None] == 3, 1e300, SMALL), SMALL_Y, ("features", "float32", "row 3", "1e+300")),
        (SMALL.astype(str), SMALL_Y, ("dtype",)),
        (SMALL[:, 0], SMALL_Y, ("2D array",)),
        (SMALL[:, :0], SMALL_Y, ("0 feature",)),
    ],
)
def test_labels_and_points_that_cannot_be_used_are_refused(rows: Any, labels: Any, named: tuple[object, ...]) -> None:
    with pytest.raises(ValueError, match=naming(*named)):
        small().fit(rows, labels)


@pytest.mark.parametrize(
    ("pairs", "similar", "named"),
    [
        (PAIRS, None, ("RFD", "y")),
        (PAIRS, SIMILAR[:-1], (200, 199, "similar")),
        (PAIRS, np.ones(200), ("only similar",)),
        (PAIRS[:1], [False], ("only dissimilar",)),
        (PAIRS + 1000, SIMILAR, ("pairs:", "0..37", "pair 0")),
        (PAIRS.astype(float), SIMILAR, ("pairs:", "float64 (200, 2)")),
        (PAIRS[:, 0], SIMILAR, ("pairs:", "int64 (200,)")),
        (PAIRS.astype(str), SIMILAR, ("pairs:", "row numbers")),
        (PAIRS, SIMILAR.astype(str).astype(object), ("similar:", "True or False")),
        (PAIRS, SIMILAR.astype(float) / 2, ("similar:", [0.0, 0.5])),
        ([[0, 1], [2, 2]], [True, False], ("pairs:", "point 2", "pair 1")),
        ([], [], ("pairs:", "float64 (0,)")),
    ],
)
def test_pairs_that_cannot_be_used_are_refused(pairs: Any, similar: Any, named: tuple[object, ...]) -> None:
    with pytest.raises(InputError, match=naming(*named)):
        small().fit_pairs(SMALL, pairs, similar)


@pytest.mark.parametrize(("yes", "no", "is_read"), [("yes", "no", True), ("linked", "unlinked", False)])
def test_links_that_are_numbers_of_words_are_read_only_if_their_order_tells(
    tmp_path: Path, yes: str, no: str, is_read: bool
) -> None:
    similar = np.where(np.asarray(SIMILAR) == 1, yes, no)
    np.savez(tmp_path / "links.npz", X=SMALL, pairs=PAIRS, similar=similar)
    ingest(f"{tmp_path}/links.npz", f"{tmp_path}/links.zarr")
    at = {name: f"{tmp_path}/links.zarr/{name}" for name in ("pairs", "similar")}
    spec = spec_of(tmp_path, "rfd", {"features": f"{tmp_path}/links.zarr/X", **at})
    if is_read:
        preview(spec)
        forest = small().fit_pairs(SMALL, at["pairs"], at["similar"])
        assert forest.digest_ == small().fit_pairs(SMALL, PAIRS, SIMILAR).digest_
        return
    with pytest.raises(InputError, match=naming("similar:", "'linked', 'unlinked'")):
        small().fit_pairs(SMALL, at["pairs"], at["similar"])
    with pytest.raises(SpecError, match=naming("input.similar:", "'linked', 'unlinked'")):
        preview(spec)
    with pytest.raises(InputError, match=naming("similar:", "'linked', 'unlinked'")):
        stage_inputs(spec, f"{tmp_path}/job")


@pytest.mark.parametrize("estimator", [small(), TreeRank(3, n_pairs=300, random_state=0)])
def test_pairs_that_are_alike_and_unlike_are_reported(estimator: Any) -> None:
    """Each pair twice is legal, either way round."""
    twice, either_way = np.concatenate([PAIRS, PAIRS]), np.concatenate([PAIRS, PAIRS[:, ::-1]])
    estimator.fit_pairs(SMALL, twice, np.tile(SIMILAR, 2))
    noisy = np.concatenate([SIMILAR, SIMILAR ^ np.isin(np.arange(200), [4, 9, 50])])
    low, high = sorted(PAIRS[4].tolist())
    with pytest.warns(DistforestWarning, match=naming("DF009 pairs:", 3, f"{low} and {high}")) as found:
        estimator.fit_pairs(SMALL, either_way, noisy)
    assert [warning.filename for warning in found] == [__file__]
    assert np.isfinite(estimator.distance()).all()


@pytest.mark.parametrize("method", ["distance", "kneighbors"])
def test_questions_that_cannot_be_used_are_refused(method: str) -> None:
    forest = small().fit(SMALL, SMALL_Y)
    with pytest.raises(ValueError, match=naming(3, "RFD", 4)):
        getattr(forest, method)(SMALL[:, :3])
    with pytest.raises(InputError, match=naming("features", "1.70141e+38", "2.76e+38")):
        getattr(forest, method)(SMALL * 4e37)
    with pytest.raises(InputError, match=naming("pairs", 2, 3)):
        forest.pair_distance(SMALL[:2], SMALL[:3])
    with pytest.raises(InputError, match=naming("n_neighbors", "1..37", 38)):
        forest.kneighbors(n_neighbors=38)


def test_the_family_of_columns_follows_position() -> None:
    for position, family in ((True, "difference_mean"), (False, "difference")):
        rows = small(position=position).fit(SMALL, SMALL_Y).forest_.meaning.rows
        assert rows == PairColumns(family, 4)


def test_defaults_are_those_of_the_list_of_parameters() -> None:
    assert {p.name: getattr(RFD(), p.name) for p in METHODS["rfd"].parameters} == {
        p.name: p.default for p in METHODS["rfd"].parameters
    }
