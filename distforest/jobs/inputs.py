"""The inputs of a job, staged on this host, in a form that a worker on any host can open."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from distforest.forest.forest import canonical
from distforest.growth.methods import (
    GROWTH,
    METHODS,
    Bound,
    problem,
)
from distforest.growth.parameters import parameters_told
from distforest.growth.problem import Data
from distforest.growth.sample_weights import SampleWeights
from distforest.jobs.callback import Callback
from distforest.jobs.versions import check_own_growth
from distforest.sources.array_files import Mapped
from distforest.sources.lazy.own_process import asking
from distforest.sources.lazy.source import LazySource, Objects, ValueSupplier
from distforest.sources.sparse import SparseSource
from distforest.sources.sparse_features import SparseFeatures
from distforest.sources.staged_sparse import StagedSparse
from distforest.sources.staging import Staged, default_scratch
from distforest.sources.truth import TruthKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from distforest.forest.forest import Params
    from distforest.sources.factors import ClassName
    from distforest.sources.row_kinds import RowKind


@dataclass(frozen=True)
class Inputs:
    """The inputs of a forest, staged: small enough to travel with every task.

    Attributes
    ----------
    method, params, seed
        Method, parameters and seed of the forest.
    rows, truth_kind, classes, largest, n_unobserved, offset
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
    n_unobserved: int = 0
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
            self.n_unobserved,
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
