"""Stage the inputs of a job: read each once, check it, write it where every worker can read it, and describe it.

wanted inputs -> truth, weights of rows, matrix (or several side by side), measures, pairs, feature weights
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from distforest.amounts import counted
from distforest.errors import InputError, warn_caller
from distforest.sources.arrays import CHUNK_BYTES, open_array, row_blocks, rows_of, write_array
from distforest.sources.binned import quantile_rows
from distforest.sources.factors import Labels, ObservedDistances, names_of_classes
from distforest.sources.files.ids import told_of_named_order, told_of_square_order, warning_of_pair_order
from distforest.sources.graph_distances import read_graph
from distforest.sources.job_inputs import GivenKernel, JobInput, Role
from distforest.sources.opening import open_matrix
from distforest.sources.parted import SurveyedRows, survey_rows
from distforest.sources.point_pairs import check_pairs, check_pairs_and_links
from distforest.sources.readings import AS_IT_IS, DISSIMILARITIES, FEATURES, SIMILARITIES, known_entries
from distforest.sources.row_kinds import Dense, Kernel
from distforest.sources.schema import Schema, refuse_categories
from distforest.sources.scratch import OF_HOST, ScratchFolder
from distforest.sources.sparse import SparseSource
from distforest.sources.sparse_features import SparseFeatures
from distforest.sources.sparse_store import SparseStore
from distforest.sources.staged_sparse import StagedGraph, StagedSparse
from distforest.sources.staging import Staged, stage
from distforest.sources.truth import Truth, TruthKind
from distforest.sources.weights import OF_PAIRS, check_feature_weights, checked_weights
from distforest.stores.addresses import naming
from distforest.stores.folder import Folder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from distforest.sources.array_files import Mapped
    from distforest.sources.factors import ClassName
    from distforest.sources.graph_distances import GraphDistances
    from distforest.sources.source import Floats

    ByRole = dict[Role, JobInput]

STAGED_INPUTS = "inputs.zarr"
"""Name of the group in a job's folder that holds what workers on all hosts read."""


@dataclass(frozen=True)
class StagingPlace:
    """The job's folder, whose arrays workers on all hosts read, and the folder for staged files of this host.

    With ``n_parts``, features stay where they are stored, in as many parts.
    """

    folder: str
    scratch: ScratchFolder = OF_HOST
    n_parts: int | None = None

    def array(self, name: str, values: np.ndarray) -> Staged:
        """Write an array into the job's folder, and stage it on this host."""
        group = f"{self.folder}/{STAGED_INPUTS}"
        Folder(f"{group}/{name}").remove()  # left by an interrupted run
        write_array(group, name, values.shape, values.dtype, (block for _, block in row_blocks(values)))
        return stage(f"{group}/{name}", AS_IT_IS, self.scratch)

    def row_numbers(self, n_rows: int) -> Staged:
        """Stage the numbers of rows, which stand for objects where a function needs none."""
        return self.array("objects", np.arange(n_rows))

    def sparse(self, name: str, source: SparseSource | SparseFeatures) -> StagedSparse:
        """Write the three arrays of a sparse source into the job's folder, and stage them on this host."""
        parts = {f"{name}_{part}": getattr(source, part) for part in ("indptr", "indices", "data")}
        indptr, indices, data = (self.array(part, values) for part, values in parts.items())
        return StagedSparse(indptr, indices, data, source.shape, opens=type(source))

    def observed(self, store: SparseStore) -> str:
        """Write distances with NaN for each pair that is not stored into the job's folder; returns their address."""
        group, given = f"{self.folder}/{STAGED_INPUTS}", ObservedDistances(store.whole())
        Folder(f"{group}/observed").remove()  # left by an interrupted run
        n, step = len(given), rows_of(CHUNK_BYTES, given.shape, given.dtype)
        blocks = (given.rows(first, min(first + step, n)) for first in range(0, n, step))
        write_array(group, "observed", given.shape, given.dtype, blocks)
        return f"{group}/observed"

    def graph(self, graph: GraphDistances, offset: float) -> StagedGraph:
        """Write the links of a graph into the job's folder, and stage them on this host."""
        return StagedGraph(self.sparse("graph", graph.stored), graph.absent, offset)


class StagedTruth(NamedTuple):
    """The staged truth, with what else is known of it: see `distforest.sources.truth.Truth`."""

    kind: TruthKind
    staged: Staged
    classes: Sequence[ClassName] | None = None
    largest: float = 1.0
    n_unobserved: int = 0
    graph: StagedGraph | None = None
    costs: Staged | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows, or of pairs, of which it is the truth."""
        return self.staged.shape[0]

    @property
    def offset(self) -> float:
        """The constant that was subtracted from all distances."""
        return self.staged.reading.offset if self.graph is None else self.graph.offset

    def open(self, scratch: ScratchFolder, files: list[Mapped] | None = None) -> Truth:
        """Open the truth on this host; see `Staged.open`."""
        classes = None if self.classes is None else list(self.classes)
        graph = None if self.graph is None else self.graph.open(scratch, files)
        costs = None if self.costs is None else self.costs.open(scratch, files)
        known = self.largest, self.offset, self.n_unobserved
        return Truth(self.kind, self.staged.open(scratch, files), classes, *known, graph, costs)


class StagedMatrix(NamedTuple):
    """The staged matrix or objects, where the user has it, the schema of its columns, and what reading it has found."""

    staged: Staged | StagedSparse
    address: str
    schema: Schema | None = None
    surveyed: SurveyedRows | None = None


class StagedArrays(NamedTuple):
    """The inputs of a job, staged; ``measures`` says by which similarities the rows of the matrix are read, if by any.

    ``sample_weight`` and ``pair_weight`` hold the weights of rows and of pairs as the user states them, ``objects``
    those of functions by position in the spec.
    """

    truth: StagedTruth
    matrix: StagedMatrix
    objects: Mapping[str, Staged]
    measures: tuple[Dense | Kernel, ...] = ()
    pairs: Staged | None = None
    feature_weights: Staged | None = None
    sample_weight: Floats | None = None
    pair_weight: Floats | None = None


def stage_arrays(wanted: Sequence[JobInput], kind: TruthKind, place: StagingPlace) -> StagedArrays:
    """Read, check and stage the inputs that a job wants, and tell what is odd about them.

    Parameters
    ----------
    wanted
        The inputs; several matrices of similarities are staged side by side.
    kind
        The kind of truth.
    place
        Where they are staged.

    Raises
    ------
    InputError
        An array is missing, of the wrong shape, or holds values that are refused.
    """
    by_role = {one.role: one for one in wanted}
    _warn_of_order(wanted, kind)
    truth = _stage_truth(kind, by_role, place)
    weights = _sample_weight(by_role, truth)
    matrices = [one for one in wanted if one.role == Role.MATRIX]
    matrix = _stage_rows(matrices, truth.n_rows, weights, place)
    shape = matrix.staged.shape
    measures = [measure for one in matrices for measure in _measures(one, matrix, len(matrices), weights, place)]
    pair_weight = _pair_weight(by_role, truth)
    pairs = _stage_pairs(by_role, shape[0], truth, place)
    if truth.n_rows != shape[0] and pairs is None:
        raise InputError(
            f"input: found {counted(shape[0], 'row')} at {matrix.address} and {truth.n_rows} {kind} "
            f"at {by_role[Role.TRUTH].address}; they must describe the same items"
        )
    objects = {one.place: stage(one.address, one.reading, place.scratch) for one in wanted if one.role == Role.OBJECTS}
    return StagedArrays(
        *(truth, matrix, objects, tuple(measures), pairs),
        *(_stage_feature_weights(by_role, shape[-1], place), weights, pair_weight),
    )


def _warn_of_order(wanted: Sequence[JobInput], kind: TruthKind) -> None:
    """Warn of rows or pairs, and of columns of a matrix of pairs, that have the same names in another order."""
    of_pairs = {Role.PAIRS, Role.PAIR_WEIGHT, *((Role.TRUTH,) if kind == TruthKind.LINKS else ())}
    of_rows = set(Role) - of_pairs - {Role.COSTS, Role.FEATURE_WEIGHTS}
    for roles in (of_rows, of_pairs):
        if told := told_of_named_order([one.address for one in wanted if one.role in roles]):
            warn_caller(f"DF005 {told}")
    rows = [one.address for one in wanted if one.role in of_rows]
    for one in wanted:
        if told := next(filter(None, (warning_of_pair_order(one.address, own) for own in rows)), ""):
            warn_caller(f"DF005 {told}")
        is_square = one.reading.symmetric or one.reading in {SIMILARITIES, DISSIMILARITIES}
        if is_square and (told := told_of_square_order(one.address)):
            warn_caller(f"DF005 {told}")


# --- the truth ---------------------------------------------------------------------------------------------


def stage_truth(kind: TruthKind, wanted: Sequence[JobInput], place: StagingPlace) -> StagedTruth:
    """Read, check and stage the ground truth alone; raises InputError as `stage_arrays`."""
    return _stage_truth(kind, {one.role: one for one in wanted}, place)


def _stage_truth(kind: TruthKind, wanted: ByRole, place: StagingPlace) -> StagedTruth:
    if Role.TRUTH not in wanted:  # there is none, or a function will be asked
        return StagedTruth(kind, place.array("truth", np.empty((open_matrix(wanted[Role.MATRIX].address).shape[0], 0))))
    if kind == TruthKind.DISTANCES:
        return _stage_distances(wanted[Role.TRUTH], place)
    array = open_array(wanted[Role.TRUTH].address)
    if Role.COSTS in wanted:
        return _stage_costed_labels(wanted, place)
    truth = Truth.of_vector(kind, np.asarray(array[...]), names_of_classes(array))
    return StagedTruth(kind, place.array("truth", truth.values), truth.classes)


def _stage_costed_labels(wanted: ByRole, place: StagingPlace) -> StagedTruth:
    """Stage labels and the distances of their classes; raises InputError with the address of the latter."""
    labels, costs = (wanted[role].address for role in (Role.TRUTH, Role.COSTS))
    with naming(wanted[Role.COSTS].place, costs):
        truth = Truth.of_labels(Labels(labels, costs=costs))
    assert truth.costs is not None  # noqa: S101  (they were given)
    staged = place.array("truth", truth.values), truth.classes, truth.largest
    return StagedTruth(truth.kind, *staged, costs=place.array("costs", truth.costs))


def _stage_distances(wanted: JobInput, place: StagingPlace) -> StagedTruth:
    store = open_matrix(wanted.address) if wanted.may_be_sparse else None
    if isinstance(store, SparseStore) and wanted.reading.convert:
        truth = _sparse_graph(store, wanted)
        assert truth.graph is not None  # noqa: S101  (it is one of a graph)
        kept, graph = place.array("truth", truth.values), place.graph(truth.graph, truth.offset)
        return StagedTruth(truth.kind, kept, None, truth.largest, 0, graph)
    laid = place.observed(store) if isinstance(store, SparseStore) else wanted.address
    distances = stage(laid, wanted.reading, place.scratch)
    with distances.watched(place.scratch) as values:
        known = known_entries(values, distances.reading)
    return StagedTruth(TruthKind.DISTANCES, distances, None, *known)


def _sparse_graph(store: SparseStore, wanted: JobInput) -> Truth:
    """The distances in a sparse graph; raises InputError with its address."""
    matrix = store.whole()
    try:
        return Truth.of_graph(*read_graph(matrix, wanted.reading))
    except InputError as error:
        raise InputError(f"{wanted.address}: {error}") from error


# --- the rows ----------------------------------------------------------------------------------------------


def _stage_rows(wanted: Sequence[JobInput], n_rows: int, weights: Floats | None, place: StagingPlace) -> StagedMatrix:
    """Stage the matrix, several side by side, or row numbers where a function needs no objects."""
    if not wanted:
        objects = place.row_numbers(n_rows)
        return StagedMatrix(objects, objects.address)
    if len(wanted) > 1:
        return _side_by_side(wanted, place)
    if place.n_parts is not None:
        return _survey_matrix(wanted[0], place.n_parts, weights)
    return _stage_matrix(wanted[0], place)


def _survey_matrix(wanted: JobInput, n_parts: int, weights: Floats | None) -> StagedMatrix:
    """Read features that stay where they are; raises InputError if they are sparse."""
    address = wanted.address
    array = open_array(address)
    schema = Schema.of_array(address, array)
    present = np.arange(array.shape[0]) if weights is None else np.flatnonzero(weights)
    surveyed = survey_rows(address, wanted.reading, n_parts, quantile_rows(present))
    return StagedMatrix(surveyed.staged, address, schema, surveyed)


def _side_by_side(wanted: Sequence[JobInput], place: StagingPlace) -> StagedMatrix:
    """Stage several matrices, and write them side by side into the job's folder."""
    matrices = [_stage_matrix(one, place).staged for one in wanted]
    if len(shapes := sorted({matrix.shape for matrix in matrices})) > 1:
        raise InputError(f"input.similarity: matrices of one shape, found {' and '.join(map(str, shapes))}")
    dense = [matrix for matrix in matrices if isinstance(matrix, Staged)]  # lists hold no sparse one
    blocks = [matrix.open(place.scratch) for matrix in dense]
    staged = place.array("matrix", np.concatenate(blocks, axis=1))
    return StagedMatrix(staged, ", ".join(one.address for one in wanted))


def _stage_matrix(wanted: JobInput, place: StagingPlace) -> StagedMatrix:
    """Stage features, similarities or objects; a sparse matrix is written into the job's folder first."""
    address, reading = wanted.address, wanted.reading
    if reading.keep:
        return StagedMatrix(stage(address, reading, place.scratch), address)
    given = open_matrix(address) if wanted.may_be_sparse else open_array(address)
    if isinstance(given, SparseStore):
        schema = Schema.of_array(address, given) if reading is FEATURES else None
        is_distance = reading is DISSIMILARITIES
        source = given.features() if reading is FEATURES else given.read("distance" if is_distance else "similarity")
        matrix: Staged | StagedSparse = replace(place.sparse("matrix", source), origin=address)
    else:
        schema = Schema.of_array(address, given)
        matrix = stage(address, reading, place.scratch)
    if wanted.numbers_for:
        refuse_categories(schema, address, wanted.numbers_for)
    return StagedMatrix(matrix, address, schema)


def _measures(
    wanted: JobInput, matrix: StagedMatrix, n_side_by_side: int, weights: Floats | None, place: StagingPlace
) -> list[Dense] | list[Kernel]:
    """The similarities by which rows are read: a given one, which is square, or built-in ones of features."""
    if wanted.reading not in {SIMILARITIES, DISSIMILARITIES}:
        return [_kernel(one, matrix, weights, place) for one in wanted.kernels]
    measure = "distance" if wanted.reading is DISSIMILARITIES else "similarity"
    n_rows, n_columns = matrix.staged.shape
    return [Dense.of((n_rows, n_columns // n_side_by_side), measure)]


def _kernel(wanted: GivenKernel, matrix: StagedMatrix, weights: Floats | None, place: StagingPlace) -> Kernel:
    """A built-in similarity of staged features."""
    assert isinstance(matrix.staged, Staged)  # noqa: S101  (such features are never sparse)
    with matrix.staged.watched(place.scratch) as features:
        kernel = Kernel.of(wanted.kind, features, wanted.gamma)
        if weights is not None and wanted.gamma is None and len(weights) == len(features):
            kernel = kernel.weighted(features, weights)
    return kernel


# --- weights and pairs -------------------------------------------------------------------------------------


def _sample_weight(wanted: ByRole, truth: StagedTruth) -> Floats | None:
    """Read the weights of the rows; None if the job wants none."""
    if Role.SAMPLE_WEIGHT not in wanted:
        return None
    one = wanted[Role.SAMPLE_WEIGHT]
    with naming(one.place, one.address):
        values = np.asarray(open_array(one.address)[...])
    if truth.kind == TruthKind.LINKS:  # of which there is one for each pair, and weights are those of points
        return checked_weights(values, int(open_array(wanted[Role.MATRIX].address).shape[0]))
    return checked_weights(values, truth.n_rows)


def _pair_weight(wanted: ByRole, truth: StagedTruth) -> Floats | None:
    """Read the weights of the given pairs, of each of which the truth says whether it is similar; None without them."""
    if Role.PAIR_WEIGHT not in wanted:
        return None
    one = wanted[Role.PAIR_WEIGHT]
    with naming(one.place, one.address):
        return checked_weights(np.asarray(open_array(one.address)[...]), truth.n_rows, OF_PAIRS)


def _stage_feature_weights(wanted: ByRole, n_features: int, place: StagingPlace) -> Staged | None:
    if Role.FEATURE_WEIGHTS not in wanted:
        return None
    address = wanted[Role.FEATURE_WEIGHTS].address
    array = open_array(address)
    check_feature_weights(address, tuple(array.shape), str(array.dtype), n_features)
    return place.array("feature_weights", np.asarray(array[...], np.float64))


def _stage_pairs(wanted: ByRole, n_points: int, truth: StagedTruth, place: StagingPlace) -> Staged | None:
    if Role.PAIRS not in wanted:
        return None
    address = wanted[Role.PAIRS].address
    array = open_array(address)
    check_pairs_and_links(address, tuple(array.shape), str(array.dtype), truth.n_rows)
    pairs = check_pairs(np.asarray(array[...]), n_points)
    return place.array("pairs", pairs)
