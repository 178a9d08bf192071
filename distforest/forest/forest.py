"""A forest: node table, leaf table, nodes of the training rows, and the meaning of its numbers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, Any, TypedDict, TypeGuard

import numpy as np
from numpy.typing import NDArray

from distforest.amounts import counted
from distforest.errors import ArtifactError, InputError
from distforest.forest.graph_leaves import GraphMembers
from distforest.forest.held_nodes import HeldNodes
from distforest.forest.leaf_index import LeafIndex
from distforest.forest.leaf_kinds import NEAREST, VOICES, leaf_kind
from distforest.forest.lean_table import LeanTable
from distforest.forest.leaves import LaidMeans, LeafTable, Means, expect
from distforest.forest.members import KeptDistances, LeafDistances, Members
from distforest.forest.node_table import NodeTable, PickledWithoutCaches
from distforest.forest.pairs.decisions import Calibration
from distforest.forest.pairs.pair_leaves import Ranks, Votes
from distforest.forest.target_leaves import TargetMembers
from distforest.sources.arrays import rows_of
from distforest.sources.category_codes import check_codes
from distforest.sources.comparisons import COMPARATORS, Comparison
from distforest.sources.filled import ROW_MEAN, filled
from distforest.sources.given import is_sparse, unmasked
from distforest.sources.point_pairs import PairColumns
from distforest.sources.readings import read
from distforest.sources.row_kinds import Features, Several, is_built_in, row_kind
from distforest.sources.schema import Schema
from distforest.sources.sparse import read_sparse
from distforest.sources.sparse_features import SparseFeatures, read_sparse_features

if TYPE_CHECKING:
    from collections.abc import Iterator

    from distforest.forest.leaf_kinds import LeafEntry, LeafKind
    from distforest.sources.arrays import Matrix
    from distforest.sources.factors import ClassName
    from distforest.sources.row_kinds import RowKind
    from distforest.sources.source import Float32s, Floats, Int32s, Ints, Source
    from distforest.sources.sparse import SparseSource

AnyLeafTable = LeafTable | Votes | Ranks
Params = Mapping[str, Any]
"""Parameters of a method by name, with the user's values."""
Provenance = dict[str, Any]
"""Origin of a forest, as JSON; only its entries ``features`` and ``estimates`` are checked at reading."""

FOREST_FORMAT = 1
"""Format of a sealed forest. It rises by one whenever a reader of the old format would misread a new forest.
Readers of the new format still open old forests, and the tests keep a sample of each old format."""

SEALED_CHUNK_BYTES = 4 << 20
"""Decoded size of a chunk of a sealed array. It is part of the format, as the digest covers chunk by chunk."""

NOT_ROUTED = -1
"""Entry of ``leaves`` for a training row that was not routed."""

SOME_NODES = ("surrogate", "missing_right", "category_size", "category_codes", "chain_head")
"""Arrays that only some node tables have."""

NODE_ARRAYS = tuple(name for name in NodeTable.__dataclass_fields__ if name not in SOME_NODES)
"""Arrays that every node table has, in the order of the format."""

FURTHER_ARRAYS = (
    "objects",
    "object_starts",
    "object_columns",
    "feature_weights",
    "dependence",
    "codes",
    "targets",
    "sample_weight",
)
"""Arrays that some forests have besides those of the node table and the leaf table, in the order of the format."""

CALIBRATION_ARRAYS = ("calibration_distances", "calibration_similar", "calibration_identities")
"""The arrays of the labelled pairs from which decisions of a forest over pairs follow."""

DECISION_ARRAYS = (*CALIBRATION_ARRAYS, "decision_threshold")
"""Arrays of decisions, which are no part of the digest: the trees are the same without them."""


_INDEXING = Lock()
"""Lock for making an index of training rows, so that the threads of a process make only one."""


class MeaningEntry(TypedDict):
    """A `Meaning` as JSON."""

    method: str
    params: Params
    seed: int
    rows: dict[str, object]
    leaf: LeafEntry
    classes: Sequence[ClassName] | None


class ArrayEntry(TypedDict):
    """The manifest's entry of an array: dtype, shape, rows of a chunk, and the digest of each chunk."""

    dtype: str
    shape: list[int]
    chunk_rows: int
    sha256: list[str]


@dataclass(frozen=True)
class Meaning:
    """The meaning of a forest's numbers: the part of the manifest that determines its answers.

    Attributes
    ----------
    method, params, seed
        Method, parameters and seed of the growth.
    rows
        How the rows of a query are read (`distforest.sources.row_kinds`).
    leaf
        The kind of leaf table (`distforest.forest.leaf_kinds`).
    classes
        Class labels in the order of the counts, or None.
    """

    method: str
    params: Params
    seed: int
    rows: RowKind
    leaf: LeafKind
    classes: Sequence[ClassName] | None = None

    def to_dict(self) -> MeaningEntry:
        """Return the meaning as JSON."""
        return {
            "method": self.method,
            "params": self.params,
            "seed": self.seed,
            "rows": self.rows.to_dict(),
            "leaf": self.leaf.to_dict(),
            "classes": self.classes,
        }

    @classmethod
    def from_dict(cls, entry: MeaningEntry) -> Meaning:
        """Read the meaning of a manifest that was checked."""
        rows, leaf = row_kind(entry["rows"]), leaf_kind(entry["leaf"])
        return cls(entry["method"], entry["params"], entry["seed"], rows, leaf, entry["classes"])


@dataclass(frozen=True)
class Forest(PickledWithoutCaches):
    """A forest in memory.

    Attributes
    ----------
    meaning
        The meaning of the numbers.
    table
        The node table.
    leaf_table
        The distances or predictions of the nodes.
    leaves
        Node of each training row, in bag or not, shape (n_trees, n_rows), int32; -1 for a row out of bag that was not
        routed because its similarities would have been evaluated. None for a forest over pairs.
    in_bag
        Multiplicity of each training row, or point of the training pairs, in each tree, 0 for out of bag, shape
        (n_trees, n_rows), uint8.
    objects
        Features of the training objects, for a similarity that is computed from features, or of the points of pairs;
        for sparse points, the values other than 0, row by row, shape (n_values,).
        Where the values of each sparse point begin, shape (n_points + 1,), and the column of each, shape (n_values,).
    feature_weights
        Weight of each feature in the draws, shape (n_columns,); None: equal weights.
    dependence
        The dependence from which the weights follow if features were screened, shape (n_columns,); else None.
    codes, targets
        Class of each training object, shape (n_rows,), or its targets, shape (n_rows, q), if the nearest one votes.
    sample_weight
        The weight of each training row as the integer that trees added, shape (n_rows,); None: equal weights.
    calibration_distances, calibration_similar, calibration_identities
        The labelled pairs of `calibration`; None if the forest is not calibrated.
    decision_threshold
        The distance up to which a pair is taken for similar, shape (1,); None if there is none.
    provenance
        Origin of the forest, names of its features, and estimates of its fit; not part of the digest.
    """

    meaning: Meaning
    table: NodeTable
    leaf_table: AnyLeafTable
    leaves: Int32s | None
    in_bag: NDArray[np.uint8]
    objects: Float32s | None = None
    object_starts: Ints | None = None
    object_columns: Int32s | None = None
    feature_weights: Floats | None = None
    dependence: Floats | None = None
    codes: Int32s | None = None
    targets: Floats | None = None
    sample_weight: Int32s | None = None
    calibration_distances: Floats | None = None
    calibration_similar: NDArray[np.bool_] | None = None
    calibration_identities: Int32s | None = None
    decision_threshold: Floats | None = None
    provenance: Provenance = field(default_factory=dict)

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return self.table.n_trees

    @cached_property
    def routed_table(self) -> NodeTable:
        """The node table that routes queries; a table over features sends on a row with a missing value."""
        return self.table.sending_on() if self.sends_missing_on else self.table

    def as_split(self, source: Source) -> Source:
        """Return the rows of queries as splits read them: with means for missing similarities, if that is the rule."""
        if self.meaning.params.get("on_missing") != ROW_MEAN:
            return source
        return filled(source, self.n_training, self.sample_weight)

    @property
    def sends_missing_on(self) -> bool:
        """Whether a row with a missing feature always goes on to a child; feature subsets have other rules."""
        return isinstance(self.meaning.rows, (Features, PairColumns)) and "on_missing" not in self.meaning.params

    @cached_property
    def has_unrouted(self) -> bool:
        """Whether the node of some training row is unknown, as it was out of bag and its similarities are expensive."""
        return self.leaves is not None and bool(self.leaves.min(initial=0) == NOT_ROUTED)

    @property
    def n_columns(self) -> int:
        """Number of columns that a split may read: features, or training objects."""
        return self.meaning.rows.n_columns

    @property
    def n_features(self) -> int:
        """Number of columns of a query, without the further columns of pairs."""
        return self.meaning.rows.n_features

    @cached_property
    def schema(self) -> Schema | None:
        """The columns in training, with their names; None if they had no names."""
        return Schema.from_provenance(self.provenance)

    def with_schema(self, schema: Schema | None) -> Forest:
        """Return the forest with these columns, or with none, in its provenance."""
        others = {key: value for key, value in self.provenance.items() if key != "features"}
        return replace(self, provenance=others | ({} if schema is None else {"features": schema.entry()}))

    @property
    def n_training(self) -> int:
        """Number of training rows, or of points of the training pairs."""
        return int(self.in_bag.shape[1])

    @property
    def nearest_votes(self) -> bool:
        """Whether the most similar training object of a leaf votes, instead of the counts or means of the leaf."""
        return self.meaning.leaf.nearest

    @cached_property
    def object_votes(self) -> Floats:
        """Vote of each training object if the nearest one votes: its class as shares, or its targets."""
        if self.codes is not None:
            return np.eye(len(self.meaning.classes or ()))[self.codes]
        assert self.targets is not None  # noqa: S101  (guaranteed by check)
        return self.targets

    @property
    def points(self) -> Float32s:
        """The points of the training pairs, shape (n_points, width).

        Raises
        ------
        InputError
            The forest is over rows, or its points are sparse.
        """
        if not isinstance(self.meaning.rows, PairColumns):
            raise InputError(f"a forest over pairs of points was expected, found one over {self.meaning.rows.kind}")
        assert self.objects is not None  # noqa: S101  (guaranteed by check)
        if self.object_starts is not None:
            raise InputError("dense points were expected, found a forest of sparse ones; use `sparse_points`")
        return self.objects

    @cached_property
    def sparse_points(self) -> SparseFeatures | None:
        """The points of the training pairs if they are sparse, otherwise None."""
        objects, starts, columns = self.objects, self.object_starts, self.object_columns
        if objects is None or starts is None or columns is None:
            return None
        return SparseFeatures.from_arrays(starts, columns, objects, (self.n_training, self.n_features))

    @cached_property
    def calibration(self) -> Calibration | None:
        """The labelled pairs from which decisions follow; None if the forest is not calibrated."""
        distances, similar, identities = (getattr(self, name) for name in CALIBRATION_ARRAYS)
        return None if distances is None else Calibration(distances, similar, identities)

    def with_decision(self, calibration: Calibration | None, threshold: float | None) -> Forest:
        """The same forest with these pairs and this threshold, or without."""
        return replace(
            self,
            calibration_distances=None if calibration is None else calibration.distances,
            calibration_similar=None if calibration is None else calibration.similar,
            calibration_identities=None if calibration is None else calibration.identities,
            decision_threshold=None if threshold is None else np.array([threshold]),
        )

    @cached_property
    def training_nodes(self) -> Int32s:
        """Node of each training row, shape (n_trees, n_rows), int32.

        Raises
        ------
        InputError
            Rows out of bag were not routed, or the forest is over pairs.
        """
        if self.leaves is None:
            raise InputError("a forest over pairs has no nodes of points; use distances or neighbours")
        if self.has_unrouted:
            raise InputError(
                "the node of every training row was expected, but rows out of bag were not routed because their "
                "similarities are expensive; fit with oob_score=True, or with all rows in every tree "
                "(bootstrap=False, max_samples=None), or compute distances to rows that you give"
            )
        return self.leaves

    @cached_property
    def training_index(self) -> LeafIndex:
        """The training rows of each leaf, built once; raises InputError as `training_nodes`."""
        with _INDEXING:
            return self.__dict__.get("training_index") or LeafIndex.from_nodes(self.training_nodes)

    @cached_property
    def held_nodes(self) -> HeldNodes:
        """The nodes that contain training rows, built once; raises InputError as `training_nodes`."""
        return HeldNodes.from_nodes(self.training_nodes, self.table.tree_start)

    @cached_property
    def laid_means(self) -> LaidMeans | None:
        """Means and spreads of training rows' leaves, side by side, built once; None without targets, or if too large.

        Raises InputError as `training_nodes`.
        """
        return self.leaf_table.laid(self.training_nodes) if isinstance(self.leaf_table, Means) else None

    @cached_property
    def kept_distances(self) -> KeptDistances | None:
        """Distances of leaves that were computed before, if their means follow from a matrix; None if too large.

        Raises InputError as `training_nodes`.
        """
        return (
            KeptDistances.allocate(self.leaf_table, self.training_nodes) if type(self.leaf_table) is Members else None
        )

    @classmethod
    def from_arrays(
        cls, meaning: Meaning, arrays: dict[str, np.ndarray], provenance: dict[str, object] | None = None
    ) -> Forest:
        """Build a forest from arrays by name; raise ArtifactError if one is missing."""
        try:
            some = {name: arrays[name] for name in SOME_NODES if name in arrays}
            table = NodeTable(**{name: arrays[name] for name in NODE_ARRAYS}, **some)
            leaves = None if isinstance(meaning.rows, PairColumns) else arrays["leaves"]
            in_bag = arrays["in_bag"]
            leaf_table = meaning.leaf.table(table, arrays)
        except KeyError as error:
            raise ArtifactError(f"{error.args[0]}: missing") from error
        further = {name: arrays.get(name) for name in (*FURTHER_ARRAYS, *DECISION_ARRAYS)}
        return cls(meaning, table, leaf_table, leaves, in_bag, **further, provenance=provenance or {})

    def with_lean_table(self) -> Forest:
        """Return the forest with a node table that takes a quarter of the memory."""
        table = LeanTable(**self.table.arrays())
        return replace(self, table=table, leaf_table=self.meaning.leaf.table(table, self.arrays()))

    def sealed_arrays(self) -> dict[str, np.ndarray]:
        """All arrays by name, those of decisions at the end."""
        decision = {name: getattr(self, name) for name in DECISION_ARRAYS}
        return self.arrays() | {name: array for name, array in decision.items() if array is not None}

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays of the digest by name, in the order of the format."""
        leaves = {} if self.leaves is None else {"leaves": self.leaves}
        arrays = {**self.table.arrays(), **leaves, "in_bag": self.in_bag, **self.leaf_table.arrays()}
        further = {name: getattr(self, name) for name in FURTHER_ARRAYS}
        return arrays | {name: array for name, array in further.items() if array is not None}

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the meaning and all arrays; equal for equal forests, wherever and however they were grown."""
        return digest_of(self.meaning, {name: chunk_digests(array) for name, array in self.arrays().items()})

    def source(self, queries: object) -> Source:
        """Read the rows of queries as the trees do.

        Parameters
        ----------
        queries
            Features, shape (n, n_features), dense or sparse; or, for a forest on a precomputed matrix, the similarities
            (or distances) of each query to every training object, shape (n, n_training), or a sparse matrix of the
            observed ones.

        Raises
        ------
        InputError
            The queries have the wrong number of columns, or values that are refused.
        """
        rows = self.meaning.rows
        if isinstance(rows, PairColumns):
            raise InputError("a forest over pairs reads two points at a time; compute distances, not nodes")
        reading, queries = rows.reading, unmasked(queries)
        matrix: np.ndarray | SparseSource | SparseFeatures
        if is_sparse(queries) and isinstance(rows, Several):
            raise InputError("several similarities are read from dense rows, found a sparse matrix; give X.toarray()")
        if isinstance(rows, Several):
            matrix = rows.read(queries if _is_array(queries) else np.asarray(queries))
        elif is_sparse(queries):
            is_of_features = isinstance(rows, Features)
            matrix = read_sparse_features(queries) if is_of_features else read_sparse(queries, reading)
        else:
            given = queries if _is_array(queries) else np.asarray(queries)
            matrix = read(given, reading, borrows=True)
        expected = rows.n_features
        if matrix.shape[1] != expected:
            raise InputError(
                f"X has {matrix.shape[1]} features, but the forest is expecting {expected} features as input"
                f" ({reading.name}, one column for each {rows.column})"
            )
        if not isinstance(matrix, np.ndarray):
            return matrix
        return rows.source(matrix, self.objects)

    def check(self) -> None:
        """Refuse a forest that is not safe for a kernel to walk; raise ArtifactError with the array and the place."""
        rows = self.meaning.rows
        self.table.check(self.n_columns, _categories_of_columns(rows))
        if isinstance(rows, PairColumns):
            self._check_points(rows)
        if self.leaves is not None:
            self._check_leaves(self.leaves)
        shape = (rows.n_objects if isinstance(rows, Several) else rows.n_columns, rows.n_features)
        if is_built_in(rows) and (self.objects is None or self.objects.shape != shape):
            raise ArtifactError("objects: the training objects are missing or of the wrong shape")
        is_sparse_points = self.object_starts is not None or self.object_columns is not None
        if self.objects is not None and not is_sparse_points:
            n_lacking = rows.n_features if is_built_in(rows) or isinstance(rows, PairColumns) else 0
            may_lack, complete = self.objects[:, :n_lacking], self.objects[:, n_lacking:]
            if np.isinf(may_lack).any() or not np.isfinite(complete).all():
                raise ArtifactError("objects: values are finite, or NaN for a missing feature")
        for name in ("feature_weights", "dependence"):
            check_columns(name, getattr(self, name), self.n_columns)
        self._check_sample_weight()
        self.leaf_table.check()
        self._check_voices()
        self._check_decision()

    def _check_sample_weight(self) -> None:
        """Refuse invalid weights, and rows of weight 0 that a tree has drawn."""
        if self.sample_weight is None:
            return
        expect("sample_weight", self.sample_weight, (self.n_training,), np.int32)
        if self.sample_weight.min(initial=0) < 0 or not self.sample_weight.any():
            raise ArtifactError("sample_weight: integers that are not negative, not all 0, were expected")
        if self.in_bag[:, self.sample_weight == 0].any():
            raise ArtifactError("sample_weight: a tree has drawn a row of weight 0")

    def _check_decision(self) -> None:
        """Refuse decisions of a forest of rows, pairs that are not whole, and a threshold that is no distance."""
        found = [name for name in DECISION_ARRAYS if getattr(self, name) is not None]
        if found and not isinstance(self.meaning.rows, PairColumns):
            raise ArtifactError(f"{found[0]}: only a forest over pairs has decisions")
        if 0 < len(set(found) & set(CALIBRATION_ARRAYS)) < len(CALIBRATION_ARRAYS):
            raise ArtifactError(f"{found[0]}: {', '.join(CALIBRATION_ARRAYS)} go together")
        try:
            _ = self.calibration
        except InputError as error:
            raise ArtifactError(f"calibration: {error}") from error
        distances = self.calibration_distances
        if distances is not None and (distances.min() < 0.0 or distances.max() > 1.0):
            raise ArtifactError("calibration_distances: values from 0 to 1 were expected")
        if self.decision_threshold is not None:
            expect("decision_threshold", self.decision_threshold, (1,), np.float64)
            if not np.isfinite(self.decision_threshold).all():
                raise ArtifactError("decision_threshold: a finite distance was expected")

    def _check_voices(self) -> None:
        """Refuse voting training objects without a column of similarities, or without a class or targets."""
        wanted = VOICES[self.leaf_table.kind] if self.nearest_votes else None
        for name in VOICES.values():
            if (getattr(self, name) is not None) != (name == wanted):
                fault = "missing" if name == wanted else f"only a forest with leaf.voting {NEAREST!r} has them"
                raise ArtifactError(f"{name}: {fault}")
        if wanted and self.n_columns != self.n_training:
            raise ArtifactError(f"leaves: expected {counted(self.n_columns, 'training row')}, found {self.n_training}")
        if self.codes is not None:
            expect("codes", self.codes, (self.n_training,), np.int32)
            if self.codes.min() < 0 or self.codes.max() >= len(self.meaning.classes or ()):
                raise ArtifactError("codes: numbers of classes were expected")
        if self.targets is not None and isinstance(self.leaf_table, Means):
            expect("targets", self.targets, (self.n_training, self.leaf_table.n_outputs), np.float64)
            if not np.isfinite(self.targets).all():
                raise ArtifactError("targets: values are finite")

    def _check_points(self, rows: PairColumns) -> None:
        """Refuse points of pairs with other columns, with invalid categories, or not as many as ``in_bag`` has."""
        if self.object_starts is not None or self.object_columns is not None:
            self._check_sparse_points(rows)
            return
        objects, width = self.objects, rows.width
        shape = None if objects is None else objects.shape
        if objects is None or objects.shape[1:] != (width,) or self.in_bag.shape != (self.n_trees, len(objects)):
            raise ArtifactError(
                f"objects: points of {counted(width, 'column')} were expected, as many as in_bag has, found {shape}"
            )
        try:
            schema = self.schema or Schema.unnamed(rows.n_features)
            check_codes(objects, schema.n_categories if rows.comparisons else rows.n_categories)
            for one in rows.comparisons:
                if one.comparator in COMPARATORS:
                    Comparison(one.comparator, *one.features).on(schema)
        except InputError as error:
            raise ArtifactError(f"objects: {error}") from error

    def _check_sparse_points(self, rows: PairColumns) -> None:
        """Refuse sparse points that a kernel cannot read: columns ascend in each row, and no value is 0 or missing."""
        objects, starts, columns = self.objects, self.object_starts, self.object_columns
        if objects is None or starts is None or columns is None or rows.blocks or rows.n_categories or rows.comparisons:
            raise ArtifactError("objects: sparse points have object_starts and object_columns, and only numbers")
        if self.in_bag.shape[0] != self.n_trees:
            raise ArtifactError(f"in_bag: {counted(self.n_trees, 'tree')} were expected, found {self.in_bag.shape}")
        expect("object_starts", starts, (self.n_training + 1,), np.int64)
        expect("objects", objects, (len(objects),), np.float32)
        expect("object_columns", columns, (len(objects),), np.int32)
        if starts[0] != 0 or starts[-1] != len(objects) or (np.diff(starts) < 0).any():
            raise ArtifactError(f"object_starts: ascending places from 0 to {len(objects)} were expected")
        descends = np.diff(columns) <= 0
        descends[starts[1:-1][(starts[1:-1] > 0) & (starts[1:-1] < len(objects))] - 1] = False  # where a row begins
        if descends.any() or columns.min(initial=0) < 0 or columns.max(initial=0) >= rows.n_features:
            raise ArtifactError(f"object_columns: ascending columns from 0 to {rows.n_features - 1} were expected")
        if not np.isfinite(objects).all() or not objects.all():
            raise ArtifactError("objects: finite values other than 0 were expected")

    def _check_leaves(self, leaves: Int32s) -> None:
        """Refuse nodes of training rows that are not nodes, or not leaves, of their trees."""
        n_trees = self.table.n_trees
        if leaves.ndim != 2 or leaves.shape[0] != n_trees or self.in_bag.shape != leaves.shape:
            raise ArtifactError(
                f"leaves: expected (n_trees={n_trees}, n_rows) like in_bag, "
                f"found {leaves.shape} and {self.in_bag.shape}"
            )
        size = self.table.tree_size[:, None]
        has_members = isinstance(self.leaf_table, (Members, LeafDistances, GraphMembers, TargetMembers))
        unrouted = (leaves == NOT_ROUTED) & (self.in_bag == 0) & (not has_members)
        holds, rule = ((leaves >= 0) & (leaves < size)) | unrouted, "a training row lies in a node of its tree"
        if holds.all() and has_members:
            holds = self.table.is_leaf[self.table.tree_start[:-1, None] + leaves]
            rule = "a training row lies in a leaf"
        if not holds.all():
            raise ArtifactError(f"leaves{np.argwhere(~holds)[0].tolist()}: {rule}")


def _categories_of_columns(rows: RowKind) -> tuple[int, ...]:
    """Return the number of categories of each column that splits read; empty if all are numerical."""
    if isinstance(rows, PairColumns):
        return rows.categories_of_columns
    return rows.n_categories if isinstance(rows, Features) else ()


def _is_array(values: object) -> TypeGuard[Matrix]:
    """Return whether ``values`` is an array, in memory or on disk, that `read` accepts unchanged."""
    return hasattr(values, "shape") and hasattr(values, "dtype")


def shares_of(weights: Floats) -> Floats:
    """Divide weights, shape (n_columns,), by their sum, which may be larger than any float."""
    scaled = weights / weights.max()
    shares: Floats = scaled / scaled.sum()
    return shares


def check_columns(name: str, values: Floats | None, n_columns: int) -> None:
    """Refuse invalid weights or dependences of columns; raise ArtifactError."""
    if values is None:
        return
    if values.shape != (n_columns,) or not (np.isfinite(values) & (values >= 0.0)).all():
        raise ArtifactError(
            f"{name}: expected a finite number that is not negative for each of {counted(n_columns, 'column')}"
        )
    if name == "feature_weights" and not values.any():
        raise ArtifactError(f"{name}: expected a positive number among them")
    if name == "dependence" and values.max() > 1.0:
        raise ArtifactError(f"{name}: expected numbers from 0 to 1")


def chunk_rows(shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> int:
    """Return the number of rows of a chunk of a sealed array."""
    return min(rows_of(SEALED_CHUNK_BYTES, shape, dtype), max(1, shape[0]))


def chunks(array: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the chunks of a sealed array in order: runs of whole rows."""
    step = chunk_rows(array.shape, array.dtype)
    for first in range(0, len(array), step):
        yield array[first : first + step]


def chunk_digest(chunk: np.ndarray) -> str:
    """Return the SHA-256 of a chunk's values, little-endian, in C order."""
    return hashlib.sha256(np.ascontiguousarray(chunk, chunk.dtype.newbyteorder("<")).data).hexdigest()


def chunk_digests(array: np.ndarray) -> ArrayEntry:
    """Return the manifest's entry of an array in memory."""
    return array_entry(array.shape, array.dtype, [chunk_digest(chunk) for chunk in chunks(array)])


def array_entry(shape: tuple[int, ...], dtype: np.dtype[np.generic], digests: list[str]) -> ArrayEntry:
    """Return the manifest's entry of an array with these digests of its chunks."""
    return {
        "dtype": np.dtype(dtype).name,
        "shape": [int(size) for size in shape],
        "chunk_rows": chunk_rows(shape, np.dtype(dtype)),
        "sha256": digests,
    }


def arrays_of_points(points: np.ndarray | SparseFeatures) -> dict[str, np.ndarray]:
    """Return the arrays in which a forest keeps the points of pairs."""
    if isinstance(points, np.ndarray):
        return {"objects": points}
    return {"objects": points.data, "object_starts": points.indptr, "object_columns": points.indices}


def digest_of(meaning: Meaning, entries: Mapping[str, object]) -> str:
    """The digest of a forest with this meaning and these arrays, of which those of decisions do not count."""
    entries = {name: entry for name, entry in entries.items() if name not in DECISION_ARRAYS}
    return hashlib.sha256(
        canonical({"format": FOREST_FORMAT, "meaning": meaning.to_dict(), "arrays": entries})
    ).hexdigest()


def canonical(value: object) -> bytes:
    """Return JSON with sorted keys and no spaces, so that equal values have equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
