"""The inputs of a job, staged on this host, in a form that a worker on any host can open."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from distforest.amounts import counted
from distforest.errors import InputError, warn_caller
from distforest.forest.forest import canonical
from distforest.growth.cuts.far_values import told_of_far
from distforest.growth.draws.column_weights import ColumnWeights
from distforest.growth.methods import (
    GROWTH,
    METHODS,
    Bound,
    check_sparse,
    check_together,
    problem,
    weights_of_rows,
)
from distforest.growth.pairs.methods import pair_columns
from distforest.growth.parameters import parameters_told
from distforest.growth.problem import Data
from distforest.growth.sample_weights import SampleWeights, checked_weights
from distforest.jobs.callback import Callback
from distforest.jobs.versions import check_own_growth
from distforest.sources.array_files import Mapped
from distforest.sources.arrays import open_array, write_array
from distforest.sources.distance_doubts import SeenDistances, told_of_distances, told_of_truth
from distforest.sources.doubts import Sample, told_of_amounts, told_of_rounding, told_of_scales
from distforest.sources.factors import encoded, finite_vectors
from distforest.sources.kernels import KERNELS
from distforest.sources.lazy.own_process import asking
from distforest.sources.lazy.source import LazySource, Objects, ValueSupplier
from distforest.sources.opening import open_matrix
from distforest.sources.point_pairs import check_pairs, codes_of_links, warning_of_contradictions
from distforest.sources.readings import (
    AS_IT_IS,
    DISSIMILARITIES,
    DISTANCES,
    FEATURES,
    GRAPH,
    SIMILARITIES,
    largest_entry,
)
from distforest.sources.row_kinds import Dense, Features, Kernel, Several, is_built_in
from distforest.sources.schema import Schema
from distforest.sources.sparse import SparseSource
from distforest.sources.sparse_features import SparseFeatures
from distforest.sources.sparse_store import SparseStore
from distforest.sources.staged_sparse import StagedSparse
from distforest.sources.staging import Staged, default_scratch, stage
from distforest.sources.truth import TruthKind
from distforest.stores.addresses import naming
from distforest.stores.folder import Folder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from distforest.forest.forest import Params
    from distforest.growth.parameters import Value
    from distforest.jobs.spec import Relation, Spec
    from distforest.sources.factors import ClassName
    from distforest.sources.row_kinds import RowKind
    from distforest.sources.source import Floats


@dataclass(frozen=True)
class Inputs:
    """The inputs of a forest, staged: small enough to travel with every task.

    Attributes
    ----------
    method, params, seed
        Method, parameters and seed of the forest.
    rows, truth_kind, classes, largest, offset
        As in `distforest.growth.problem.Data`.
    matrix, truth
        The two staged arrays.
    scratch
        Folder for staged files; None for the default of each host.
    addresses
        The user's addresses of the two arrays, for the forest's provenance.
    callback
        The function that computes similarities; ``matrix`` then holds the objects.
    feature_weights, dependence
        The user's weights, or the result of a screen.
    pairs
        The user's pairs of points.
    schema
        The schema of the matrix's columns as the bytes of a JSON text, because there may be very many.
    growth
        The version of the growth in the process that staged the inputs; 1 before versions were recorded.
    sample_weight, weight_unit, n_absent
        The weight of each row as an integer, which integer counts as one row, and how many rows have the weight 0: see
        `distforest.growth.sample_weights`.
    """

    method: str
    params: Params
    seed: int
    rows: RowKind
    matrix: Staged | StagedSparse
    truth_kind: TruthKind
    truth: Staged
    classes: Sequence[ClassName] | None
    largest: float
    scratch: str | None = None
    addresses: tuple[str, str] = ("in memory", "in memory")
    callback: Callback | None = None
    feature_weights: Staged | None = None
    dependence: Staged | None = None
    pairs: Staged | None = None
    schema: Staged | None = None
    offset: float = 0.0
    growth: int = 1
    sample_weight: Staged | None = None
    weight_unit: int = 1
    n_absent: int = 0

    def __str__(self) -> str:
        return f"the inputs {' and '.join(dict.fromkeys(self.addresses))}"

    @property
    def fingerprint(self) -> str:
        """Equal for jobs that lead to the same forest, with the same names of its features."""
        params = parameters_told(METHODS[self.method].parameters, self.params)
        decides = [GROWTH, self.method, params, self.seed, self.rows.to_dict(), self.truth_kind, self.classes]
        if self.callback:
            decides.append(self.callback.decides)
        if self.feature_weights and not self.dependence:  # the result of a screen follows from the rest
            decides.append(self.feature_weights.sha256)
        if self.pairs:
            decides.append(self.pairs.sha256)
        if self.schema:
            decides.append({"names": self.schema.sha256})
        if self.offset:
            decides.append({"offset": self.offset})
        if self.sample_weight:
            decides.append({"sample_weight": self.sample_weight.sha256, "unit": self.weight_unit})
        return hashlib.sha256(canonical([decides, self.matrix.sha256, self.truth.sha256])).hexdigest()

    @property
    def budget_id(self) -> str:
        """The name under which a ledger keeps what this job has paid; a larger budget continues a smaller one."""
        without = replace(self.callback, budget=None) if self.callback else None
        return replace(self, callback=without).fingerprint

    def lazy_source(self) -> LazySource:
        """The source of a callback's similarities in this process; it evaluates without a ledger."""
        source = self.problem().data.matrix
        assert isinstance(source, LazySource)  # noqa: S101  (callers check for a callback)
        return source

    def bound(self, matrix: np.ndarray | SparseSource | SparseFeatures | LazySource, files: list[Mapped]) -> Bound:
        """The method bound to these inputs, with ``matrix`` for the trees to read.

        The files that are opened are added to ``files``, to be checked for changes after growth.
        """
        scratch = scratch_of(self.scratch)
        truth, others = (
            self.truth.open(scratch, files),
            (self.feature_weights, self.dependence, self.pairs, self.sample_weight),
        )
        weights, dependence, pairs, of_rows = (other.open(scratch, files) if other else None for other in others)
        data = Data(
            self.rows,
            matrix,
            self.truth_kind,
            truth,
            self.classes,
            self.largest,
            weights,
            dependence,
            pairs,
            self.offset,
            None if of_rows is None else SampleWeights(of_rows, self.weight_unit),
        )
        return problem(METHODS[self.method], data, self.params, self.seed)

    def features(self) -> dict[str, object]:
        """The entry of a forest's provenance with the schema of its features; empty without names."""
        if self.schema is None:
            return {}
        return {"features": json.loads(self.schema.open(scratch_of(self.scratch)).tobytes())}

    def problem(self) -> Bound:
        """Open the staged arrays on this host and bind them to the method."""
        return self.opened().problem

    def opened(self) -> Opened:
        """Open the staged arrays on this host and bind them to the method; cached for the next task.

        Raises
        ------
        JobError
            This process has another version of the growth than the one that staged the inputs.
        """
        check_own_growth(self.growth)
        opened = _opened(_Key(self))
        if not all(file.is_untouched for file in opened.files):
            _opened.cache_clear()
            opened = _opened(_Key(self))
        return opened


@dataclass(frozen=True)
class Opened:
    """A method bound to staged arrays, and the files that hold them."""

    problem: Bound
    files: tuple[Mapped, ...]


@dataclass(frozen=True)
class _Key:
    """The cache key of an opened problem; jobs of the same forest may differ in timeouts and ledgers."""

    inputs: Inputs

    @property
    def _key(self) -> tuple[str, bool, Callback | None]:
        return self.inputs.fingerprint, self.inputs.feature_weights is None, self.inputs.callback

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and other._key == self._key


@lru_cache(maxsize=2)
def _opened(key: _Key) -> Opened:
    inputs, files = key.inputs, list[Mapped]()
    matrix: np.ndarray | SparseSource | SparseFeatures | LazySource = inputs.matrix.open(
        scratch_of(inputs.scratch), files
    )
    if inputs.callback:
        lazy = inputs.callback.lazy()
        supply = replace(ValueSupplier.here(lazy), ask=asking(lazy, inputs.callback.code(lazy)))
        matrix = LazySource(lazy, Objects.of(np.asarray(matrix)), supply)
    return Opened(inputs.bound(matrix, files), tuple(files))


def scratch_of(given: str | None) -> Path:
    """The folder for staged files."""
    return Path(given) if given else default_scratch()


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


class StagedRows(NamedTuple):
    """How rows are read, the staged matrix or objects, the function that computes similarities, the columns."""

    kind: RowKind
    matrix: Staged | StagedSparse
    callback: Callback | None = None
    schema: Schema | None = None
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
    place, (truth_kind, address) = StagingPlace(folder, scratch_of(spec.run.scratch)), truth_kind_of(spec)
    truth, classes, largest = _stage_truth(truth_kind, address, spec, place)
    weights = _sample_weight(spec, truth.shape[0])
    rows = _stage_rows(spec, truth.shape[0], place, weights)
    if truth_kind == TruthKind.LABELS:
        _warn_of_amounts(spec, address, rows, place)
    matrix, pairs = rows.matrix, _stage_pairs(spec, rows.matrix.shape[0], truth, place)
    if truth.shape[0] != matrix.shape[0] and pairs is None:
        raise InputError(
            f"input: found {counted(matrix.shape[0], 'row')} at {matrix.address} and {truth.shape[0]} {truth_kind} "
            f"at {address}; they must describe the same items"
        )
    found = Inputs(
        *(spec.method, dict(spec.params), spec.seed, rows.kind, matrix, truth_kind, truth, classes, largest),
        scratch=spec.run.scratch,
        addresses=(rows.address or matrix.address, address),
        callback=rows.callback,
        feature_weights=_stage_weights(spec, matrix.shape[-1], place),
        pairs=pairs,
        schema=_stage_schema(rows.schema, place),
        offset=truth.reading.offset,
        growth=GROWTH,
    )
    if weights is None:
        return found
    of_rows = weights_of_rows(spec.params, truth_kind, truth.open(place.scratch), classes, weights)
    if told := of_rows.told(weights):
        warn_caller(told)
    return _with_sample_weights(found, of_rows, place)


def _sample_weight(spec: Spec, n_rows: int) -> Floats | None:
    """Read the weights of the rows; None if the spec names none."""
    address = spec.input.addresses.get("sample_weight")
    if address is None:
        return None
    with naming("input.sample_weight", address):
        values = np.asarray(open_array(address)[...])
    return checked_weights(values, n_rows)


def _with_sample_weights(inputs: Inputs, weights: SampleWeights, place: StagingPlace) -> Inputs:
    """Stage the weights of the rows as integers."""
    staged = place.array("sample_weight", weights.integers)
    n_absent = len(weights.integers) - len(weights.present)
    return replace(inputs, sample_weight=staged, weight_unit=weights.unit, n_absent=n_absent)


def input_addresses(spec: Spec) -> list[str]:
    """The addresses of all arrays that a job reads."""
    addresses = list(spec.input.addresses.values())
    for relation in spec.input.relations.values():
        for part in relation.each:
            address = part.options["objects"] if part.kind == "lazy" else part.address
            addresses += [str(address)] if address else []
    return addresses


def _stage_schema(schema: Schema | None, place: StagingPlace) -> Staged | None:
    kept = schema and schema.kept()
    return None if kept is None else place.array("feature_names", np.frombuffer(canonical(kept.entry()), np.uint8))


def _stage_weights(spec: Spec, n_features: int, place: StagingPlace) -> Staged | None:
    address = spec.input.addresses.get("feature_weights")
    if address is None:
        return None
    array = open_array(address)
    check_weights(address, tuple(array.shape), str(array.dtype), n_features)
    weights = np.asarray(array[...], np.float64)
    ColumnWeights.of(weights)
    return place.array("feature_weights", weights)


def _stage_pairs(spec: Spec, n_points: int, similar: Staged, place: StagingPlace) -> Staged | None:
    address = spec.input.addresses.get("pairs")
    if address is None:
        return None
    array = open_array(address)
    check_pairs_and_links(address, tuple(array.shape), str(array.dtype), similar.shape[0])
    pairs = check_pairs(np.asarray(array[...]), n_points)
    if told := warning_of_contradictions(pairs, similar.open(place.scratch)):
        warn_caller(f"pairs: {told}; drop what is wrong, or leave it as noise")
    return place.array("pairs", pairs)


def check_pairs_and_links(address: str, shape: tuple[int, ...], dtype: str, n_similar: int) -> None:
    """Refuse pairs that are not two row numbers for each entry of similar; raises InputError."""
    if shape != (n_similar, 2) or not dtype.startswith(("int", "uint")):
        expected = f"{address}: row numbers of shape ({n_similar}, 2) were expected, a pair for each entry of similar"
        raise InputError(f"{expected}, found {dtype} of shape {shape}")


def check_weights(address: str, shape: tuple[int, ...], dtype: str, n_features: int) -> None:
    """Refuse feature weights that are not a vector with a number for each feature; raises InputError."""
    if shape != (n_features,) or not dtype.startswith(("float", "int", "uint", "bool")):
        expected = f"{address}: a number for each of {counted(n_features, 'feature')} was expected"
        raise InputError(f"{expected}, found {dtype} of shape {shape}")


def _stage_rows(spec: Spec, n_rows: int, place: StagingPlace, weights: Floats | None) -> StagedRows:
    reads = METHODS[spec.method].reads
    if reads == "features":
        return _stage_either_features(spec, place)
    if reads == "points":
        rows = _stage_features(spec.input.addresses["features"], place)
        refuse_categories(rows.schema, rows.matrix.address, spec.method)
        return rows._replace(kind=pair_columns(spec.params, rows.matrix.shape[-1]))
    similarity = spec.input.relations["similarity"]
    if similarity.parts:
        return _stage_several(similarity, place, weights)
    if similarity.kind == "feature_subsets":
        return _stage_features(similarity.address, place)
    if similarity.kind in KERNELS:
        return _stage_kernel(similarity, place, weights)
    if similarity.kind == "lazy":
        return _stage_lazy(spec, similarity, n_rows, place)
    return _stage_given(similarity.address, str(similarity.options["measure"]), place)


def _stage_several(several: Relation, place: StagingPlace, weights: Floats | None) -> StagedRows:
    """Stage several similarities: matrices side by side in the job's folder, or the features that all of them read."""
    if several.parts[0].kind in KERNELS:
        staged = [_stage_kernel(part, place, weights) for part in several.parts]
        matrix = staged[0].matrix
    else:
        staged = [_stage_given(part.address, str(part.options["measure"]), place) for part in several.parts]
        if any(isinstance(rows.matrix, StagedSparse) for rows in staged):
            raise InputError("input.similarity: several similarities are read from dense matrices, found a sparse one")
        if len(shapes := sorted({rows.matrix.shape for rows in staged})) > 1:
            raise InputError(f"input.similarity: matrices of one shape, found {' and '.join(map(str, shapes))}")
        matrix = place.array("matrix", np.concatenate([rows.matrix.open(place.scratch) for rows in staged], axis=1))
    kinds = tuple(rows.kind for rows in staged if isinstance(rows.kind, (Dense, Kernel)))
    shares = tuple(float(str(part.options["weight"])) for part in several.parts)
    schema = staged[0].schema if is_built_in(kinds[0]) else None
    addresses = ", ".join(dict.fromkeys(part.address for part in several.parts))
    return StagedRows(Several(kinds, shares), matrix, schema=schema, address=addresses)


def _stage_kernel(similarity: Relation, place: StagingPlace, weights: Floats | None) -> StagedRows:
    """Stage the features of a built-in similarity; warns if the scale of one feature hides the others."""
    rows, gamma = _stage_features(similarity.address, place), similarity.options.get("gamma")
    refuse_categories(rows.schema, similarity.address, f"similarity {similarity.kind!r}")
    assert isinstance(rows.matrix, Staged)  # noqa: S101  (features are never sparse)
    with rows.matrix.watched(place.scratch) as features:
        told = told_of_scales(features, similarity.kind, rows.schema)
        kernel = Kernel.of(similarity.kind, features, float(gamma) if isinstance(gamma, (int, float)) else None)
        if weights is not None and gamma is None and len(weights) == len(features):
            kernel = kernel.weighted(features, weights)
    if told:
        warn_caller(f"similarity: {told}")
    return rows._replace(kind=kernel)


def _stage_given(address: str, measure: str, place: StagingPlace) -> StagedRows:
    """Stage a given matrix; a sparse one is written into the job's folder first."""
    given = open_matrix(address)
    seen = SeenDistances() if measure == "distance" else None
    matrix: Staged | StagedSparse
    schema = None
    if isinstance(given, SparseStore):
        matrix = replace(place.sparse("matrix", given.read(measure, seen)), origin=address)
    else:
        schema = Schema.of_array(address, given)
        matrix = stage(address, DISSIMILARITIES if seen else SIMILARITIES, place.scratch, seen)
        with matrix.watched(place.scratch) as values:
            told = "" if seen else told_of_distances(values)
        if told:
            cure = f"similarity = {{ kind = 'dense', matrix = {address!r}, measure = 'distance' }}"
            warn_caller(f"similarity: {told}; if they are distances, say so: {cure}")
    if seen and (told := seen.told("measure = 'similarity'")):
        warn_caller(f"{address}: {told}")
    return StagedRows(Dense.of(matrix.shape, measure), matrix, schema=schema)


def _stage_features(address: str, place: StagingPlace) -> StagedRows:
    sample, schema = Sample(), Schema.of_array(address, open_array(address))
    matrix = stage(address, FEATURES, place.scratch, sample)
    if told := told_of_rounding(sample, schema):
        warn_caller(f"{address}: {told}")
    return StagedRows(Features(matrix.shape[1], schema.n_categories if schema else ()), matrix, schema=schema)


def refuse_categories(schema: Schema | None, address: str, reader: str) -> None:
    """Refuse features of which some are categories, whose codes would be taken for amounts; raises InputError."""
    names = [] if schema is None else [column.name for column in schema.columns if column.categories]
    if names:
        cure = "ingest the column as indicators of its categories, or leave it out"
        raise InputError(f"{address}: column {names[0]!r} holds categories, and {reader} reads numbers; {cure}")


def _stage_either_features(spec: Spec, place: StagingPlace) -> StagedRows:
    """Stage features, dense or sparse; sparse ones are written into the job's folder first."""
    address = spec.input.addresses["features"]
    given = open_matrix(address)
    if not isinstance(given, SparseStore):
        return _stage_features(address, place)
    check_sparse(spec.params)
    matrix = replace(place.sparse("matrix", given.features()), origin=address)
    return StagedRows(Features(matrix.shape[1]), matrix, schema=Schema.of_array(address, given))


def _stage_lazy(spec: Spec, similarity: Relation, n_rows: int, place: StagingPlace) -> StagedRows:
    """Stage the objects, or row numbers if none are named, for a function with a ledger beside the output."""
    objects = similarity.options["objects"]
    matrix = stage(str(objects), AS_IT_IS, place.scratch) if objects else place.array("objects", np.arange(n_rows))
    kind = Dense.of((matrix.shape[0],) * 2, str(similarity.options["measure"]))
    return StagedRows(kind, matrix, callback_of(similarity, spec.output))


def callback_of(similarity: Relation, output: str) -> Callback:
    """The function of a lazy similarity, with a ledger beside the output if it needs one and none is named.

    Raises
    ------
    InputError
        The function cannot be imported, its options contradict each other, or there is no place for the ledger.
    """
    options: dict[str, Value] = {name: value for name, value in similarity.options.items() if name != "objects"}
    options["kind"] = options.pop("measure")
    if options["share"] == "all" and options["ledger"] is None:
        if not Folder(output).is_local:
            raise InputError(f"the ledger must be a local file, and {output} is no place for one; name it as 'ledger'")
        options["ledger"] = f"{output}.ledger"
    return Callback.of(similarity.address, options)


def truth_kind_of(spec: Spec) -> tuple[TruthKind, str]:
    """The kind of a job's truth, and its address."""
    relation = spec.input.relations.get("distances")
    if relation is not None:
        return (
            TruthKind.DISTANCES if relation.kind in {"dense", "graph"} else TruthKind(relation.kind)
        ), relation.address
    if "similar" in spec.input.addresses:
        return TruthKind.LINKS, spec.input.addresses["similar"]
    truth_kind = next(
        (kind for kind in (TruthKind.LABELS, TruthKind.TARGETS) if kind in spec.input.addresses), TruthKind.NOTHING
    )
    return truth_kind, spec.input.addresses["features" if truth_kind == TruthKind.NOTHING else truth_kind]


def _stage_truth(
    truth_kind: TruthKind, address: str, spec: Spec, place: StagingPlace
) -> tuple[Staged, Sequence[ClassName] | None, float]:
    if truth_kind == TruthKind.DISTANCES:
        graph = spec.input.relations["distances"].kind == "graph"
        distances = stage(address, GRAPH if graph else DISTANCES, place.scratch)
        with distances.watched(place.scratch) as values:
            told = "" if graph else told_of_truth(values, distances.reading.offset)
            largest = largest_entry(values)
        if told:
            warn_caller(f"{address}: {told}")
        return distances, None, largest
    if truth_kind == TruthKind.NOTHING:
        return place.array("truth", np.empty((open_matrix(address).shape[0], 0))), None, 1.0
    array = open_array(address)
    values = np.asarray(array[...])
    names = array.attrs.get("classes") if truth_kind == TruthKind.LABELS else None
    staged, classes = _stage_vector(truth_kind, values, place)
    return staged, _named(classes, names), 1.0


def _named(classes: Sequence[ClassName] | None, names: object) -> Sequence[ClassName] | None:
    """Classes by the names that their array has in its attributes, where all classes are numbers of names."""
    if classes is None or not isinstance(names, list):
        return classes
    numbers = [int(c) for c in classes if isinstance(c, (int, float)) and 0 <= c < len(names)]
    return [names[number] for number in numbers] if len(numbers) == len(classes) else classes


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


def _stage_vector(
    truth_kind: TruthKind, values: np.ndarray, place: StagingPlace
) -> tuple[Staged, Sequence[ClassName] | None]:
    """Stage codes, targets or embeddings; also returns the classes of codes."""
    if truth_kind == TruthKind.LINKS:
        return place.array("truth", codes_of_links(values)), None
    if truth_kind == TruthKind.LABELS:
        codes, classes = encoded(values)
        return place.array("truth", codes), classes
    vectors = finite_vectors(values, truth_kind)
    if told := told_of_far(vectors, truth_kind):
        warn_caller(told)
    return place.array("truth", vectors), None


def from_data(data: Data, method: str, params: Params, seed: int, folder: str) -> Inputs:
    """Make inputs of arrays in memory; they are first written into the job's folder, where any worker can read them."""
    place = StagingPlace(folder, default_scratch())
    if isinstance(data.matrix, (SparseSource, SparseFeatures)):
        matrix: Staged | StagedSparse = place.sparse("matrix", data.matrix)
    else:
        matrix = place.array("matrix", data.array)
    truth = place.array("truth", data.truth)
    found = Inputs(method, params, seed, data.rows, matrix, data.truth_kind, truth, data.classes, data.largest)
    found = replace(found, offset=data.offset, growth=GROWTH)
    if data.feature_weights is not None:
        found = replace(found, feature_weights=place.array("feature_weights", data.feature_weights))
    if data.pairs is not None:
        found = replace(found, pairs=place.array("pairs", data.pairs))
    return found if data.sample_weights is None else _with_sample_weights(found, data.sample_weights, place)
