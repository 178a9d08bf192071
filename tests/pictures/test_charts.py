"""Charts: no text lies on another, they say what the numbers say, and a page has them as SVG in its own colours."""

from __future__ import annotations

from html import unescape
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.text import Text

from distforest.errors import InputError
from distforest.evaluation.roc import ROC
from distforest.pictures import ImportancesDisplay
from distforest.pictures.charts import as_svg, draw_counts, draw_line, draw_roc
from distforest.pictures.clusters import places_with_shares, principal_coordinates
from distforest.pictures.importances import Importances
from tests.messages import naming


def texts(figure):
    """All texts of a figure but the labels of ticks outside what is shown, which are not drawn."""
    outside = set()
    for axis in figure.findobj(Axis):
        low, high = sorted(axis.get_view_interval())
        ticks = [tick for tick in axis.get_major_ticks() if not low <= tick.get_loc() <= high]
        outside |= {label for tick in ticks for label in (tick.label1, tick.label2)}
    found = [text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip()]
    return [text for text in found if text not in outside]


def drawn_on(axes):
    """Everything that is drawn on axes, in words and numbers."""
    lines = [(line.get_label(), line.get_xydata().tolist()) for line in axes.lines]
    legend = [text.get_text() for text in axes.get_legend().get_texts()] if axes.get_legend() else []
    return lines, axes.get_xlabel(), axes.get_ylabel(), axes.get_title(), legend


def overlapping(figure):
    """Pairs of texts that lie on one another."""
    figure.draw_without_rendering()
    boxes = [(text.get_text(), text.get_window_extent()) for text in texts(figure)]
    return [(a, b) for (a, left), (b, right) in combinations(boxes, 2) if left.overlaps(right)]


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


def test_principal_coordinates_keep_euclidean_distances():
    points = np.random.default_rng(2).normal(size=(12, 3))
    distance = np.linalg.norm(points[:, None] - points, axis=2)
    places = principal_coordinates(distance, 3)
    assert np.linalg.norm(places[:, None] - places, axis=2) == pytest.approx(distance)
    spans = (places**2).sum(axis=0)
    assert (np.diff(spans) < 0).all()
    assert places_with_shares(distance, 3).shares == pytest.approx(spans / spans.sum())
    assert places_with_shares(distance, 2).shares == pytest.approx(spans[:2] / spans.sum())


SQUARE = np.ones((3, 3)) - np.eye(3)


@pytest.mark.parametrize(
    ("given", "n_dimensions", "named"),
    [
        (np.ones((2, 3)), 1, ("(2, 3)",)),
        (np.full((3, 3), np.nan), 1, ("distance", "finite")),
        (SQUARE, 0, ("n_dimensions", 0)),
    ],
)
def test_what_has_no_principal_coordinates_is_refused(given: Any, n_dimensions: int, named: tuple[object, ...]) -> None:
    with pytest.raises(InputError, match=naming(*named)):
        principal_coordinates(given, n_dimensions)


def test_names_that_are_not_one_for_each_feature_are_refused() -> None:
    with pytest.raises(InputError, match=naming("names:", "2 features", 1)):
        Importances({"importance": np.array([0.5, 0.5])}, ["a"])
    with pytest.raises(InputError, match=naming("ax:", "Figure")):
        ImportancesDisplay(Importances({"a": np.array([0.5, 0.5])})).plot(Figure())


# --- on a page ----------------------------------------------------------------------------------------------

CHARTS: list[tuple[Any, ...]] = [
    (draw_line, np.array([3]), np.array([0.5]), "trees", "error"),
    (draw_line, np.arange(1, 60), np.zeros(59), "trees", "error"),
    (draw_counts, [("1", 3), ("2 to 3", 0), ("4", 7)], "depth", "leaves"),
    (draw_roc, [ROC([0, 0.5, 1], [0, 0.9, 1])], (), False, "", "pairs"),
]


@pytest.mark.parametrize("drawn", CHARTS, ids=lambda drawn: drawn[0].__name__)
def test_a_chart_is_a_part_of_a_page_in_its_colours(drawn: tuple[Any, ...]) -> None:
    hostile = "<script>'\""
    svg = as_svg(hostile, *drawn)
    assert svg == as_svg(hostile, *drawn)
    assert unescape(svg.partition('aria-label="')[2].partition('"')[0]) == hostile
    assert "<script" not in svg
    assert "var(--accent)" in svg
    assert "currentColor" in svg
    assert "#0072b2" not in svg.lower()
    assert "<metadata" not in svg
    assert '<g id="' not in svg
    for name in drawn[-2:] if drawn[0] is not draw_roc else ("false positive rate", "true positive rate"):
        assert f">{name}<" in svg


def test_a_column_for_each_number() -> None:
    axes = Figure().subplots()
    draw_counts(axes, [(str(k), k) for k in range(30)], "depth", "leaves")
    assert [bar.get_height() for bar in axes.patches] == list(range(30))
    assert [label.get_text() for label in axes.get_xticklabels()] == ["0", "8", "16", "24"]
