"""A problem: data and parameters bound together, which grows trees and computes their leaf tables."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from distforest.forest.forest import Forest, Meaning, canonical
from distforest.forest.leaf_kinds import NEAREST, UNOBSERVED, VOICES, KeepsLeafDistances
from distforest.forest.leaves import Members, Moments, accumulate, describe, leaves_per_tree, triangle_size
from distforest.forest.observed_leaves import ObservedMembers
from distforest.forest.table import NodeTable, route
from distforest.growth.cuts.far_values import middle_of
from distforest.growth.grower import Growth
from distforest.growth.rng import bootstrap, subsample
from distforest.growth.sample_weights import MOST_OF_TREE, Draws
from distforest.sources.binned import BinnedSource
from distforest.sources.lazy.source import LazySource, lazy_sources
from distforest.sources.point_pairs import PairColumns
from distforest.sources.row_kinds import is_built_in
from distforest.sources.side_by_side import SideBySide
from distforest.sources.source import Source
from distforest.sources.truth import TruthKind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from distforest.forest.leaves import InBag
    from distforest.growth.grower import LevelWatch
    from distforest.growth.sample_weights import SampleWeights
    from distforest.sources.factors import ClassName
    from distforest.sources.row_kinds import RowKind
    from distforest.sources.source import Floats, Int32s, Ints
    from distforest.sources.sparse import SparseSource
    from distforest.sources.sparse_features import SparseFeatures


@dataclass(frozen=True)
class Data:
    """The data that a forest learns from, read and checked.

    Attributes
    ----------
    rows
        How the rows are read: see `distforest.sources.row_kinds`.
    matrix
        Features, shape (n, p), float32, or sparse; or similarities, shape (n, n) or of several measures side by side,
        float32 or float64, or as a source.
    truth_kind
        The kind of ground truth.
    truth
        Codes, shape (n,); targets or embeddings, shape (n, q); distances, shape (n, n); or nothing, shape (n, 0).
    classes
        The classes of the codes.
    largest
        The largest absolute distance.
    offset
        A constant that was subtracted from all distances: see `distforest.sources.readings.read_level`.
    feature_weights
        Weight of each feature in the draws, shape (p,); None: equal weights.
    dependence
        The dependence from which the weights follow if features were screened, shape (p,): see
        `distforest.growth.draws.dependence`.
    pairs
        For a forest over given pairs: numbers of the two points of each, shape (m, 2). ``truth_kind`` is then
        ``TruthKind.LINKS``, and ``truth`` the class of each pair, 0 for similar.
    sample_weights
        The weight of each row; None: equal weights.
    n_unobserved
        Number of pairs of rows whose distance nobody observed; it is NaN in ``truth``.
    """

    rows: RowKind
    matrix: np.ndarray | SparseSource | SparseFeatures | LazySource | SideBySide
    truth_kind: TruthKind
    truth: np.ndarray
    classes: Sequence[ClassName] | None = None
    largest: float = 1.0
    feature_weights: Floats | None = None
    dependence: Floats | None = None
    pairs: Int32s | None = None
    offset: float = 0.0
    sample_weights: SampleWeights | None = None
    n_unobserved: int = 0

    @property
    def n_rows(self) -> int:
        """Number of training rows."""
        return int(self.matrix.shape[0])

    @property
    def array(self) -> np.ndarray:
        """The matrix, which is an array unless it is sparse or evaluated by a function."""
        assert isinstance(self.matrix, np.ndarray)  # noqa: S101  (points always are; who reads features asks before)
        return self.matrix

    @property
    def present(self) -> np.ndarray:
        """The rows of `array` that have a positive weight."""
        if self.sample_weights is None or self.sample_weights.is_everywhere:
            return self.array
        rows: np.ndarray = self.array[self.sample_weights.present]
        return rows

    @property
    def sample_weight(self) -> Int32s | None:
        """The weight of each row as an integer, shape (n,); None: equal weights."""
        return None if self.sample_weights is None else self.sample_weights.integers

    def without_absent(self) -> Data:
        """The same data, with nothing of rows of weight 0 in what is computed of the ground truth of all rows."""
        if self.sample_weights is None or self.sample_weights.is_everywhere:
            return self
        present = self.sample_weights.present
        if self.truth_kind == TruthKind.DISTANCES:
            largest = max(float(np.fmax.reduce(np.abs(row[present]))) for row in self.truth[present])
            return replace(self, largest=largest)
        truth = np.repeat(self.truth[present[:1]], self.n_rows, axis=0)
        truth[present] = self.truth[present]
        return replace(self, truth=truth)

    @property
    def sha256(self) -> str:
        """SHA-256 of all that trees learn from; similarities that a function computes have none, which is an error."""
        matrix = self.matrix
        assert not isinstance(matrix, (LazySource, SideBySide))  # noqa: S101  (their forests grow in another way)
        digest = hashlib.sha256(
            canonical([self.rows.to_dict(), self.truth_kind, self.classes, self.largest, self.offset])
        )
        parts = [matrix] if isinstance(matrix, np.ndarray) else [matrix.indptr, matrix.indices, matrix.data]
        for array in (*parts, self.truth, self.feature_weights, self.pairs, self.sample_weight):
            digest.update(canonical(None if array is None else [array.dtype.str, array.shape]))
            digest.update(b"" if array is None else np.ascontiguousarray(array).data)
        return digest.hexdigest()

    def source(self) -> Source:
        """The matrix that splits read."""
        if isinstance(self.matrix, Source):
            return self.matrix
        assert not isinstance(self.rows, PairColumns)  # noqa: S101  (a method over pairs has another source)
        return self.rows.source(self.array, self.array)


@dataclass(frozen=True)
class Sampling:
    """Which rows a tree grows on: ``n_draws`` of ``n_rows``, with replacement or without.

    ``n_rows`` are those of positive weight, if there are ``sample_weights``.
    """

    n_rows: int
    n_draws: int
    replace: bool
    sample_weights: SampleWeights | None = None

    def weights(self, seed: int, trees: Ints) -> NDArray[np.int32]:
        """Multiplicity of each row in each tree, shape (n_trees, n_rows), with rows of weight 0."""
        weights = np.ones((len(trees), self.n_rows), np.int32)
        if self.replace or self.n_draws < self.n_rows:
            draw = bootstrap if self.replace else subsample
            for of_tree, tree in zip(weights, trees.tolist(), strict=True):
                draw(seed, tree, self.n_draws, of_tree)
        if self.sample_weights is None or self.sample_weights.is_everywhere:
            return weights
        of_all = np.zeros((len(trees), len(self.sample_weights.integers)), np.int32)
        of_all[:, self.sample_weights.present] = weights
        return of_all

    @property
    def heaviest(self) -> int:
        """The largest in-bag weight of a tree: the number of draws, unless rows have weights."""
        if self.sample_weights is None:
            return self.n_draws
        return int(min(Draws(self.n_draws, self.replace).most(self.sample_weights.integers), MOST_OF_TREE))


@dataclass(frozen=True)
class Contents:
    """The contents of a forest that is put together from parts.

    Attributes
    ----------
    meaning
        The meaning of the forest; it keeps distances of leaves if every part has them, else the training distances.
    grown
        Names of the arrays that are joined from those of the parts.
    repeated
        Names of the arrays that repeat an input, each with that attribute of `Data`.
    """

    meaning: Meaning
    grown: list[str]
    repeated: dict[str, str]


@dataclass(frozen=True)
class Problem:
    """Data and parameters bound together, which grow trees and compute their leaf tables."""

    meaning: Meaning
    data: Data
    growth: Growth
    sampling: Sampling
    n_trees: int

    @property
    def n_rows(self) -> int:
        """Number of rows, in bag or not."""
        return self.data.n_rows

    @property
    def width(self) -> int:
        """Number of candidates of a node whose values are held at once."""
        return self.growth.held or self.growth.draw.width

    def grow(self, trees: Ints) -> dict[str, np.ndarray]:
        """Grow the trees with these numbers; returns the arrays of a forest of them, by name."""
        drawn = self.sampling.weights(self.growth.seed, trees)
        in_bag, weighed = drawn.astype(np.uint8), None
        if self.data.sample_weights is not None:
            weighed = self.data.sample_weights.of_trees(drawn)
        table, leaves = self.growth.grow(trees, drawn if weighed is None else weighed)
        if isinstance(self.growth.source, BinnedSource):
            table = _on_features(table, self.growth.source)
        out = drawn == 0
        if out.any() and self.routes_out_of_bag:
            rows = np.arange(self.data.n_rows, dtype=np.int32)
            routed = route(table, self.data.source(), rows, out)
            leaves[out] = routed[out]
        arrays = {**table.arrays(), "leaves": leaves, "in_bag": in_bag}
        return {**arrays, **self._leaf_arrays(table, leaves, in_bag if weighed is None else weighed)}

    def watched(self, watch: LevelWatch) -> Problem:
        """The same problem, which calls ``watch`` for every level that grows."""
        return replace(self, growth=replace(self.growth, watch=watch))

    @property
    def routes_out_of_bag(self) -> bool:
        """Whether rows that a tree did not draw are routed: always, unless that evaluates further similarities.

        Even then they are routed if there are few to evaluate (landmarks), if rows vote that were not drawn, or if the
        scores of all rows determine the outliers.
        """
        params = self.meaning.params
        wanted = params.get("oob_score") or "n_landmarks" in params or params.get("voting") == NEAREST
        wanted = wanted or params.get("contamination", "auto") != "auto"
        return bool(wanted) or not lazy_sources(self.data.matrix)

    def _leaf_arrays(self, table: NodeTable, leaves: Int32s, in_bag: InBag | Int32s) -> dict[str, np.ndarray]:
        if self.data.truth_kind == TruthKind.LABELS:
            one_hot = np.eye(len(self.data.classes or ()))[self.data.truth]
            return {"class_counts": accumulate(table, leaves, in_bag, one_hot).astype(np.int32)}
        if self.data.truth_kind == TruthKind.DISTANCES:
            return self._distance_arrays(table, leaves, in_bag)
        if self.data.truth_kind == TruthKind.NOTHING:
            return {}
        return _means(table, leaves, in_bag, self.data.truth, self._middle)

    @cached_property
    def _middle(self) -> Floats:
        """The point relative to which means of the ground truth are computed."""
        return middle_of(self.data.truth)

    def _distance_arrays(self, table: NodeTable, leaves: Int32s, in_bag: InBag | Int32s) -> dict[str, np.ndarray]:
        """Distances of leaves and, if some distances are unobserved, how many pairs of leaves are, for each tree."""
        if not self.data.n_unobserved:
            members = Members(table, leaves, in_bag, self.data.truth, self.data.offset)
            return {"leaf_distances": self._triangles(members)}
        observed = ObservedMembers(table, leaves, in_bag, self.data.truth, self.data.offset)
        counts = [observed.count(tree) for tree in range(table.n_trees)]
        return {"leaf_distances": self._triangles(observed), UNOBSERVED: np.array(counts, np.int64)}

    def _triangles(self, members: Members) -> np.ndarray:
        """Packed distances of all pairs of leaves of the trees, or an empty array if one of them would be too large."""
        table = members.table
        sizes = triangle_size(leaves_per_tree(table))
        if (sizes > self.triangle_limit).any():
            return np.empty(0)
        triangles = []
        for tree in range(table.n_trees):
            nodes = np.flatnonzero(table.is_leaf[table.tree_start[tree] : table.tree_start[tree + 1]])
            triangles.append(members.between(tree, nodes, nodes)[np.tril_indices(len(nodes))])
        return np.concatenate(triangles)

    def contents(self, parts: Sequence[Mapping[str, int]]) -> Contents:
        """The contents of a forest of some parts; ``parts`` holds the lengths of each part's arrays by name."""
        meaning, grown, repeated = self.meaning, list(parts[0]), {}
        if self.data.truth_kind == TruthKind.DISTANCES:
            if all(part["leaf_distances"] for part in parts):
                meaning = replace(meaning, leaf=KeepsLeafDistances())
            else:
                grown.remove("leaf_distances")
                repeated["distances"] = "truth"
        if is_built_in(self.data.rows):
            repeated["objects"] = "matrix"
        given = ("feature_weights", "dependence", "sample_weight")
        repeated |= {name: name for name in given if getattr(self.data, name) is not None}
        if self.meaning.leaf.nearest:
            repeated[VOICES[self.meaning.leaf.kind]] = "truth"
        return Contents(meaning, grown, repeated)

    def forest(self, parts: Sequence[dict[str, np.ndarray]]) -> Forest:
        """Put a forest together from parts, each from `grow`, in the order of their trees; this empties the parts."""
        contents = self.contents([{name: len(array) for name, array in part.items()} for part in parts])
        arrays = put_together(parts, contents.grown)
        arrays |= {name: getattr(self.data, of) for name, of in contents.repeated.items()}
        return Forest.of(contents.meaning, arrays)

    @property
    def triangle_limit(self) -> int:
        """Most pairs of leaves whose distances a tree may keep, as float64.

        All of them together must not be larger than the float32 training distances, which could be kept instead.
        """
        return 4 * self.data.n_rows**2 // (8 * self.n_trees)


def put_together(parts: Sequence[dict[str, np.ndarray]], names: Sequence[str]) -> dict[str, np.ndarray]:
    """Join the arrays of these names, part after part; each is removed from its part, so that it is held only once."""

    def taken(name: str) -> np.ndarray:
        pieces = [part.pop(name) for part in parts]
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)

    return {name: taken(name) for name in names}


def _on_features(table: NodeTable, binned: BinnedSource) -> NodeTable:
    """The table with thresholds of features instead of thresholds of their codes."""
    threshold = table.threshold.copy()
    threshold[~table.is_leaf] = binned.thresholds(table.columns, threshold[~table.is_leaf])
    return replace(table, threshold=threshold)


def _means(
    table: NodeTable, leaves: Int32s, in_bag: InBag | Int32s, vectors: Floats, middle: Floats
) -> dict[str, np.ndarray]:
    """Mean of each node, and mean squared deviation from it; computed relative to ``middle``, which rounds less."""
    moments = Moments.zeros(len(table.left), vectors.shape[1])
    describe(table.tree_start, table.left, table.right, leaves, in_bag, vectors - middle, moments)
    return {"means": moments.means + middle, "spreads": moments.squares / table.n_rows}
