"""Small charts of a job's trees: a column for each run of trees; trees that are not grown yet leave a gap."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from typing import NamedTuple

from distforest.amounts import counted, in_bytes
from distforest.service.page.measured import ChartColumn
from distforest.service.page.words import seconds

CHART_WIDTH, HEIGHT = 360.0, 90.0
"""Size of a chart in its own units; the page stretches it."""
_GAP = 0.2
"""Gap between two columns as a share of their width, if there are few enough columns to tell apart."""
_FEW = 60


class Bar(NamedTuple):
    """A column as a rectangle, and its meaning in words."""

    x: str
    y: str
    width: str
    height: str
    told: str


class Chart(NamedTuple):
    """A chart with its captions."""

    title: str
    summary: str
    greatest: str
    until: str
    bars: list[Bar]
    width: float = CHART_WIDTH
    height: float = HEIGHT


def of_trees(columns: Sequence[ChartColumn], n_trees: int) -> list[Chart]:
    """Charts of the seconds and of the memory of a job's trees; none if no tree is committed."""
    if not columns:
        return []
    known = [Measure("Seconds per tree", [column.seconds for column in columns], seconds)]
    peaks = [float(column.peak_bytes) for column in columns]
    if any(peaks):
        known.append(Measure("Peak memory of a worker", peaks, in_bytes))
    return [_chart(measure, columns, n_trees) for measure in known]


class Measure(NamedTuple):
    """The numbers that a chart shows, one for each column, and how such a number is written."""

    title: str
    values: Sequence[float]
    written: Callable[[float], str]


def _chart(measure: Measure, columns: Sequence[ChartColumn], n_trees: int) -> Chart:
    least, middle, most = (measure.written(f(measure.values)) for f in (min, median, max))
    full = max(measure.values) or 1.0
    scale = CHART_WIDTH / n_trees
    gap = _GAP if len(columns) <= _FEW else 0.0
    bars = []
    for column, value in zip(columns, measure.values, strict=True):
        width, height = (column.last + 1 - column.first) * scale, value / full * HEIGHT
        box = (column.first * scale + width * gap / 2, HEIGHT - height, width * (1 - gap), height)
        x, y, wide, high = (f"{size:.2f}" for size in box)
        bars.append(Bar(x, y, wide, high, f"{_trees(column)}: {measure.written(value)}"))
    summary = f"median {middle}" if least == most else f"median {middle}, {least} to {most}"
    return Chart(measure.title, summary, measure.written(full), counted(n_trees, "tree"), bars)


def _trees(column: ChartColumn) -> str:
    return f"tree {column.first:,}" if column.first == column.last else f"trees {column.first:,} to {column.last:,}"
