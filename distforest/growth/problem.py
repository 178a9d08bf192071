"""A problem: data and parameters together, which grow trees and compute their leaf tables."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from distforest.forest.forest import Forest, Meaning, canonical
from distforest.forest.graph_leaves import GRAPH_ARRAYS
from distforest.forest.leaf_kinds import NEAREST, VOICES
from distforest.forest.node_table import LEAF, NodeTable, route
from distforest.growth.grower import Growth
from distforest.growth.passes import Passes, grow_by_passes
from distforest.growth.rng import bootstrap, bootstrap_part, subsample
from distforest.growth.row_blocks import gains_by_node, grow_by_node, truth_of_rows
from distforest.growth.row_room import RowRoom, room_of
from distforest.growth.sample_weights import MOST_OF_TREE, Draws
from distforest.growth.taught import Untaught
from distforest.sources.arrays import ArraySource, release_pages, row_blocks
from distforest.sources.binned import BinnedSource
from distforest.sources.binned_table import BinnedTable, Bins
from distforest.sources.lazy.lazy_source import LazySource, lazy_sources
from distforest.sources.mapped_rows import spans
from distforest.sources.point_pairs import PairColumns
from distforest.sources.row_kinds import Features, is_built_in, is_given
from distforest.sources.side_by_side import SideBySide
from distforest.sources.source import Source
from distforest.sources.truth import Truth, TruthKind
from distforest.sources.weights import OF_PAIRS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from distforest.forest.forest import Params
    from distforest.growth.grower import LevelWatch
    from distforest.growth.sample_weights import SampleWeights
    from distforest.sources.row_kinds import RowKind
    from distforest.sources.source import Floats, Int32s, Ints
    from distforest.sources.sparse import SparseSource
    from distforest.sources.sparse_features import SparseFeatures


@dataclass(frozen=True)
class Data:
    """The data that a forest learns from, read and checked."""

    rows: RowKind  # how the rows are read: see `distforest.sources.row_kinds`
    # features, shape (n, p), float32, or sparse; or similarities, shape (n, n) or of several measures side by side,
    # float32 or float64, or as a source; or the bins of features whose rows are elsewhere, in parts
    matrix: np.ndarray | SparseSource | SparseFeatures | LazySource | SideBySide | Bins
    truth: Truth  # the ground truth; over given pairs, the class of each pair, 0 for similar
    feature_weights: Floats | None = None  # weight of each feature in the draws, shape (p,); None: equal weights
    # the dependence from which the weights follow if features were screened, shape (p,): see
    # `distforest.growth.draws.dependence`
    dependence: Floats | None = None
    # the numbers of the two points of each pair, shape (m, 2), for a forest over given pairs
    pairs: Int32s | None = None
    sample_weights: SampleWeights | None = None  # the weight of each row; None: equal weights
    pair_weights: SampleWeights | None = None  # the weight of each of ``pairs``; None: equal weights

    @property
    def n_rows(self) -> int:
        """Number of training rows."""
        return int(self.matrix.shape[0])

    @property
    def is_lazy(self) -> bool:
        """Whether similarities are evaluated while trees grow."""
        return not isinstance(self.rows, Features) and bool(lazy_sources(self.matrix))

    @property
    def is_of_distances(self) -> bool:
        """Whether the ground truth is a matrix of distances."""
        return self.truth.kind == TruthKind.DISTANCES and self.truth.graph is None

    @property
    def node_value_bytes(self) -> int:
        """Bytes of the values of a node: the weight of each class, int32, or mean and spread of vectors, float64."""
        if self.truth.kind == TruthKind.LABELS:
            return 4 * len(self.truth.classes or ())
        return 8 * (self.truth.values.shape[1] + 1) if self.truth.kind.is_of_vectors else 0

    @property
    def array(self) -> np.ndarray:
        """The matrix, which is an array unless it is sparse or evaluated by a function."""
        assert isinstance(self.matrix, np.ndarray)  # noqa: S101  (points always are; others check this)
        return self.matrix

    @property
    def present(self) -> np.ndarray:
        """The rows of `array` that have a positive weight."""
        if self.sample_weights is None or self.sample_weights.is_everywhere:
            return self.array
        rows: np.ndarray = self.array[self.sample_weights.present]
        return rows

    def repeated(self, name: str) -> Any:
        """Return an array that a forest repeats, by the name of an attribute, or of an array of the truth."""
        if name == "truth":
            return self.truth.values
        if name == "costs":
            return self.truth.costs
        if name in GRAPH_ARRAYS and self.truth.graph is not None:
            stored = self.truth.graph.stored
            return dict(zip(GRAPH_ARRAYS, (stored.indptr, stored.indices, stored.data), strict=True))[name]
        return getattr(self, name)

    @property
    def sample_weight(self) -> Int32s | None:
        """The weight of each row as an integer, shape (n,); None: equal weights."""
        return None if self.sample_weights is None else self.sample_weights.integers

    @property
    def pair_weight_entry(self) -> dict[str, dict[str, int]]:
        """Provenance entry on the weights of pairs, which a forest does not keep; empty without such weights."""
        if self.pair_weights is None:
            return {}
        n_pairs = len(self.pair_weights.integers)
        return {OF_PAIRS.key: {"pairs": n_pairs, "absent": n_pairs - len(self.pair_weights.present)}}

    def without_absent(self) -> Data:
        """Return the data without rows of weight 0 in what is computed from the ground truth of all rows."""
        if self.sample_weights is None or self.sample_weights.is_everywhere:
            return self
        present, truth = self.sample_weights.present, self.truth
        if truth.graph is not None:
            return replace(self, truth=replace(truth, largest=truth.graph.largest_among(present)))
        if truth.kind == TruthKind.DISTANCES:
            largest = 0.0
            for first, last in spans(truth.values, present, 64):
                rows = present[np.searchsorted(present, first) : np.searchsorted(present, last)]
                largest = max(largest, *(float(np.fmax.reduce(np.abs(truth.values[row][present]))) for row in rows))
            return replace(self, truth=replace(truth, largest=largest))
        if truth.kind == TruthKind.DIFFERENCES:  # the forest keeps these as given
            return self
        values = np.repeat(truth.values[present[:1]], self.n_rows, axis=0)
        values[present] = truth.values[present]
        return replace(self, truth=replace(truth, values=values))

    def digest(self) -> str:
        """SHA-256 of all data that trees learn from; similarities of a function have none, which is an error."""
        matrix, truth = self.matrix, self.truth
        assert not isinstance(matrix, (LazySource, SideBySide, Bins))  # noqa: S101  (their forests grow in another way)
        digest = hashlib.sha256(
            canonical([self.rows.to_dict(), truth.kind, truth.classes, truth.largest, truth.offset])
        )
        if isinstance(self.rows, PairColumns) and self.rows.comparisons:
            named = None if self.rows.schema is None else self.rows.schema.encodings
            digest.update(canonical([named, [one.decides for one in self.rows.comparisons]]))
        parts = [matrix] if isinstance(matrix, np.ndarray) else [matrix.indptr, matrix.indices, matrix.data]
        if truth.graph is not None and not truth.graph.is_kept_dense:
            digest.update(canonical(truth.graph.absent))
            parts += [truth.graph.stored.indptr, truth.graph.stored.indices, truth.graph.stored.data]
        others = () if truth.costs is None else (truth.costs,)
        if self.pair_weights is not None:
            others = (*others, self.pair_weights.integers, np.array([self.pair_weights.unit]))
        for array in (*parts, truth.values, self.feature_weights, self.pairs, self.sample_weight, *others):
            digest.update(canonical(None if array is None else [array.dtype.str, array.shape]))
            for _, block in () if array is None else row_blocks(array):
                digest.update(np.ascontiguousarray(block).data)
        return digest.hexdigest()

    def source(self) -> Source:
        """Return the matrix that splits read."""
        if isinstance(self.matrix, Source):
            return self.matrix
        assert not isinstance(self.rows, PairColumns)  # noqa: S101  (a method over pairs has another source)
        return self.rows.source(self.array, self.array)


@dataclass(frozen=True)
class Sampling:
    """The rows on which a tree grows: ``n_draws`` of ``n_rows``, with replacement or without.

    ``n_rows`` counts those of positive weight, if there are ``sample_weights``.
    """

    n_rows: int
    n_draws: int
    replace: bool
    sample_weights: SampleWeights | None = None

    def weights(self, seed: int, trees: Ints) -> NDArray[np.int32]:
        """Return the multiplicity of each row in each tree, shape (n_trees, n_rows), with rows of weight 0."""
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

    def of_part(self, seed: int, tree: int, first: int, n_rows: int) -> Int32s:
        """Return the multiplicity of the rows ``first`` to ``first + n_rows - 1`` among those of positive weight."""
        if self.replace:
            drawn = np.empty(n_rows, np.int32)
            bootstrap_part(seed, tree, self.n_draws, self.n_rows, first, drawn)
            return drawn
        if self.n_draws == self.n_rows:
            return np.ones(n_rows, np.int32)
        of_all = np.empty(self.n_rows, np.int32)
        subsample(seed, tree, self.n_draws, of_all)
        return of_all[first : first + n_rows].copy()

    def most_leaves(self, params: Params) -> int:
        """Return the largest number of leaves of a tree: one per expected row, or as many as the parameters allow.

        A cut at a random threshold between inner quantiles rarely leaves less than a tenth of a node on either side.

        Examples
        --------
        >>> Sampling(1000, 1000, replace=True).most_leaves({"min_samples_leaf": 1, "max_depth": None})
        633
        >>> Sampling(1000, 1000, replace=True).most_leaves({"min_samples_leaf": 20, "max_depth": None})
        50
        """
        least = int(params.get("min_samples_leaf") or 1)
        if "n_witnesses" in params and params["splitter"] == "random":
            least = max(least, int(params["min_samples_split"]) // 10)
        most = min(self.n_distinct, max(1, self.n_draws // least))
        depth = params.get("max_depth")
        return most if depth is None else min(most, 1 << min(int(depth), 62))

    @property
    def n_distinct(self) -> int:
        """Expected number of distinct rows that a tree draws, rounded up."""
        drawn = self.n_rows * -math.expm1(-self.n_draws / self.n_rows) if self.replace else self.n_draws
        return math.ceil(drawn)

    @property
    def usual_weight(self) -> int:
        """Mean total weight of a tree, in rows, rounded up."""
        if self.sample_weights is None:
            return self.n_draws
        total = int(self.sample_weights.integers.sum(dtype=np.int64))
        return -(-self.n_draws * total // (self.n_rows * self.sample_weights.unit))

    @property
    def heaviest(self) -> int:
        """The largest in-bag weight of a tree: the number of draws, unless rows have weights."""
        if self.sample_weights is None:
            return self.n_draws
        return int(min(Draws(self.n_draws, self.replace).most(self.sample_weights.integers), MOST_OF_TREE))


@dataclass(frozen=True)
class Contents:
    """The contents of a forest that is assembled from parts."""

    # the meaning of the forest; it keeps distances of leaves if every part has them, else the training distances
    meaning: Meaning
    grown: list[str]  # names of the arrays that are joined from those of the parts
    repeated: dict[str, str]  # names of the arrays that repeat an input, each with its name in `Data.repeated`


@dataclass(frozen=True)
class Problem:
    """Data and parameters bound together, which grow trees and compute their leaf tables.

    With ``passes``, trees grow by passes over blocks of rows, of features or of distances, with the same result.
    """

    meaning: Meaning
    data: Data
    growth: Growth
    sampling: Sampling
    n_trees: int
    taught: Untaught
    passes: Passes | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows, in bag or not."""
        return self.data.n_rows

    @property
    def width(self) -> int:
        """Number of candidates of a node whose values are held at once."""
        return self.growth.held or self.growth.draw.width

    @property
    def room(self) -> RowRoom | None:
        """The memory of a row if trees grow by passes over features or categories themselves; None if they do not."""
        if self.passes is None or self.data.is_of_distances:
            return None
        room = room_of(self.growth, truth_of_rows(self.growth))
        return None if room.in_bins and room.categories is None else room

    @property
    def most_leaves(self) -> int:
        """Largest number of leaves of a tree."""
        return self.sampling.most_leaves(self.meaning.params)

    def grow(self, trees: Ints) -> dict[str, np.ndarray]:
        """Grow the trees with these numbers; return the arrays of a forest of them, by name."""
        drawn = self.sampling.weights(self.growth.seed, trees)
        in_bag, weights = drawn.astype(np.uint8), drawn
        if self.data.sample_weights is not None:
            weights = self.data.sample_weights.of_trees(drawn)
        if self.passes is not None and not self.data.is_of_distances:
            table, leaves = self._grown_by_passes(self.passes, trees, weights)
        else:
            grow = partial(grow_by_node, self.growth) if gains_by_node(self.growth) else self.growth.grow
            table, leaves = grow(trees, weights)
            table, out = self._on_features(table), drawn == 0
            if out.any() and self.routes_out_of_bag:
                rows = np.arange(self.data.n_rows, dtype=np.int32)
                source = self.growth.source if is_given(self.data.rows) else self.data.source()
                leaves[out] = route(table, source, rows, out)[out]
        arrays = {**table.arrays(), "leaves": leaves, "in_bag": in_bag}
        return {**arrays, **self.taught.arrays(table, leaves, in_bag if self.data.sample_weights is None else weights)}

    def _grown_by_passes(
        self, passes: Passes, trees: Ints, weights: NDArray[np.int32]
    ) -> tuple[NodeTable, NDArray[np.int32]]:
        """Grow trees that read no more rows at once than ``passes`` allow; return the leaf of each row, too."""
        self.taught.prepare()
        table, leaves = grow_by_passes(self.growth, trees, weights, passes)
        table, features = self._on_features(table), self.data.array
        step = passes.rows_of_block(features.shape[1] * features.itemsize)
        for first in range(0, self.n_rows, step):
            own = leaves[:, first : first + step]
            wanted = own == LEAF  # out of bag
            if wanted.any():
                block = np.array(features[first : first + step])
                rows = np.arange(len(block), dtype=np.int32)
                own[wanted] = route(table, ArraySource.from_values(block), rows, wanted)[wanted]
                release_pages(features)
        return table, leaves

    def _on_features(self, table: NodeTable) -> NodeTable:
        """Return the table with thresholds of features, if trees have read codes of bins."""
        source = self.growth.source
        return on_features(table, source) if isinstance(source, (BinnedSource, BinnedTable)) else table

    def leaf_arrays(self, table: NodeTable, leaves: Int32s, drawn: NDArray[np.int32]) -> dict[str, np.ndarray]:
        """Return the arrays of leaves; trees have ``drawn`` each row so often, shape (n_trees, n_rows)."""
        weights = self.data.sample_weights
        in_bag = drawn.astype(np.uint8) if weights is None else weights.of_trees(drawn.astype(np.int32))
        return self.taught.arrays(table, leaves, in_bag)

    def watched(self, watch: LevelWatch) -> Problem:
        """Return the problem with calls of ``watch`` for every level that grows."""
        return replace(self, growth=replace(self.growth, watch=watch))

    @property
    def routes_out_of_bag(self) -> bool:
        """Whether rows that a tree did not draw are routed: always, unless that evaluates further similarities.

        Even then they are routed if few need evaluation (landmarks), if rows that were not drawn vote, or if the scores
        of all rows determine the outliers.
        """
        params = self.meaning.params
        wanted = params.get("oob_score") or "n_landmarks" in params or params.get("voting") == NEAREST
        wanted = wanted or params.get("contamination", "auto") != "auto"
        return bool(wanted) or not self.data.is_lazy

    def contents(self, parts: Sequence[Mapping[str, int]]) -> Contents:
        """Return the contents of a forest of some parts; ``parts`` holds the lengths of each part's arrays by name."""
        has_triangles = all(part.get("leaf_distances") for part in parts)
        leaf, repeated = self.taught.kept(has_triangles)
        grown = [name for name in parts[0] if has_triangles or name != "leaf_distances"]
        if is_built_in(self.data.rows):
            repeated["objects"] = "matrix"
        given = ("feature_weights", "dependence", "sample_weight")
        repeated |= {name: name for name in given if getattr(self.data, name) is not None}
        if self.meaning.leaf.nearest:
            repeated[VOICES[self.meaning.leaf.kind]] = "truth"
        return Contents(replace(self.meaning, leaf=leaf), grown, repeated)

    def forest(self, parts: Sequence[dict[str, np.ndarray]]) -> Forest:
        """Assemble a forest from parts of `grow`, in the order of their trees, and empty the parts."""
        contents = self.contents([{name: len(array) for name, array in part.items()} for part in parts])
        arrays = put_together(parts, contents.grown)
        arrays |= {name: self.data.repeated(of) for name, of in contents.repeated.items()}
        return Forest.from_arrays(contents.meaning, arrays)


def put_together(parts: Sequence[dict[str, np.ndarray]], names: Sequence[str]) -> dict[str, np.ndarray]:
    """Join the arrays of these names, part after part, removing each from its part, so that it is held only once."""

    def taken(name: str) -> np.ndarray:
        pieces = [part.pop(name) for part in parts]
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)

    return {name: taken(name) for name in names}


def on_features(table: NodeTable, binned: BinnedSource | BinnedTable) -> NodeTable:
    """Return the table with thresholds of features instead of thresholds of their codes."""
    threshold = table.threshold.copy()
    threshold[~table.is_leaf] = binned.thresholds(table.columns, threshold[~table.is_leaf])
    return replace(table, threshold=threshold)
