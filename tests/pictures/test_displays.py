"""Displays: they show the numbers of the forest, on axes of their own or given ones, and no text lies on another."""

import numpy as np
import pytest
from matplotlib.figure import Figure
from sklearn.datasets import load_iris, load_wine

import distforest.pictures as displays
from distforest import (
    RFD,
    SMERF,
    SimForestClassifier,
    SimForestOutlier,
    SimForestRegressor,
    TreeRank,
    URerF,
    load,
    tune,
)
from distforest.errors import InputError
from distforest.evaluation.roc import roc_of_distances
from distforest.forest.forest import Forest
from distforest.pictures.importances import importances_of
from distforest.sources.arrays import write_array
from tests.messages import naming
from tests.pictures.test_charts import drawn_on, overlapping

NAMES = load_wine().feature_names


@pytest.fixture(scope="module")
def wines():
    X, y = load_wine(return_X_y=True)
    return ((X - X.mean(axis=0)) / X.std(axis=0))[::2], y[::2]


@pytest.fixture(scope="module")
def forests(wines):
    X, y = wines
    near = -np.linalg.norm(X[:, None] - X, axis=2)
    return {
        "labels": SMERF(10, random_state=0).fit(X, y),
        "numbers": SMERF(10, random_state=0).fit(X, X[:, 0] + 0.5),
        "distances": SMERF(10, random_state=0).fit(X, -near),
        "untaught": URerF(10, min_samples_split=9, random_state=0).fit(X),
        "votes": RFD(10, random_state=0).fit(X, y),
        "ranks": TreeRank(3, n_pairs=900, leafrank_depth=1, random_state=0).fit(X, y),
        "similar": SimForestClassifier(n_estimators=10, n_columns=1, random_state=0).fit(near, y),
        "amounts": SimForestRegressor("rbf", n_estimators=10, random_state=0).fit(X, X[:, 0]),
        "outliers": SimForestOutlier("rbf", n_estimators=10, random_state=0).fit(X),
    }


def rows_of(name, wines):
    X, _ = wines
    return -np.linalg.norm(X[:, None] - X, axis=2) if name == "similar" else X


def test_all_displays_are_at_hand():
    assert {name for name in dir(displays) if name.endswith("Display")} == set(displays.__all__)
    assert all(getattr(displays, name).__name__ == name for name in displays.__all__)
    with pytest.raises(AttributeError, match="PieDisplay"):
        displays.PieDisplay  # noqa: B018


@pytest.mark.slow
@pytest.mark.parametrize("name", ["labels", "untaught", "votes", "ranks"])
def test_importances_are_those_of_the_forest(forests, name):
    names = NAMES if name != "ranks" else ()
    display = displays.ImportancesDisplay.from_estimator(forests[name], names=names)
    total = np.sum([*display.importances.parts.values()], axis=0)
    assert total.sum() == pytest.approx(1.0)
    if name != "ranks":
        assert total == pytest.approx(forests[name].feature_importances_)
        assert display.ax_.get_yticklabels()[0].get_text() in "".join(NAMES)
    else:
        assert display.importances.names[:2] == ["|d feature 0|", "|d feature 1|"]
    assert overlapping(display.figure_) == []


@pytest.mark.slow
def test_importances_by_permutation_may_be_negative(forests, wines):
    X, y = wines
    display = displays.ImportancesDisplay.from_estimator(forests["labels"], X, y, names=NAMES)
    found = forests["labels"].permutation_importances(X, y)
    assert np.array_equal(display.importances.parts["importance"], found.importances)
    assert np.array_equal(display.importances.errors, found.standard_errors)
    assert display.ax_.get_xlabel() == "increase of the squared error out of bag"
    assert overlapping(display.figure_) == []
    with pytest.raises(InputError, match=naming("RFD", "permutation")):
        displays.ImportancesDisplay.from_estimator(forests["votes"], X, y)


@pytest.mark.parametrize("name", ["labels", "distances", "untaught", "votes", "ranks"])
def test_the_bars_of_an_explanation_lead_from_the_mean_to_the_distance(forests, wines, name):
    X, _ = wines
    names = NAMES if name not in {"votes", "ranks"} else ()
    display = displays.ExplanationDisplay.from_estimator(forests[name], X[0], X[-1:], names=names)
    found = forests[name].explain(X[:1], X[-1:])
    assert display.baseline + display.contributions.sum() == pytest.approx(found.distances[0])
    bars = sorted((bar.get_y(), bar.get_x(), bar.get_width()) for bar in display.ax_.patches)
    assert found.baselines[0] + sum(width for *_, width in bars) == pytest.approx(found.distances[0])
    place = found.baselines[0]
    for _, start, width in bars:
        assert start == pytest.approx(place)
        place += width
    first = found.strongest(0, 1)[0]
    assert bars[0][2] == pytest.approx(first[1])
    assert overlapping(display.figure_) == []


def test_a_grid_is_drawn_with_a_line_for_each_further_cell(wines):
    X, y = wines
    grid = {"max_features": [1, 4, None], "min_samples_split": [2, 20]}
    found = tune(SMERF(30, random_state=0), grid, X, y)
    display = displays.TuningDisplay(found).plot()
    *lines, best = display.ax_.lines
    assert [line.get_label() for line in lines] == ["min_samples_split=2", "min_samples_split=20"]
    scores = found.cv_results_["neg_root_mean_squared_error"]
    assert lines[1].get_ydata().tolist() == scores[1::2]
    assert best.get_ydata() == [found.best_score_]
    assert [tick.get_text() for tick in display.ax_.get_xticklabels()] == ["1", "4", "None"]
    assert overlapping(display.figure_) == []


def test_what_no_explanation_can_be_drawn_of_is_refused(forests, wines):
    X, _ = wines
    with pytest.raises(InputError, match=naming("left:", "(3, 13)")):
        displays.ExplanationDisplay.from_estimator(forests["labels"], X[:3], X[0])
    with pytest.raises(InputError, match="SimForestClassifier"):
        displays.ExplanationDisplay.from_estimator(forests["similar"], X[0], X[1])


def naive_points(similar, distance, at):
    """The definition, threshold by threshold."""
    found = []
    for rate in at:
        best = None
        for threshold in sorted(set(distance)):
            called = [one for one, far in zip(similar, distance, strict=True) if far <= threshold]
            fpr = called.count(0) / similar.count(0)
            if fpr <= rate:
                best = (fpr, called.count(1) / similar.count(1), threshold)
        if best and best not in found:
            found.append(best)
    return found


@pytest.mark.parametrize("seed", range(8))
def test_operating_points_are_those_of_the_definition(seed):
    rng = np.random.default_rng(seed)
    distance = rng.integers(0, 9, 40).astype(float).tolist()  # with ties
    similar = (rng.random(40) < 0.4).astype(int).tolist()
    at = [0.0, 0.05, 0.3, 0.31, 1.0]
    assert roc_of_distances(similar, distance, at)[1] == naive_points(similar, distance, at)


@pytest.mark.slow
def test_curves_of_pairs_are_judged_by_labels(forests, wines):
    X, y = wines
    display = displays.ROCDisplay.from_estimator(forests["votes"], X, y, at=[0.1])
    distance = forests["votes"].distance(X)
    pairs = [(i, j) for i in range(len(X)) for j in range(i + 1, len(X))]
    same = np.array([distance[i, j] for i, j in pairs if y[i] == y[j]])
    other = np.array([distance[i, j] for i, j in pairs if y[i] != y[j]])
    area = np.mean([np.mean((a < other) + (a == other) / 2) for a in same])
    assert display.curves[0].auc == pytest.approx(area)
    [point] = display.points
    assert point.tpr == np.mean(same <= point.threshold)
    assert point.fpr == np.mean(other <= point.threshold) <= 0.1
    assert point.told() in [text.get_text() for text in display.figure_.legends[0].get_texts()]
    assert overlapping(display.figure_) == []
    ranks = displays.ROCDisplay.from_estimator(forests["ranks"], log=True)
    assert len(ranks.curves) == 3
    assert [point.tpr for point in ranks.points] == [forests["ranks"].roc_.tpr_at(rate) for rate in (0.01, 0.1)]
    assert overlapping(ranks.figure_) == []


@pytest.mark.slow
def test_the_curve_of_a_calibration_has_its_band_and_the_threshold(forests, wines):
    X, y = wines
    own = forests["votes"].calibrate(X, y, identities=np.arange(len(y))).calibration_
    display, band = displays.ROCDisplay.from_calibration(own, 0.5), own.roc_band()
    [filled] = display.ax_.collections
    drawn = filled.get_paths()[0].vertices
    assert set(map(tuple, np.stack([band.fpr, band.low], axis=1))) <= set(map(tuple, drawn))
    assert (display.points[0].fpr, display.points[0].tpr) == own.rates_at(0.5)
    assert display.curves[0].auc == pytest.approx(band.auc)
    assert overlapping(display.figure_) == []


@pytest.mark.slow
def test_distances_and_maps_are_those_of_the_forest(forests, wines, tmp_path):
    X, y = wines
    words = np.array(["fern", "moss", "tree"])[y]
    for name, forest in forests.items():
        rows = rows_of(name, wines)
        spread = displays.DistancesDisplay.from_estimator(forest, rows, words)
        assert np.array_equal(spread.distance, forest.distance(rows))
        assert np.array_equal(spread.codes, y)
        assert overlapping(spread.figure_) == []
    by_class = displays.MapDisplay.from_estimator(forests["labels"], X, words)
    assert [text.get_text() for text in by_class.ax_.get_legend().get_texts()] == ["fern", "moss", "tree"]
    by_amount = displays.MapDisplay.from_estimator(forests["labels"], X, X[:, 0])
    assert np.array_equal(by_amount.ax_.collections[0].get_array(), X[:, 0])
    alike = displays.MapDisplay.from_estimator(forests["votes"])
    assert alike.ax_.get_legend() is None
    for display in (by_class, by_amount, alike):
        assert sum(len(own.get_offsets()) for own in display.ax_.collections) == len(X)
        assert overlapping(display.figure_) == []
    classes, codes = np.unique(words, return_inverse=True)
    write_array(str(tmp_path), "y", codes.shape, codes.dtype, [codes], {"classes": classes.tolist()})
    write_array(str(tmp_path), "heights", (len(X),), np.dtype(np.float64), [X[:, 0]], {})
    at_address = displays.MapDisplay.from_estimator(forests["labels"], X, str(tmp_path / "y"))
    assert [text.get_text() for text in at_address.ax_.get_legend().get_texts()] == ["fern", "moss", "tree"]
    amounts = displays.MapDisplay.from_estimator(forests["labels"], X, tmp_path / "heights")
    assert np.array_equal(amounts.ax_.collections[0].get_array(), X[:, 0])
    whole = np.arange(len(X)) % 2
    write_array(str(tmp_path), "few", (len(X),), np.dtype(np.float64), [whole * 1.0], {"kind": "targets"})
    targets = displays.MapDisplay.from_estimator(forests["labels"], X, str(tmp_path / "few"))
    assert np.array_equal(targets.ax_.collections[0].get_array(), whole)
    assert displays.MapDisplay.from_estimator(forests["labels"], X, whole).names == ["0", "1"]
    many = displays.MapDisplay.from_estimator(forests["labels"], X, [f"kind {k % 20}" for k in range(len(X))])
    assert len(many.ax_.get_legend().get_texts()) == 15
    assert many.ax_.get_legend().get_title().get_text() == "and 5 more"
    one = displays.MapDisplay.from_predictions(None, [[0.0]])
    assert one.places.tolist() == [[0.0, 0.0]]
    flat = displays.MapDisplay.from_predictions(None, np.abs(np.subtract.outer(np.arange(5.0), np.arange(5.0))))
    assert (flat.ax_.get_xlabel(), flat.ax_.get_ylabel()) == (
        "first principal coordinate (100% of variance)",
        "second principal coordinate (0% of variance)",
    )


def test_a_loaded_forest_with_further_columns_knows_its_features(tmp_path):
    X, y = load_iris(return_X_y=True, as_frame=True)
    for kind in (RFD(2, random_state=0), TreeRank(2, n_pairs=500, random_state=0)):
        forest = kind.set_params(pair_columns=["euclidean"]).fit(X, y)
        forest.save(tmp_path / f"{type(kind).__name__}.zarr")
        loaded = load(tmp_path / f"{type(kind).__name__}.zarr")
        assert importances_of(loaded).names == importances_of(forest).names
        assert loaded.explain(forest.extended(X[:1]), forest.extended(X[1:2])).columns[0] == "|d sepal length (cm)|"


def test_proximities_are_drawn_by_cluster(forests, wines):
    for name in ("untaught", "votes"):
        display = displays.ProximityDisplay.from_estimator(forests[name], n_clusters=4)
        forest, order = forests[name], display.clusters.order
        near = forest.proximity() if name == "untaught" else 1.0 - forest.distance()
        shown = np.asarray(display.ax_.images[0].get_array())
        assert np.array_equal(shown, near[np.ix_(order, order)])
        assert len(display.ax_.lines) == 2 * (len(display.clusters.sizes) - 1) == 6
        assert overlapping(display.figure_) == []


def row_goes_left(cut, row):
    """Whether a row goes left by what the words say, read as a person would."""
    said, _, threshold = cut.partition(" ≤ ")
    total, sign = 0.0, 1.0
    for word in said.replace("\N{MINUS SIGN}", "- ").split():
        if word in "+-":
            sign = -1.0 if word == "-" else 1.0
        else:
            total += sign * row[int(word.lstrip("fs"))]
    return total <= float(threshold.replace("\N{MINUS SIGN}", "-"))


@pytest.mark.parametrize("name", ["labels", "numbers", "similar"])
def test_the_words_of_a_tree_send_the_rows_that_its_boxes_count(forests, wines, name):
    forest: Forest = forests[name].forest_
    rows = np.float32(rows_of(name, wines)) if name != "similar" else rows_of(name, wines)
    names = [f"f{k}" for k in range(rows.shape[1])] if name != "similar" else ()
    display = displays.TreeDisplay.from_estimator(forests[name], 2, depth=4, names=names)
    boxes = {(box.depth, box.place): box for box in display.tree.boxes}
    inside, weight = {(0, 0): np.ones(len(rows), bool)}, forest.in_bag[2].astype(int)
    checked = 0
    for (depth, place), box in boxes.items():
        own = inside.get((depth, place))
        if own is None:
            continue
        n_rows = int(box.held.split(" row")[0].replace(",", ""))
        assert abs(n_rows - weight[own].sum()) <= 1  # thresholds are told in four digits
        if box.cut and "sum" not in box.cut and n_rows == weight[own].sum():
            side = np.array([row_goes_left(box.cut, row) for row in rows])
            inside[depth + 1, 2 * place], inside[depth + 1, 2 * place + 1] = own & side, own & ~side
            checked += 1
    assert checked > 1
    assert overlapping(display.figure_) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["distances", "untaught", "votes", "ranks", "amounts", "outliers"])
def test_a_tree_of_every_method_is_drawn(forests, name):
    display = displays.TreeDisplay.from_estimator(forests[name], 1)
    assert type(forests[name]).__name__ in display.ax_.get_title()
    table = forests[name].forest_.table
    start, end = table.tree_start[1:3]
    assert display.tree.boxes[0].n_leaves == int(table.is_leaf[start:end].sum())
    assert overlapping(display.figure_) == []
    given = Figure(figsize=(6, 4), layout="constrained")
    assert displays.TreeDisplay.from_estimator(forests[name], 1, ax=given.subplots()).figure_ is given
    assert overlapping(given) == []


def test_a_display_is_drawn_again_elsewhere(forests, wines):
    X, y = wines
    display = displays.ROCDisplay.from_estimator(forests["votes"], X, y)
    own, given = display.ax_, Figure().subplots()
    assert display._repr_png_().startswith(b"\x89PNG")
    assert display.plot(given) is display
    assert (display.ax_, display.figure_, display._repr_png_()) == (given, given.figure, None)
    assert drawn_on(given)[:4] == drawn_on(own)[:4]


@pytest.mark.parametrize(
    ("drawn", "named"),
    [
        (lambda f, X: displays.ROCDisplay([]), ("curves",)),
        (lambda f, X: displays.ROCDisplay.from_estimator(f["votes"]), ("X, y:", "RFD")),
        (lambda f, X: displays.ROCDisplay.from_estimator(f["votes"], X), ("y:", "89 rows")),
        (
            lambda f, X: displays.ROCDisplay.from_estimator(f["votes"], X, [0, 1]),
            ("y:", "89 rows", "(2,)"),
        ),
        (lambda f, X: roc_of_distances([1, 1], [0.1, 0.2], [0.1]), ("both kinds",)),
        (lambda f, X: roc_of_distances([1, 0], [0.1, 0.2], [1.5]), ("at:", 1.5)),
        (lambda f, X: displays.DistancesDisplay.from_estimator(f["votes"], X, [0]), ("y:", "89 rows")),
        (lambda f, X: displays.MapDisplay.from_estimator(X), ("estimator", "ndarray")),
        (
            lambda f, X: displays.ProximityDisplay.from_estimator(f["votes"], n_clusters=90),
            ("n_clusters:", 89, 90),
        ),
        (lambda f, X: displays.ProximityDisplay.from_predictions(X), ("proximity",)),
        (lambda f, X: displays.ImportancesDisplay.from_estimator(f["similar"]), ("dense",)),
        (lambda f, X: displays.TreeDisplay.from_estimator(f["labels"], 10), ("tree:", "0..9", 10)),
        (lambda f, X: displays.TreeDisplay.from_estimator(f["labels"], depth=7), ("depth:", 6, 7)),
        (
            lambda f, X: displays.TreeDisplay.from_estimator(f["labels"], names=["a"]),
            ("names:", "13 columns", 1),
        ),
    ],
)
def test_what_cannot_be_displayed_is_refused(forests, wines, drawn, named):
    with pytest.raises(InputError, match=naming(*named)):
        drawn(forests, wines[0])
