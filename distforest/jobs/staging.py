"""The inputs of a job are staged: each is read once, checked, written where every worker can read it, and told of.

spec -> wanted inputs -> truth, weights of rows, matrix, pairs, feature weights -> `distforest.jobs.inputs.Inputs`
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from distforest.amounts import counted
from distforest.errors import InputError, warn_caller
from distforest.forest.forest import canonical
from distforest.growth.cuts.far_values import told_of_far
from distforest.growth.draws.column_weights import ColumnWeights
from distforest.growth.methods import GROWTH, METHODS, check_sparse, check_together, weights_of_rows
from distforest.growth.pairs.methods import pair_columns
from distforest.growth.sample_weights import checked_weights
from distforest.jobs.callback import Callback
from distforest.jobs.inputs import Inputs, scratch_of
from distforest.jobs.wanted import Role, check_weights, truth_of, wanted_inputs
from distforest.sources.arrays import open_array, write_array
from distforest.sources.distance_doubts import SeenDistances, told_of_distances, told_of_given
from distforest.sources.doubts import Sample, told_of_amounts, told_of_rounding, told_of_scales
from distforest.sources.factors import names_of_classes
from distforest.sources.kernels import KERNELS
from distforest.sources.opening import open_matrix
from distforest.sources.point_pairs import check_pairs, check_pairs_and_links, warning_of_contradictions
from distforest.sources.readings import (
    AS_IT_IS,
    DISSIMILARITIES,
    FEATURES,
    SIMILARITIES,
    known_entries,
)
from distforest.sources.row_kinds import Dense, Features, Kernel, Several
from distforest.sources.schema import Schema, refuse_categories
from distforest.sources.sparse import SparseSource
from distforest.sources.sparse_features import SparseFeatures
from distforest.sources.sparse_store import SparseStore
from distforest.sources.staged_sparse import StagedSparse
from distforest.sources.staging import Staged, default_scratch, stage
from distforest.sources.truth import Truth, TruthKind
from distforest.stores.addresses import naming
from distforest.stores.folder import Folder

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from distforest.forest.forest import Params
    from distforest.growth.problem import Data
    from distforest.growth.sample_weights import SampleWeights
    from distforest.jobs.spec import Relation, Spec
    from distforest.jobs.wanted import Wanted
    from distforest.sources.factors import ClassName
    from distforest.sources.row_kinds import RowKind
    from distforest.sources.source import Floats

    ByRole = dict[Role, Wanted]


@dataclass(frozen=True)
class StagingPlace:
    """The job's folder, whose arrays workers on all hosts read, and the folder for staged files of this host."""

    folder: str
    scratch: Path

    def array(self, name: str, values: np.ndarray) -> Staged:
        """Write an array into the job's folder, and stage it on this host."""
        group = f"{self.folder}/inputs.zarr"
        Folder(f"{group}/{name}").remove()  # left by an interrupted run
        write_array(group, name, values.shape, values.dtype, [values])
        return stage(f"{group}/{name}", AS_IT_IS, self.scratch)

    def sparse(self, name: str, source: SparseSource | SparseFeatures) -> StagedSparse:
        """Write the three arrays of a sparse source into the job's folder, and stage them on this host."""
        parts = {f"{name}_{part}": getattr(source, part) for part in ("indptr", "indices", "data")}
        indptr, indices, data = (self.array(part, values) for part, values in parts.items())
        return StagedSparse(indptr, indices, data, source.shape, opens=type(source))


class StagedTruth(NamedTuple):
    """The staged truth, with what else is known of it: see `distforest.sources.truth.Truth`."""

    kind: TruthKind
    staged: Staged
    classes: Sequence[ClassName] | None = None
    largest: float = 1.0
    n_unobserved: int = 0

    @property
    def n_rows(self) -> int:
        """Number of rows, or of pairs, of which it is the truth."""
        return self.staged.shape[0]


class StagedRows(NamedTuple):
    """How rows are read, the staged matrix or objects, the columns, the function that computes similarities."""

    kind: RowKind
    matrix: Staged | StagedSparse
    schema: Schema | None = None
    callback: Callback | None = None
    address: str | None = None  # where the user has the matrix, if it is staged from elsewhere


def stage_inputs(spec: Spec, folder: str) -> Inputs:
    """Read, check and stage the inputs of a spec; `distforest.jobs.preview` has checked their metadata before.

    Parameters
    ----------
    spec
        The job.
    folder
        Address of the job's folder, where codes and targets are written for workers on other hosts.

    Raises
    ------
    InputError
        Parameters contradict each other, or an array is missing, of the wrong shape, or holds values that are refused.
    """
    check_together(spec.params)
    place, wanted = StagingPlace(folder, scratch_of(spec.run.scratch)), {one.role: one for one in wanted_inputs(spec)}
    kind, address = truth_of(spec)
    truth = _stage_truth(kind, address, wanted, place)
    weights = _sample_weight(wanted, truth)
    rows = _stage_rows(spec, wanted, truth, weights, place)
    if kind == TruthKind.LABELS:
        _warn_of_amounts(spec, address, rows, place)
    matrix = rows.matrix
    pairs = _stage_pairs(wanted, matrix.shape[0], truth, place)
    if truth.n_rows != matrix.shape[0] and pairs is None:
        raise InputError(
            f"input: found {counted(matrix.shape[0], 'row')} at {matrix.address} and {truth.n_rows} {kind} "
            f"at {address}; they must describe the same items"
        )
    staged = Inputs(
        *(spec.method, dict(spec.params), spec.seed, rows.kind, matrix, *truth),
        scratch=spec.run.scratch,
        addresses=(rows.address or matrix.address, address),
        callback=rows.callback,
        feature_weights=_stage_feature_weights(wanted, matrix.shape[-1], place),
        pairs=pairs,
        schema=_stage_schema(rows.schema, place),
        offset=truth.staged.reading.offset,
        growth=GROWTH,
    )
    return staged if weights is None else _with_weights(staged, weights, place)


def from_data(data: Data, method: str, params: Params, seed: int, folder: str) -> Inputs:
    """Make inputs of arrays in memory; they are first written into the job's folder, where any worker can read them."""
    place = StagingPlace(folder, default_scratch())
    matrix: Staged | StagedSparse
    if isinstance(data.matrix, (SparseSource, SparseFeatures)):
        matrix = place.sparse("matrix", data.matrix)
    else:
        matrix = place.array("matrix", data.array)
    known = (data.classes, data.largest, data.n_unobserved)
    truth = StagedTruth(data.truth_kind, place.array("truth", data.truth), *known)
    staged = Inputs(
        *(method, params, seed, data.rows, matrix, *truth),
        feature_weights=None if data.feature_weights is None else place.array("feature_weights", data.feature_weights),
        pairs=None if data.pairs is None else place.array("pairs", data.pairs),
        offset=data.offset,
        growth=GROWTH,
    )
    return staged if data.sample_weights is None else _with_integers(staged, data.sample_weights, place)


# --- the truth ---------------------------------------------------------------------------------------------


def _stage_truth(kind: TruthKind, address: str, wanted: ByRole, place: StagingPlace) -> StagedTruth:
    if kind == TruthKind.NOTHING:
        return StagedTruth(kind, place.array("truth", np.empty((open_matrix(address).shape[0], 0))))
    if kind == TruthKind.DISTANCES:
        return _stage_distances(wanted[Role.TRUTH], place)
    array = open_array(address)
    truth = Truth.of_vector(kind, np.asarray(array[...]), names_of_classes(array))
    if kind.is_of_vectors and (told := told_of_far(truth.values, kind)):
        warn_caller(told)
    return StagedTruth(kind, place.array("truth", truth.values), truth.classes)


def _stage_distances(wanted: Wanted, place: StagingPlace) -> StagedTruth:
    distances = stage(wanted.address, wanted.reading, place.scratch)
    with distances.watched(place.scratch) as values:
        known = known_entries(values, distances.reading)
        doubts = told_of_given(values, distances.reading, known.n_unobserved)
    for told in doubts:
        warn_caller(f"{wanted.address}: {told}")
    return StagedTruth(TruthKind.DISTANCES, distances, None, *known)


def _warn_of_amounts(spec: Spec, address: str, rows: StagedRows, place: StagingPlace) -> None:
    """Warn if labels without names may be amounts, because they are in the order of a column of the matrix."""
    labels, matrix = open_array(address), rows.matrix
    if "classes" in labels.attrs:
        return
    columns = np.empty((matrix.shape[0], 0))
    if isinstance(matrix, Staged) and not matrix.reading.keep:  # neither sparse nor objects
        columns = matrix.open(place.scratch)
    told = told_of_amounts(np.asarray(labels[...]), columns, rows.schema)
    if not told:
        return
    cure = f"name them as targets: targets = {address!r}"
    if "distances" in spec.input.relations:
        cure = f"name them as targets: distances = {{ kind = 'targets', values = {address!r} }}"
    if METHODS[spec.method].reads == "points":
        cure = "cut them into classes, or say of pairs whether they are alike: similar and pairs"
    warn_caller(f"labels: {told}, any two of which are equally dissimilar; if they are amounts, {cure}")


# --- the rows ----------------------------------------------------------------------------------------------


def _stage_rows(
    spec: Spec, wanted: ByRole, truth: StagedTruth, weights: Floats | None, place: StagingPlace
) -> StagedRows:
    """Stage the matrix, or row numbers where a function needs no objects, and say how its rows are read."""
    similarity = spec.input.relations.get("similarity")
    if similarity and similarity.parts and similarity.parts[0].kind not in KERNELS:
        return _side_by_side(spec, similarity, place)
    matrix: Staged | StagedSparse
    if Role.MATRIX in wanted:
        matrix, schema = _stage_matrix(wanted[Role.MATRIX], place)
    else:
        matrix, schema = place.array("objects", np.arange(truth.n_rows)), None
    if reader := _reader_of_numbers(spec):
        refuse_categories(schema, matrix.address, reader)
    if METHODS[spec.method].reads == "points":
        return StagedRows(pair_columns(spec.params, matrix.shape[-1]), matrix, schema)
    if similarity is None or similarity.kind == "feature_subsets":
        if isinstance(matrix, StagedSparse):
            check_sparse(spec.params)
        return StagedRows(Features(matrix.shape[1], schema.n_categories if schema else ()), matrix, schema)
    if similarity.parts:
        kernels = tuple(_kernel(part, matrix, schema, weights, place) for part in similarity.parts)
        return StagedRows(Several(kernels, similarity.weights), matrix, schema)
    if similarity.kind in KERNELS:
        return StagedRows(_kernel(similarity, matrix, schema, weights, place), matrix, schema)
    measure = str(similarity.options["measure"])
    if similarity.kind == "lazy":
        kind, callback = Dense.of((matrix.shape[0],) * 2, measure), Callback.of_relation(similarity, spec.output)
        return StagedRows(kind, matrix, callback=callback)
    return StagedRows(Dense.of(matrix.shape, measure), matrix, schema)


def _side_by_side(spec: Spec, several: Relation, place: StagingPlace) -> StagedRows:
    """Stage several matrices, and write them side by side into the job's folder."""
    matrices = [one for one in wanted_inputs(spec) if one.role == Role.MATRIX]
    staged = [_stage_matrix(one, place)[0] for one in matrices]
    if len(shapes := sorted({matrix.shape for matrix in staged})) > 1:
        raise InputError(f"input.similarity: matrices of one shape, found {' and '.join(map(str, shapes))}")
    kinds = tuple(
        Dense.of(matrix.shape, str(part.options["measure"])) for matrix, part in zip(staged, several.parts, strict=True)
    )
    blocks = [matrix.open(place.scratch) for matrix in staged if isinstance(matrix, Staged)]  # lists hold no sparse one
    addresses = ", ".join(one.address for one in matrices)
    rows = StagedRows(Several(kinds, several.weights), place.array("matrix", np.concatenate(blocks, axis=1)))
    return rows._replace(address=addresses)


def _reader_of_numbers(spec: Spec) -> str:
    """What reads all features as numbers, and so takes no categories; "" if nothing does."""
    similarity = spec.input.relations.get("similarity")
    if similarity and similarity.each[0].kind in KERNELS:
        return f"similarity {similarity.each[0].kind!r}"
    return spec.method if METHODS[spec.method].reads == "points" else ""


def _stage_matrix(wanted: Wanted, place: StagingPlace) -> tuple[Staged | StagedSparse, Schema | None]:
    """Stage features, similarities or objects; a sparse matrix is written into the job's folder first."""
    address, reading = wanted.address, wanted.reading
    if reading.keep:
        return stage(address, reading, place.scratch), None
    given = open_matrix(address) if wanted.may_be_sparse else open_array(address)
    seen, sample = SeenDistances() if reading is DISSIMILARITIES else None, Sample()
    if isinstance(given, SparseStore):
        is_of_features = reading is FEATURES
        schema = Schema.of_array(address, given) if is_of_features else None
        source = given.features(sample) if is_of_features else given.read("distance" if seen else "similarity", seen)
        matrix: Staged | StagedSparse = replace(place.sparse("matrix", source), origin=address)
    else:
        schema = Schema.of_array(address, given)
        matrix = stage(address, reading, place.scratch, sample if reading is FEATURES else seen)
        if reading is SIMILARITIES:
            _warn_of_distances(matrix, place)
    told = seen.told("measure = 'similarity'") if seen else told_of_rounding(sample, schema)
    if told:
        warn_caller(f"{address}: {told}")
    return matrix, schema


def _warn_of_distances(similarities: Staged, place: StagingPlace) -> None:
    """Warn if given similarities look like distances."""
    with similarities.watched(place.scratch) as values:
        told = told_of_distances(values)
    if told:
        cure = f"similarity = {{ kind = 'dense', matrix = {similarities.address!r}, measure = 'distance' }}"
        warn_caller(f"similarity: {told}; if they are distances, say so: {cure}")


def _kernel(
    similarity: Relation,
    matrix: Staged | StagedSparse,
    schema: Schema | None,
    weights: Floats | None,
    place: StagingPlace,
) -> Kernel:
    """A built-in similarity of staged features; warns if the scale of one feature hides the others."""
    assert isinstance(matrix, Staged)  # noqa: S101  (such features are never sparse)
    gamma = similarity.options.get("gamma")
    with matrix.watched(place.scratch) as features:
        told = told_of_scales(features, similarity.kind, schema)
        kernel = Kernel.of(similarity.kind, features, float(gamma) if isinstance(gamma, (int, float)) else None)
        if weights is not None and gamma is None and len(weights) == len(features):
            kernel = kernel.weighted(features, weights)
    if told:
        warn_caller(f"similarity: {told}")
    return kernel


def _stage_schema(schema: Schema | None, place: StagingPlace) -> Staged | None:
    kept = schema and schema.kept()
    return None if kept is None else place.array("feature_names", np.frombuffer(canonical(kept.entry()), np.uint8))


# --- weights and pairs -------------------------------------------------------------------------------------


def _sample_weight(wanted: ByRole, truth: StagedTruth) -> Floats | None:
    """Read the weights of the rows; None if the spec names none."""
    if Role.SAMPLE_WEIGHT not in wanted:
        return None
    place, address, *_ = wanted[Role.SAMPLE_WEIGHT]
    with naming(place, address):
        values = np.asarray(open_array(address)[...])
    if truth.kind == TruthKind.LINKS:  # of which there is one for each pair, and weights are those of points
        return checked_weights(values, int(open_array(wanted[Role.MATRIX].address).shape[0]))
    return checked_weights(values, truth.n_rows)


def _with_weights(inputs: Inputs, weights: Floats, place: StagingPlace) -> Inputs:
    """Stage the weights of the rows as integers; warns of what rounding them changes."""
    truth = inputs.truth.open(place.scratch)
    of_rows = weights_of_rows(inputs.params, inputs.truth_kind, truth, inputs.classes, weights)
    if told := of_rows.told(weights):
        warn_caller(told)
    return _with_integers(inputs, of_rows, place)


def _with_integers(inputs: Inputs, weights: SampleWeights, place: StagingPlace) -> Inputs:
    staged = place.array("sample_weight", weights.integers)
    n_absent = len(weights.integers) - len(weights.present)
    return replace(inputs, sample_weight=staged, weight_unit=weights.unit, n_absent=n_absent)


def _stage_feature_weights(wanted: ByRole, n_features: int, place: StagingPlace) -> Staged | None:
    if Role.FEATURE_WEIGHTS not in wanted:
        return None
    address = wanted[Role.FEATURE_WEIGHTS].address
    array = open_array(address)
    check_weights(address, tuple(array.shape), str(array.dtype), n_features)
    weights = np.asarray(array[...], np.float64)
    ColumnWeights.of(weights)
    return place.array("feature_weights", weights)


def _stage_pairs(wanted: ByRole, n_points: int, truth: StagedTruth, place: StagingPlace) -> Staged | None:
    if Role.PAIRS not in wanted:
        return None
    address = wanted[Role.PAIRS].address
    array = open_array(address)
    check_pairs_and_links(address, tuple(array.shape), str(array.dtype), truth.n_rows)
    pairs = check_pairs(np.asarray(array[...]), n_points)
    if told := warning_of_contradictions(pairs, truth.staged.open(place.scratch)):
        warn_caller(f"pairs: {told}; drop what is wrong, or leave it as noise")
    return place.array("pairs", pairs)
