"""Tuning: the trees of all cells of a grid grow as one run of tasks, and the best forest is sealed.

::

    stage -> grow, grow, ... -> shard, shard, ... -> score, score, ... -> scores -> fit of the best cell

Cells that differ only in when trees stop share the trees of the loosest cell. Shards are where a fit with the same
parameters has them, so the best cell's fit finds its trees there, unless they are shared. Scores are committed like
shards, so running an interrupted job again completes it.
"""

from __future__ import annotations

import hashlib
import math
import time
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from distforest.errors import ArtifactError, InputError, SpecError
from distforest.evaluation.grids import (
    DIAGONAL,
    TUNING,
    ScoredCell,
    ScoredGrid,
    SharedTrees,
    best_cell,
    check_defined,
    scored_cells,
    scored_rows,
    table_of,
)
from distforest.forest.forest import canonical
from distforest.forest.sealed.artifact import read_manifest
from distforest.growth.methods import GROWTH, over_rows
from distforest.jobs.cluster import Cluster, Work
from distforest.jobs.inputs import Inputs, forget_job
from distforest.jobs.plan import check_memory, check_worker_memory, plan
from distforest.jobs.preview import Preview, check_and_stage, preview
from distforest.jobs.screening import SCREENING, screened
from distforest.jobs.shards import committed_answer, committed_parts
from distforest.jobs.train import (
    Fitted,
    GrowTask,
    Options,
    committed_receipts,
    fit,
    grow,
    mark_of_job,
    shards_of,
    survey,
)
from distforest.jobs.versions import check_growth, check_own_growth
from distforest.sources.array_files import untouched
from distforest.sources.staged_arrays import STAGED_INPUTS
from distforest.stores.building import is_begun
from distforest.stores.claims import CLAIM, owned
from distforest.stores.outputs import FOREST_KIND, check_kind, check_new

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from distforest.forest.stopped_trees import EarlyStop
    from distforest.growth.parameters import Value
    from distforest.jobs.scratch_room import HostWorkers
    from distforest.jobs.spec import Spec
    from distforest.jobs.tune_spec import TuneSpec
    from distforest.stores.folder import Folder

DRAWING = ("bootstrap", "max_samples")
"""Parameters on which the integer weights of rows depend."""


@dataclass(frozen=True)
class CellGroup:
    """Cells that are scored with the same trees, and the staged inputs of these trees."""

    shared: SharedTrees
    inputs: Inputs


@dataclass(frozen=True)
class TunedForest:
    """The result of a tuning job: the best forest, the scores of the cells, and the number of trees grown.

    ``n_grown`` and ``seconds`` count all cells, those of ``fitted`` the best forest only. ``warnings`` are for the
    owner of the job.
    """

    fitted: Fitted
    grid: ScoredGrid
    n_grown: int
    seconds: float
    warnings: tuple[str, ...] = ()


def stage_grid(
    spec: TuneSpec, folder: str, memory_limit: int | None = None, hosts: Mapping[str, HostWorkers] | None = None
) -> list[CellGroup]:
    """Stage the inputs of a tuning job once for all cells that read the same, after a check that each can run.

    Parameters
    ----------
    spec
        The job.
    folder
        Address of the job's folder.
    memory_limit
        Memory of a worker in bytes, as its cluster reports it.
    hosts
        The workers by host; None: those of the embedded cluster.

    Raises
    ------
    SpecError, InputError, MemoryLimitError
        As `distforest.jobs.preview.check_and_stage`; a fault of one cell names it.
    """
    cells, workers = spec.cells, (memory_limit, hosts)
    _check_grid_memory(preview(spec.fit_of(cells[0]), *workers), memory_limit)
    staged = check_and_stage(spec.fit_of(cells[0]), folder, *workers)
    weighted = staged.sample_weight is not None
    as_read, groups = {_readings(spec.fit_of(cells[0]), weighted): staged}, []
    for shared in spec.shared_trees(share=staged.n_unobserved == 0 and not weighted):
        fit_of_group = spec.fit_of(shared.params)
        with _in_cell(shared.params):
            seen = preview(fit_of_group, *workers)
            check_memory(seen.least_bytes, memory_limit or seen.memory_limit)
            _check_grid_memory(seen, memory_limit)
            readings = _readings(fit_of_group, weighted)
            if readings not in as_read:
                place = f"{folder}/{STAGED_INPUTS}/grid-{len(as_read)}"  # inputs staged for other cells stay
                as_read[readings] = check_and_stage(fit_of_group, place, *workers)
        own = as_read[readings]
        groups.append(
            CellGroup(shared, replace(own, params=dict(fit_of_group.params), rows_budget=seen.size.rows_budget))
        )
    return groups


@contextmanager
def _in_cell(changes: Mapping[str, Value]) -> Iterator[None]:
    """Prefix the errors of a cell's input with its name."""
    cell = f"grid: the cell {dict(changes)}"
    try:
        yield
    except SpecError as error:
        raise SpecError([f"{cell}: {fault}" for fault in error.faults]) from error
    except InputError as error:
        raise InputError(f"{cell}: {error}") from error


def _readings(fit: Spec, weighted: bool) -> tuple[object, ...]:
    """Return what the staged inputs of a cell depend on; cells in which it is equal share inputs."""
    drawing = [fit.params[name] for name in DRAWING] if weighted else []
    return fit.input.relations["distances"].options.get(DIAGONAL), *drawing


def _check_grid_memory(seen: Preview, memory_limit: int | None) -> None:
    """Refuse distances by passes, as cells are scored by pairs from the whole matrix; raise MemoryLimitError."""
    if seen.size.passes_distances:
        check_memory(seen.whole_bytes, memory_limit or seen.memory_limit, "; cells are not scored by passes")


def tune(
    spec: TuneSpec, groups: Sequence[CellGroup], folder: Folder, cluster: Cluster, options: Options
) -> TunedForest:
    """Score the cells of a grid and seal the forest of the best, or complete an earlier run of the same job.

    Parameters
    ----------
    spec
        The job.
    groups
        The staged inputs of the job, from `stage_grid`.
    folder
        The job's folder for shards and scores, which is removed at the end.
    cluster
        The cluster on which the tasks run.
    options
        How the tasks run.

    Raises
    ------
    ConflictError, MemoryLimitError, JobError, DamageError
        As `distforest.jobs.train.fit`.
    InputError
        As there; or a score is not defined for the ground truth, or no pair is out of bag.
    """
    try:
        with owned(spec.output, "another tuning job", options.claim) as claim:
            cluster = cluster.of_job(claim, spec.method)
            return _tune(spec, groups, folder, cluster, replace(options, claim=claim, earlier=None))
    finally:
        cluster.everywhere(forget_job, folder.address)


def _tune(
    spec: TuneSpec, groups: Sequence[CellGroup], folder: Folder, cluster: Cluster, options: Options
) -> TunedForest:
    start = time.perf_counter()
    for group in groups:
        check_growth(group.inputs.growth, GROWTH)
    fingerprint = _fingerprint(spec, groups)
    sealed = _sealed_before(spec, groups, fingerprint, options)
    if sealed:
        folder.clear(CLAIM)
        return sealed
    check_worker_memory(cluster.memory_limit)
    screening = replace(SCREENING, retries=options.retries, watch=options.watch)
    ready = [CellGroup(group.shared, screened(group.inputs, folder, cluster, screening)) for group in groups]
    cluster.each(check_there, [ScoringTask(ready[0].inputs, spec.scoring)], Work("survey", options.retries, first=True))
    n_grown = _grow_all(ready, folder, cluster, options)
    scored = _score_all(ready, folder, cluster, options)
    number, warnings = best_cell(scored, spec.scoring)
    grid = ScoredGrid(table_of(spec.cells, scored, spec.scoring), spec.scoring, number)
    best = _inputs_of(spec, ready, number)
    provenance = {TUNING: {**grid.to_dict(), "fingerprint": fingerprint}}
    fitted = fit(best, spec.output, folder, cluster, replace(options, provenance=provenance))
    seconds = time.perf_counter() - start
    return TunedForest(fitted, grid, n_grown + fitted.n_grown, seconds, (*warnings, *fitted.warnings))


def _inputs_of(spec: TuneSpec, groups: Sequence[CellGroup], number: int) -> Inputs:
    """Return the inputs of the forest of a cell."""
    [group] = (group for group in groups if number in group.shared.numbers)
    return replace(group.inputs, params=dict(spec.fit_of(spec.cells[number]).params))


def _fingerprint(spec: TuneSpec, groups: Sequence[CellGroup]) -> str:
    """Return a digest that is equal for jobs that choose by the same score among the same forests."""
    cells = [_inputs_of(spec, groups, number).fingerprint for number in range(len(spec.cells))]
    return hashlib.sha256(canonical([spec.scoring, cells])).hexdigest()


def _sealed_before(
    spec: TuneSpec, groups: Sequence[CellGroup], fingerprint: str, options: Options
) -> TunedForest | None:
    """Return the result at the output if this job has made it; refuse an output that may not be replaced."""
    if check_kind(spec.output, FOREST_KIND) is None:
        return None
    try:
        provenance = read_manifest(spec.output)["provenance"]
    except ArtifactError:  # from another version, or begun in place
        marks = [mark_of_job(_inputs_of(spec, groups, number)) for number in range(len(spec.cells))]
        if not any(is_begun(spec.output, FOREST_KIND, mark) for mark in marks):
            check_new(spec.output, FOREST_KIND, options.overwrite)
        return None
    grid = ScoredGrid.of_provenance(provenance)
    if grid is None or provenance[TUNING].get("fingerprint") != fingerprint:
        if options.overwrite:
            return None
        what = "that was not tuned" if grid is None else "of another tuning job"
        cure = "choose another output or allow overwriting (`run.overwrite`)"
        raise InputError(f"{spec.output} is a forest {what}; {cure}")
    entry = read_manifest(spec.output)
    n_trees = entry["arrays"]["tree_size"]["shape"][0]
    return TunedForest(Fitted(spec.output, entry["digest"], n_trees, 0, 0.0, 0.0, 0, 0), grid, 0, 0.0)


def _grow_all(groups: Sequence[CellGroup], folder: Folder, cluster: Cluster, options: Options) -> int:
    """Grow the trees of all groups that no shard contains, as one run of tasks; return their number."""
    inputs = [group.inputs for group in groups]
    sizes = cluster.each(survey, inputs, Work("survey", options.retries, first=True))
    tasks, before = list[GrowTask](), 0
    for own, size in zip(inputs, sizes, strict=True):
        shards = shards_of(own, folder)
        done = committed_receipts(shards, cluster, options)
        trees = {tree for receipt in done for tree in range(receipt.first, receipt.last + 1)}
        planned = plan(size, trees, cluster.slots, options.batch, cluster.threads)
        check_memory(planned.projected_bytes, cluster.memory_limit)
        tasks += [GrowTask(own, shards.address, first, last, options.stop) for first, last in planned.tasks]
        before += len(trees)
    return sum(receipt.n_trees for receipt in grow(tasks, before, cluster, options))


@dataclass(frozen=True)
class ScoringTask:
    """The inputs of a job, and the score by which it chooses."""

    inputs: Inputs
    scoring: str

    def __str__(self) -> str:
        return "what is taught"


def check_there(task: ScoringTask) -> None:
    """Refuse a score that is not defined for the ground truth; open the inputs on the host of the task."""
    data = over_rows(task.inputs.opened().problem).data
    weights = None if data.sample_weights is None else data.sample_weights.integers
    check_defined(task.scoring, data.truth, scored_rows(data.n_rows, weights))


@dataclass(frozen=True)
class ScoreCellsTask:
    """The inputs of a group of cells, the folder of its shards, the stops of the cells' trees, and their number."""

    inputs: Inputs
    shards: Folder
    stops: tuple[EarlyStop, ...]
    n_trees: int

    def __str__(self) -> str:
        return f"the scores of {len(self.stops)} cells"


def score_cells(task: ScoreCellsTask) -> list[ScoredCell]:
    """Score the cells of a group by its shards, and commit the scores; if they are committed already, read them."""
    check_own_growth(task.inputs.growth)

    def scores() -> list[dict[str, Any]]:
        opened = task.inputs.opened()
        problem = over_rows(opened.problem)
        parts = committed_parts(task.shards, task.n_trees, "a forest of the grid")
        with untouched(opened.files):
            return list(map(asdict, scored_cells(problem.forest(parts), problem.data.truth, task.stops)))

    digest = hashlib.sha256(canonical([list(stop) for stop in task.stops])).hexdigest()
    rows = committed_answer(task.shards, f"scores-{digest[:16]}.json", scores)
    one_nan = [
        {name: math.nan if of is None or math.isnan(of) else of for name, of in row["scores"].items()} for row in rows
    ]
    return [ScoredCell(of_cell, row["splits"]) for of_cell, row in zip(one_nan, rows, strict=True)]


def _score_all(groups: Sequence[CellGroup], folder: Folder, cluster: Cluster, options: Options) -> list[ScoredCell]:
    """Return the scores of all cells, in the order of the grid; each group is a task."""
    tasks = [
        ScoreCellsTask(own, shards_of(own, folder), group.shared.stops, int(own.params["n_estimators"] or 1))
        for group in groups
        for own in [group.inputs]
    ]
    work = Work("judge", options.retries, lambda task: len(task.stops), options.watch)
    found: dict[int, ScoredCell] = {}
    for group, scored in zip(groups, cluster.each(score_cells, tasks, work), strict=True):
        found |= dict(zip(group.shared.numbers, scored, strict=True))
    return [found[number] for number in sorted(found)]
