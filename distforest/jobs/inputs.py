"""What a job reads: its inputs, staged on this host, as a worker on any host can open them."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from distforest.amounts import counted
from distforest.errors import InputError, warn_caller
from distforest.forest.forest import canonical
from distforest.growth.cuts.far_values import told_of_far
from distforest.growth.draws.column_weights import ColumnWeights
from distforest.growth.methods import GROWTH, METHODS, Bound, check_together, problem
from distforest.growth.pairs.methods import pair_columns
from distforest.growth.parameters import parameters_told
from distforest.growth.problem import Data
from distforest.jobs.callback import Callback
from distforest.jobs.versions import check_own_growth
from distforest.sources.array_files import Mapped
from distforest.sources.arrays import open_array, write_array
from distforest.sources.distance_doubts import SeenDistances, told_of_distances, told_of_truth
from distforest.sources.doubts import Sample, told_of_amounts, told_of_rounding, told_of_scales
from distforest.sources.factors import encoded, finite_vectors
from distforest.sources.feature_names import FeatureNames
from distforest.sources.kernels import KERNELS
from distforest.sources.lazy.own_process import asking
from distforest.sources.lazy.source import LazySource, Objects, ValueSupplier
from distforest.sources.opening import open_matrix
from distforest.sources.point_pairs import check_pairs, codes_of_links, told_of_contradictions
from distforest.sources.readings import (
    AS_IT_IS,
    DISSIMILARITIES,
    DISTANCES,
    FEATURES,
    GRAPH,
    SIMILARITIES,
    largest_entry,
)
from distforest.sources.row_kinds import Dense, Features, Kernel
from distforest.sources.sparse import SparseSource, StagedSparse
from distforest.sources.sparse_store import SparseStore
from distforest.sources.staging import Staged, default_scratch, stage
from distforest.sources.truth import TruthKind
from distforest.stores.folder import Folder

if TYPE_CHECKING:
    from distforest.jobs.spec import Relation, Spec
    from distforest.sources.row_kinds import RowKind


@dataclass(frozen=True)
class Inputs:
    """The inputs of a forest, staged: small enough to travel with every task.

    Attributes
    ----------
    method, params, seed
        Of the forest.
    rows, truth_kind, classes, largest, offset
        As in `distforest.growth.problem.Data`.
    matrix, truth
        The two arrays.
    scratch
        Folder for staged files; None for each host's own default.
    addresses
        Where the user said that the inputs are, for the forest's provenance.
    callback
        The function that similarities are asked of; ``matrix`` then holds the objects.
    feature_weights, dependence
        What the user gave, or what a screen has found.
    pairs
        The pairs of points that were given.
    names
        What the columns of the matrix are called, as the bytes of a JSON text: there may be very many.
    growth
        The version of the growth of who has staged them, 1 before there were such numbers.
    """

    method: str
    params: dict[str, Any]
    seed: int
    rows: RowKind
    matrix: Staged | StagedSparse
    truth_kind: TruthKind
    truth: Staged
    classes: list[Any] | None
    largest: float
    scratch: str | None = None
    addresses: tuple[str, str] = ("in memory", "in memory")
    callback: Callback | None = None
    feature_weights: Staged | None = None
    dependence: Staged | None = None
    pairs: Staged | None = None
    names: Staged | None = None
    offset: float = 0.0
    growth: int = 1

    def __str__(self) -> str:
        return f"the inputs {' and '.join(dict.fromkeys(self.addresses))}"

    @property
    def fingerprint(self) -> str:
        """Equal for jobs that lead to the same forest, with the same names of its features."""
        params = parameters_told(METHODS[self.method].parameters, self.params)
        decides = [GROWTH, self.method, params, self.seed, self.rows.to_dict(), self.truth_kind, self.classes]
        if self.callback:
            decides.append(self.callback.decides)
        if self.feature_weights and not self.dependence:  # what a screen finds follows from the rest
            decides.append(self.feature_weights.sha256)
        if self.pairs:
            decides.append(self.pairs.sha256)
        if self.names:
            decides.append({"names": self.names.sha256})
        if self.offset:
            decides.append({"offset": self.offset})
        return hashlib.sha256(canonical([decides, self.matrix.sha256, self.truth.sha256])).hexdigest()

    @property
    def budget_id(self) -> str:
        """Under which name a ledger keeps what this job has paid for; a larger budget goes on from a smaller one."""
        without = replace(self.callback, budget=None) if self.callback else None
        return replace(self, callback=without).fingerprint

    def asked(self) -> LazySource:
        """The function and the objects of a callback, as this process has opened them; it asks without a ledger."""
        source = self.problem().data.matrix
        assert isinstance(source, LazySource)  # noqa: S101  (held by the callers, who know of a callback)
        return source

    def bound(self, matrix: Any, files: list[Mapped]) -> Bound:
        """The method bound to what these inputs hold, with ``matrix`` as what the trees read.

        The files that are opened for it are added to a list, to be held while trees grow.
        """
        scratch = scratch_of(self.scratch)
        truth, others = self.truth.open(scratch, files), (self.feature_weights, self.dependence, self.pairs)
        weights, dependence, pairs = (own.open(scratch, files) if own else None for own in others)
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
        )
        return problem(METHODS[self.method], data, self.params, self.seed)

    def feature_names(self) -> dict[str, Any]:
        """What a forest's provenance says of the names of its features."""
        if self.names is None:
            return {}
        return {"features": json.loads(self.names.open(scratch_of(self.scratch)).tobytes())}

    def problem(self) -> Bound:
        """The staged arrays on this host, opened and bound to the method."""
        return self.opened().problem

    def opened(self) -> Opened:
        """Open the staged arrays on this host and bind them to the method; kept for the next task of this process.

        Raises
        ------
        JobError
            This process grows trees by another version of the growth than who has staged them.
        """
        check_own_growth(self.growth)
        found = _opened(_Key(self))
        if not all(file.is_untouched for file in found.files):
            _opened.cache_clear()
            found = _opened(_Key(self))
        return found


@dataclass(frozen=True)
class Opened:
    """A method bound to staged arrays, and the files in which they are."""

    problem: Bound
    files: tuple[Mapped, ...]


@dataclass(frozen=True)
class _Key:
    """A key by which an opened problem is kept; jobs of one forest may ask within other times, into other ledgers."""

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
    matrix: Any = inputs.matrix.open(scratch_of(inputs.scratch), files)
    if inputs.callback:
        lazy = inputs.callback.lazy()
        supply = replace(ValueSupplier.here(lazy), ask=asking(lazy, inputs.callback.code(lazy)))
        matrix = LazySource(lazy, Objects.of(np.asarray(matrix)), supply)
    return Opened(inputs.bound(matrix, files), tuple(files))


def scratch_of(given: str | None) -> Path:
    """The folder for staged files."""
    return Path(given) if given else default_scratch()


def stage_inputs(spec: Spec, folder: str) -> Inputs:
    """Read, check and stage what a spec names; `distforest.jobs.preview` has looked at the metadata before.

    Parameters
    ----------
    spec
        The job.
    folder
        Address of the job's folder, where codes and targets are put for workers elsewhere.

    Raises
    ------
    InputError
        Parameters do not go together, or an array is missing, of the wrong shape, or holds values that are refused.
    """
    check_together(spec.params)
    truth_kind, address = truth_kind_of(spec)
    truth, classes, largest = _stage_truth(truth_kind, address, spec, folder)
    rows, matrix, callback = _stage_rows(spec, truth.shape[0], folder)
    _warn_of_amounts(spec, truth_kind, address, matrix)
    pairs = _stage_pairs(spec, matrix.shape[0], truth, folder)
    if truth.shape[0] != matrix.shape[0] and pairs is None:
        raise InputError(
            f"input: found {counted(matrix.shape[0], 'row')} at {matrix.address} and {truth.shape[0]} {truth_kind} "
            f"at {address}; they must describe the same items"
        )
    return Inputs(
        *(spec.method, dict(spec.params), spec.seed, rows, matrix, truth_kind, truth, classes, largest),
        scratch=spec.run.scratch,
        addresses=(matrix.address, address),
        callback=callback,
        feature_weights=_stage_weights(spec, matrix.shape[-1], folder),
        pairs=pairs,
        names=_stage_names(matrix, folder, scratch_of(spec.run.scratch)),
        offset=truth.reading.offset,
        growth=GROWTH,
    )


def input_addresses(spec: Spec) -> list[str]:
    """The addresses of all arrays that a job reads."""
    found = list(spec.input.addresses.values())
    for relation in spec.input.relations.values():
        own = relation.options["objects"] if relation.kind == "lazy" else relation.address
        found += [str(own)] if own else []
    return found


def _stage_names(matrix: Staged | StagedSparse, folder: str, scratch: Path) -> Staged | None:
    """The names that the array of the matrix has in its attributes, if it has some."""
    if isinstance(matrix, StagedSparse) or matrix.reading.keep:
        return None
    names = _names_at(matrix.address)
    kept = names and names.kept()
    if kept is None:
        return None
    return stage_array("feature_names", np.frombuffer(canonical(kept.entry()), np.uint8), folder, scratch)


def _names_at(address: str) -> FeatureNames | None:
    return FeatureNames.of_array(address, open_array(address))


def _stage_weights(spec: Spec, n_features: int, folder: str) -> Staged | None:
    address = spec.input.addresses.get("feature_weights")
    if address is None:
        return None
    array = open_array(address)
    check_weights(address, tuple(array.shape), str(array.dtype), n_features)
    weights = np.asarray(array[...], np.float64)
    ColumnWeights.of(weights)
    return stage_array("feature_weights", weights, folder, scratch_of(spec.run.scratch))


def _stage_pairs(spec: Spec, n_points: int, similar: Staged, folder: str) -> Staged | None:
    address, scratch = spec.input.addresses.get("pairs"), scratch_of(spec.run.scratch)
    if address is None:
        return None
    array = open_array(address)
    check_pairs_and_links(address, tuple(array.shape), str(array.dtype), similar.shape[0])
    pairs = check_pairs(np.asarray(array[...]), n_points)
    if told := told_of_contradictions(pairs, similar.open(scratch)):
        warn_caller(f"pairs: {told}; drop what is wrong, or leave it as noise")
    return stage_array("pairs", pairs, folder, scratch)


def check_pairs_and_links(address: str, shape: tuple[int, ...], dtype: str, n_similar: int) -> None:
    """Refuse pairs that are no two numbers each, or not as many as are said to be alike or not; raises InputError."""
    if shape != (n_similar, 2) or not dtype.startswith(("int", "uint")):
        asked = f"{address}: row numbers of shape ({n_similar}, 2) were expected, a pair for each entry of similar"
        raise InputError(f"{asked}, found {dtype} of shape {shape}")


def check_weights(address: str, shape: tuple[int, ...], dtype: str, n_features: int) -> None:
    """Refuse feature weights that are no vector of numbers, one for each feature; raises InputError."""
    if shape != (n_features,) or not dtype.startswith(("float", "int", "uint", "bool")):
        asked = f"{address}: a number for each of {counted(n_features, 'feature')} was expected"
        raise InputError(f"{asked}, found {dtype} of shape {shape}")


def _stage_rows(spec: Spec, n_rows: int, folder: str) -> tuple[RowKind, Staged | StagedSparse, Callback | None]:
    """How rows are read, the staged matrix or objects, and the function if similarities are asked for."""
    scratch = scratch_of(spec.run.scratch)
    reads = METHODS[spec.method].reads
    if reads in {"features", "points"}:
        rows, matrix = _stage_features(spec.input.addresses["features"], scratch)
        return pair_columns(spec.params, matrix.shape[1]) if reads == "points" else rows, matrix, None
    similarity = spec.input.relations["similarity"]
    if similarity.kind == "feature_subsets":
        return *_stage_features(similarity.address, scratch), None
    if similarity.kind in KERNELS:
        _, matrix = _stage_features(similarity.address, scratch)
        gamma: Any = similarity.options.get("gamma")
        with matrix.watched(scratch) as features:
            told = told_of_scales(features, similarity.kind, _names_at(similarity.address))
            kernel = Kernel.of(similarity.kind, features, gamma)
        if told:
            warn_caller(f"similarity: {told}")
        return kernel, matrix, None
    measure = str(similarity.options["measure"])
    if similarity.kind == "lazy":
        matrix, callback = _stage_lazy(spec, similarity, n_rows, folder)
        return Dense.of((matrix.shape[0],) * 2, measure), matrix, callback
    return *_stage_given(similarity.address, measure, folder, scratch), None


def _stage_given(address: str, measure: str, folder: str, scratch: Path) -> tuple[Dense, Staged | StagedSparse]:
    """How rows of a given matrix are read, and the matrix: dense from where it is, sparse from the job's folder."""
    given = open_matrix(address)
    seen = SeenDistances() if measure == "distance" else None
    matrix: Staged | StagedSparse
    if isinstance(given, SparseStore):
        rows = Dense.of(given.shape, measure)
        matrix = replace(stage_sparse("matrix", given.read(measure, seen), folder, scratch), origin=address)
    else:
        matrix = stage(address, DISSIMILARITIES if seen else SIMILARITIES, scratch, seen)
        rows = Dense.of(matrix.shape, measure)
        with matrix.watched(scratch) as values:
            told = "" if seen else told_of_distances(values)
        if told:
            cure = f"similarity = {{ kind = 'dense', matrix = {address!r}, measure = 'distance' }}"
            warn_caller(f"similarity: {told}; if they are distances, say so: {cure}")
    if seen and (told := seen.told("measure = 'similarity'")):
        warn_caller(f"{address}: {told}")
    return rows, matrix


def _stage_features(address: str, scratch: Path) -> tuple[Features, Staged]:
    sample = Sample()
    matrix = stage(address, FEATURES, scratch, sample)
    if told := told_of_rounding(sample, _names_at(address)):
        warn_caller(f"{address}: {told}")
    return Features(matrix.shape[1]), matrix


def _stage_lazy(spec: Spec, similarity: Relation, n_rows: int, folder: str) -> tuple[Staged, Callback]:
    """The staged objects, or numbers of rows where none are named, and the function with a ledger beside the output."""
    callback, scratch = callback_of(similarity, spec.output), scratch_of(spec.run.scratch)
    if similarity.options["objects"]:
        return stage(str(similarity.options["objects"]), AS_IT_IS, scratch), callback
    return stage_array("objects", np.arange(n_rows), folder, scratch), callback


def callback_of(similarity: Relation, output: str) -> Callback:
    """The function of a lazy similarity, with a ledger beside the output where one is needed and none is named.

    Raises
    ------
    InputError
        The function cannot be imported, its options do not go together, or the ledger has no place.
    """
    options: dict[str, Any] = {name: value for name, value in similarity.options.items() if name != "objects"}
    options["kind"] = options.pop("measure")
    if options["share"] == "all" and options["ledger"] is None:
        if not Folder(output).is_local:
            raise InputError(f"the ledger must be a local file, and {output} is no place for one; name it as 'ledger'")
        options["ledger"] = f"{output}.ledger"
    return Callback.of(similarity.address, options)


def truth_kind_of(spec: Spec) -> tuple[TruthKind, str]:
    """What the cuts are judged by, and where it is."""
    relation = spec.input.relations.get("distances")
    if relation is not None:
        return (
            TruthKind.DISTANCES if relation.kind in {"dense", "graph"} else TruthKind(relation.kind)
        ), relation.address
    if "similar" in spec.input.addresses:
        return TruthKind.LINKS, spec.input.addresses["similar"]
    truth_kind = next(
        (own for own in (TruthKind.LABELS, TruthKind.TARGETS) if own in spec.input.addresses), TruthKind.NOTHING
    )
    return truth_kind, spec.input.addresses["features" if truth_kind == TruthKind.NOTHING else truth_kind]


def _stage_truth(
    truth_kind: TruthKind, address: str, spec: Spec, folder: str
) -> tuple[Staged, list[Any] | None, float]:
    scratch = scratch_of(spec.run.scratch)
    if truth_kind == TruthKind.DISTANCES:
        graph = spec.input.relations["distances"].kind == "graph"
        distances = stage(address, GRAPH if graph else DISTANCES, scratch)
        with distances.watched(scratch) as values:
            told = "" if graph else told_of_truth(values, distances.reading.offset)
            largest = largest_entry(values)
        if told:
            warn_caller(f"{address}: {told}")
        return distances, None, largest
    array = open_array(address)
    if truth_kind == TruthKind.NOTHING:
        return stage_array("truth", np.empty((array.shape[0], 0)), folder, scratch), None, 1.0
    values = np.asarray(array[...])
    names = array.attrs.get("classes") if truth_kind == TruthKind.LABELS else None
    staged, classes = stage_truth(truth_kind, values, folder, scratch)
    if classes is not None and isinstance(names, list) and all(0 <= c < len(names) for c in classes):
        classes = [names[int(c)] for c in classes]
    return staged, classes, 1.0


def _warn_of_amounts(spec: Spec, truth_kind: TruthKind, address: str, matrix: Staged | StagedSparse) -> None:
    """Warn where labels without names may be amounts, as they are in the order of a column of what the trees read."""
    labels = open_array(address) if truth_kind == TruthKind.LABELS else None
    if labels is None or "classes" in labels.attrs:
        return
    columns, names = np.empty((matrix.shape[0], 0)), None
    if isinstance(matrix, Staged) and not matrix.reading.keep:  # neither sparse nor objects
        columns, names = matrix.open(scratch_of(spec.run.scratch)), _names_at(matrix.address)
    told = told_of_amounts(np.asarray(labels[...]), columns, names)
    if not told:
        return
    cure = f"name them as targets: targets = {address!r}"
    if "distances" in spec.input.relations:
        cure = f"name them as targets: distances = {{ kind = 'targets', values = {address!r} }}"
    if METHODS[spec.method].reads == "points":
        cure = "cut them into classes, or say of pairs whether they are alike: similar and pairs"
    warn_caller(f"labels: {told}, any two of which are equally unlike; if they are amounts, {cure}")


def stage_truth(
    truth_kind: TruthKind, values: np.ndarray, folder: str, scratch: Path
) -> tuple[Staged, list[Any] | None]:
    """Write codes, targets or embeddings into the job's folder and stage them; the classes of the codes."""
    if truth_kind == TruthKind.LINKS:
        return stage_array("truth", codes_of_links(values), folder, scratch), None
    if truth_kind == TruthKind.LABELS:
        codes, classes = encoded(values)
        return stage_array("truth", codes, folder, scratch), classes
    vectors = finite_vectors(values, truth_kind)
    if told := told_of_far(vectors, truth_kind):
        warn_caller(told)
    return stage_array("truth", vectors, folder, scratch), None


def stage_array(name: str, values: np.ndarray, folder: str, scratch: Path) -> Staged:
    """Write an array into the job's folder, where every worker can read it, and stage it here."""
    group = f"{folder}/inputs.zarr"
    Folder(f"{group}/{name}").remove()  # of a run that was interrupted
    write_array(group, name, values.shape, values.dtype, [values])
    return stage(f"{group}/{name}", AS_IT_IS, scratch)


def stage_sparse(name: str, source: SparseSource, folder: str, scratch: Path) -> StagedSparse:
    """Write the three arrays of a sparse source into the job's folder and stage them here."""
    parts = {f"{name}_{part}": getattr(source, part) for part in ("indptr", "indices", "data")}
    staged = [stage_array(part, values, folder, scratch) for part, values in parts.items()]
    return StagedSparse(staged[0], staged[1], staged[2], source.shape)


def from_data(data: Data, method: str, params: dict[str, Any], seed: int, folder: str) -> Inputs:
    """Inputs made of arrays in memory: written into the job's folder first, so that any worker can read them."""
    scratch = default_scratch()
    if isinstance(data.matrix, SparseSource):
        matrix: Staged | StagedSparse = stage_sparse("matrix", data.matrix, folder, scratch)
    else:
        matrix = stage_array("matrix", data.array, folder, scratch)
    truth = stage_array("truth", data.truth, folder, scratch)
    found = Inputs(method, params, seed, data.rows, matrix, data.truth_kind, truth, data.classes, data.largest)
    found = replace(found, offset=data.offset, growth=GROWTH)
    given = {name: getattr(data, name) for name in ("feature_weights", "pairs")}
    staged: dict[str, Any] = {
        name: stage_array(name, own, folder, scratch) for name, own in given.items() if own is not None
    }
    return replace(found, **staged)
