"""The node table: the trees of a forest as flat arrays, and the routes of rows through them.

The arrays hold tree after tree and node after node; the projections of the nodes differ in length. The numbers of the
children count within their tree and are greater than their parent's, so a table is an acyclic graph by construction.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from distforest.amounts import counted
from distforest.errors import ArtifactError
from distforest.forest.block_walks import (
    ALL_WANTED,
    SparseSteps,
    sparse_steps_of,
    steps_on_twice,
    walk_masked,
    walk_sparse,
    walk_twice,
)
from distforest.forest.category_sets import (
    OTHERS_LEFT,
    OTHERS_RIGHT,
    CategoryCodes,
    CategorySets,
    check_lists,
    send_categories,
)
from distforest.forest.frontier import Frontier
from distforest.forest.missing import send_by_halves, send_on
from distforest.forest.sum_walks import SumNodes, route_array, route_sparse
from distforest.forest.walks import (
    CHILD,
    COLUMN,
    COLUMN_BITS,
    IS_LEAF,
    THRESHOLD,
    WalkSteps,
    block_rows,
    preorder,
    rounded_down,
    tops_of,
    write_sets,
)
from distforest.jit import kernel
from distforest.sources.arrays import ArraySource
from distforest.sources.source import Float32s, Floats, Int32s, Ints, Projections, Source, offsets, runs
from distforest.sources.sparse_features import SparseFeatures

if TYPE_CHECKING:
    from distforest.forest.walks import Children, TreeTops

LEAF = -1
"""Child number of a node without children."""

GATHERED_ROWS = 1 << 14
"""Number of rows with missing values that walk together, so that copies for all trees take little memory."""


class PickledWithoutCaches:
    """Base of classes that are pickled without cached properties, which follow from the rest and may be larger."""

    def __getstate__(self) -> dict[str, object]:
        """Return the attributes without cached properties."""
        cached = {
            name for of in type(self).__mro__ for name, value in vars(of).items() if isinstance(value, cached_property)
        }
        return {name: value for name, value in vars(self).items() if name not in cached}


@dataclass(frozen=True)
class NodeTable(PickledWithoutCaches):
    """Trees as arrays; N nodes, B trees, C entries of all projections together.

    Attributes
    ----------
    tree_size
        Number of nodes of each tree, shape (B,), int64.
    left, right
        Numbers of the children within the tree, -1 for a leaf, shape (N,), int32.
    threshold
        A row goes left if its projection is at most this, shape (N,), float64. For a node that lists categories: 1 if
        all others go right, 0 if they go left.
    width
        Number of columns that the node's projection reads, 0 for a leaf, shape (N,), int32.
    columns, weights
        The projections, node after node, shape (C,), int32 and float64.
    gain
        Decrease of the criterion by the cut (SMERF, Eq. 1), 0 for a leaf, shape (N,), float64.
    n_rows
        In-bag weight that reached the node, shape (N,), int64.
    surrogate
        Side of a row with a missing value: thresholds of the two halves of the projection, NaN if a half does not
        decide, shape (N, 2), float64 (see `distforest.forest.missing`). None: no half decides.
    missing_right
        Whether a row with a missing value goes right, False for a leaf, shape (N,), bool. None: this is not learned.
        Without both arrays the row stays in the node.
    category_size, category_codes
        For a forest with columns of categories: the number of categories that a node lists, 0 if it cuts none, shape
        (N,), int32, and their codes, node after node, shape (M,), uint16 (see `distforest.forest.category_sets`).
    chain_head
        For a forest whose nodes are split by one exemplar per class: the number within its tree of the node that is
        split by the chain to which a node belongs, its own number for all other nodes, shape (N,), int32. A row with a
        missing value ends at the head of the chain, and all nodes of a chain have the values of the head. A child may
        have several parents, all of one chain. None: there are no chains.
    """

    tree_size: Ints
    left: Int32s
    right: Int32s
    threshold: Floats
    width: Int32s
    columns: Int32s
    weights: Floats
    gain: Floats
    n_rows: Ints
    surrogate: Floats | None = None
    missing_right: NDArray[np.bool_] | None = None
    category_size: Int32s | None = None
    category_codes: CategoryCodes | None = None
    chain_head: Int32s | None = None

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.tree_size)

    @cached_property
    def tree_start(self) -> Ints:
        """Number of each tree's root in the whole table, and the number of nodes, shape (B + 1,)."""
        return offsets(self.tree_size)

    @cached_property
    def offset(self) -> Ints:
        """Start of each node's projection in ``columns`` and ``weights``, shape (N + 1,)."""
        return offsets(self.width)

    @cached_property
    def is_leaf(self) -> NDArray[np.bool_]:
        """Whether each node is a leaf, shape (N,)."""
        return np.equal(self.left, LEAF)

    @cached_property
    def steps(self) -> WalkSteps | None:
        """The trees for rows without missing values; None unless every projection is a single column."""
        if (self.width > 1).any() or (self.weights != 1.0).any() or 4 * len(self.left) >= IS_LEAF:
            return None
        has_sets = self.category_size is not None and bool(self.category_size.any())
        if has_sets and self.columns.max(initial=0) > COLUMN_BITS:
            return None
        child = preorder(self.tree_start, self.left, self.right)
        met = child < IS_LEAF
        nodes, place = np.empty(4 * int(met.sum()), np.uint32), child[met]
        nodes[place + THRESHOLD] = rounded_down(self.threshold[met]).view(np.uint32)
        nodes[place + COLUMN] = self.columns[self.offset[:-1][met]]
        root = np.repeat(self.tree_start[:-1], self.tree_size)[met]
        nodes[place + CHILD] = child[root + self.left[met]]
        nodes[place + CHILD + 1] = child[root + self.right[met]]
        starts = child[self.tree_start[:-1]]
        if not has_sets:
            return WalkSteps(nodes, starts, self._tops(child, met))
        cuts_sets = met & (np.diff(self.category_sets.start) > 0)
        sets = write_sets(nodes, child[cuts_sets], np.flatnonzero(cuts_sets), self.category_sets)
        return WalkSteps(nodes, starts, self._tops(child, met & ~cuts_sets), sets)

    @cached_property
    def steps_of_twice(self) -> WalkSteps | None:
        """The trees for rows whose values are there twice; None as for `steps`, or if rows stay in nodes."""
        if self.steps is None or self.missing_right is None:
            return None
        return steps_on_twice(self.steps, preorder(self.tree_start, self.left, self.right), self.missing_right)

    def _tops(self, child: Children, may_be: NDArray[np.bool_]) -> TreeTops:
        """Return the tops of the trees, from nodes that ``may_be`` in one; ``child`` has positions from `preorder`."""
        tree = np.repeat(np.arange(self.n_trees), self.tree_size)[may_be]
        share = self.n_rows[may_be] / np.maximum(1, self.n_rows[self.tree_start[tree]])
        columns = self.columns[self.offset[:-1][may_be]].astype(np.uint32)
        return tops_of(self.n_trees, tree, share, child[may_be], columns)

    @cached_property
    def sparse_steps(self) -> SparseSteps | None:
        """The trees for rows of sparse features; None as for `steps`, or if a node cuts categories."""
        return None if self.steps is None or self.steps.sets is not None else sparse_steps_of(self.steps)

    @property
    def sum_nodes(self) -> SumNodes:
        """The trees for any projections and rows."""
        surrogate = np.empty((0, 2)) if self.surrogate is None else self.surrogate
        projections = (self.offset, self.columns.view(np.uint32), self.weights)
        return SumNodes(self.left, self.right, self.threshold, *projections, self.goes_right, surrogate)

    @property
    def goes_right(self) -> NDArray[np.bool_]:
        """Whether each node sends a row with a missing value right, shape (N,); empty if the row stays in the node."""
        if self.missing_right is not None:
            return self.missing_right
        return np.empty(0, np.bool_) if self.surrogate is None else self.right_is_larger

    def sending_on(self) -> NodeTable:
        """Return the table that sends on a row with a missing value: the table itself if it has learned the side.

        If not, the row goes to the side of more in-bag weight, or right if both are equal.
        """
        if self.missing_right is not None:
            return self
        root = np.repeat(self.tree_start[:-1], self.tree_size)
        right_is_not_less = self.n_rows[root + self.right] >= self.n_rows[root + self.left]
        return replace(self, missing_right=right_is_not_less & ~self.is_leaf)

    @cached_property
    def right_is_larger(self) -> NDArray[np.bool_]:
        """Whether more in-bag weight went right than left at each node, shape (N,)."""
        root = np.repeat(self.tree_start[:-1], self.tree_size)
        larger: NDArray[np.bool_] = self.n_rows[root + self.right] > self.n_rows[root + self.left]
        return larger & ~self.is_leaf

    @cached_property
    def category_sets(self) -> CategorySets:
        """The categories of each node."""
        if self.category_size is None or self.category_codes is None:
            return CategorySets(np.empty(0, np.int64), np.empty(0, np.uint16), np.empty(0, np.bool_))
        return CategorySets(offsets(self.category_size), self.category_codes, self.threshold == OTHERS_RIGHT)

    @property
    def sets_if_any(self) -> CategorySets | None:
        """The categories of each node; None if no node cuts categories."""
        return None if self.category_size is None else self.category_sets

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the table's arrays by name."""
        arrays = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: array for name, array in arrays.items() if array is not None}

    def tree(self, number: int) -> NodeTable:
        """Return the table of one tree alone."""
        first, last = self.tree_start[number], self.tree_start[number + 1]
        entries = slice(self.offset[first], self.offset[last])
        spans = {"tree_size": slice(number, number + 1), "columns": entries, "weights": entries}
        if self.category_size is not None:
            codes = offsets(self.category_size)
            spans["category_codes"] = slice(codes[first], codes[last])
        return NodeTable(**{name: array[spans.get(name, slice(first, last))] for name, array in self.arrays().items()})

    @classmethod
    def joined(cls, tables: list[NodeTable]) -> NodeTable:
        """Join tables into one with the trees of all of them, in order."""
        return cls(**{name: np.concatenate([getattr(t, name) for t in tables]) for name in tables[0].arrays()})

    def projections(self, nodes: Ints) -> Projections:
        """Return the projections of ``nodes`` (numbers in the whole table), with one candidate per node."""
        offset, entry = runs(self.offset, nodes)
        return Projections(1, offset, self.columns[entry], self.weights[entry])

    def check(self, n_columns: int, n_categories: tuple[int, ...] = ()) -> None:
        """Refuse a table that is not safe for a kernel to walk.

        Parameters
        ----------
        n_columns
            Number of columns that a projection may read.
        n_categories
            Number of categories of each column, 0 for a numerical column; empty if all are numerical.

        Raises
        ------
        ArtifactError
            The message names the array and its first wrong place.
        """
        for name, array in self.arrays().items():
            if array.ndim != 1 and name != "surrogate":
                raise ArtifactError(f"{name}: one dimension was expected, found shape {array.shape}")
        if not self.n_trees:
            raise ArtifactError("tree_size: a forest has at least one tree, found none")
        fits = (self.tree_size > 0) & (self.tree_size <= len(self.left))
        _check_all(fits, "tree_size", "a tree has at least its root, and no more nodes than there are")
        size = sum(self.tree_size.tolist())  # a Python integer: a sum in int64 may wrap around
        self._check_lengths(size)
        number = np.arange(size) - np.repeat(self.tree_start[:-1], self.tree_size)
        limit = np.repeat(self.tree_size, self.tree_size)
        inner = ~self.is_leaf
        for name in ("left", "right"):
            child = getattr(self, name)
            _check_all((child == LEAF) == self.is_leaf, name, "a node has two children or none")
            _check_all(
                ~inner | ((child > number) & (child < limit)), name, "a child comes after its parent, in its tree"
            )
        _check_all(inner == (self.width > 0), "width", "an inner node reads columns, a leaf none")
        _check_all((self.columns >= 0) & (self.columns < n_columns), "columns", f"a column is in 0..{n_columns - 1}")
        for name in ("threshold", "weights", "gain"):
            _check_all(np.isfinite(getattr(self, name)), name, "values are finite")
        _check_all(self.n_rows >= 0, "n_rows", "weights are not negative")
        if self.surrogate is not None and self.surrogate.shape != (size, 2):
            raise ArtifactError(f"surrogate: shape ({size}, 2) was expected, found {self.surrogate.shape}")
        if self.missing_right is not None:
            if self.surrogate is not None:
                raise ArtifactError("missing_right: a table with surrogates has none")
            _check_all(~self.missing_right | ~self.is_leaf, "missing_right", "a leaf sends no row on")
        if self.chain_head is not None:
            self._check_chains(self.chain_head, number)
        self._check_categories(size, np.array(n_categories or (0,) * n_columns, np.int64))

    def _check_lengths(self, size: int) -> None:
        """Refuse arrays without an entry for each of ``size`` nodes, or for each entry that nodes state."""
        others = {"tree_size": None, "columns": self.width, "weights": self.width, "category_codes": self.category_size}
        for name, array in self.arrays().items():
            if name not in others and len(array) != size:
                raise ArtifactError(f"{name}: tree_size announces {counted(size, 'node')}, found {len(array)}")
        for name, sizes in others.items():
            if sizes is None or name not in self.arrays():
                continue
            by, announced = "category_size" if name == "category_codes" else "width", int(sizes.sum(dtype=np.int64))
            _check_all(sizes >= 0, by, "numbers of entries are not negative")
            if len(getattr(self, name)) != announced:
                found = f"found {len(getattr(self, name))}"
                raise ArtifactError(f"{name}: {by} announces {counted(announced, 'entry', 'entries')}, {found}")

    def _check_chains(self, head: Int32s, number: Ints) -> None:
        """Refuse invalid heads; ``number`` is that of each node within its tree."""
        _check_all((head >= 0) & (head <= number), "chain_head", "a head comes before the nodes of its chain")
        own = np.arange(len(number)) - number + head
        _check_all(head[own] == head, "chain_head", "a head belongs to no other chain")
        _check_all((head == number) | ~self.is_leaf, "chain_head", "a leaf belongs to no chain")
        _check_all(self.n_rows[own] == self.n_rows, "n_rows", "the nodes of a chain have the values of its head")
        inner = np.flatnonzero(~self.is_leaf)
        root, above = inner - number[inner], np.full(len(number), -1)
        for child in (self.left, self.right):
            above[root + child[inner]] = own[inner]
        for name in ("left", "right"):
            is_only = np.ones(len(number), np.bool_)
            is_only[inner] = above[root + getattr(self, name)[inner]] == own[inner]
            _check_all(is_only, name, "the parents of a child are of one chain")
        _check_all((head == number) | (above == own), "chain_head", "a chain goes on below its head")

    def _check_categories(self, size: int, n_categories: Ints) -> None:
        """Refuse lists of categories that do not belong to the nodes; ``size`` is the number of nodes."""
        reads_categories = n_categories[self.columns] > 0
        node = np.repeat(np.arange(size), self.width)
        alone = (self.width[node] == 1) & (self.weights == 1.0)
        _check_all(alone | ~reads_categories, "columns", "a column of categories is read alone, with the weight 1")
        own, codes = self.category_size, self.category_codes
        if own is None or codes is None:
            if own is not None or codes is not None or reads_categories.any():
                raise ArtifactError(f"{'category_size' if own is None else 'category_codes'}: missing")
            return
        of_node = np.zeros(size, np.int64)
        of_node[node[reads_categories]] = n_categories[self.columns[reads_categories]]
        check_lists(own, codes, of_node)
        is_side = (self.threshold == OTHERS_RIGHT) | (self.threshold == OTHERS_LEFT)
        _check_all((own == 0) | is_side, "threshold", "of a node that lists categories it is 0 or 1")


def _check_all(holds: NDArray[np.bool_], name: str, rule: str) -> None:
    """Refuse an array if ``rule`` does not hold at all of its places."""
    if not holds.all():
        raise ArtifactError(f"{name}[{int(np.argmin(holds))}]: {rule}")


def route(table: NodeTable, source: Source, rows: Int32s, wanted: NDArray[np.bool_] | None = None) -> Int32s:
    """Find the node in which each row ends, in each tree.

    Parameters
    ----------
    table
        The forest.
    source
        The matrix whose rows are routed.
    rows
        Row numbers of ``source``, shape (m,).
    wanted
        Which rows to route in which tree, shape (n_trees, m); by default all of them.

    Returns
    -------
    ndarray
        Node numbers within their tree, shape (n_trees, m), int32; an inner node if a value is unobserved and the row
        stays, -1 for a row that is not ``wanted``.
    """
    ends = np.full((table.n_trees, len(rows)), LEAF, np.int32)
    if isinstance(source, ArraySource) and source.is_complete and table.steps is not None:
        step, asked = block_rows(source.shape[1]), ALL_WANTED if wanted is None else wanted
        walk_masked(table.steps, table.tree_start, step, source.values, rows, asked, ends)
    else:
        _route_otherwise(table, source, rows, np.ones(ends.shape, np.bool_) if wanted is None else wanted, ends)
    if table.chain_head is not None:
        end_at_heads(table.tree_start, table.chain_head, ends)
    return ends


def _route_otherwise(table: NodeTable, source: Source, rows: Int32s, wanted: NDArray[np.bool_], ends: Int32s) -> None:
    """`route` for rows with missing values, other sources than arrays, and trees that read sums of columns."""
    if isinstance(source, ArraySource):
        if table.steps is not None and source.values.dtype == np.float32:
            wanted = _walk_side_by_side(table, table.steps, source.values, rows, wanted, ends)
        route_array(table.sum_nodes, table.sets_if_any, table.tree_start, source.values, rows, wanted, ends)
    elif isinstance(source, SparseFeatures) and table.sparse_steps is not None:
        walk_sparse(table.sparse_steps, table.tree_start, source.by_row, rows, wanted, ends)
    elif isinstance(source, SparseFeatures):
        route_sparse(table.sum_nodes, table.tree_start, source.shape[1], source.by_row, rows, wanted, ends)
    else:
        route_levels(table, source, rows, wanted, ends)


def _walk_side_by_side(
    table: NodeTable, steps: WalkSteps, values: Float32s, rows: Int32s, wanted: NDArray[np.bool_], ends: Int32s
) -> NDArray[np.bool_]:
    """`route` for complete rows as usual, and for rows with missing values by values that are there twice.

    Return which rows are still wanted: those with missing values, if they stay in nodes.
    """
    lacks, step = np.empty(len(rows), np.bool_), block_rows(values.shape[1])
    rows_lacking_values(values, rows, lacks)
    walk_masked(steps, table.tree_start, step, values, rows, wanted & ~lacks, ends)
    left = wanted & lacks
    twice = table.steps_of_twice if left.any() else None
    if twice is None:
        return left
    step = block_rows(2 * values.shape[1])
    numbers = np.flatnonzero(lacks)
    for own in np.split(numbers, range(GATHERED_ROWS, len(numbers), GATHERED_ROWS)):
        asked, found = wanted[:, own], ends[:, own]
        walk_twice(twice, table.tree_start, step, values, rows[own], asked, found)
        ends[:, own] = found
    left.fill(False)
    return left


@kernel
def end_at_heads(tree_start: Ints, chain_head: Int32s, ends: Int32s) -> None:
    """Move a row that ends in a chain to its head; -1 stays."""
    for tree in range(ends.shape[0]):
        for r in range(ends.shape[1]):
            if ends[tree, r] >= 0:
                ends[tree, r] = chain_head[tree_start[tree] + ends[tree, r]]


def route_levels(table: NodeTable, source: Source, rows: Int32s, wanted: NDArray[np.bool_], ends: Int32s) -> None:
    """Route level by level over all trees at once, so that the source is read once per level; fill ``ends``."""
    frontier, goes_right, sets = Frontier.roots(wanted.astype(np.int32)), table.goes_right, table.category_sets
    while len(frontier.rows):
        here = frontier.place
        ends[frontier.tree[here], frontier.rows] = frontier.node[here]
        frontier, _ = frontier.take(~table.is_leaf[table.tree_start[frontier.tree] + frontier.node])
        nodes = table.tree_start[frontier.tree] + frontier.node
        projections, of_source = table.projections(nodes), replace(frontier, rows=rows[frontier.rows])
        values = source.project(of_source.rows, of_source.starts, projections)[0]
        side = frontier.sides(values, table.threshold[nodes])
        if table.surrogate is not None:
            send_by_halves(source, of_source, projections, table.surrogate[nodes], side)
        if len(goes_right):
            send_on(frontier.starts, goes_right[nodes], side)
        if len(sets.start):
            send_categories(frontier.starts, nodes, values, sets, side)
        children = frontier.descend(side, table.left[nodes], table.right[nodes])
        frontier, _ = children.take(children.sizes > 0)


@kernel
def rows_lacking_values(values: Float32s, rows: Int32s, lacks: NDArray[np.bool_]) -> None:
    """lacks[r] = whether a value of row rows[r] is NaN."""
    for r in range(rows.shape[0]):
        lacks[r] = False
        for value in values[rows[r]]:
            if np.isnan(value):
                lacks[r] = True
                break


def n_roots_of(tree_size: Ints) -> int:
    """Return the number of trees that are a root alone; ``tree_size`` has shape (n_trees,)."""
    return int((tree_size == 1).sum())
