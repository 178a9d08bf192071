"""Pictures of ranking forests: the cells of a tree with their pairs and cuts, and the ROC curves of all its trees.

They need matplotlib (``pip install 'distforest[plot]'``). As in `distforest.pictures.plotting` every function returns a
`Picture`, which a notebook shows and ``savefig`` saves; a picture of single axes can also be drawn on given axes.
"""

from __future__ import annotations

import math
import textwrap
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.text import Text

from distforest.amounts import counted
from distforest.arguments import whole
from distforest.errors import InputError, warn_caller
from distforest.estimators.loading import load
from distforest.estimators.tree_rank import TreeRank
from distforest.evaluation.roc import ROC
from distforest.forest.feature_shares import read_names
from distforest.forest.pairs.cells import Cells
from distforest.forest.pairs.pair_scores import columns_of, ranks_of
from distforest.forest.table import LEAF
from distforest.pictures.pictured import listed_names
from distforest.pictures.plotting import (
    BLUE,
    GREY,
    ORANGE,
    Picture,
    blank,
    canvas,
    legend_below,
    name_lines,
    on_unit_square,
    shortened,
)
from distforest.sources.point_pairs import PairColumns, named

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from distforest.forest.pairs.pair_leaves import Ranks

    Floats = NDArray[np.float64]

DEPTH = 3
"""Default depth to which cells are drawn; given axes with little room show fewer."""

DRAWN_DEPTH = 6
"""Largest depth to which cells can be drawn: the picture is then about two metres wide."""

MOST_CURVES = 100
"""Largest number of trees whose curves are drawn: those of the first trees."""

SIDES = LinearSegmentedColormap.from_list("sides", ["#F3B994", "#FFFFFF", "#9CCBE8"])
"""Colours from cells of dissimilar pairs to cells of similar pairs, pale enough for black text."""

TITLE, LABEL, LETTERS = 12.0, 10.0, 8.0
"""Font sizes of a title, of an axis label, and of the text of cells, in points."""

SIZES = (LETTERS, 7.0, 6.0, 5.0)
"""Font sizes of the text of cells on given axes, in points; the largest one that fits is used."""

MINUS = "\N{MINUS SIGN}"

SCORE = "score: a cell stands amid those of its leaves"
KEY = f"+ similar and {MINUS} dissimilar training pairs; a pair goes left if the line below its cell holds"


@dataclass(frozen=True)
class Cell:
    """A cell as it is drawn.

    Attributes
    ----------
    depth, place
        Depth of the cell, and its place in this depth from the left, both from 0.
    similar, dissimilar
        Number of training pairs of the tree in the cell.
    cut
        The condition under which a pair goes left, in words; empty for a leaf.
    n_leaves
        Number of leaves below the cell; 1 for a leaf.
    """

    depth: int
    place: int
    similar: int
    dissimilar: int
    cut: str
    n_leaves: int

    @property
    def middle(self) -> float:
        """Horizontal place of the cell, from 0 for the most similar pairs to 1."""
        return (self.place + 0.5) / 2.0**self.depth


def ranking(forest: TreeRank, tree: int = 0, depth: int = DEPTH, names: Sequence[str] = ()) -> Picture:
    """Draw a tree of a ranking forest beside the ROC curves of all trees, on a linear and on a logarithmic scale.

    Parameters
    ----------
    forest, tree, depth, names
        As of `ranking_tree`.

    Raises
    ------
    InputError
        As of `ranking_tree`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from distforest import TreeRank
    >>> forest = TreeRank(3, n_pairs=500, leafrank_depth=1, random_state=0).fit(*load_iris(return_X_y=True))
    >>> ranking(forest, depth=2)
    <Picture size 1180x660 with 3 Axes>
    """
    cells, curves = cells_of(forest, tree, depth, names), forest.tree_rocs_
    width = _width(cells)
    figure = blank(width + 5.0, 6.6)
    left, right = figure.subfigures(1, 2, squeeze=False, width_ratios=(width, 5.0))[0]
    _draw_tree(left.subplots(), cells, _title(forest, tree))
    linear, logarithmic = right.subplots(2, 1)
    _draw_curves(linear, curves, log=False, title="ROC of the training pairs")
    _draw_curves(logarithmic, curves, log=True, title="The same, left end")
    legend_below(right, logarithmic)
    return figure


def sealed_ranking(address: str, features: str | None = None) -> Picture:
    """Draw the first tree of a sealed ranking forest and the curves of all its trees, as `ranking` does.

    Parameters
    ----------
    address
        Path or URL of the forest.
    features
        Address of an array whose ``feature_names`` name the features, as `distforest ingest` writes it; None: use the
        forest's names, or the numbers of features.

    Raises
    ------
    ArtifactError
        There is no sealed forest, or it is damaged.
    InputError
        The forest is no ranking forest, there are no names at ``features``, or there is not one for each feature.
    """
    forest = load(address)
    if not isinstance(forest, TreeRank):
        raise InputError(f"{address}: a forest of TreeRank was expected, found {forest.forest_.meaning.method!r}")
    return ranking(forest, names=read_names(features, columns_of(forest.forest_).n_features))


def ranking_tree(
    forest: TreeRank, tree: int = 0, depth: int | None = None, names: Sequence[str] = (), ax: Axes | None = None
) -> Picture | Axes:
    """Draw the cells of a ranking tree, with their training pairs and cuts.

    Cells are placed by score, the most similar pairs on the left. A single cut is described in words. Of a larger small
    tree the number of its nodes is shown, and the column that the first one reads.

    Parameters
    ----------
    forest
        The forest, fitted or opened by `distforest.load`.
    tree
        Number of the tree.
    depth
        Largest depth of the cells that are drawn, 1 to `DRAWN_DEPTH`; None: 3, or less if given axes have no room for
        it.
    names
        Names of the features of a point; if empty, the forest's names or the numbers of features.
    ax
        Axes to draw on, which are then returned; the text is smaller if there is little room. None: draw a new picture.

    Raises
    ------
    InputError
        The forest is no fitted TreeRank, there is no such tree, there is not one name for each feature, or the depth is
        out of range.

    Warns
    -----
    UserWarning
        The given axes have no room for the text of cells to this depth.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from distforest import TreeRank
    >>> forest = TreeRank(1, n_pairs=500, leafrank_depth=1, random_state=0).fit(*load_iris(return_X_y=True))
    >>> ranking_tree(forest, depth=2)
    <Picture size 680x490 with 1 Axes>
    """
    cells, title = cells_of(forest, tree, DEPTH if depth is None else depth, names), _title(forest, tree)
    shown, axes = canvas(_width(cells), 1.3 + 1.2 * (1 + max(cell.depth for cell in cells)), ax)
    if isinstance(shown, Picture):
        _draw_tree(axes, cells, title)
        return shown
    _frame(
        axes, _wrapped(axes, title, TITLE), "\n".join(_wrapped(axes, line, LETTERS) for line in (SCORE, KEY)), LETTERS
    )
    drawn, points = _roomy(axes, cells, shallower=depth is None)
    if not points:
        deepest = max(cell.depth for cell in drawn)
        cure = "draw on larger ones" + (", or give a smaller depth" if deepest > 1 else "")
        warn_caller(f"the text of cells to depth {deepest} has no room on these axes; {cure}")
    _draw_cells(axes, drawn, points or SIZES[-1])
    return shown


def roc_curves(curves: Sequence[ROC], log: bool = False, title: str = "ROC", ax: Axes | None = None) -> Picture | Axes:
    """Draw the ROC curves of trees, and their mean.

    Parameters
    ----------
    curves
        A curve for each tree, such as `TreeRank.tree_rocs_`; the first `MOST_CURVES` are drawn, and the mean of all.
    log
        Whether the scale of false positive rates is logarithmic, which shows the few pairs that rank highest.
    title
        Title of the picture.
    ax
        Axes to draw on, which are then returned; None: draw a new picture.

    Raises
    ------
    InputError
        There is no curve, or ``curves`` holds anything else.

    Examples
    --------
    >>> roc_curves([ROC([0, 0.1, 1], [0, 0.9, 1]), ROC([0, 0.2, 1], [0, 0.8, 1])], log=True)
    <Picture size 560x500 with 1 Axes>
    """
    curves = _curves(curves)
    shown, axes = canvas(5.6, 5.0, ax)
    _draw_curves(axes, curves, log, title)
    name_lines(shown, axes)
    return shown


def _curves(curves: Iterable[object]) -> list[ROC]:
    """List the curves; raises InputError for anything else."""
    expected = "curves: a list of ROC was expected"
    try:
        entries = [*curves]
    except TypeError:
        raise InputError(f"{expected}, found {type(curves).__name__}") from None
    listed = [entry for entry in entries if isinstance(entry, ROC)]
    if len(listed) < len(entries):
        strange = next(entry for entry in entries if not isinstance(entry, ROC))
        raise InputError(f"{expected}, found {type(strange).__name__}")
    return listed


# --- cells ------------------------------------------------------------------------------------------------


def cells_of(forest: TreeRank, tree: int = 0, depth: int = DEPTH, names: Sequence[str] = ()) -> list[Cell]:
    """List the cells of a ranking tree down to some depth: the numbers and words of `ranking_tree`.

    Parameters
    ----------
    forest, tree, depth, names
        As of `ranking_tree`.

    Returns
    -------
    list of Cell
        The root first, depth by depth, from the left.

    Raises
    ------
    InputError
        As of `ranking_tree`.

    Examples
    --------
    >>> from distforest import TreeRank
    >>> points, labels = [[0.0], [0.1], [0.2], [5.0], [5.1], [5.2]], [0, 0, 0, 1, 1, 1]
    >>> forest = TreeRank(1, leafrank_depth=1, min_samples_leaf=1, random_state=0).fit(points, labels)
    >>> [(cell.similar, cell.dissimilar, cell.cut) for cell in cells_of(forest, names=["height"])]
    [(6, 9, '|d height| ≤ 2.5'), (6, 0, ''), (0, 9, '')]
    """
    if not isinstance(forest, TreeRank):
        raise InputError(f"forest: a TreeRank was expected, found {type(forest).__name__}")
    if not hasattr(forest, "forest_"):
        raise InputError("forest: a fitted TreeRank was expected, found one that is not; call `fit` first")
    ranks, words = ranks_of(forest.forest_), _words(forest, names)
    if not whole("tree", tree, 0) < forest.forest_.n_trees:
        raise InputError(f"tree: a number in 0..{forest.forest_.n_trees - 1} was expected, found {tree!r}")
    if not whole("depth", depth, 1) <= DRAWN_DEPTH:
        raise InputError(f"depth: 1 to {DRAWN_DEPTH} can be drawn, found {depth!r}")
    cells = Cells.of(ranks, tree)
    n_leaves, drawn, level = _leaves_below(cells), list[Cell](), [(0, 0)]
    for at in range(depth + 1):
        parted = []
        for node, place in level:
            is_leaf = cells.better[node] == LEAF
            cut = "" if is_leaf else words.of_cut(ranks, cells.start, node, int(cells.better[node]))
            similar, dissimilar = cells.counts[node].tolist()
            drawn.append(Cell(at, place, similar, dissimilar, cut, int(n_leaves[node])))
            if not is_leaf:
                parted += [(int(cells.better[node]), 2 * place), (int(cells.worse[node]), 2 * place + 1)]
        level = parted
    return drawn


def _leaves_below(cells: Cells) -> NDArray[np.int64]:
    """Number of leaves below each cell; children come after their parents."""
    n_leaves = np.ones(len(cells.better), np.int64)
    for cell in np.flatnonzero(cells.better != LEAF)[::-1]:
        n_leaves[cell] = n_leaves[cells.better[cell]] + n_leaves[cells.worse[cell]]
    return n_leaves


@dataclass(frozen=True)
class _Words:
    """Names of the features of a point and of the columns of a pair."""

    columns: PairColumns
    features: list[str]
    named: list[str]

    def of_cut(self, ranks: Ranks, start: int, cell: int, better: int) -> str:
        """The condition under which a pair of a cell goes to the better part, or the number of nodes that decide it."""
        table, inner = ranks.table, _small_tree(ranks, start, cell)
        first = start + cell
        column, width = int(table.columns[table.offset[first]]), int(table.width[first])
        threshold, holds = f"{table.threshold[first]:.4g}", int(table.left[first]) == better
        if self._is_square(ranks, start, inner):
            condition = f"{threshold} separates the two" if not holds else f"both on one side of {threshold}"
            return f"{self.features[column]}\n{condition}"
        name = self.named[column] if width == 1 else f"a sum of {width:,} columns"
        if len(inner) == 1:
            return f"{name} {'≤' if holds else '>'} {threshold}"
        return f"{len(inner):,} nodes, the first by\n{name}"

    def _is_square(self, ranks: Ranks, start: int, inner: list[int]) -> bool:
        """Whether two nodes are one square cut: max <= A, or else min > A, on one coordinate."""
        if self.columns.family != "max_min" or len(inner) != 2:
            return False
        table, (first, second) = ranks.table, [start + node for node in inner]
        a, b = (int(table.columns[table.offset[node]]) for node in (first, second))
        same = b == a + self.columns.n_features and table.threshold[first] == table.threshold[second]
        return bool(same and table.left[first] == table.right[second])


def _words(forest: TreeRank, names: Sequence[str]) -> _Words:
    """Name the columns; raises InputError if there is not one name for each feature."""
    columns = columns_of(forest.forest_)
    numbers = [f"feature {k}" for k in range(columns.n_features)]
    kept = forest.forest_.feature_names  # also of a loaded forest, which reads further columns as features
    default = getattr(forest, "feature_names_in_", kept.names if kept else numbers)
    listed = listed_names(names) or listed_names(default)
    if len(listed) != columns.n_features:
        n_features = counted(columns.n_features, "feature")
        raise InputError(f"names: one for each of {n_features} was expected, found {len(listed)}")
    features = [shortened(name) for name in listed]
    further = [f"further column {k}" for k in range(len(columns.blocks))]
    return _Words(columns, features, named(columns, features, further))


def _small_tree(ranks: Ranks, start: int, cell: int) -> list[int]:
    """The nodes of the small tree that parts a cell, from the cell itself, numbers within the tree, ascending."""
    nodes, open_nodes = [cell], [cell]
    while open_nodes:
        node = start + open_nodes.pop()
        below = [int(child) for child in (ranks.table.left[node], ranks.table.right[node])]
        inner = [child for child in below if ranks.scores[start + child] < 0.0]
        nodes += inner
        open_nodes += inner
    return sorted(nodes)


def _title(forest: TreeRank, tree: int) -> str:
    """Title of a tree: its number, its number of leaves, and the area under its curve."""
    ranks = ranks_of(forest.forest_)
    counts = ranks.class_counts[ranks.leaves_in_order(tree)]
    which = f"tree {tree} of {forest.forest_.n_trees:,}" if forest.forest_.n_trees > 1 else "one tree"
    area = ROC.of_counts(counts[:, 0], counts[:, 1]).auc
    return f"TreeRank, {which}: {counted(len(counts), 'leaf', 'leaves')}, area {area:.3f}"


# --- drawing ----------------------------------------------------------------------------------------------


def _width(cells: Sequence[Cell]) -> float:
    """Width in inches that the cells of the deepest level need side by side."""
    return max(6.8, 1.25 * 2.0 ** max(cell.depth for cell in cells))


def _roomy(axes: Axes, cells: Sequence[Cell], shallower: bool) -> tuple[Sequence[Cell], float]:
    """Choose the cells for which given axes have room, and the font size of their text in points, 0 without room.

    With ``shallower`` the deepest levels may be left out. Text is set in two lines if one line has no room.
    """
    figure = axes.figure.figure
    layout = figure.get_layout_engine()
    if layout is not None:
        layout.execute(figure)  # makes room for the text around the axes
    deepest = max(cell.depth for cell in cells)
    for depth in range(deepest, 0 if shallower and deepest else deepest - 1, -1):
        plain = [cell for cell in cells if cell.depth <= depth]
        parted = [replace(cell, cut=cell.cut.replace(" ≤ ", "\n≤ ").replace(" > ", "\n> ")) for cell in plain]
        for points in SIZES:
            for drawn in (plain, parted):
                if _fit(axes, drawn, points):
                    return drawn, points
    return parted, 0.0


def _fit(axes: Axes, cells: Sequence[Cell], points: float) -> bool:
    """Whether the text of cells, in a font size in points, neither overlaps nor leaves the axes."""
    deepest, shown = max(cell.depth for cell in cells), {(cell.depth, cell.place) for cell in cells}
    frame = axes.get_window_extent()
    rows: list[list[tuple[float, float, float]]] = [[] for _ in range(2 * deepest + 1)]
    for cell in cells:
        is_parted = (cell.depth + 1, 2 * cell.place) in shown
        for row, text in (
            (2 * cell.depth, _counts_of(cell, is_parted)),
            (2 * cell.depth + 1, cell.cut if is_parted else ""),
        ):
            if text:
                rows[row].append((cell.middle * frame.width, *_extent(axes, text, points)))
    for texts in rows:
        spans = [(x - width / 2.0, x + width / 2.0) for x, width, _ in texts]
        ends = [(-math.inf, 0.0), *spans, (frame.width, math.inf)]
        if any(right > left for (_, right), (left, _) in pairwise(ends)):
            return False
    step = 0.5 * frame.height / (deepest + 0.75)  # from the middle of a cell to that of the text below
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


def _draw_tree(axes: Axes, cells: Sequence[Cell], title: str) -> None:
    """Draw cells at their scores, each below the cell of which it is a part, with a title and labels."""
    _frame(axes, title, f"{SCORE}\n{KEY}", LABEL)
    _draw_cells(axes, cells, LETTERS)


def _frame(axes: Axes, title: str, label: str, points: float) -> None:
    """Draw the frame of cells: the scale of scores, its label, and a title."""
    axes.set(xlim=(0.0, 1.0), yticks=[])
    axes.set_xticks([0.0, 0.25, 0.5, 0.75, 1.0], ["1", "0.75", "0.5", "0.25", "0"])
    axes.set_xlabel(label, fontsize=points)
    axes.set_title(title, fontsize=TITLE)
    axes.spines[["top", "right", "left"]].set_visible(False)


def _draw_cells(axes: Axes, cells: Sequence[Cell], points: float) -> None:
    """Draw cells, the lines between them, and their text in a font size in points."""
    shown = {(cell.depth, cell.place) for cell in cells}
    for cell in cells:
        is_parted = (cell.depth + 1, 2 * cell.place) in shown
        _draw_cell(axes, cell, (cells[0].similar, cells[0].dissimilar), is_parted, points)
        if is_parted:
            _draw_fork(axes, cell, points)
    axes.set_ylim(-max(cell.depth for cell in cells) - 0.45, 0.3)


def _counts_of(cell: Cell, is_parted: bool) -> str:
    """Text of a cell: its numbers of pairs, and of leaves if those are not drawn."""
    leaves = "" if cell.n_leaves == 1 or is_parted else f"\n{cell.n_leaves:,} leaves"
    return f"+ {cell.similar:,}\n{MINUS} {cell.dissimilar:,}{leaves}"


def _draw_cell(axes: Axes, cell: Cell, totals: tuple[int, int], is_parted: bool, points: float) -> None:
    """Draw a box with the numbers of pairs of a cell, coloured by the kind of which it has the larger share."""
    similar, dissimilar = cell.similar / max(1, totals[0]), cell.dissimilar / max(1, totals[1])
    is_leaf = cell.n_leaves == 1
    box = {
        "boxstyle": "round,pad=0.35",
        "facecolor": SIDES(similar / (similar + dissimilar) if similar + dissimilar else 0.5),
        "edgecolor": "black" if is_leaf else GREY,
        "linewidth": 1.4 if is_leaf else 0.8,
    }
    text = _counts_of(cell, is_parted)
    axes.text(cell.middle, -cell.depth, text, ha="center", va="center", fontsize=points, bbox=box, zorder=3)


def _draw_fork(axes: Axes, cell: Cell, points: float) -> None:
    """Draw the lines from a cell to its parts, with its cut in words."""
    x, y, step = cell.middle, -cell.depth, 0.25 / 2.0**cell.depth
    axes.plot([x, x], [y, y - 0.5], color=GREY, linewidth=1, zorder=1)
    axes.plot([x - step, x - step, x + step, x + step], [y - 1, y - 0.5, y - 0.5, y - 1], color=GREY, linewidth=1)
    white = {"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none"}
    axes.text(x, y - 0.5, cell.cut, ha="center", va="center", fontsize=points, bbox=white, zorder=2, parse_math=False)


def _draw_curves(axes: Axes, curves: Sequence[ROC], log: bool, title: str) -> None:
    """Draw the curves of trees, their mean, and chance."""
    mean = ROC.mean(curves)
    places = _left_end(curves) ** np.linspace(1.0, 0.0, 400) if log else np.array([0.0, 1.0])
    if len(curves) > 1:
        for number, curve in enumerate(curves[:MOST_CURVES]):
            label = f"{min(len(curves), MOST_CURVES)} trees" if number == 0 else "_"
            axes.plot(*_line(curve, places), color=BLUE, alpha=0.35, linewidth=0.7, label=label)
    area = f"{'their mean' if len(curves) > 1 else 'one tree'}: area {mean.auc:.3f}"
    axes.plot(*_line(mean, places), color=BLUE, linewidth=2.5, label=area)
    axes.plot(places, places, color=ORANGE, linestyle="--", linewidth=1, label="chance")
    on_unit_square(axes, "false positive rate", "true positive rate")
    if log:
        axes.set_aspect("auto")
        axes.set_xscale("log")
        axes.set_xlim(places[0], 1.0)
        decades = np.arange(round(np.log10(places[0])), 1)
        axes.set_xticks(10.0**decades, [f"$10^{{{power}}}$" for power in decades])
    axes.set_title(title)


def _left_end(curves: Sequence[ROC]) -> float:
    """The largest power of ten up to the least positive false positive rate of a knot, from 10^-6 to 10^-2."""
    least = min(float(curve.fpr[curve.fpr > 0.0].min()) for curve in curves)
    return float(10.0 ** np.clip(np.floor(np.log10(least)), -6.0, -2.0))


def _line(curve: ROC, places: Floats) -> tuple[Floats, Floats]:
    """Points of a curve from the first of some places on: at its knots and at the places."""
    inside = curve.fpr >= places[0]
    fpr, tpr = np.append(curve.fpr[inside], places), np.append(curve.tpr[inside], curve.at(places))
    order = np.lexsort((tpr, fpr))
    return fpr[order], tpr[order]
