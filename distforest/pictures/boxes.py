"""Boxes of a tree: what nodes hold and how they are parted, drawn so that no text lies on another."""

from __future__ import annotations

import math
import textwrap
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from matplotlib.text import Text

from distforest.errors import warn_caller
from distforest.pictures.plotting import GREY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

DRAWN_DEPTH = 6
"""Largest depth to which boxes can be drawn: the picture is then about two metres wide."""

TITLE, LABEL, LETTERS = 12.0, 10.0, 8.0
"""Font sizes of a title, of an axis label, and of the text of boxes, in points."""

SIZES = (LETTERS, 7.0, 6.0, 5.0)
"""Font sizes of the text of boxes on given axes, in points; the largest one that fits is used."""


@dataclass(frozen=True)
class Box:
    """A node, or a cell of a ranking tree, as it is drawn.

    Attributes
    ----------
    depth, place
        Its depth, and its place in this depth from the left, both from 0.
    held
        What it holds, in words.
    cut
        The condition under which rows or pairs go left, in words; empty for a leaf.
    n_leaves
        Number of leaves below it; 1 for a leaf.
    colour
        Of the box, pale enough for black text.
    """

    depth: int
    place: int
    held: str
    cut: str
    n_leaves: int
    colour: object = "white"

    @property
    def middle(self) -> float:
        """Horizontal place of the box, from 0 on the left to 1."""
        return (self.place + 0.5) / 2.0**self.depth

    def text(self, is_parted: bool) -> str:
        """What it holds, and its number of leaves if those are not drawn."""
        return self.held + ("" if self.n_leaves == 1 or is_parted else f"\n{self.n_leaves:,} leaves")


@dataclass(frozen=True)
class DrawnTree:
    """A tree as it is drawn: its boxes, the root first; a title; and lines that say how it is read.

    With ``has_scores`` boxes stand at scores from 1 on the left to 0.
    """

    boxes: Sequence[Box]
    title: str
    lines: tuple[str, ...]
    has_scores: bool = False

    @property
    def size(self) -> tuple[float, float]:
        """Width and height in inches that the boxes need."""
        deepest = max(box.depth for box in self.boxes)
        return max(6.8, 1.25 * 2.0**deepest), 1.3 + 1.2 * (1 + deepest)

    def draw(self, axes: Axes) -> None:
        """Draw all boxes on axes of this size, each below the one of which it is a part."""
        self._frame(axes, self.title, "\n".join(self.lines), LABEL)
        _draw_boxes(axes, self.boxes, LETTERS)

    def draw_on_given(self, axes: Axes, shallower: bool) -> None:
        """Draw on axes of any size, in a font that fits; with ``shallower`` the deepest levels may be left out.

        Warns
        -----
        DistforestWarning
            There is no room for the text of boxes.
        """
        label = "\n".join(_wrapped(axes, line, LETTERS) for line in self.lines)
        self._frame(axes, _wrapped(axes, self.title, TITLE), label, LETTERS)
        drawn, points = _roomy(axes, self.boxes, shallower)
        if not points:
            deepest = max(box.depth for box in drawn)
            cure = "draw on larger ones" + (", or give a smaller depth" if deepest > 1 else "")
            warn_caller(f"the text of cells to depth {deepest} has no room on these axes; {cure}")
        _draw_boxes(axes, drawn, points or SIZES[-1])

    def _frame(self, axes: Axes, title: str, label: str, points: float) -> None:
        """Draw the frame of boxes: the scale of scores, if there are any, a label, and a title."""
        axes.set(xlim=(0.0, 1.0), yticks=[], xticks=[])
        if self.has_scores:
            axes.set_xticks([0.0, 0.25, 0.5, 0.75, 1.0], ["1", "0.75", "0.5", "0.25", "0"])
        axes.set_xlabel(label, fontsize=points)
        axes.set_title(title, fontsize=TITLE, parse_math=False)
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.spines["bottom"].set_visible(self.has_scores)


def _roomy(axes: Axes, boxes: Sequence[Box], shallower: bool) -> tuple[Sequence[Box], float]:
    """Choose the boxes for which given axes have room, and the font size of their text in points, 0 without room.

    With ``shallower`` the deepest levels may be left out. Text is set in two lines if one line has no room.
    """
    figure = axes.figure.figure
    layout = figure.get_layout_engine()
    if layout is not None:
        layout.execute(figure)  # makes room for the text around the axes
    deepest = max(box.depth for box in boxes)
    for depth in range(deepest, 0 if shallower and deepest else deepest - 1, -1):
        plain = [box for box in boxes if box.depth <= depth]
        parted = [replace(box, cut=box.cut.replace(" ≤ ", "\n≤ ").replace(" > ", "\n> ")) for box in plain]
        for points in SIZES:
            for drawn in (plain, parted):
                if _fit(axes, drawn, points):
                    return drawn, points
    return parted, 0.0


def _fit(axes: Axes, boxes: Sequence[Box], points: float) -> bool:
    """Whether the text of boxes, in a font size in points, neither overlaps nor leaves the axes."""
    deepest, shown = max(box.depth for box in boxes), {(box.depth, box.place) for box in boxes}
    frame = axes.get_window_extent()
    rows: list[list[tuple[float, float, float]]] = [[] for _ in range(2 * deepest + 1)]
    for box in boxes:
        is_parted = (box.depth + 1, 2 * box.place) in shown
        for row, text in (
            (2 * box.depth, box.text(is_parted)),
            (2 * box.depth + 1, box.cut if is_parted else ""),
        ):
            if text:
                rows[row].append((box.middle * frame.width, *_extent(axes, text, points)))
    for texts in rows:
        spans = [(x - width / 2.0, x + width / 2.0) for x, width, _ in texts]
        ends = [(-math.inf, 0.0), *spans, (frame.width, math.inf)]
        if any(right > left for (_, right), (left, _) in pairwise(ends)):
            return False
    step = 0.5 * frame.height / (deepest + 0.75)  # from the middle of a box to that of the text below
    heights = [max(height for _, _, height in texts) for texts in rows]
    return heights[0] <= 1.2 * step and all(sum(both) <= 2.0 * step for both in pairwise(heights))


def _extent(axes: Axes, words: str, points: float) -> tuple[float, float]:
    """Width and height in pixels of a text with its padding, in a font size in points."""
    text = Text(0.0, 0.0, words, fontsize=points, parse_math=False)
    text.set_figure(axes.figure)
    box, around = text.get_window_extent(), points * axes.figure.dpi / 72.0
    return box.width + around, box.height + around


def _wrapped(axes: Axes, line: str, points: float) -> str:
    """Wrap a line to the width of given axes."""
    n_lines = math.ceil(_extent(axes, line, points)[0] / axes.get_window_extent().width)
    return line if n_lines < 2 else textwrap.fill(line, math.ceil(len(line) / n_lines) + 4)  # words are not broken


def _draw_boxes(axes: Axes, boxes: Sequence[Box], points: float) -> None:
    """Draw boxes, the lines between them, and their text in a font size in points."""
    shown = {(box.depth, box.place) for box in boxes}
    for box in boxes:
        is_parted = (box.depth + 1, 2 * box.place) in shown
        _draw_box(axes, box, is_parted, points)
        if is_parted:
            _draw_fork(axes, box, points)
    axes.set_ylim(-max(box.depth for box in boxes) - 0.45, 0.3)


def _draw_box(axes: Axes, box: Box, is_parted: bool, points: float) -> None:
    """Draw a box with its text."""
    is_leaf = box.n_leaves == 1
    frame: dict[str, Any] = {
        "boxstyle": "round,pad=0.35",
        "facecolor": box.colour,
        "edgecolor": "black" if is_leaf else GREY,
        "linewidth": 1.4 if is_leaf else 0.8,
    }
    text: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": points, "color": "black", "parse_math": False}
    axes.text(box.middle, -box.depth, box.text(is_parted), bbox=frame, zorder=3, **text)


def _draw_fork(axes: Axes, box: Box, points: float) -> None:
    """Draw the lines from a box to its parts, with its cut in words."""
    x, y, step = box.middle, -box.depth, 0.25 / 2.0**box.depth
    axes.plot([x, x], [y, y - 0.5], color=GREY, linewidth=1, zorder=1)
    axes.plot([x - step, x - step, x + step, x + step], [y - 1, y - 0.5, y - 0.5, y - 1], color=GREY, linewidth=1)
    white = {"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none"}
    axes.text(x, y - 0.5, box.cut, ha="center", va="center", fontsize=points, bbox=white, zorder=2, parse_math=False)
