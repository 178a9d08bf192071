"""Pictures of ranking forests: the cells of a tree with their pairs and cuts, and the ROC curves of all its trees.

They need matplotlib (``pip install 'distforest[plot]'``). As in `distforest.pictures.plotting` every function returns a
`Picture`, which a notebook shows and ``savefig`` saves. A tree alone is a `distforest.pictures.TreeDisplay`, the curves
are a `distforest.pictures.ROCDisplay`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.colors import LinearSegmentedColormap

from distforest.amounts import counted
from distforest.arguments import whole
from distforest.errors import InputError
from distforest.estimators.tree_rank import TreeRank
from distforest.evaluation.roc import ROC
from distforest.forest.pairs.cells import Cells
from distforest.forest.pairs.pair_scores import columns_of, ranks_of
from distforest.forest.table import LEAF
from distforest.pictures.boxes import DRAWN_DEPTH, Box, DrawnTree
from distforest.pictures.category_words import set_in_words
from distforest.pictures.curves import draw_curves
from distforest.pictures.pictured import listed_names
from distforest.pictures.plotting import Picture, blank, legend_below, shortened
from distforest.sources.point_pairs import PairColumns, named

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from distforest.forest.forest import Forest
    from distforest.forest.pairs.pair_leaves import Ranks

DEPTH = 3
"""Default depth to which cells are drawn; given axes with little room show fewer."""

SIDES = LinearSegmentedColormap.from_list("sides", ["#F3B994", "#FFFFFF", "#9CCBE8"])
"""Colours from cells of dissimilar pairs to cells of similar pairs, pale enough for black text."""

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

    def box(self, root: Cell) -> Box:
        """The cell as a box, coloured by the kind of pairs of which it has the larger share of the root's."""
        similar, dissimilar = self.similar / max(1, root.similar), self.dissimilar / max(1, root.dissimilar)
        colour = SIDES(similar / (similar + dissimilar) if similar + dissimilar else 0.5)
        held = counts_in_words(self.similar, self.dissimilar)
        return Box(self.depth, self.place, held, self.cut, self.n_leaves, colour)


def counts_in_words(similar: int, dissimilar: int) -> str:
    """Numbers of similar and dissimilar pairs, a line each."""
    return f"+ {similar:,}\n{MINUS} {dissimilar:,}"


def ranking(forest: TreeRank, tree: int = 0, depth: int = DEPTH, names: Sequence[str] = ()) -> Picture:
    """Draw a tree of a ranking forest beside the ROC curves of all trees, on a linear and on a logarithmic scale.

    Parameters
    ----------
    forest
        The forest, fitted or opened by `distforest.load`.
    tree
        Number of the tree.
    depth
        Largest depth of the cells that are drawn, 1 to `DRAWN_DEPTH`.
    names
        Names of the features of a point; if empty, the forest's names or the numbers of features.

    Raises
    ------
    InputError
        The forest is no fitted TreeRank, there is no such tree, there is not one name for each feature, or the depth is
        out of range.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from distforest import TreeRank
    >>> forest = TreeRank(3, n_pairs=500, leafrank_depth=1, random_state=0).fit(*load_iris(return_X_y=True))
    >>> ranking(forest, depth=2)
    <Picture size 1180x660 with 3 Axes>
    """
    drawn, curves = drawn_ranking(forest, tree, depth, names), forest.tree_rocs_
    width, _ = drawn.size
    figure = blank(width + 5.0, 6.6)
    left, right = figure.subfigures(1, 2, squeeze=False, width_ratios=(width, 5.0))[0]
    drawn.draw(left.subplots())
    linear, logarithmic = right.subplots(2, 1)
    draw_curves(linear, curves, log=False, title="ROC of the training pairs")
    draw_curves(logarithmic, curves, log=True, title="The same, left end")
    legend_below(right, logarithmic)
    return figure


def drawn_ranking(forest: TreeRank, tree: int, depth: int, names: Sequence[str]) -> DrawnTree:
    """Draw the cells of a tree as boxes; arguments and errors as of `ranking`."""
    cells = cells_of(forest, tree, depth, names)
    return DrawnTree([cell.box(cells[0]) for cell in cells], _title(forest, tree), (SCORE, KEY), has_scores=True)


# --- cells ------------------------------------------------------------------------------------------------


def cells_of(forest: TreeRank, tree: int = 0, depth: int = DEPTH, names: Sequence[str] = ()) -> list[Cell]:
    """List the cells of a ranking tree down to some depth: the numbers and words of `TreeDisplay`.

    Parameters
    ----------
    forest, tree, depth, names
        As of `ranking`.

    Returns
    -------
    list of Cell
        The root first, depth by depth, from the left.

    Raises
    ------
    InputError
        As of `ranking`.

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

    forest: Forest
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
        if len(inner) == 1 and table.category_size is not None and table.category_size[first]:
            return f"{name}\n{set_in_words(self.forest, first, holds)}"
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
    kept = forest.forest_.schema  # also of a loaded forest, which reads further columns as features
    default = getattr(forest, "feature_names_in_", kept.names if kept else numbers)
    listed = listed_names(names) or listed_names(default)
    if len(listed) != columns.n_features:
        n_features = counted(columns.n_features, "feature")
        raise InputError(f"names: one for each of {n_features} was expected, found {len(listed)}")
    features = [shortened(name) for name in listed]
    further = [f"further column {k}" for k in range(len(columns.blocks))]
    return _Words(forest.forest_, columns, features, named(columns, features, further))


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
