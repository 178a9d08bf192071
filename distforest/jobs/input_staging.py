"""Staging of the inputs that a spec names, for the method to read.

spec -> wanted inputs -> staged arrays -> kind of rows, integer weights -> `distforest.jobs.inputs.Inputs`
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from distforest.checks.suspicions import Given
from distforest.checks.table import warn_of
from distforest.errors import warn_caller
from distforest.forest.forest import canonical
from distforest.growth.cuts.criteria import Variance
from distforest.growth.draws.column_draws import ColumnWeights
from distforest.growth.methods import GROWTH, check_together, over_rows, rows_of_features, weights_of_rows
from distforest.growth.pairs.point_weights import integers_of_pairs
from distforest.growth.row_blocks import IN_PARTS, check_by_sums, truth_of_rows
from distforest.growth.sample_weights import SampleWeights
from distforest.jobs.callback import Callback, ListedCallback, TruthCallback
from distforest.jobs.inputs import Inputs
from distforest.jobs.reader import LAZY_KIND
from distforest.jobs.spec import inputs_of, truth_of
from distforest.sources.binned import edges_of_sample
from distforest.sources.parted import StagedParts, present_before
from distforest.sources.point_pairs import PairColumns
from distforest.sources.row_kinds import Dense, Several
from distforest.sources.sparse import SparseSource
from distforest.sources.sparse_features import SparseFeatures
from distforest.sources.staged_arrays import StagedArrays, StagedTruth, StagingPlace, stage_arrays
from distforest.sources.staged_sparse import StagedSparse
from distforest.sources.staging import Staged
from distforest.sources.weights import OF_PAIRS

if TYPE_CHECKING:
    from distforest.forest.forest import Params
    from distforest.growth.problem import Data
    from distforest.jobs.spec import Spec
    from distforest.sources.parted import SurveyedRows
    from distforest.sources.row_kinds import RowKind
    from distforest.sources.schema import Schema

PACKED_SHARE = 4
"""One process gathers a node that has at most this share of the rows of a part, so that packs are of similar size."""


def stage_inputs(spec: Spec, folder: str, n_parts: int | None = None) -> Inputs:
    """Read, check and stage the inputs of a spec; `distforest.jobs.preview` has checked their metadata before.

    Parameters
    ----------
    spec
        The job.
    folder
        Address of the job's folder, where codes and targets are written for workers on other hosts.
    n_parts
        Number of parts of the features, which are then read once and stay where they are; None: they are staged.

    Raises
    ------
    InputError
        Parameters contradict each other; an array is missing, has the wrong shape, or contains values that are refused;
        or trees of this kind cannot grow in parts.
    """
    check_together(spec.params)
    place, (kind, address) = StagingPlace(folder, spec.run.scratch_folder, n_parts), truth_of(spec)
    arrays = stage_arrays(inputs_of(spec), kind, place)
    rows = _rows_of(spec, arrays)
    _check_values(rows, arrays, place)
    similarity, taught = spec.input.relations.get("similarity"), spec.input.relations.get("distances")
    schema = arrays.matrix.schema and arrays.matrix.schema.kept()

    def objects_of(where: str) -> Staged:  # for a function of the spec
        return arrays.objects.get(f"input.{where}.objects") or place.row_numbers(arrays.truth.n_rows)

    listed, asked = [], None
    for number, part in similarity.functions if similarity and similarity.parts else ():
        callback = Callback.from_relation(part, f"{spec.output}.{number}")
        listed.append(ListedCallback(number, callback, objects_of(f"similarity.{number}")))
    if taught and taught.kind == LAZY_KIND:
        asked = TruthCallback(Callback.from_relation(taught, spec.output), objects_of("distances"))
    staged = Inputs(
        *(spec.method, dict(spec.params), spec.seed, rows, arrays.matrix.staged, *arrays.truth),
        scratch=spec.run.scratch_folder,
        addresses=(arrays.matrix.address, address),
        callback=Callback.from_relation(similarity, spec.output)
        if similarity and similarity.kind == LAZY_KIND
        else None,
        asked=asked,
        listed=tuple(listed),
        feature_weights=arrays.feature_weights,
        pairs=arrays.pairs,
        schema=None if schema is None else _staged_schema(schema, place),
        offset=arrays.truth.offset,
        growth=GROWTH,
        job=folder,
        decision=spec.decision,
        identities=arrays.identities,
    )
    of_rows = of_pairs = None
    if arrays.sample_weight is not None:
        of_truth = (staged.truth_kind, staged.truth.open(place.scratch), staged.classes)
        of_rows = weights_of_rows(staged.params, *of_truth, arrays.sample_weight, staged.costs is not None)
        if warning := of_rows.rounding_warning(arrays.sample_weight):
            warn_caller(warning)
    if arrays.pair_weight is not None:
        of_pairs = integers_of_pairs(arrays.pair_weight, of_rows)
        if warning := of_pairs.rounding_warning(arrays.pair_weight, OF_PAIRS):
            warn_caller(warning)
    staged = _with_weights(staged, of_rows, of_pairs, place)
    return staged if arrays.matrix.surveyed is None else _with_parts(staged, arrays.matrix.surveyed, place)


def _with_parts(inputs: Inputs, found: SurveyedRows, place: StagingPlace) -> Inputs:
    """Stage what all parts share: the edges of bins, and the truth by which cuts are scored."""
    integers = None if inputs.sample_weight is None else inputs.sample_weight.open(place.scratch)
    of_sample = None if integers is None else integers[found.rows]
    n_categories = np.zeros(inputs.matrix.shape[1], np.int64)
    n_categories[: len(inputs.n_categories)] = inputs.n_categories
    of_categories, numbers_lack = n_categories > 0, not all(n_categories[column] for column in found.lacking)
    max_bins, left_out = int(inputs.params["max_bins"]), of_categories if of_categories.any() else None
    edges, first_edge = edges_of_sample(found.sample, max_bins, not numbers_lack, of_sample, left_out)
    bins = place.array("bins", np.concatenate([first_edge, edges]))
    n_present, n_parts = present_before(found.first_rows, integers), len(found.sha256)
    rows_of_pack = max(1, inputs.matrix.shape[0] // (PACKED_SHARE * n_parts))
    known = found.first_rows, found.sha256, found.lacking, bins
    parts = StagedParts(*known, inputs.truth, n_present, rows_of_pack)
    inputs = replace(inputs, parts=parts)
    bound = over_rows(inputs.problem())
    check_by_sums(bound.growth, IN_PARTS)
    if not inputs.truth_kind.is_of_vectors:
        return inputs
    judged = place.array("judged", truth_of_rows(bound.growth))
    return replace(inputs, parts=replace(parts, judged=judged))


def _staged_schema(schema: Schema, place: StagingPlace) -> Staged:
    """Stage a schema as the bytes of a JSON text."""
    return place.array("feature_names", np.frombuffer(canonical(schema.entry()), np.uint8))


def from_data(data: Data, method: str, params: Params, seed: int, folder: str) -> Inputs:
    """Make inputs from arrays in memory, which are written into the job's folder, where any worker can read them."""
    place = StagingPlace(folder)
    matrix: Staged | StagedSparse
    if isinstance(data.matrix, (SparseSource, SparseFeatures)):
        matrix = place.sparse("matrix", data.matrix)
    else:
        matrix = place.array("matrix", data.array)
    graph = None if data.truth.graph is None else place.graph(data.truth.graph, data.truth.offset)
    costs = None if data.truth.costs is None else place.array("costs", data.truth.costs)
    known = (data.truth.classes, data.truth.largest, data.truth.n_unobserved, graph, costs)
    truth = StagedTruth(data.truth.kind, place.array("truth", data.truth.values), *known)
    rows, schema = data.rows, None
    if isinstance(rows, PairColumns):
        rows, schema = replace(rows, schema=None), rows.schema
    staged = Inputs(
        *(method, params, seed, rows, matrix, *truth),
        schema=None if schema is None else _staged_schema(schema, place),
        feature_weights=None if data.feature_weights is None else place.array("feature_weights", data.feature_weights),
        pairs=None if data.pairs is None else place.array("pairs", data.pairs),
        offset=data.truth.offset,
        growth=GROWTH,
        job=folder,
    )
    return _with_weights(staged, data.sample_weights, data.pair_weights, place)


def _with_weights(
    inputs: Inputs, of_rows: SampleWeights | None, of_pairs: SampleWeights | None, place: StagingPlace
) -> Inputs:
    """Stage the weights of rows and of given pairs as integers."""
    if of_rows is not None:
        staged, n_absent = place.array("sample_weight", of_rows.integers), len(of_rows.integers) - len(of_rows.present)
        inputs = replace(inputs, sample_weight=staged, weight_unit=of_rows.unit, n_absent=n_absent)
    if of_pairs is not None:
        staged = place.array("pair_weight", of_pairs.integers)
        inputs = replace(inputs, pair_weight=staged, pair_unit=of_pairs.unit)
    return inputs


def _check_values(rows: RowKind, arrays: StagedArrays, place: StagingPlace) -> None:
    """Refuse useless feature weights and targets without finite squares; run checks, but not on objects."""
    if arrays.feature_weights:
        ColumnWeights.from_weights(arrays.feature_weights.open(place.scratch))
    truth, schema = arrays.truth, arrays.matrix.schema
    if truth.kind.is_of_vectors:
        Variance.from_vectors(truth.staged.open(place.scratch), 1.0, truth.kind)
    is_elsewhere = arrays.matrix.surveyed is not None or (isinstance(rows, Dense) and not arrays.measures)
    warn_of(
        Given.from_inputs(
            rows,
            None if is_elsewhere else arrays.matrix.staged.open(place.scratch),
            (truth.kind, truth.staged.open(place.scratch), truth.classes),
            None if arrays.pairs is None else arrays.pairs.open(place.scratch),
            () if schema is None else schema.names,
            arrays.sample_weight if arrays.pairs is None else arrays.pair_weight,
        )
    )


def _rows_of(spec: Spec, arrays: StagedArrays) -> RowKind:
    """Return how the rows of the staged matrix are read."""
    similarity, shape = spec.input.relations.get("similarity"), arrays.matrix.staged.shape
    if similarity is None or similarity.kind == "feature_subsets":
        schema, is_sparse = arrays.matrix.schema, isinstance(arrays.matrix.staged, StagedSparse)
        rows = rows_of_features(spec.method, spec.params, shape[1], schema, is_sparse, spec.input.comparisons)
        return replace(rows, schema=None) if isinstance(rows, PairColumns) else rows  # as large as all names
    if similarity.parts:
        given = iter(arrays.measures)
        lazily = (Dense(shape[0], part.measure) if part.kind == LAZY_KIND else next(given) for part in similarity.parts)
        return Several(tuple(lazily), similarity.weights)
    return arrays.measures[0] if arrays.measures else Dense(shape[0], similarity.measure)  # a function has no matrix
