"""Pictures: they say what the numbers say, their axes are labelled, and no text lies on another."""

import io
import struct
from itertools import combinations

import numpy as np
import pytest
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.text import Text
from sklearn.metrics import average_precision_score, roc_auc_score

from distforest.errors import InputError
from distforest.pictures import BudgetDisplay, ImportancesDisplay
from distforest.pictures.pictured import Budgets, Importances
from distforest.pictures.plotting import (
    Classes,
    Links,
    Weights,
    class_separation,
    feature_weights,
    link_prediction,
    overview,
    principal_coordinates,
)
from tests.messages import naming


@pytest.fixture
def links():
    rng = np.random.default_rng(0)
    place = rng.random(40)
    distance = np.abs(place[:, None] - place)
    adjacency = (distance + rng.normal(0, 0.2, distance.shape) < 0.2).astype(np.uint8)
    adjacency = np.triu(adjacency, 1) + np.triu(adjacency, 1).T
    i, j = np.triu_indices(40, 1)
    return Links(adjacency, distance, np.arange(40) % 3 == 0, adjacency[i, j], distance[i, j], "A small graph")


@pytest.fixture
def classes():
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 3, 60)
    points = rng.normal(0, 0.2, (60, 2)) + codes[:, None]
    return Classes(np.linalg.norm(points[:, None] - points, axis=2), codes, ["fern", "moss", "tree"], "Plants")


@pytest.fixture
def screened():
    """Four of twenty features depend on others."""
    dependence = np.zeros(20)
    dependence[[2, 3, 11, 17]] = 0.2, 0.6, 0.05, 0.4
    shares = np.where(dependence > 0, 0.84 * dependence / dependence.sum(), 0.16 / 16)
    names = [f"a rather long name of feature {k}" for k in range(20)]
    names[3] = "$x^2$\n\x1b"
    return Weights(shares, dependence, names, "Stations")


def texts(figure):
    """All texts of a figure but the labels of ticks outside what is shown, which are not drawn."""
    outside = set()
    for axis in figure.findobj(Axis):
        low, high = sorted(axis.get_view_interval())
        ticks = [tick for tick in axis.get_major_ticks() if not low <= tick.get_loc() <= high]
        outside |= {label for tick in ticks for label in (tick.label1, tick.label2)}
    found = [text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip()]
    return [text for text in found if text not in outside]


def test_titles_tell_the_areas_that_the_metrics_have(links):
    titles = [axes.get_title() for axes in link_prediction(links).axes]
    assert f"ROC: area {roc_auc_score(links.linked, -links.scored):.3f}" in titles
    assert f"Precision and recall: area {average_precision_score(links.linked, -links.scored):.3f}" in titles


def test_area_under_the_drawn_roc_is_the_auc_with_ties(links):
    tied = Links(links.adjacency, links.distance, links.held_out, links.linked, links.scored.round(1))
    roc = next(axes for axes in link_prediction(tied).axes if axes.get_title().startswith("ROC"))
    x, y = roc.lines[0].get_data()
    assert (x[0], y[0], x[-1], y[-1]) == (0.0, 0.0, 1.0, 1.0)
    assert np.trapezoid(y, x) == pytest.approx(roc_auc_score(tied.linked, -tied.scored))


def test_every_held_out_node_is_marked_in_both_matrices(links):
    known, predicted = link_prediction(links).axes[:2]
    for axes in (known, predicted):
        assert [len(line.get_xdata()) for line in axes.lines] == [links.held_out.sum()] * 2


def test_matrices_show_one_order_of_the_nodes(links):
    known, predicted = (axes.images[0].get_array() for axes in link_prediction(links).axes[:2])
    order = np.argsort(principal_coordinates(links.distance, 1)[:, 0], kind="stable")
    assert (np.asarray(known) == links.adjacency[np.ix_(order, order)]).all()
    assert (np.asarray(predicted) == 1.0 - links.distance[np.ix_(order, order)]).all()


def test_shares_of_pairs_add_up_within_and_between_classes(classes):
    spread = class_separation(classes).axes[1]
    heights = [sum(bar.get_height() for bar in container) for container in spread.containers]
    assert heights == pytest.approx([1.0, 1.0])


def test_map_has_every_row_once(classes):
    places = class_separation(classes).axes[2]
    drawn = sum(len(collection.get_offsets()) for collection in places.collections)
    assert drawn == len(classes.codes)
    assert [text.get_text() for text in places.get_legend().get_texts()] == ["fern", "moss", "tree"]


@pytest.mark.slow
def test_overview_is_a_png_with_both_titles(links, classes):
    figure, stream = overview(links, classes), io.BytesIO()
    figure.savefig(stream, dpi=60)
    assert stream.getvalue().startswith(b"\x89PNG")
    assert {"A small graph", "Plants"} <= {text.get_text() for text in texts(figure)}


def test_budget_curve_shows_each_forest_its_rival_and_all_pairs():
    budgets = Budgets(np.array([300, 1200, 4000]), np.array([0.6, 0.8, 0.9]), 4950, "1-NN", 0.85, "Strings")
    figure = BudgetDisplay(budgets).plot().figure_
    (axes,) = figure.axes
    forests, rival, pairs = axes.lines
    assert np.array_equal(forests.get_xydata(), [(300, 0.6), (1200, 0.8), (4000, 0.9)])
    assert set(rival.get_ydata()) == {0.85}
    assert set(pairs.get_xdata()) == {4950}
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["forest", "1-NN", "all 4,950 pairs"]


def covered(figure, axes):
    """The lines on axes that pass behind a legend, by name."""
    figure.draw_without_rendering()
    legend = (axes.get_legend() or figure.legends[0]).get_window_extent()
    paths = {line.get_label(): line.get_transform().transform_path(line.get_path()) for line in axes.lines}
    return [name for name, path in paths.items() if path.intersects_bbox(legend, filled=False)]


@pytest.mark.slow
@pytest.mark.parametrize("accuracy", [[0.6, 0.8, 0.85, 0.9, 0.92], [0.92, 0.9, 0.85, 0.8, 0.6], [0.9] * 5])
def test_the_legend_of_a_budget_curve_covers_no_line(accuracy):
    budgets = Budgets(np.array([300, 1200, 2500, 4000, 4950]), np.array(accuracy), 4950, "1-NN, all pairs", 0.85)
    figure = BudgetDisplay(budgets).plot().figure_
    assert covered(figure, figure.axes[0]) == []
    given = Figure(layout="constrained")
    assert covered(given, BudgetDisplay(budgets).plot(given.subplots()).ax_) == []


def drawn_on(axes):
    """Everything that is drawn on axes, in words and numbers."""
    lines = [(line.get_label(), line.get_xydata().tolist()) for line in axes.lines]
    legend = [text.get_text() for text in axes.get_legend().get_texts()] if axes.get_legend() else []
    return lines, axes.get_xlabel(), axes.get_ylabel(), axes.get_title(), legend


@pytest.mark.slow
def test_a_notebook_shows_every_picture(links, classes, screened):
    for drawn in (
        overview(links, classes),
        link_prediction(links),
        class_separation(classes),
        feature_weights(screened),
    ):
        found = drawn._repr_png_()  # what IPython asks for
        assert found.startswith(b"\x89PNG")
        assert list(struct.unpack(">II", found[16:24])) == (drawn.get_size_inches() * drawn.dpi).tolist()


def test_a_budget_curve_is_drawn_on_given_axes():
    budgets = Budgets(np.array([300, 1200, 4000]), np.array([0.6, 0.8, 0.9]), 4950, "1-NN", 0.85, "Strings")
    other, given = Figure().subplots(1, 2)
    display = BudgetDisplay(budgets).plot(given)
    assert (display.ax_, display.figure_, display._repr_png_()) == (given, given.figure, None)
    own = display.plot().ax_
    assert drawn_on(given)[:4] == drawn_on(own)[:4]
    assert drawn_on(given)[4] == own.get_legend_handles_labels()[1]
    assert drawn_on(other) == ([], "", "", "", [])


def test_no_text_lies_on_another_in_a_budget_curve():
    budgets = Budgets(np.geomspace(10, 4e5, 9), np.linspace(0.2, 0.99, 9), 499_500, "1-NN, 1,000,000 pairs", 0.85)
    assert overlapping(BudgetDisplay(budgets).plot().figure_) == []


def test_features_that_depend_on_others_are_marked(screened):
    every, most = feature_weights(screened).axes
    others, marked = (collection.get_offsets() for collection in every.collections[1::2])
    assert np.array_equal(np.asarray(marked), [(2, 0.2), (3, 0.6), (11, 0.05), (17, 0.4)])
    assert len(others) == 16
    told = [text.get_text() for text in every.get_legend().get_texts()]
    assert told == ["the others", "depends on another: 4 of 20, 84% of the draws"]
    assert every.get_ylabel() == "dependence"
    assert most.lines[0].get_xdata()[0] == 1 / 20
    assert (most.get_title(), most.get_legend()) == ("Drawn most (dashed: all equal)", None)  # nothing covers a bar


def test_the_features_drawn_most_are_named(screened):
    figure = feature_weights(screened)
    most = figure.axes[1]
    widths = [bar.get_width() for bar in most.patches]
    assert widths == sorted(screened.shares, reverse=True)[:12]
    names = [label.get_text() for label in most.get_yticklabels()]
    assert names[:3] == ["$x^2$  ", "a rather long name of f…", "a rather long name of f…"]
    assert overlapping(figure) == []  # and no name is read as mathematics
    unnamed = feature_weights(Weights(screened.shares, screened.dependence)).axes[1]
    assert [label.get_text() for label in unnamed.get_yticklabels()][:4] == ["3", "17", "2", "11"]


def test_weights_without_a_screen_are_drawn_as_shares():
    figure = feature_weights(Weights(np.array([0.5, 0.0, 0.25, 0.25])))
    every = figure.axes[0]
    assert every.get_ylabel() == "share of the draws"
    told = [text.get_text() for text in every.get_legend().get_texts()]
    assert told == ["the others", "drawn: 3 of 4, 100% of the draws"]
    assert overlapping(figure) == []


@pytest.mark.slow
@pytest.mark.parametrize("n_features", [1, 2, 10_000])
def test_a_screen_that_found_nothing_is_drawn(n_features):
    figure = feature_weights(Weights(np.full(n_features, 1 / n_features), np.zeros(n_features)))
    assert overlapping(figure) == []
    assert [text.get_text() for text in figure.axes[0].get_legend().get_texts()] == ["the others"]


def test_importances_are_drawn_largest_first_and_add_up():
    parts = {"differences": np.array([0.1, 0.4, 0.0, 0.05]), "middles": np.array([0.25, 0.2, 0.0, 0.0])}
    names = ["length", "width", "$x^2$", "a rather long name of a feature"]
    figure = ImportancesDisplay(Importances(parts, names)).plot().figure_
    [axes] = figure.axes
    assert [label.get_text() for label in axes.get_yticklabels()] == [
        *("width", "length", "a rather long name of a…", "$x^2$")
    ]
    assert axes.yaxis_inverted()
    differences, middles = axes.containers
    assert [bar.get_width() for bar in differences] == [0.4, 0.1, 0.05, 0.0]
    assert [bar.get_x() + bar.get_width() for bar in middles] == pytest.approx([0.6, 0.35, 0.05, 0.0])
    assert axes.get_xlabel() == "share of the gain of all splits"
    assert overlapping(figure) == []


@pytest.mark.parametrize("n_features", [1, 12, 13, 10_000])
def test_the_most_important_of_any_number_of_features_are_drawn(n_features):
    importances = Importances({"importance": np.full(n_features, 1 / n_features)})
    figure = ImportancesDisplay(importances).plot().figure_
    [axes] = figure.axes
    assert len(axes.containers[0]) == min(n_features, 12)
    assert axes.get_title().removeprefix("Features by importance") == (
        "" if n_features < 13 else f", 12 of {n_features:,}"
    )
    assert overlapping(figure) == []


@pytest.mark.slow
def test_no_text_lies_on_another(links, classes):
    assert overlapping(overview(links, classes)) == []


def overlapping(figure):
    """Pairs of texts that lie on one another."""
    figure.draw_without_rendering()
    boxes = [(text.get_text(), text.get_window_extent()) for text in texts(figure)]
    return [(a, b) for (a, left), (b, right) in combinations(boxes, 2) if left.overlaps(right)]


@pytest.mark.slow
def test_every_curve_and_scatter_has_labelled_axes(links, classes):
    for axes in overview(links, classes).findobj(lambda found: hasattr(found, "get_xlabel")):
        if (axes.lines or axes.collections) and not axes.images and axes.get_title():
            assert axes.get_xlabel(), axes.get_title()
            assert axes.get_ylabel(), axes.get_title()


def test_principal_coordinates_keep_euclidean_distances():
    points = np.random.default_rng(2).normal(size=(12, 3))
    distance = np.linalg.norm(points[:, None] - points, axis=2)
    places = principal_coordinates(distance, 3)
    assert np.linalg.norm(places[:, None] - places, axis=2) == pytest.approx(distance)
    spans = (places**2).sum(axis=0)
    assert (np.diff(spans) < 0).all()


# --- what cannot be drawn ---------------------------------------------------------------------------------

SQUARE, CODES, PAIRS, HALF = np.ones((3, 3)) - np.eye(3), [0, 1, 1], [1, 0, 1], [0.5, 0.5]
NAN = np.full((3, 3), np.nan)


@pytest.mark.parametrize(
    ("drawn", "named"),
    [
        (
            lambda: Links(np.eye(3), np.ones((3, 2)), CODES, PAIRS, PAIRS),
            ("distance", "1 row"),
        ),
        (lambda: Links(np.eye(2), SQUARE, CODES, PAIRS, PAIRS), ("(2, 2)", "(3, 3)")),
        (lambda: Links(np.eye(3), NAN, CODES, PAIRS, PAIRS), ("distance", 9, "NaN")),
        (lambda: Links(np.eye(3), SQUARE, [0, 1], PAIRS, PAIRS), ("held_out", "3 nodes")),
        (
            lambda: Links(np.eye(3), SQUARE, CODES, PAIRS, [1, 2]),
            ("scored", "3 pairs"),
        ),
        (lambda: Links(np.eye(3), SQUARE, CODES, [1, 1], HALF), ("linked", "1 alone")),
        (lambda: Links(np.eye(3), SQUARE, CODES, [1, 2], HALF), ("linked", 2)),
        (lambda: Links(np.eye(3), SQUARE, CODES, [], []), ("linked", "none")),
        (lambda: Links(np.eye(3), "SQUARE", CODES, PAIRS, PAIRS), ("distance", "<U6")),
        (lambda: Classes(np.zeros((1, 1)), [0], ["a"]), ("distance", "2 rows")),
        (lambda: Classes(SQUARE, [0, 1, 2], ["a", "b"]), ("codes", 1, 2)),
        (lambda: Classes(SQUARE, [0, 0.5, 1], ["a", "b"]), ("codes", 1, 0.5)),
        (lambda: Classes(SQUARE, ["a", "b", "b"], ["a", "b"]), ("codes", "<U1")),
        (lambda: Classes(SQUARE, CODES, "ab"), ("names:", "'ab'")),
        (lambda: Budgets([], [], 9, "1-NN", 0.5), ("evaluations", "none")),
        (
            lambda: Budgets([1, 2], [0.5], 9, "1-NN", 0.5),
            ("accuracy", "2 forests", 1),
        ),
        (lambda: Budgets([1], [np.nan], 9, "1-NN", 0.5), ("accuracy", "NaN")),
        (lambda: Budgets([1], [0.5], 9, "1-NN", None), ("rival_accuracy",)),
        (lambda: Budgets([1], [0.5], 0, "1-NN", 0.5), ("n_pairs", 0)),
        (lambda: Weights([]), ("shares", "none")),
        (lambda: Weights([0.5, -0.5]), ("shares", -0.5)),
        (lambda: Weights(HALF, [1.0]), ("dependence", "2 features", 1)),
        (lambda: Weights(HALF, names=["a"]), ("names:", "2 features", 1)),
        (lambda: Importances(HALF), ("parts", "dict", "list")),
        (
            lambda: Importances(dict.fromkeys("abc", HALF)),
            ("parts", "dict", 3),
        ),
        (lambda: Importances({"a": HALF, "b": [1.0]}), ("feature", 2, "1 number")),
        (lambda: Importances({"a": [0.5, -0.1]}), ("parts['a']", -0.1)),
        (lambda: link_prediction(SQUARE), ("Links(...)", "ndarray")),
        (lambda: class_separation(SQUARE), ("Classes(...)", "ndarray")),
        (lambda: overview(None, None), ("Links(...)", "NoneType")),
        (lambda: BudgetDisplay([1, 2]), ("Budgets(...)", "list")),
        (lambda: feature_weights(HALF), ("Weights(...)", "list")),
        (lambda: ImportancesDisplay(HALF), ("Importances(...)", "list")),
        (
            lambda: ImportancesDisplay(Importances({"a": HALF})).plot(Figure()),
            ("ax:", "Figure"),
        ),
        (lambda: principal_coordinates(np.ones((2, 3)), 1), ("(2, 3)",)),
        (lambda: principal_coordinates(NAN, 1), ("distance", "finite")),
        (lambda: principal_coordinates(SQUARE, 0), ("n_dimensions", 0)),
    ],
)
def test_what_cannot_be_drawn_is_refused(drawn, named):
    with pytest.raises(InputError, match=naming(*named)):
        drawn()


@pytest.mark.slow
def test_lists_are_drawn_as_arrays_are(links, classes, screened):
    given = Links(
        *(getattr(links, name).tolist() for name in ("adjacency", "distance", "held_out", "linked", "scored"))
    )
    assert drawn_on(link_prediction(given).axes[2]) == drawn_on(link_prediction(links).axes[2])
    listed = Classes(classes.distance.tolist(), classes.codes.tolist(), tuple(classes.names))
    assert drawn_on(class_separation(listed).axes[2]) == drawn_on(class_separation(classes).axes[2])
    assert feature_weights(Weights(screened.shares.tolist(), screened.dependence.tolist()))


def test_rows_of_one_class_are_drawn():
    figure = class_separation(Classes(SQUARE, [0, 0, 0], ["fern"]))
    assert overlapping(figure) == []
    assert [text.get_text() for text in figure.axes[1].get_legend().get_texts()] == ["same class"]
