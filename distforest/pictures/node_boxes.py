"""The nodes of any tree as boxes: how many rows or pairs they hold, what they say, and by what they are split."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.colors import to_rgb

from distforest.amounts import counted
from distforest.arguments import whole
from distforest.errors import InputError
from distforest.forest.leaves import ClassCounts, Means
from distforest.forest.missing import ALL_OBSERVED
from distforest.forest.pairs.pair_leaves import Votes
from distforest.forest.pairs.pair_scores import columns_of, is_over_pairs
from distforest.forest.table import LEAF
from distforest.forest.target_leaves import TargetMembers
from distforest.pictures.boxes import DRAWN_DEPTH, Box, DrawnTree
from distforest.pictures.category_words import set_in_words
from distforest.pictures.pictured import listed_names
from distforest.pictures.plotting import CLASS_COLOURS, shortened
from distforest.pictures.ranking_plots import SIDES, counts_in_words
from distforest.sources.point_pairs import named
from distforest.sources.row_kinds import Several

if TYPE_CHECKING:
    from collections.abc import Sequence

    from distforest.forest.forest import Forest
    from distforest.sources.row_kinds import RowKind
    from distforest.sources.source import Ints

HOW_READ = {
    True: "+ similar and \N{MINUS SIGN} dissimilar training pairs; a pair goes left if the line below its box holds",
    False: "training rows in bag; a row goes left if the line below its box holds",
}
"""How a tree over pairs, and any other, is read."""

OF_CHAINS = (
    "boxes of equal numbers of rows compare exemplars two by two: the nearest is found at the end of their lines"
)
"""How the nodes of a chain are read."""


def drawn_nodes(forest: Any, tree: int, depth: int, names: Sequence[str]) -> DrawnTree:
    """Draw the nodes of a tree as boxes, down to some depth.

    Parameters
    ----------
    forest
        A fitted estimator, but for TreeRank, whose nodes are cells.
    tree
        Number of the tree.
    depth
        Largest depth of the boxes.
    names
        Names of the features, or of the training objects; if empty, those of the forest, or their numbers.

    Raises
    ------
    InputError
        There is no such tree, the depth is out of range, or there is not one name for each column.
    """
    own: Forest = forest.forest_
    if not whole("tree", tree, 0) < own.n_trees:
        raise InputError(f"tree: a number in 0..{own.n_trees - 1} was expected, found {tree!r}")
    if not whole("depth", depth, 1) <= DRAWN_DEPTH:
        raise InputError(f"depth: 1 to {DRAWN_DEPTH} can be drawn, found {depth!r}")
    nodes = _Nodes(own, tree, _named_columns(forest, names))
    n_leaves = nodes.leaves_below()
    boxes, level = list[Box](), [(0, 0)]
    for at in range(depth + 1):
        for node, place in level:
            boxes.append(Box(at, place, nodes.held(node), nodes.cut(node), int(n_leaves[node]), nodes.colour(node)))
        level = [child for node, place in level for child in nodes.children(node, place)]
    which = f"tree {tree} of {own.n_trees:,}" if own.n_trees > 1 else "one tree"
    title = f"{type(forest).__name__}, {which}: {counted(int(n_leaves[0]), 'leaf', 'leaves')}"
    lines = (HOW_READ[is_over_pairs(own)], *((OF_CHAINS,) if own.table.chain_head is not None else ()))
    return DrawnTree(boxes, title, lines)


def _named_columns(forest: Any, names: Sequence[str]) -> list[str]:
    """Name what cuts read: features, the similarities to training objects, or columns of pairs."""
    own, given = forest.forest_, listed_names(names)
    n = own.n_features if is_over_pairs(own) else own.n_columns
    kept = [*map(str, getattr(forest, "feature_names_in_", ()))]
    known = given or (kept if len(kept) == n else [])
    if known and len(known) != n:
        raise InputError(f"names: one for each of {counted(n, 'column')} was expected, found {len(known)}")
    found = [shortened(name) for name in known] or _numbered(own.meaning.rows, n)
    if not is_over_pairs(own):
        return found
    columns = columns_of(own)
    return named(columns, found, [f"further column {k}" for k in range(len(columns.blocks))])


def _numbered(rows: RowKind, n_columns: int) -> list[str]:
    """Names of what cuts read by its number: a feature, or the similarity to an object, by one of several measures."""
    if isinstance(rows, Several):
        return [f"s{k} by {m}" for m in range(len(rows.measures)) for k in range(rows.n_objects)]
    similar = rows.kind not in ("features", "pairs")
    return [f"s{k}" if similar else f"feature {k}" for k in range(n_columns)]


@dataclass(frozen=True)
class _Nodes:
    """The nodes of one tree, by their numbers within it."""

    forest: Forest
    tree: int
    columns: list[str]

    @property
    def start(self) -> int:
        """Number of the root in the whole table."""
        return int(self.forest.table.tree_start[self.tree])

    def children(self, node: int, place: int) -> list[tuple[int, int]]:
        """The two children of a node with their places; none of a leaf."""
        table, own = self.forest.table, self.start + node
        if table.left[own] == LEAF:
            return []
        return [(int(table.left[own]), 2 * place), (int(table.right[own]), 2 * place + 1)]

    def leaves_below(self) -> Ints:
        """Number of leaves below each node, shape (tree_size,); children come after their parents.

        Nodes of a chain may share children, each of which counts once.
        """
        table, n = self.forest.table, int(self.forest.table.tree_size[self.tree])
        left, right = (child[self.start : self.start + n].tolist() for child in (table.left, table.right))
        heads = np.arange(n) if table.chain_head is None else table.chain_head[self.start : self.start + n]
        n_leaves, below = np.ones(n, np.int64), [{node} for node in range(n)]
        for node in reversed(range(n)):
            if left[node] != LEAF:
                parted = below[left[node]] | below[right[node]]
                n_leaves[node] = sum(n_leaves[child] for child in parted)
                if heads[node] != node:
                    below[node] = parted
        return n_leaves

    def cut(self, node: int) -> str:
        """The condition under which rows go left, in words; empty for a leaf."""
        table, own = self.forest.table, self.start + node
        first, width = int(table.offset[own]), int(table.width[own])
        if not width:
            return ""
        read = [self.columns[k] for k in table.columns[first : first + width].tolist()]
        if table.category_size is not None and table.category_size[own]:
            return f"{read[0]} {set_in_words(self.forest, own)}"
        weights = table.weights[first : first + width].tolist()
        if table.threshold[own] == ALL_OBSERVED:
            return f"{_in_words(read, weights)} is there"
        threshold = f"{table.threshold[own]:.4g}".replace("-", "\N{MINUS SIGN}")
        with_missing = table.missing_right is not None and not table.missing_right[own]
        return f"{_in_words(read, weights)} ≤ {threshold}{' or missing' if with_missing else ''}"

    def held(self, node: int) -> str:
        """What a node holds and says, in words."""
        leaf_table, own = self.forest.leaf_table, self.start + node
        if isinstance(leaf_table, Votes):
            return counts_in_words(*leaf_table.class_counts[own].tolist())
        rows = counted(int(self.forest.table.n_rows[own]), "row")
        if isinstance(leaf_table, ClassCounts):
            shares = leaf_table.outputs(self.tree, np.array([node]))[0]
            label = shortened(str((self.forest.meaning.classes or range(len(shares)))[int(shares.argmax())]), 12)
            return f"{rows}\n{label}: {shares.max():.0%}"
        if isinstance(leaf_table, TargetMembers):
            return f"{rows}\nmedian {leaf_table.outputs(self.tree, np.array([node]))[0, 0]:.4g}"
        if isinstance(leaf_table, Means) and leaf_table.n_outputs == 1:
            return f"{rows}\nmean {leaf_table.means[own, 0]:.4g}"
        return rows

    def colour(self, node: int) -> object:
        """The colour of a node: by its pairs or its largest class, the paler the more mixed; white for any other."""
        leaf_table, own = self.forest.leaf_table, self.start + node
        if isinstance(leaf_table, Votes):
            totals = np.maximum(leaf_table.class_counts[self.start], 1)
            similar, dissimilar = leaf_table.class_counts[own] / totals
            return SIDES(similar / (similar + dissimilar))
        if not isinstance(leaf_table, ClassCounts) or leaf_table.n_outputs < 2:
            return "white"
        shares = leaf_table.outputs(self.tree, np.array([node]))[0]
        strength = 0.4 * (shares.max() - 1.0 / len(shares)) / (1.0 - 1.0 / len(shares))
        full = np.array(to_rgb(CLASS_COLOURS[int(shares.argmax()) % len(CLASS_COLOURS)]))
        return tuple(1.0 - strength * (1.0 - full))


def _in_words(columns: Sequence[str], weights: Sequence[float]) -> str:
    """A projection in words.

    Examples
    --------
    >>> _in_words(["height"], [1.0]), _in_words(["a", "b"], [-1.0, 1.0]), _in_words(["a", "b", "c"], [1.0, 1.0, 1.0])
    ('height', 'b − a', 'a sum of 3 columns')
    """
    if len(columns) > 2 or any(abs(weight) != 1.0 for weight in weights):
        one = f"{weights[0]:.3g}".replace("-", "\N{MINUS SIGN}")
        return f"a sum of {counted(len(columns), 'column')}" if len(columns) > 1 else f"{one} {columns[0]}"
    terms = sorted(zip(weights, columns, strict=True), reverse=True)  # what is added comes first
    first, *rest = [("\N{MINUS SIGN} " if weight < 0 else "+ ", name) for weight, name in terms]
    return "".join([first[0].replace("+ ", "").replace(" ", ""), first[1], *(f" {sign}{name}" for sign, name in rest)])
