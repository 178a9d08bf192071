"""Upper nodes of a tree as boxes, with their contents and split conditions in words."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from distforest.amounts import counted
from distforest.arguments import whole
from distforest.errors import InputError
from distforest.estimators.reading import names_kept
from distforest.estimators.tree_rank import TreeRank
from distforest.evaluation.roc import ROC
from distforest.forest.leaves import ClassCounts, Means
from distforest.forest.missing import ALL_OBSERVED
from distforest.forest.node_table import LEAF
from distforest.forest.pairs.pair_leaves import Votes
from distforest.forest.pairs.pair_scores import columns_of, is_over_pairs, ranks_of
from distforest.forest.pairs.ranking_cells import Cells
from distforest.forest.target_leaves import TargetMembers
from distforest.sources.point_pairs import PairColumns, named, two_of
from distforest.sources.row_kinds import Several

if TYPE_CHECKING:
    from collections.abc import Sequence

    from distforest.forest.forest import Forest
    from distforest.sources.source import Ints

DRAWN_DEPTH = 6
"""Largest depth to which boxes can be drawn: the picture is then about two metres wide."""

CLASS_COLOURS = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_DISSIMILAR, _SIMILAR = "#F3B994", "#9CCBE8"
MINUS = "\N{MINUS SIGN}"

PAIRS_LEFT = f"+ similar and {MINUS} dissimilar training pairs; a pair goes left if the line below its box holds"
ROWS_LEFT = "training rows in bag; a row goes left if the line below its box holds"
OF_SCORES = "score: a cell stands amid those of its leaves"
OF_CHAINS = (
    "boxes of equal numbers of rows compare exemplars two by two: the nearest is found at the end of their lines"
)


@dataclass(frozen=True)
class Box:
    """Node, or cell of a ranking tree, as it is drawn.

    Attributes
    ----------
    depth, place
        Depth of the node, and its position in this depth from the left, both counted from 0.
    held
        Contents of the node, in words.
    cut
        The condition under which rows or pairs go left, in words; empty for a leaf.
    n_leaves
        Number of leaves below the node; 1 for a leaf.
    colour
        Red, green and blue from 0 to 1, pale enough for black text.
    counts
        Numbers of similar and dissimilar training pairs in a cell; None for a node.
    """

    depth: int
    place: int
    held: str
    cut: str
    n_leaves: int
    colour: tuple[float, ...] = (1.0, 1.0, 1.0)
    counts: tuple[int, int] | None = None

    @property
    def middle(self) -> float:
        """Horizontal position of the box, from 0 on the left to 1."""
        return (self.place + 0.5) / 2.0**self.depth


@dataclass(frozen=True)
class DrawnTree:
    """Tree as it is drawn: its boxes, the root first; a title; and lines that explain it.

    With ``has_scores`` boxes are placed at scores, from 1 on the left to 0.
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


def drawn_tree(estimator: Any, tree: int = 0, depth: int = 3, names: Sequence[str] = ()) -> DrawnTree:
    """Describe the upper nodes of a tree, or the cells of a ranking tree.

    Parameters
    ----------
    estimator
        A fitted estimator, or one opened by `distforest.load`.
    tree
        Number of the tree.
    depth
        Maximum depth of the boxes, 1 to `DRAWN_DEPTH`.
    names
        Names of the features, or of the training objects; if empty, those of the forest, or their numbers.

    Raises
    ------
    InputError
        The tree does not exist, the depth is out of range, or there is not one name for each column.

    Examples
    --------
    >>> from distforest import TreeRank
    >>> points, labels = [[0.0], [0.1], [0.2], [5.0], [5.1], [5.2]], [0, 0, 0, 1, 1, 1]
    >>> forest = TreeRank(1, leafrank_depth=1, min_samples_leaf=1, random_state=0).fit(points, labels)
    >>> [(box.counts, box.cut) for box in drawn_tree(forest, names=["height"]).boxes]
    [((6, 9), '|d height| ≤ 2.5'), ((6, 0), ''), ((0, 9), '')]
    """
    forest: Forest = estimator.forest_
    if not whole("tree", tree, 0) < forest.n_trees:
        raise InputError(f"tree: a number in 0..{forest.n_trees - 1} was expected, found {tree!r}")
    if not whole("depth", depth, 1) <= DRAWN_DEPTH:
        raise InputError(f"depth: 1 to {DRAWN_DEPTH} can be drawn, found {depth!r}")
    features, columns = _names(estimator, names)
    if isinstance(estimator, TreeRank):
        ranks = ranks_of(forest)
        counts = ranks.class_counts[ranks.leaves_in_order(tree)]
        area = f", area {ROC.of_counts(counts[:, 0], counts[:, 1]).auc:.3f}"
        nodes: _Nodes = _Cells(forest, tree, features, columns)
        lines: tuple[str, ...] = (OF_SCORES, PAIRS_LEFT)
    else:
        nodes, area = _Nodes(forest, tree, features, columns), ""
        lines = (PAIRS_LEFT if is_over_pairs(forest) else ROWS_LEFT,)
        lines += (OF_CHAINS,) if forest.table.chain_head is not None else ()
    n_leaves, level, boxes = nodes.leaves_below(), [(0, 0)], list[Box]()
    for at in range(depth + 1):
        for node, place in level:
            held, cut, below = nodes.held(node), nodes.cut(node), int(n_leaves[node])
            boxes.append(Box(at, place, held, cut, below, nodes.colour(node), nodes.counts(node)))
        level = [(child, 2 * place + k) for node, place in level for k, child in enumerate(nodes.children(node))]
    which = f"tree {tree} of {forest.n_trees:,}" if forest.n_trees > 1 else "one tree"
    title = f"{type(estimator).__name__}, {which}: {counted(int(n_leaves[0]), 'leaf', 'leaves')}{area}"
    return DrawnTree(boxes, title, lines, has_scores=isinstance(estimator, TreeRank))


def shortened(name: str, most: int = 24) -> str:
    """Cut a long name, and replace characters that cannot be printed by spaces.

    Examples
    --------
    >>> shortened("a rather long name of a feature")
    'a rather long name of a…'
    """
    shown = "".join(letter if letter.isprintable() else " " for letter in name)
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"


def _names(estimator: Any, names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Name the features or objects, and the columns that cuts read, which for pairs are those of a pair."""
    forest: Forest = estimator.forest_
    if isinstance(names, str):
        raise InputError(f"names: a list of names was expected, found {names!r}")
    n = columns_of(forest).n_features if is_over_pairs(forest) else forest.n_columns
    kept = names_kept(estimator)
    known = [*map(str, names)] or (kept if len(kept) == n else [])
    if known and len(known) != n:
        raise InputError(f"names: one for each of {counted(n, 'column')} was expected, found {len(known)}")
    rows = forest.meaning.rows
    if isinstance(rows, Several):
        numbers = [f"s{k} by {m}" for m in range(len(rows.measures)) for k in range(rows.n_objects)]
    else:
        numbers = [f"feature {k}" if rows.kind in ("features", "pairs") else f"s{k}" for k in range(n)]
    found = [shortened(name) for name in known] or numbers
    if not is_over_pairs(forest):
        return found, found
    columns = columns_of(forest)
    return found, named(columns, found, [f"further column {k}" for k in range(len(columns.blocks))])


@dataclass(frozen=True)
class _Nodes:
    """Nodes of one tree, by their numbers within it."""

    forest: Forest
    tree: int
    features: list[str]
    columns: list[str]

    @property
    def start(self) -> int:
        """Number of the root in the whole table."""
        return int(self.forest.table.tree_start[self.tree])

    def children(self, node: int) -> list[int]:
        """Return the two children of a node; none for a leaf."""
        table, own = self.forest.table, self.start + node
        return [] if table.left[own] == LEAF else [int(table.left[own]), int(table.right[own])]

    def leaves_below(self) -> Ints:
        """Count the leaves below each node, shape (tree_size,); children come after their parents.

        Nodes of a chain may share children, each of which counts once.
        """
        table, n = self.forest.table, int(self.forest.table.tree_size[self.tree])
        heads = np.arange(n) if table.chain_head is None else table.chain_head[self.start : self.start + n]
        n_leaves, below = np.ones(n, np.int64), [{node} for node in range(n)]
        for node in reversed(range(n)):
            if children := self.children(node):
                parted = set().union(*(below[child] for child in children))
                n_leaves[node] = sum(n_leaves[child] for child in parted)
                if heads[node] != node:
                    below[node] = parted
        return n_leaves

    def cut(self, node: int) -> str:
        """Describe the condition under which rows go left; empty for a leaf."""
        table, own = self.forest.table, self.start + node
        first, width = int(table.offset[own]), int(table.width[own])
        if not width:
            return ""
        read = [self.columns[k] for k in table.columns[first : first + width].tolist()]
        if table.category_size is not None and table.category_size[own]:
            return f"{read[0]} {_set_in_words(self.forest, own)}"
        said = _sum_in_words(read, table.weights[first : first + width].tolist())
        if table.threshold[own] == ALL_OBSERVED:
            return f"{said} is there"
        with_missing = table.missing_right is not None and not table.missing_right[own]
        return f"{said} ≤ {f'{table.threshold[own]:.4g}'.replace('-', MINUS)}{' or missing' if with_missing else ''}"

    def counts(self, node: int) -> tuple[int, int] | None:
        """Return the numbers of similar and dissimilar pairs; None for a forest over rows."""
        leaf_table = self.forest.leaf_table
        counts = leaf_table.class_counts[self.start + node].tolist() if isinstance(leaf_table, Votes) else ()
        return (counts[0], counts[1]) if counts else None

    def held(self, node: int) -> str:
        """Describe the contents and the prediction of a node."""
        leaf_table, own = self.forest.leaf_table, self.start + node
        if counts := self.counts(node):
            return f"+ {counts[0]:,}\n{MINUS} {counts[1]:,}"
        rows = counted(int(self.forest.table.n_rows[own]), "row")
        if isinstance(leaf_table, ClassCounts):
            shares = leaf_table.outputs(self.tree, np.array([node]))[0]
            label = (self.forest.meaning.classes or range(len(shares)))[int(shares.argmax())]
            return f"{rows}\n{shortened(str(label), 12)}: {shares.max():.0%}"
        if isinstance(leaf_table, TargetMembers):
            return f"{rows}\nmedian {leaf_table.outputs(self.tree, np.array([node]))[0, 0]:.4g}"
        if isinstance(leaf_table, Means) and leaf_table.n_outputs == 1:
            return f"{rows}\nmean {leaf_table.means[own, 0]:.4g}"
        return rows

    def colour(self, node: int) -> tuple[float, ...]:
        """Return the colour of a node by its pairs or largest class, paler if mixed; otherwise white."""
        leaf_table = self.forest.leaf_table
        if counts := self.counts(node):
            shares = np.divide(counts, np.maximum(self.counts(0) or 1, 1))
            lead = (shares[0] - shares[1]) / (shares.sum() or 1.0)
            return _paled(_SIMILAR if lead > 0.0 else _DISSIMILAR, abs(lead))
        if not isinstance(leaf_table, ClassCounts) or leaf_table.n_outputs < 2:
            return (1.0, 1.0, 1.0)
        shares = leaf_table.outputs(self.tree, np.array([node]))[0]
        strength = (shares.max() - 1.0 / len(shares)) / (1.0 - 1.0 / len(shares))
        return _paled(CLASS_COLOURS[int(shares.argmax()) % len(CLASS_COLOURS)], 0.4 * strength)


class _Cells(_Nodes):
    """Cells of one ranking tree: nodes with a score, each of which a small tree divides into two."""

    @cached_property
    def cells(self) -> Cells:
        return Cells.from_ranks(ranks_of(self.forest), self.tree)

    def children(self, node: int) -> list[int]:
        """Return the better and the worse part of a cell."""
        cells = self.cells
        return [] if cells.better[node] == LEAF else [int(cells.better[node]), int(cells.worse[node])]

    def counts(self, node: int) -> tuple[int, int]:
        """Return the numbers of similar and dissimilar pairs."""
        similar, dissimilar = self.cells.counts[node].tolist()
        return similar, dissimilar

    def cut(self, node: int) -> str:
        """Describe the condition under which a pair goes to the better part, or the number of splits."""
        if not (children := self.children(node)):
            return ""
        forest, ranks, first = self.forest, ranks_of(self.forest), self.start + node
        table, inner = ranks.table, [node]
        for parent in inner:  # it grows: the nodes of the small tree have no score
            below = (int(child[self.start + parent]) for child in (table.left, table.right))
            inner += [child for child in below if ranks.scores[self.start + child] < 0.0]
        column, width = int(table.columns[table.offset[first]]), int(table.width[first])
        threshold, holds = f"{table.threshold[first]:.4g}", int(table.left[first]) == children[0]
        if columns_of(self.forest).family == "max_min" and len(inner) == 2 and self._is_square(*sorted(inner)):
            condition = f"both on one side of {threshold}" if holds else f"{threshold} separates the two"
            return f"{self.features[column]}\n{condition}"
        name = self.columns[column] if width == 1 else f"a sum of {width:,} columns"
        if len(inner) > 1:
            return f"by a tree of {len(inner):,} splits,\nthe first of {name}"
        if table.category_size is not None and table.category_size[first]:
            return f"{name}\n{_set_in_words(forest, first, holds)}"
        return f"{name} {'≤' if holds else '>'} {threshold}"

    def _is_square(self, first: int, second: int) -> bool:
        """Return whether two nodes are one square cut: max <= A, or else min > A, on one coordinate."""
        table, n_features = ranks_of(self.forest).table, columns_of(self.forest).n_features
        own, other = self.start + first, self.start + second
        a, b = int(table.columns[table.offset[own]]), int(table.columns[table.offset[other]])
        is_one = b == a + n_features and table.threshold[own] == table.threshold[other]
        return bool(is_one and table.left[own] == table.right[other])


def _set_in_words(forest: Forest, own: int, is_left: bool = True) -> str:
    """Describe the categories that go left, or right, at a node: "in" a set, or "not in" that of the others.

    A category of a pair of points is an unordered pair.
    """
    table, rows, sets = forest.table, forest.meaning.rows, forest.table.category_sets
    codes = sets.codes[sets.start[own] : sets.start[own + 1]].tolist()
    column = int(table.columns[table.offset[own]])
    of_pairs = isinstance(rows, PairColumns)
    feature = column % rows.n_features if of_pairs else column
    names = forest.schema.columns[feature].categories if forest.schema else ()
    parts = [two_of(code) if of_pairs else (code,) for code in codes[:3]]
    listed = [" & ".join(shortened(names[code], 12) if names else str(code) for code in part) for part in parts]
    more = f", \N{HORIZONTAL ELLIPSIS} ({len(codes)})" if codes[3:] else ""
    return f"{'in' if sets.others_right[own] == is_left else 'not in'} {{{', '.join(listed)}{more}}}"


def _sum_in_words(columns: Sequence[str], weights: Sequence[float]) -> str:
    """Describe a projection in words.

    Examples
    --------
    >>> _sum_in_words(["height"], [1.0]), _sum_in_words(["a", "b"], [-1.0, 1.0]), _sum_in_words(["a", "b"], [2.0, 1.0])
    ('height', 'b − a', 'a sum of 2 columns')
    """
    if len(columns) == 1:
        return columns[0] if weights[0] == 1.0 else f"{f'{weights[0]:.3g}'.replace('-', MINUS)} {columns[0]}"
    if len(columns) > 2 or any(abs(weight) != 1.0 for weight in weights):
        return f"a sum of {counted(len(columns), 'column')}"
    # What is added comes first.
    (sign, first), (other, second) = sorted(zip(weights, columns, strict=True), reverse=True)
    return f"{MINUS if sign < 0 else ''}{first} {MINUS if other < 0 else '+'} {second}"


def _paled(colour: str, strength: float) -> tuple[float, ...]:
    """Blend a colour with white, which is at a strength of 0."""
    full = np.array([int(colour[k : k + 2], 16) / 255.0 for k in (1, 3, 5)])
    return tuple((1.0 - strength * (1.0 - full)).tolist())
