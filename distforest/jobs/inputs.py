"""The staged inputs of a job, in a form that a worker on any host can open."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from distforest.forest.forest import canonical
from distforest.forest.graph_leaves import INDICES, INDPTR, LINK_DISTANCES
from distforest.growth.methods import (
    GROWTH,
    METHODS,
    Bound,
    problem,
    sampling,
)
from distforest.growth.parameters import recorded_parameters
from distforest.growth.passes import Passes
from distforest.growth.problem import Data
from distforest.growth.row_room import sizes_of
from distforest.growth.sample_weights import SampleWeights
from distforest.jobs.callback import Callback, ListedCallback, TruthCallback
from distforest.jobs.last_opened import LastOpened
from distforest.jobs.scratch_room import HostWorkers, workers_here
from distforest.jobs.versions import check_own_growth
from distforest.sources.array_files import Mapped
from distforest.sources.arrays import ArraySource
from distforest.sources.lazy.lazy_source import LazySource, Objects, ValueSupplier
from distforest.sources.lazy.own_process import asking
from distforest.sources.parted import StagedParts
from distforest.sources.point_pairs import PairColumns
from distforest.sources.row_kinds import Features, Several
from distforest.sources.schema import Schema
from distforest.sources.scratch import OF_HOST, ScratchFolder, is_being_staged
from distforest.sources.side_by_side import SideBySide
from distforest.sources.sparse import SparseSource
from distforest.sources.sparse_features import SparseFeatures
from distforest.sources.staged_sparse import StagedGraph, StagedSparse
from distforest.sources.staging import Staged
from distforest.sources.truth import Truth, TruthKind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from distforest.forest.chosen_cut import ChosenCut
    from distforest.forest.forest import Params
    from distforest.jobs.spec_models import AskedDecision
    from distforest.sources.binned_table import Bins
    from distforest.sources.factors import ClassName
    from distforest.sources.row_kinds import RowKind
    from distforest.sources.source import Source

    OpenMatrix = np.ndarray | SparseSource | SparseFeatures | LazySource | SideBySide | Bins


@dataclass(frozen=True)
class Inputs:
    """The staged inputs of a forest, small enough to be sent with every task.

    Attributes
    ----------
    method, params, seed
        Method, parameters and seed of the forest.
    rows, truth_kind, classes, largest, n_unobserved, graph, costs, offset
        As in `distforest.growth.problem.Data`.
    matrix, truth
        The two staged arrays.
    scratch
        Folder for staged files; each host has one.
    addresses
        The user's addresses of the two arrays, for the forest's provenance.
    callback
        The function that computes similarities; ``matrix`` then contains the objects.
    feature_weights, dependence
        The user's weights, or the result of a screen.
    pairs
        The user's pairs of points.
    schema
        The schema of the matrix's columns as the bytes of a JSON text, because there may be very many columns.
    growth
        The version of the growth in the process that staged the inputs; 1 before versions were recorded.
    sample_weight, weight_unit, n_absent
        The weight of each row as an integer, the integer that counts as one row, and the number of rows of weight 0:
        see `distforest.growth.sample_weights`.
    pair_weight, pair_unit
        The weight of each of ``pairs`` as an integer, and the integer that counts as one pair.
    rows_budget
        Bytes of rows that a tree holds at once if it grows by passes, or of distances that a task holds; None: all are
        in memory. It does not change the forest.
    chosen_cut
        The cut that trials have chosen, if the parameters leave the choice; it follows from the other inputs.
    listed
        The functions among several similarities; ``matrix`` contains those that are given, side by side, or row numbers
        if none is given.
    asked
        The function whose distances are the ground truth. Until it is evaluated, ``truth`` has no columns; its answers
        follow from the other inputs.
    parts
        The parts of the features; None: each host stages all of them. They do not change the forest.
    job
        Address of the folder of the job for which the inputs were staged.
    hosts
        The workers by their hosts, as far as the cluster has reported them.
    decision, identities
        The rate of false alarms that is asked of the sealed forest, and the number of the identity of each point. They
        do not change its trees.
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
    graph: StagedGraph | None = None
    costs: Staged | None = None
    scratch: ScratchFolder = OF_HOST
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
    rows_budget: int | None = None
    chosen_cut: ChosenCut | None = None
    listed: tuple[ListedCallback, ...] = ()
    asked: TruthCallback | None = None
    parts: StagedParts | None = None
    pair_weight: Staged | None = None
    pair_unit: int = 1
    job: str = ""
    hosts: Mapping[str, HostWorkers] = field(default_factory=dict)
    decision: AskedDecision | None = None
    identities: Staged | None = None

    @property
    def staged(self) -> list[Staged]:
        """The staged arrays that a process opens to grow trees."""
        graph = self.graph and self.graph.stored
        of_matrix = None if self.parts else self.matrix
        of_rows = (self.feature_weights, self.dependence, self.pairs, self.sample_weight, self.pair_weight, self.costs)
        of_functions = (*(one.objects for one in self.listed), self.asked and self.asked.objects)
        of_parts = (self.parts.bins, self.parts.judged) if self.parts else ()
        named = (of_matrix, self.truth, graph, *of_rows, *of_functions, *of_parts, self.schema)
        parts = [part for one in named for part in (one.parts if isinstance(one, StagedSparse) else (one,))]
        return list({part.sha256: part for part in parts if part is not None}.values())

    def check_room(self) -> None:
        """Refuse to open the inputs on a host whose scratch folder has no room for the missing files.

        A file that another process of the host is staging already has its room, and this process will wait for it. The
        first process of the host that grows by passes requires the room of all its workers; after that, part of it is
        taken, and each process requires only its own.

        Raises
        ------
        JobError
            There is not enough room, and nothing was staged.
        """
        places = {self.scratch.staged(one.sha256): one.n_bytes for one in self.staged}
        there = [place for place in places if place.exists() or is_being_staged(place)]
        missing, passes = sum(places.values()) - sum(places[place] for place in there), 0
        if self.rows_budget is not None and not self.passes_distances:
            (n, n_columns), rows = self.matrix.shape, sampling(self.params, self.matrix.shape[0])
            of_row, beside = 4 * n_columns, 0
            if self.params.get("max_bins"):
                of_row = beside = n_columns + 4 * sizes_of(self.n_categories)[0]
            here, folder = workers_here(self.hosts), self.scratch.path / "passes"
            if not here.n_workers:
                here = HostWorkers()
            elif folder.is_dir() and any(folder.iterdir()):
                here = HostWorkers(1, -(-here.threads // here.n_workers))
            passes = here.passes_bytes(n * beside, of_row + self.truth.n_bytes // n, rows.n_distinct)
        self.scratch.check_room(missing, passes, there)

    @property
    def n_categories(self) -> tuple[int, ...]:
        """Number of categories of each feature, 0 for a number; empty if all are numbers."""
        return self.rows.n_categories if isinstance(self.rows, Features) else ()

    @property
    def passes_distances(self) -> bool:
        """Whether trees grow by passes over a matrix of distances."""
        return self.rows_budget is not None and self.truth_kind == TruthKind.DISTANCES and self.graph is None

    def __str__(self) -> str:
        return f"the inputs {' and '.join(dict.fromkeys(self.addresses))}"

    @property
    def fingerprint(self) -> str:
        """A digest that is equal for jobs that lead to the same forest with the same names of features."""
        params = recorded_parameters(METHODS[self.method].parameters, self.params)
        decides = [GROWTH, self.method, params, self.seed, self.rows.to_dict(), self.truth_kind, self.classes]
        if isinstance(self.rows, PairColumns) and any(one.function for one in self.rows.comparisons):
            decides.append({"comparisons": [one.decides for one in self.rows.comparisons]})
        if self.callback:
            decides.append(self.callback.decides)
        if self.listed:
            decides.append({"listed": [listed.decides for listed in self.listed]})
        if self.feature_weights and not self.dependence:  # the result of a screen follows from the other inputs
            decides.append(self.feature_weights.sha256)
        if self.pairs:
            decides.append(self.pairs.sha256)
        for name, one in (("names", self.schema), ("graph", self.graph), ("costs", self.costs)):
            if one:
                decides.append({name: one.sha256})
        if self.asked:
            decides.append({"asked": self.asked.decides})
        elif self.offset:
            decides.append({"offset": self.offset})
        if self.sample_weight:
            decides.append({"sample_weight": self.sample_weight.sha256, "unit": self.weight_unit})
        if self.pair_weight:
            decides.append({"pair_weight": self.pair_weight.sha256, "unit": self.pair_unit})
        truth = None if self.asked else self.truth.sha256
        return hashlib.sha256(canonical([decides, self.matrix.sha256, truth])).hexdigest()

    def repeated(self, name: str) -> Staged:
        """Return a staged array that the sealed forest repeats, by its name in `distforest.growth`."""
        if isinstance(self.matrix, StagedSparse) and name.startswith("point_"):
            points = self.matrix
            return {"point_starts": points.indptr, "point_columns": points.indices, "point_values": points.data}[name]
        if self.graph is not None and name.startswith("graph_"):
            links = self.graph.stored
            return {INDPTR: links.indptr, INDICES: links.indices, LINK_DISTANCES: links.data}[name]
        staged: Staged = getattr(self, name)
        return staged

    @property
    def budget_id(self) -> str:
        """The name under which a ledger counts the evaluations of this job; a larger budget continues a smaller one."""
        without = replace(self.callback, budget=None) if self.callback else None
        listed = (replace(one, callback=replace(one.callback, budget=None)) for one in self.listed)
        return replace(self, callback=without, listed=tuple(listed)).fingerprint

    @property
    def callbacks(self) -> dict[int, Callback]:
        """The functions that compute similarities, by position in the list of several; 0 for the only one."""
        listed = {one.place: one.callback for one in self.listed}
        return {0: self.callback} if self.callback else listed

    @property
    def grows_together(self) -> bool:
        """Whether all trees grow in one process, which calls functions for all workers."""
        return any(callback.share == "all" for callback in self.callbacks.values())

    @property
    def evaluations(self) -> int:
        """Number of pairs that were evaluated before the trees of the forest grew."""
        tried = self.chosen_cut.evaluations if self.chosen_cut else 0
        return tried + (self.asked.evaluations if self.asked else 0)

    def sources(self) -> tuple[Source, ...]:
        """Return the source of each similarity of the list, or the only one; functions are called without a ledger."""
        matrix = self.problem().data.matrix
        if isinstance(matrix, SideBySide):
            return matrix.sources
        assert isinstance(matrix, LazySource)  # noqa: S101  (callers check for a function)
        return (matrix,)

    def bound(self, matrix: OpenMatrix, files: list[Mapped]) -> Bound:
        """Return the method bound to these inputs, with ``matrix`` for the trees to read.

        Opened files are added to ``files``, to be checked for changes after growth.
        """
        data = self.data(matrix, files)
        passes = None if self.rows_budget is None else Passes(self.scratch.path / "passes", self.rows_budget)
        params = self.params if self.chosen_cut is None else self.chosen_cut.into(self.params)
        return problem(METHODS[self.method], data, params, self.seed, passes)

    def data(self, matrix: OpenMatrix, files: list[Mapped]) -> Data:
        """Return the inputs opened on this host, with ``matrix`` for the trees; add to ``files`` as `bound` does."""
        scratch = self.scratch

        def opened(one: Staged | None) -> np.ndarray | None:
            return None if one is None else one.open(scratch, files)

        of_rows, of_pairs = opened(self.sample_weight), opened(self.pair_weight)
        rows = self.rows
        if isinstance(rows, PairColumns) and rows.comparisons:
            named = Schema.from_provenance(self.features())
            rows = replace(rows, schema=named or Schema.unnamed(rows.n_features))
        return Data(
            rows,
            matrix,
            Truth(
                self.truth_kind,
                self.truth.open(scratch, files),
                self.classes,
                self.largest,
                self.offset,
                self.n_unobserved,
                None if self.graph is None else self.graph.open(scratch, files),
                opened(self.costs),
            ),
            opened(self.feature_weights),
            opened(self.dependence),
            opened(self.pairs),
            None if of_rows is None else SampleWeights(of_rows, self.weight_unit),
            None if of_pairs is None else SampleWeights(of_pairs, self.pair_unit),
        )

    def features(self) -> dict[str, object]:
        """Return the provenance entry with the schema of the features; empty without names."""
        if self.schema is None:
            return {}
        return {"features": json.loads(self.schema.open(self.scratch).tobytes())}

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
        asked, how = (self.callback, self.listed, self.truth.sha256), (self.rows_budget, self.parts, self.scratch)
        decides = self.fingerprint, self.feature_weights is None, asked, how, self.chosen_cut
        return LAST_OPENED.get_or_open(decides, lambda: Opened.from_inputs(self))


@dataclass(frozen=True)
class Opened:
    """A method bound to staged arrays, the files of these arrays, and the folder of the job that has opened them."""

    problem: Bound
    files: tuple[Mapped, ...]
    job: str

    @classmethod
    def from_inputs(cls, inputs: Inputs) -> Opened:
        """Open the staged inputs of a job."""
        files = list[Mapped]()
        inputs.check_room()
        matrix: OpenMatrix
        if inputs.parts is not None:
            matrix = inputs.parts.opened_bins(inputs.matrix.shape[1], inputs.n_categories, inputs.scratch)
        else:
            matrix = inputs.matrix.open(inputs.scratch, files)
        if inputs.callback:
            matrix = _asked(inputs.callback, np.asarray(matrix))
        if inputs.listed:
            matrix = _side_by_side(inputs, np.asarray(matrix), files)
        return cls(inputs.bound(matrix, files), tuple(files), inputs.job)


LAST_OPENED = LastOpened[object, Opened](2)
"""The problems of the last jobs of this process; jobs with the same forest share them, whatever their timeouts."""


def forget_job(job: str) -> None:
    """Release what this process has opened for an ended job, by its folder's address; "" for all jobs."""
    LAST_OPENED.forget(lambda opened: f"{opened.job}/".startswith(f"{job}/" if job else ""))


def _asked(callback: Callback, objects: np.ndarray) -> LazySource:
    """Return the similarities that a function computes in a separate process, without a ledger."""
    lazy = callback.lazy()
    supply = replace(ValueSupplier.here(lazy), ask=asking(lazy, callback.code(lazy)))
    return LazySource(lazy, Objects.from_columns(objects), supply)


def _side_by_side(inputs: Inputs, given: np.ndarray, files: list[Mapped]) -> SideBySide:
    """Return several similarities, some from functions; ``given`` contains the others side by side."""
    assert isinstance(inputs.rows, Several)  # noqa: S101  (a list of similarities was staged)
    scratch, n = inputs.scratch, inputs.rows.n_objects
    asked = {one.place: _asked(one.callback, one.objects.open(scratch, files)) for one in inputs.listed}
    sources: list[Source] = []
    for place in range(len(inputs.rows.measures)):
        begin = n * (place - sum(earlier < place for earlier in asked))
        sources.append(asked.get(place) or ArraySource.from_values(given[:, begin : begin + n]))
    return SideBySide(tuple(sources))
