"""Pictures of ranking forests: the cells of a tree with their pairs and cuts, and the ROC curves of all its trees.

Needs matplotlib (``pip install 'distforest[plot]'``). As in `distforest.plotting` every function returns a `Picture`,
which a notebook shows and ``savefig`` saves; one with a single axes also draws on yours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.colors import LinearSegmentedColormap

from distforest.errors import InputError
from distforest.estimators.loading import load
from distforest.estimators.tree_rank import TreeRank
from distforest.forest.cells import Cells
from distforest.forest.feature_shares import read_names
from distforest.forest.pair_scores import columns_of, ranks_of
from distforest.forest.table import LEAF
from distforest.plotting import BLUE, GREY, ORANGE, Picture, blank, canvas, on_unit_square, shortened
from distforest.roc import ROC
from distforest.sources.point_pairs import PairColumns, named

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase
    from numpy.typing import NDArray

    from distforest.forest.pair_leaves import Ranks

    Floats = NDArray[np.float64]

DEPTH = 3
"""Depth to which cells are drawn unless another is asked for."""

MOST_DEPTH = 6
"""A picture of the cells to this depth is some three metres wide."""

MOST_CURVES = 100
"""Trees whose own curves are drawn: the first ones."""

SIDES = LinearSegmentedColormap.from_list("sides", ["#F3B994", "#FFFFFF", "#9CCBE8"])
"""From cells of unlike pairs to cells of pairs alike, pale enough for black words."""

MINUS = "\N{MINUS SIGN}"

KEY = f"+ alike and {MINUS} unlike training pairs; where the words below a cell hold, its pairs go left"


@dataclass(frozen=True)
class Cell:
    """A cell as it is drawn.

    Attributes
    ----------
    depth, place
        It is the ``place``-th of its depth from the left, both from 0.
    alike, unlike
        Training pairs of the tree in it.
    cut
        In words, what sends a pair to its left; empty for a leaf.
    n_leaves
        Leaves below it; 1 for a leaf.
    """

    depth: int
    place: int
    alike: int
    unlike: int
    cut: str
    n_leaves: int

    @property
    def middle(self) -> float:
        """Where it stands between 0, the most alike, and 1."""
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
    parts: Any = figure.subfigures(1, 2, width_ratios=(width, 5.0))
    _draw_tree(parts[0].subplots(), cells, _title(forest, tree))
    linear, logarithmic = parts[1].subplots(2, 1)
    _draw_curves(linear, curves, log=False, title="ROC of the training pairs")
    _draw_curves(logarithmic, curves, log=True, title="The same, left end")
    _add_legend(parts[1], logarithmic)
    return figure


def sealed_ranking(address: str, features: str | None = None) -> Picture:
    """Draw the first tree and the curves of a sealed ranking forest, as `ranking` does.

    Parameters
    ----------
    address
        Path or URL of the forest.
    features
        Address of an array whose ``feature_names`` name them, as `distforest ingest` writes it; None: by the
        forest's own names, or their numbers.

    Raises
    ------
    ArtifactError
        There is no sealed forest, or it is damaged.
    InputError
        It is no ranking forest, or there are no names at ``features``, or not one for each feature.
    """
    forest = load(address)
    if not isinstance(forest, TreeRank):
        raise InputError(f"{address}: a forest of TreeRank was asked for, found {forest.forest_.meaning.method!r}")
    return ranking(forest, names=read_names(features, columns_of(forest.forest_).n_features))


def ranking_tree(
    forest: TreeRank, tree: int = 0, depth: int = DEPTH, names: Sequence[str] = (), ax: Axes | None = None
) -> Picture | Axes:
    """Draw the cells of a ranking tree: their training pairs, and what parts them.

    A cell stands where its score is, the most alike pairs on the left. What parts it is told in words where that is
    one cut; else the number of nodes of the small tree, and what its first one reads.

    Parameters
    ----------
    forest
        Fitted, or opened by `distforest.load`.
    tree
        Its number.
    depth
        Deepest cells that are drawn, 1 to `MOST_DEPTH`.
    names
        Of the features of a point; the forest's own, or their numbers, where it is empty.
    ax
        Draw here, and return it; None: in a picture of its own.

    Raises
    ------
    InputError
        There is no such tree, or not one name for each feature, or the depth is not in its range.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from distforest import TreeRank
    >>> forest = TreeRank(1, n_pairs=500, leafrank_depth=1, random_state=0).fit(*load_iris(return_X_y=True))
    >>> ranking_tree(forest, depth=2)
    <Picture size 680x490 with 1 Axes>
    """
    cells = cells_of(forest, tree, depth, names)
    shown, axes = canvas(_width(cells), 1.3 + 1.2 * (1 + max(cell.depth for cell in cells)), ax)
    _draw_tree(axes, cells, _title(forest, tree))
    return shown


def roc_curves(curves: Sequence[ROC], log: bool = False, title: str = "ROC", ax: Axes | None = None) -> Picture | Axes:
    """Draw the ROC curves of trees, and their mean.

    Parameters
    ----------
    curves
        One for each tree, such as `TreeRank.tree_rocs_`; of more than `MOST_CURVES` the first are drawn, and the mean
        of all.
    log
        Whether false positive rates stand on a logarithmic scale, which shows the few pairs that rank highest.
    title
        What the curves are of.
    ax
        Draw here, and return it; None: in a picture of its own.

    Raises
    ------
    InputError
        There is no curve.

    Examples
    --------
    >>> roc_curves([ROC([0, 0.1, 1], [0, 0.9, 1]), ROC([0, 0.2, 1], [0, 0.8, 1])], log=True)
    <Picture size 560x500 with 1 Axes>
    """
    shown, axes = canvas(5.6, 5.0, ax)
    _draw_curves(axes, curves, log, title)
    if isinstance(shown, Picture):
        _add_legend(shown, axes)
    else:  # what is beside the axes is not ours
        axes.legend(loc="lower right", frameon=False)
    return shown


# --- cells ------------------------------------------------------------------------------------------------


def cells_of(forest: TreeRank, tree: int = 0, depth: int = DEPTH, names: Sequence[str] = ()) -> list[Cell]:
    """Take the cells of a ranking tree down to some depth: the numbers and words of `ranking_tree`.

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
    >>> [(cell.alike, cell.unlike, cell.cut) for cell in cells_of(forest, names=["height"])]
    [(6, 9, '|d height| ≤ 2.5'), (6, 0, ''), (0, 9, '')]
    """
    ranks, words = ranks_of(forest.forest_), _words(forest, names)
    if not 0 <= tree < forest.forest_.n_trees:
        raise InputError(f"tree: a number in 0..{forest.forest_.n_trees - 1} was asked for, found {tree!r}")
    if not 1 <= depth <= MOST_DEPTH:
        raise InputError(f"depth: 1 to {MOST_DEPTH} can be drawn, found {depth!r}")
    cells = Cells.of(ranks, tree)
    n_leaves, found, level = _leaves_below(cells), list[Cell](), [(0, 0)]
    for at in range(depth + 1):
        parted = []
        for node, place in level:
            is_leaf = cells.better[node] == LEAF
            cut = "" if is_leaf else words.of_cut(ranks, cells.start, node, int(cells.better[node]))
            alike, unlike = cells.counts[node].tolist()
            found.append(Cell(at, place, alike, unlike, cut, int(n_leaves[node])))
            if not is_leaf:
                parted += [(int(cells.better[node]), 2 * place), (int(cells.worse[node]), 2 * place + 1)]
        level = parted
    return found


def _leaves_below(cells: Cells) -> NDArray[np.int64]:
    """Number of leaves below each cell; children come after their parents."""
    found = np.ones(len(cells.better), np.int64)
    for cell in np.flatnonzero(cells.better != LEAF)[::-1]:
        found[cell] = found[cells.better[cell]] + found[cells.worse[cell]]
    return found


@dataclass(frozen=True)
class _Words:
    """What the features of a point, and the columns of a pair, are called."""

    columns: PairColumns
    features: list[str]
    named: list[str]

    def of_cut(self, ranks: Ranks, start: int, cell: int, better: int) -> str:
        """What sends a pair of a cell to the better part: in words, or how many nodes do."""
        table, inner = ranks.table, _small_tree(ranks, start, cell)
        first = start + cell
        column, width = int(table.columns[table.offset[first]]), int(table.width[first])
        threshold, holds = f"{table.threshold[first]:.4g}", int(table.left[first]) == better
        if self._is_square(ranks, start, inner):
            told = f"{threshold} separates the two" if not holds else f"both on one side of {threshold}"
            return f"{self.features[column]}\n{told}"
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
    """Names of columns; raises InputError where there is not one for each feature."""
    columns = columns_of(forest.forest_)
    numbers = [f"feature {k}" for k in range(columns.n_features)]
    kept = forest.forest_.feature_names  # also of a loaded forest, which reads further columns as features
    own = getattr(forest, "feature_names_in_", kept.names if kept else numbers)
    given = list(names) or list(own)
    if len(given) != columns.n_features:
        raise InputError(f"names: one for each of {columns.n_features} features was asked for, found {len(given)}")
    features = [shortened(str(name)) for name in given]
    further = [f"further column {k}" for k in range(len(columns.blocks))]
    return _Words(columns, features, named(columns, features, further))


def _small_tree(ranks: Ranks, start: int, cell: int) -> list[int]:
    """The nodes of the small tree that parts a cell, itself first, numbers within the tree, ascending."""
    found, open_nodes = [cell], [cell]
    while open_nodes:
        node = start + open_nodes.pop()
        below = [int(child) for child in (ranks.table.left[node], ranks.table.right[node])]
        inner = [child for child in below if ranks.scores[start + child] < 0.0]
        found += inner
        open_nodes += inner
    return sorted(found)


def _title(forest: TreeRank, tree: int) -> str:
    """Which tree it is, and of how many cells; the area under its own curve."""
    ranks = ranks_of(forest.forest_)
    counts = ranks.class_counts[ranks.leaves_in_order(tree)]
    own = f"tree {tree} of {forest.forest_.n_trees:,}" if forest.forest_.n_trees > 1 else "one tree"
    return f"TreeRank, {own}: {len(counts):,} leaves, area {ROC.of_counts(counts[:, 0], counts[:, 1]).auc:.3f}"


# --- drawing ----------------------------------------------------------------------------------------------


def _width(cells: Sequence[Cell]) -> float:
    """Inches that the cells need: those of the deepest level side by side."""
    return max(6.8, 1.25 * 2.0 ** max(cell.depth for cell in cells))


def _draw_tree(axes: Axes, cells: Sequence[Cell], title: str) -> None:
    """Draw cells where their scores are, each below the one that it is a part of."""
    deepest, shown = max(cell.depth for cell in cells), {(cell.depth, cell.place) for cell in cells}
    for cell in cells:
        is_parted = (cell.depth + 1, 2 * cell.place) in shown
        _draw_cell(axes, cell, (cells[0].alike, cells[0].unlike), is_parted)
        if is_parted:
            _draw_fork(axes, cell)
    axes.set(xlim=(0.0, 1.0), ylim=(-deepest - 0.45, 0.3), yticks=[])
    axes.set_xticks([0.0, 0.25, 0.5, 0.75, 1.0], ["1", "0.75", "0.5", "0.25", "0"])
    axes.set_xlabel(f"score: a cell stands amid those of its leaves\n{KEY}")
    axes.set_title(title)
    axes.spines[["top", "right", "left"]].set_visible(False)


def _draw_cell(axes: Axes, cell: Cell, totals: tuple[int, int], is_parted: bool) -> None:
    """Draw a box with the pairs of a cell, coloured by the kind of which it has the larger share."""
    alike, unlike = cell.alike / max(1, totals[0]), cell.unlike / max(1, totals[1])
    is_leaf = cell.n_leaves == 1
    box = {
        "boxstyle": "round,pad=0.35",
        "facecolor": SIDES(alike / (alike + unlike) if alike + unlike else 0.5),
        "edgecolor": "black" if is_leaf else GREY,
        "linewidth": 1.4 if is_leaf else 0.8,
    }
    told = f"+ {cell.alike:,}\n{MINUS} {cell.unlike:,}"
    told += "" if is_leaf or is_parted else f"\n{cell.n_leaves:,} leaves"
    axes.text(cell.middle, -cell.depth, told, ha="center", va="center", fontsize=8, bbox=box, zorder=3)


def _draw_fork(axes: Axes, cell: Cell) -> None:
    """Draw the way from a cell to its parts, and upon it what parts it."""
    x, y, step = cell.middle, -cell.depth, 0.25 / 2.0**cell.depth
    axes.plot([x, x], [y, y - 0.5], color=GREY, linewidth=1, zorder=1)
    axes.plot([x - step, x - step, x + step, x + step], [y - 1, y - 0.5, y - 0.5, y - 1], color=GREY, linewidth=1)
    white = {"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none"}
    axes.text(x, y - 0.5, cell.cut, ha="center", va="center", fontsize=8, bbox=white, zorder=2, parse_math=False)


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


def _add_legend(figure: FigureBase, axes: Axes) -> None:
    """Name the curves below the axes, where none of them can lie."""
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)


def _left_end(curves: Sequence[ROC]) -> float:
    """The power of ten below the least false positive rate of a knot, from 10^-6 to 10^-2."""
    least = min(float(curve.fpr[curve.fpr > 0.0].min()) for curve in curves)
    return float(10.0 ** np.clip(np.floor(np.log10(least)), -6.0, -2.0))


def _line(curve: ROC, places: Floats) -> tuple[Floats, Floats]:
    """A curve from the first of some places on: its knots, and what it is at the places between them."""
    inside = curve.fpr >= places[0]
    fpr, tpr = np.append(curve.fpr[inside], places), np.append(curve.tpr[inside], curve.at(places))
    order = np.lexsort((tpr, fpr))
    return fpr[order], tpr[order]
