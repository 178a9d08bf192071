"""Training: tasks grow trees and commit shards, tasks merge shards and write chunks, and the manifest seals the forest.

::

    plan -> grow, grow, ... -> shard, shard, ... -> merge, merge, ... -> chunk, chunk, ... -> manifest

A shard is one file, written in one step under a name that states its trees. Running an interrupted job again completes
it: the plan contains only trees that no shard contains.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from distforest.errors import ArtifactError, CancelledJobError, DamageError, InputError, JobError
from distforest.forest.chosen_cut import ChosenCut
from distforest.forest.forest import Forest
from distforest.forest.roots import Roots, Stayed
from distforest.forest.sealed.artifact import open_forest, read_manifest
from distforest.growth.cuts.trial_cuts import cuts_to_try, is_to_choose, trial_params
from distforest.growth.earlier_trees import as_part
from distforest.growth.methods import GROWTH, Bound
from distforest.growth.problem import Problem
from distforest.growth.row_room import CategorySizes
from distforest.growth.standstill import warning_about_roots
from distforest.jobs.cluster import Cluster, Lost, Threads, Watch, Work
from distforest.jobs.decisions import DecisionTask, decision_entry, seal_decisions
from distforest.jobs.evaluated_distances import with_evaluated_distances
from distforest.jobs.inputs import Inputs, forget_job
from distforest.jobs.lockstep import evaluations_of, grow_together
from distforest.jobs.merge import Target, merge
from distforest.jobs.plan import TREES_AT_ONCE, Size, check_memory, check_worker_memory, plan
from distforest.jobs.rounds import grow_in_parts
from distforest.jobs.screening import SCREENING, screened
from distforest.jobs.shards import Receipt, commit, committed_shards, read_receipt, shard_name, warning_about_versions
from distforest.jobs.stop import Stop
from distforest.jobs.trial_forests import TrialTask, try_forest
from distforest.jobs.versions import VERSIONS, VERSIONS_HERE, check_growth, check_own_growth
from distforest.sources.array_files import untouched
from distforest.sources.row_kinds import Features
from distforest.stores.building import Building, is_begun
from distforest.stores.claims import CLAIM, Claim, owned
from distforest.stores.folder import Folder
from distforest.stores.outputs import FOREST_KIND, check_kind, check_new


@dataclass(frozen=True)
class GrowTask:
    """Trees first to last of a job, which the task commits into ``folder``; ``stop`` is the folder of the stop sign."""

    inputs: Inputs
    folder: str
    first: int
    last: int
    stop: str | None = None

    @property
    def n_trees(self) -> int:
        """Number of trees of the task."""
        return self.last - self.first + 1

    def __str__(self) -> str:
        return f"tree {self.first}" if self.n_trees == 1 else f"trees {self.first} to {self.last}"

    def one_by_one(self) -> list[GrowTask]:
        """Return a task for each of the trees."""
        return [replace(self, first=tree, last=tree) for tree in range(self.first, self.last + 1)]


@dataclass(frozen=True)
class Options:
    """How a job runs; these options do not change the trees.

    ``on_answer`` is called with the receipt of each task, and with `Lost` for a task that is lost with its workers.
    ``stop`` is the address of the folder of the stop sign. ``claim`` is the job's claim on its output, if it has made
    one. ``earlier`` is the address of a forest of the same data, parameters and seed with fewer trees, which are not
    grown again; if there is no such forest, all trees are grown. ``provenance`` has further entries of the forest's
    provenance, which change its digest.
    """

    batch: int | None = None
    retries: int = 3
    overwrite: bool = False
    keep_shards: bool = False
    watch: Watch | None = None
    on_answer: Callable[[Receipt | Lost], None] | None = None
    stop: str | None = None
    claim: Claim | None = None
    earlier: str | None = None
    provenance: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Fitted:
    """The result of a fit.

    ``n_grown`` counts the trees grown by this run, which are fewer than ``n_trees`` if it completed an earlier one.
    ``evaluations`` and ``closed`` are the costs of similarities: evaluated pairs, and nodes closed because the budget
    was spent. ``warnings`` are for the owner of the job.
    """

    address: str
    digest: str
    n_trees: int
    n_grown: int
    seconds: float
    growing_seconds: float
    peak_bytes: int
    projected_bytes: int
    evaluations: int = 0
    closed: int = 0
    warnings: tuple[str, ...] = ()


def grow_shard(task: GrowTask) -> Receipt:
    """Grow a task's trees and commit them; if they are committed already, only return their receipt."""
    check_own_growth(task.inputs.growth)
    folder, name = Folder(task.folder), shard_name(task.first, task.last)
    committed = read_receipt(folder, name)
    if committed:
        return committed
    stop = Stop(task.stop)
    start, opened = time.perf_counter(), task.inputs.opened()
    problem, before = opened.problem, evaluations_of(opened.problem)
    with untouched(opened.files):
        arrays = problem.watched(stop.at).grow(np.arange(task.first, task.last + 1))
    seconds, evaluations = time.perf_counter() - start, evaluations_of(problem) - before
    stop.check()
    receipt = commit(folder, arrays, Receipt(task.first, task.last, name, seconds, evaluations=evaluations))
    try:
        stop.check()
    except CancelledJobError:  # the sign appeared after the last check, and the job's folder may be gone
        folder.discard(name)
        raise
    return receipt


def fit(inputs: Inputs, output: str, folder: Folder, cluster: Cluster, options: Options) -> Fitted:
    """Train a forest and seal it at ``output``, or complete an earlier run of the same job.

    Parameters
    ----------
    inputs
        The staged inputs.
    output
        Address of the forest.
    folder
        The job's folder for shards, which is removed at the end.
    cluster
        The cluster on which the tasks run.
    options
        How the tasks run.

    Raises
    ------
    ConflictError
        Another job owns the output.
    InputError
        ``output`` is another forest that may not be overwritten, or not a forest.
    MemoryLimitError
        The job does not fit into its workers.
    JobError
        A task failed permanently, or a worker has another version of the growth. Committed trees are kept for the next
        run.
    DamageError
        A staged input was damaged at an unknown time; no tree is kept.

    Warns
    -----
    DistforestWarning
        Trees were grown with different versions of NumPy or Numba.
    """
    try:
        with owned(output, "another fit", options.claim) as claim:
            cluster = cluster.of_job(claim, inputs.method)
            return _fit(inputs, output, folder, cluster, replace(options, claim=claim))
    finally:
        cluster.everywhere(forget_job, folder.address)


@contextmanager
def kept(folder: Folder) -> Iterator[None]:
    """If the block fails, keep a job's folder only if it has trees from which the next run can continue."""
    try:
        yield
    except BaseException:
        with suppress(OSError):  # the error of the block is the one to report
            if not any(folder.within(name).names() for name in folder.names() if name.startswith("shards-")):
                folder.clear(CLAIM)
        raise


def _fit(inputs: Inputs, output: str, folder: Folder, cluster: Cluster, options: Options) -> Fitted:
    """Run `fit` for a job that owns its output."""
    start = time.perf_counter()
    check_growth(inputs.growth, GROWTH)
    sealed = _already_sealed(inputs, output, options)
    if sealed:
        folder.clear(CLAIM)
        return sealed
    check_worker_memory(cluster.memory_limit)
    inputs = with_evaluated_distances(
        inputs, folder, cluster, partial(fit_here, threads=cluster.threads), options.watch
    )
    inputs = screened(inputs, folder, cluster, replace(SCREENING, retries=options.retries, watch=options.watch))
    inputs = _with_chosen_cut(inputs, folder, cluster, options)
    shards = shards_of(inputs, folder)
    committed = grow_trees(inputs, shards, cluster, options)
    receipts, grown = committed.receipts, committed.grown
    warnings = (*_warnings(inputs, receipts, cluster, options), *filter(None, [warning_about_versions(receipts)]))
    merging = Work("merge", options.retries, watch=options.watch, first=True)
    options, told = replace(options, provenance={**options.provenance, **decision_entry(inputs)}), list[str]()

    def decide(address: str) -> None:
        if inputs.decision:
            task = DecisionTask(inputs, address)
            told.extend(*cluster.each(seal_decisions, [task], Work("decide", options.retries, first=True)))

    try:
        target = replace(_target(inputs, output, folder, shards, options), complete=decide)
        digest = merge(inputs, receipts, target, cluster, merging)
    except DamageError:
        shards.remove()  # it is unknown which trees are intact
        raise
    if not options.keep_shards:
        folder.clear(CLAIM)
    return Fitted(
        output,
        digest,
        sum(receipt.n_trees for receipt in receipts),
        sum(receipt.n_trees for receipt in grown),
        time.perf_counter() - start,
        sum(receipt.seconds for receipt in grown),
        max((receipt.peak_bytes for receipt in grown), default=0),
        committed.projected_bytes,
        sum(receipt.evaluations for receipt in receipts) + inputs.evaluations,
        sum(receipt.closed for receipt in receipts),
        (*warnings, *told),
    )


class Committed(NamedTuple):
    """The receipts of all trees of a forest, those of this run among them, and the projected memory."""

    receipts: list[Receipt]
    grown: list[Receipt]
    projected_bytes: int


def grow_trees(inputs: Inputs, shards: Folder, cluster: Cluster, options: Options, name: str = "grow") -> Committed:
    """Grow the trees of a job that no shard contains, as a run of tasks of this name."""
    [size] = cluster.each(survey, [inputs], Work("survey", options.retries, first=True))
    if inputs.parts is not None:
        count = inputs.parts.count
        size = replace(size, n_parts=count, parts_of_worker=-(-count // cluster.n_workers))
    if options.earlier and not inputs.grows_together:  # a ledger keeps the pairs in that case
        keeping = Work("resume", options.retries, first=True)
        cluster.each(keep_trees, [EarlierTrees(inputs, options.earlier, shards)], keeping)
    done, slots = committed_receipts(shards, cluster, options), cluster.slots
    trees = {tree for receipt in done for tree in range(receipt.first, receipt.last + 1)}
    planned = plan(size, trees, slots, options.batch, cluster.threads)
    check_memory(planned.projected_bytes, cluster.memory_limit)
    if inputs.grows_together:
        grown = [grow_together(inputs, shards, cluster, options.watch)] if planned.tasks else []
        done = [] if grown else done
        if options.on_answer and grown:
            options.on_answer(grown[0])
    elif inputs.parts is not None:
        wanted, work = [tree for tree in range(size.n_trees) if tree not in trees], _growing(name, len(trees), options)
        grown = grow_in_parts(inputs, wanted, shards, cluster, work, options.batch or TREES_AT_ONCE, options.stop)
    else:
        tasks = [GrowTask(inputs, shards.address, first, last, options.stop) for first, last in planned.tasks]
        grown = grow(tasks, len(trees), cluster, options, name)
    receipts = sorted([*done, *grown], key=lambda receipt: receipt.first)
    return Committed(receipts, grown, planned.projected_bytes)


def _with_chosen_cut(inputs: Inputs, folder: Folder, cluster: Cluster, options: Options) -> Inputs:
    """Return the inputs with the cut of the smaller out-of-bag error, if the parameters leave the choice.

    A forest for each cut grows into shards beside those of the job's forest, and is resumed like it.
    """
    if not is_to_choose(inputs.params) or inputs.chosen_cut:
        return inputs
    errors, evaluations, own = [], 0, replace(options, earlier=None, on_answer=None)
    for cut in cuts_to_try(inputs.params, inputs.rows, inputs.classes):
        trial = replace(inputs, params=trial_params(inputs.params, cut))
        shards = shards_of(trial, folder)
        receipts = grow_trees(trial, shards, cluster, own, "try").receipts
        errors += cluster.each(try_forest, [TrialTask(trial, shards)], Work("judge", options.retries))
        evaluations += sum(receipt.evaluations for receipt in receipts)
    return replace(inputs, chosen_cut=ChosenCut(tuple(errors), evaluations))


@dataclass(frozen=True)
class RootsTask:
    """The inputs of a job, the numbers of trees without a split, all trees and closed nodes, and rows that stay."""

    inputs: Inputs
    n_roots: int
    n_trees: int
    closed: int
    stayed: Stayed

    def __str__(self) -> str:
        return "why trees have no split"


def warnings_there(task: RootsTask) -> list[str]:
    """Return the warnings about trees without a split and rows that stay; opens the inputs on the host of the task."""
    problem = task.inputs.problem()
    roots = Roots(task.n_roots, task.n_trees, problem.data.n_rows, problem.meaning.leaf)
    warnings = [warning_about_roots(problem, roots, task.closed), task.stayed.warning(problem.meaning.leaf)]
    return [warning for warning in warnings if warning]


def _warnings(inputs: Inputs, receipts: Sequence[Receipt], cluster: Cluster, options: Options) -> list[str]:
    """Return the warnings of `warnings_there`, without opening the inputs again if there is no cause for one."""
    names = ("n_roots", "n_trees", "closed", "n_stayed", "n_routed")
    n_roots, n_trees, closed, *stayed = (sum(getattr(receipt, name) for receipt in receipts) for name in names)
    task = RootsTask(inputs, n_roots, n_trees, closed, Stayed(*stayed))
    if 2 * task.n_roots <= task.n_trees and not task.stayed.are_too_many:
        return []
    [warnings] = cluster.each(warnings_there, [task], Work("survey", options.retries, first=True))
    return warnings


@dataclass(frozen=True)
class EarlierTrees:
    """A job's inputs, the address of a sealed forest with its first trees, and the folder of its shards."""

    inputs: Inputs
    forest: str
    shards: Folder

    def __str__(self) -> str:
        return f"the trees of {self.forest}"


def keep_trees(task: EarlierTrees) -> None:
    """Commit the trees of a sealed forest as a shard, unless that was done before or no forest is there.

    Raises
    ------
    InputError
        The forest has other parameters, another seed, or more trees.
    ArtifactError
        The forest is damaged.
    """
    if check_kind(task.forest, FOREST_KIND) is None:
        return
    forest = open_forest(task.forest)
    name = shard_name(0, forest.n_trees - 1)
    if read_receipt(task.shards, name):
        return
    sets = forest.provenance.get("grown_by") or [forest.provenance.get("versions", {})]
    known = {name: " or ".join(sorted({str(one.get(name, "unknown")) for one in sets})) for name in VERSIONS_HERE}
    receipt = Receipt(0, forest.n_trees - 1, name, 0.0)
    commit(task.shards, as_part(task.inputs.problem(), forest), receipt, known)


def _target(inputs: Inputs, output: str, folder: Folder, shards: Folder, options: Options) -> Target:
    """Return the destination of the forest, which checks at the seal that the job still owns the output."""

    def hold() -> None:
        Stop(options.stop).check()
        if options.claim:
            options.claim.take()
        if _already_sealed(inputs, output, options):  # by another run of the same job
            check_new(output, FOREST_KIND, overwrite=True)

    building = Building.from_output(output, FOREST_KIND, mark_of_job(inputs), folder.within("forest.zarr"))
    return Target(building, shards, hold, options.provenance, options.claim)


def mark_of_job(inputs: Inputs) -> dict[str, object]:
    """Return the mark by which a forest that is begun in place identifies its job."""
    return {"fingerprint": inputs.fingerprint}


def survey(inputs: Inputs) -> Size:
    """Return the size of a job's growth; open its inputs on the host of the task."""
    return size_of(inputs.problem())


def committed_receipts(shards: Folder, cluster: Cluster, options: Options) -> list[Receipt]:
    """Return the receipts of an earlier run, whose shards are read on the cluster."""
    if not shards.names():
        return []
    [done] = cluster.each(committed_shards, [shards], Work("resume", options.retries, first=True))
    return done


def grow(tasks: list[GrowTask], before: int, cluster: Cluster, options: Options, name: str = "grow") -> list[Receipt]:
    """Run the tasks and return their receipts; ``before`` trees are committed already.

    A task whose workers die repeatedly is set aside. When all others are done, its trees are tried once more, one at a
    time. So a tree that kills its worker costs no other tree, and its number is reported.
    """
    work = _growing(name, before, options)
    answers: list[Receipt | Lost] = cluster.each(grow_shard, tasks, work)
    aside = [(task, answer) for task, answer in zip(tasks, answers, strict=True) if isinstance(answer, Lost)]
    for task, answer in aside:
        if options.on_answer:
            options.on_answer(answer)
        for alone in task.one_by_one():
            answers += cluster.each(grow_shard, [alone], replace(work, name="alone", before=0))
    fatal = [answer.why for answer in answers[len(tasks) :] if isinstance(answer, Lost)]
    if fatal:
        raise JobError("; ".join(fatal))
    return [answer for answer in answers if not isinstance(answer, Lost)]


def _growing(name: str, before: int, options: Options) -> Work:
    """Return the run of this name that grows trees, of which ``before`` are committed already."""

    def on_answer(receipt: Receipt) -> None:
        check_growth(receipt.growth, GROWTH)  # a worker of a version without this check does not check it
        if options.on_answer:
            options.on_answer(receipt)

    return Work(name, options.retries, lambda task: task.n_trees, options.watch, on_answer, before, True)


def shards_of(inputs: Inputs, folder: Folder) -> Folder:
    """Return the folder of a forest's shards in a job's folder.

    The name depends on the answers of a function, the result of a screen and the cut that trials have chosen: trees of
    other distances, weights or cuts grow again.
    """
    taught_by = f"-{inputs.truth.sha256[:16]}" if inputs.asked else ""
    screened_by = f"-{inputs.feature_weights.sha256[:16]}" if inputs.feature_weights and inputs.dependence else ""
    chosen = f"-{inputs.chosen_cut.cut}" if inputs.chosen_cut else ""
    return folder.within(f"shards-{inputs.fingerprint[:16]}{taught_by}{screened_by}{chosen}")


def size_of(problem: Bound) -> Size:
    """Return the size of a problem for the plan."""
    data = problem.data
    size = Size(
        problem.n_rows,
        problem.n_trees,
        data.matrix.nbytes,
        data.truth.values.nbytes + sum(part.nbytes for part in (data.pairs, data.truth.graph) if part is not None),
        problem.width,
        data.is_of_distances,
        0 if data.truth.graph is None else data.truth.graph.nbytes,
        node_value_bytes=data.node_value_bytes,
        of_costs=data.truth.costs is not None,
    )
    if not isinstance(problem, Problem):
        return replace(size, n_pairs=problem.sampling.n_distinct)
    return replace(
        size,
        of_vectors=data.truth.kind.is_of_vectors,
        most_leaves=problem.most_leaves if isinstance(data.rows, Features) else None,
        rows_budget=None if problem.passes is None else problem.passes.budget,
        n_drawn=problem.sampling.n_distinct,
        room=problem.room,
        categories=CategorySizes.from_growth(problem.growth),
    )


def _already_sealed(inputs: Inputs, output: str, options: Options) -> Fitted | None:
    """Return the forest at ``output`` if this job has made it; refuse an output that may not be replaced."""
    if check_kind(output, FOREST_KIND) is None:
        return None
    try:
        manifest = read_manifest(output)
    except ArtifactError:  # from another version, or begun in place
        if not is_begun(output, FOREST_KIND, mark_of_job(inputs)):
            check_new(output, FOREST_KIND, options.overwrite)
        return None
    expected = {"fingerprint": inputs.fingerprint, **options.provenance, **decision_entry(inputs)}
    if all(manifest["provenance"].get(name) == entry for name, entry in expected.items()):
        n_trees = manifest["arrays"]["tree_size"]["shape"][0]
        costs = manifest["provenance"].get("similarity", {})
        evaluations, closed = (int(costs.get(name, 0)) for name in ("evaluations", "closed"))
        warning = Roots.from_manifest(output, manifest).warning()
        warnings = (warning,) if warning else ()
        return Fitted(output, manifest["digest"], n_trees, 0, 0.0, 0.0, 0, 0, evaluations, closed, warnings)
    n_there, wanted = manifest["meaning"]["params"].get("n_estimators"), inputs.params["n_estimators"]
    same = replace(inputs, params={**inputs.params, "n_estimators": n_there})
    if manifest["provenance"].get("fingerprint") != same.fingerprint or n_there == wanted:
        n_there = None
    is_smaller = n_there is not None and n_there < wanted
    if options.overwrite or (options.earlier == output and is_smaller):
        check_new(output, FOREST_KIND, overwrite=True)
        return None
    if n_there is not None:
        cure = (
            f"grow the others (`run.grow_on`, `--trees {wanted}`)"
            if is_smaller
            else f"request {n_there}, or choose another output"
        )
        raise InputError(f"{output} is a forest of this job with {n_there} trees, found {wanted} in the spec; {cure}")
    raise InputError(
        f"{output} is a forest of another job, or of another version; choose another output or allow overwriting "
        "(`run.overwrite`)"
    )


def fit_here(problem: Bound, threads: int = 1, watch: Watch | None = None, earlier: Forest | None = None) -> Forest:
    """Train a forest on data in memory, in threads of this process, without writing files.

    Parameters
    ----------
    problem
        Method and data.
    threads
        Number of threads.
    watch
        Function that is called with the progress.
    earlier
        A forest of the same data, parameters and seed with fewer trees, which are not grown again.

    Raises
    ------
    InputError
        The earlier forest has other parameters, another seed, or more trees.
    """
    parts = [] if earlier is None else [as_part(problem, earlier)]
    n_earlier = 0 if earlier is None else earlier.n_trees
    planned = plan(size_of(problem), range(n_earlier), threads, threads=threads)
    spans = [np.arange(first, last + 1) for first, last in planned.tasks]
    parts += Threads(threads).each(problem.grow, spans, Work("grow", weight=len, watch=watch, before=n_earlier))
    forest = problem.forest(parts)
    return replace(forest, provenance={"versions": dict(VERSIONS), **problem.data.pair_weight_entry})
