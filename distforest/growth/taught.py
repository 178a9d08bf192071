"""Kinds of ground truth: the criteria of cuts, the arrays of leaves, and what a forest keeps."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from distforest.errors import InputError
from distforest.forest.graph_leaves import GRAPH_ARRAYS, GraphMembers, KeptLinks
from distforest.forest.leaf_kinds import (
    UNOBSERVED,
    KeepsCounts,
    KeepsGraph,
    KeepsLeafDistances,
    KeepsMeans,
    KeepsMembers,
    KeepsTargets,
)
from distforest.forest.leaves import COSTS
from distforest.forest.members import Members, leaf_triangles, leaves_per_tree, triangle_size
from distforest.forest.node_sums import Moments, class_counts_of, describe
from distforest.forest.observed_leaves import ObservedMembers
from distforest.forest.target_leaves import TAUGHT_TARGETS
from distforest.growth.cuts.absolute_distance import AbsoluteDistance
from distforest.growth.cuts.class_costs import ClassCosts
from distforest.growth.cuts.criteria import Gini, Variance
from distforest.growth.cuts.entropy import Entropy
from distforest.growth.cuts.far_values import FarVariance, middle_of, variance_of
from distforest.growth.cuts.graph_distance import GraphDistance
from distforest.growth.cuts.mean_distance import MeanDistance
from distforest.growth.cuts.observed_distance import ObservedDistance
from distforest.growth.cuts.poisson import Poisson
from distforest.sources.arrays import ArraySource
from distforest.sources.truth import Truth, TruthKind

if TYPE_CHECKING:
    from distforest.forest.leaf_kinds import LeafKind
    from distforest.forest.leaves import InBag, LeafTable
    from distforest.forest.node_table import NodeTable
    from distforest.sources.graph_distances import GraphDistances
    from distforest.sources.source import Float32s, Floats, Int32s, Ints


@dataclass(frozen=True)
class Untaught:
    """No ground truth."""

    leaf: LeafKind  # the kind of leaf table

    def arrays(
        self,
        table: NodeTable,  # noqa: ARG002  (leaves have no arrays)
        leaves: Int32s,  # noqa: ARG002
        in_bag: InBag | Int32s,  # noqa: ARG002
    ) -> dict[str, np.ndarray]:
        """Return the arrays of leaves by name; ``in_bag`` has the weight of each row in each tree."""
        return {}

    def prepare(self) -> None:
        """Compute values whose memory depends on the number of rows, before there are nodes."""

    def kept(self, has_triangles: bool) -> tuple[LeafKind, dict[str, str]]:  # noqa: ARG002  (there are none)
        """Return the kind of leaf table of a whole forest, and the arrays that repeat an input, by `Data.repeated`.

        ``has_triangles`` is whether each part of the forest has the distances of its leaves.
        """
        return self.leaf, {}


@dataclass(frozen=True)
class TaughtLabels(Untaught):
    """Codes of labels, shape (n,), and the distances of the classes unless all are equally far apart."""

    codes: Int32s
    n_classes: int
    costs: Float32s | None

    def arrays(self, table: NodeTable, leaves: Int32s, in_bag: InBag | Int32s) -> dict[str, np.ndarray]:
        """Return the weight of each class in each node."""
        return {"class_counts": class_counts_of(table, leaves, in_bag, self.codes, self.n_classes)}

    def kept(self, has_triangles: bool) -> tuple[LeafKind, dict[str, str]]:  # noqa: ARG002  (there are none)
        """Return the costs, if there are any."""
        return self.leaf, {} if self.costs is None else {COSTS: "costs"}


@dataclass(frozen=True)
class TaughtVectors(Untaught):
    """Targets, places in an embedding or directions, shape (n, q)."""

    vectors: Floats

    @cached_property
    def middle(self) -> Floats:
        """The point relative to which means are computed, to reduce rounding; it sorts all values."""
        return middle_of(self.vectors)

    def prepare(self) -> None:
        """Sort the values."""
        _ = self.middle

    def arrays(self, table: NodeTable, leaves: Int32s, in_bag: InBag | Int32s) -> dict[str, np.ndarray]:
        """Return the mean of each node, and the mean squared deviation from it."""
        moments = Moments.zeros(len(table.left), self.vectors.shape[1])
        describe(table.tree_start, table.left, table.right, leaves, in_bag, self.vectors - self.middle, moments)
        return {"means": moments.means + self.middle, "spreads": moments.squares / table.n_rows}


@dataclass(frozen=True)
class TaughtDifferences(Untaught):
    """Targets whose absolute differences are the distances: a forest keeps them, and leaves have no arrays."""

    def kept(self, has_triangles: bool) -> tuple[LeafKind, dict[str, str]]:  # noqa: ARG002  (there are none)
        """Return the targets."""
        return self.leaf, {TAUGHT_TARGETS: "truth"}


@dataclass(frozen=True)
class TaughtDistances(Untaught):
    """A matrix of distances, all of them observed."""

    distances: Float32s  # the matrix, shape (n, n)
    offset: float  # a constant that was subtracted from all distances
    n_trees: int  # number of trees of the forest, which share the bytes for their leaves' distances
    block_rows: int | None  # rows of the matrix that are in memory at once; None: all

    @property
    def n_bytes(self) -> int:
        """Bytes of the float32 distances that a forest could keep instead of those of its leaves."""
        return 4 * len(self.distances) ** 2

    @property
    def triangle_limit(self) -> int:
        """Largest number of pairs of leaves whose distances a tree may keep, as float64; all trees share `n_bytes`."""
        return self.n_bytes // (8 * self.n_trees)

    def arrays(self, table: NodeTable, leaves: Int32s, in_bag: InBag | Int32s) -> dict[str, np.ndarray]:
        """Return the distances of all pairs of leaves of each tree, unless one tree has too many of them."""
        members = Members(table, leaves, in_bag, self.distances, self.offset)
        if self.block_rows is None:
            return {"leaf_distances": self.triangles(table, members)}
        keeps = self.keeps(table)
        return {"leaf_distances": leaf_triangles(members, self.block_rows) if keeps else np.empty(0)}

    def keeps(self, table: NodeTable) -> bool:
        """Return whether no tree has so many leaves that their distances are not kept."""
        return not (triangle_size(leaves_per_tree(table)) > self.triangle_limit).any()

    def triangles(self, table: NodeTable, members: LeafTable) -> np.ndarray:
        """Return the packed distances of all pairs of leaves of the trees, or an empty array if they are not kept."""
        if not self.keeps(table):
            return np.empty(0)
        triangles = []
        for tree in range(table.n_trees):
            nodes = np.flatnonzero(table.is_leaf[table.tree_start[tree] : table.tree_start[tree + 1]])
            triangles.append(members.between(tree, nodes, nodes)[np.tril_indices(len(nodes))])
        return np.concatenate(triangles)

    def kept(self, has_triangles: bool) -> tuple[LeafKind, dict[str, str]]:
        """Return the distances of leaves if every part has them, else the matrix."""
        return (KeepsLeafDistances(), {}) if has_triangles else (self.leaf, {"distances": "truth"})


@dataclass(frozen=True)
class TaughtObserved(TaughtDistances):
    """A matrix of distances, NaN where one is unobserved."""

    def arrays(self, table: NodeTable, leaves: Int32s, in_bag: InBag | Int32s) -> dict[str, np.ndarray]:
        """Return the distances of leaves, and the number of pairs of leaves without an observed one, for each tree."""
        observed = ObservedMembers(table, leaves, in_bag, self.distances, self.offset)
        counts = [observed.count(tree) for tree in range(table.n_trees)]
        return {"leaf_distances": self.triangles(table, observed), UNOBSERVED: np.array(counts, np.int64)}


@dataclass(frozen=True)
class TaughtGraph(TaughtDistances):
    """Distances in a graph that is so large that a forest keeps its links instead of a matrix."""

    graph: GraphDistances

    @property
    def n_bytes(self) -> int:
        """Bytes of the links."""
        return self.graph.nbytes

    def arrays(self, table: NodeTable, leaves: Int32s, in_bag: InBag | Int32s) -> dict[str, np.ndarray]:
        """Return the distances of leaves, from the links."""
        stored = self.graph.stored
        links = KeptLinks(stored.indptr, stored.indices, np.asarray(stored.data, np.float32))
        members = GraphMembers(table, leaves, in_bag, links, self.graph.absent, self.offset)
        return {"leaf_distances": self.triangles(table, members)}

    def kept(self, has_triangles: bool) -> tuple[LeafKind, dict[str, str]]:
        """Return the distances of leaves if every part has them, else the links."""
        if has_triangles:
            return KeepsLeafDistances(), {}
        return KeepsGraph(self.graph.absent, self.offset or None), {name: name for name in GRAPH_ARRAYS}


Judging = Gini | ClassCosts | AbsoluteDistance | MeanDistance | GraphDistance | Variance | FarVariance
"""Criteria of ground truths, each of which may place missing rows on either side of a cut."""


def taught_by(
    truth: Truth,
    n_trees: int,
    block_rows: int | None,
    nearest: bool,
    weights: Int32s | None,
    heaviest: int,
    class_weights: Ints | None,
    criterion: str | None = None,
) -> tuple[Judging, Untaught]:
    """Return the criterion for a ground truth, and the contents of leaves for it.

    Parameters
    ----------
    truth
        The ground truth of all rows.
    n_trees, block_rows
        As in `TaughtDistances`.
    nearest
        Whether the most similar training object of a leaf votes.
    weights, heaviest
        The weight of each row, if there are weights, and the largest weight of a tree.
    class_weights
        The weight of each class; None: equal weights.
    criterion
        The parameter of this name: a criterion other than that of the kind of ground truth.

    Raises
    ------
    InputError
        The criterion does not fit the ground truth.
    """
    goes_with = {"entropy": TruthKind.LABELS, "poisson": TruthKind.TARGETS}
    if criterion is not None and (truth.kind != goes_with[criterion] or truth.costs is not None):
        found = "labels with costs" if truth.costs is not None else truth.kind
        raise InputError(f"criterion={criterion!r} needs {goes_with[criterion]}, found {found}; omit it")
    kind, values = truth.kind, truth.values
    if kind == TruthKind.LABELS:
        n_classes = len(truth.classes or ())
        if truth.costs is not None:
            return ClassCosts.from_codes(values, truth.costs), TaughtLabels(
                KeepsCounts(), values, n_classes, truth.costs
            )
        counts = KeepsCounts(None if class_weights is None else tuple(class_weights.tolist()), nearest)
        of_labels = Entropy if criterion == "entropy" else Gini
        of_classes = of_labels(values, n_classes, class_weights=class_weights)
        return of_classes, TaughtLabels(counts, values, n_classes, None)
    if kind == TruthKind.DIFFERENCES:
        return AbsoluteDistance.from_targets(values, weights), TaughtDifferences(KeepsTargets())
    if kind != TruthKind.DISTANCES:
        leaf = KeepsMeans.from_kind(kind, nearest)
        if criterion == "poisson":
            return Poisson.from_counts(values, None if weights is None else heaviest), TaughtVectors(leaf, values)
        variance = variance_of(values, leaf.factor, kind, None if weights is None else heaviest)
        return variance, TaughtVectors(leaf, values)
    arguments = KeepsMembers(truth.offset or None), values, truth.offset, n_trees, block_rows
    if truth.graph is not None:
        taught = (
            TaughtDistances(*arguments) if truth.graph.is_kept_dense else TaughtGraph(*arguments, graph=truth.graph)
        )
        return GraphDistance.from_graph(truth.graph, truth.largest), taught
    distances = ArraySource.from_values(values).values
    if truth.n_unobserved:
        return ObservedDistance.from_distances(distances, truth.largest), TaughtObserved(*arguments)
    return MeanDistance.from_distances(distances, truth.largest), TaughtDistances(*arguments)
