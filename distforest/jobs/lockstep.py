"""Lockstep: all trees of a forest grow level by level in one process, while batches of pairs are evaluated anywhere.

If a similarity is expensive, growth is cheap by comparison. One process then has the ledger and the budget, without
locks between workers, and a level of all trees makes a few large batches.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import os
import time
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from distforest.amounts import counted
from distforest.errors import InputError, warn_caller
from distforest.forest.forest import Forest, canonical
from distforest.forest.roots import Roots, Stayed
from distforest.forest.scoring import apply
from distforest.growth.cuts.trial_cuts import check_unbounded
from distforest.growth.draws.landmarks import most_pairs
from distforest.growth.methods import Bound, Method, problem
from distforest.growth.parameters import keeps_pairs, recorded_parameters
from distforest.growth.problem import Data, Problem, put_together
from distforest.growth.standstill import warning_about_roots
from distforest.jobs.cluster import Progress, Stream, Work
from distforest.jobs.shards import Receipt, commit, shard_name
from distforest.jobs.trial_forests import chosen_cut
from distforest.jobs.versions import VERSIONS
from distforest.sources.array_files import untouched
from distforest.sources.lazy.callbacks import AskingPolicy, Batch, FunctionAnswer, Lazy
from distforest.sources.lazy.calling import Code
from distforest.sources.lazy.lazy_source import (
    LazySource,
    Objects,
    ValueSupplier,
    lazy_sources,
    opened_ledger,
    origin_of,
)
from distforest.sources.lazy.own_process import answers_apart
from distforest.sources.row_kinds import Dense, Several
from distforest.sources.side_by_side import SideBySide

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from distforest.forest.forest import Params
    from distforest.growth.grower import Level
    from distforest.growth.sample_weights import SampleWeights
    from distforest.jobs.cluster import Cluster, Watch
    from distforest.jobs.inputs import Inputs
    from distforest.sources.lazy.identity import Items
    from distforest.sources.lazy.lazy_source import Ask
    from distforest.sources.source import Int32s
    from distforest.sources.truth import Truth
    from distforest.stores.folder import Folder


WAVE_ROWS = 1 << 25
"""Largest number of rows of all trees that grow together: about 2 GB."""


FEW_TREES, ENOUGH_TREES = 10, 20
"""Number of trees below which a forest is reported, if at least the second number was requested."""


@dataclass(frozen=True)
class Costs:
    """The costs of a fit: evaluated pairs, and nodes that stayed uncut because the budget was spent."""

    evaluations: int
    closed: int


@dataclass(frozen=True, eq=False)
class BoundSimilarity:
    """A similarity, the training objects, and the place of calls: ``cluster``, or this process.

    ``code`` is the form in which the function is sent to the cluster; None: pickled.
    """

    lazy: Lazy
    training: Items
    cluster: Stream | None = None
    code: Code | None = None

    @contextmanager
    def source(self, objects: Objects, job: str, budget: int | None, as_given: bool = False) -> Iterator[LazySource]:
        """Yield the source for some objects, with the ledger open; ``job`` may evaluate at most ``budget`` pairs.

        ``as_given`` is as in `LazySource`.
        """
        with opened_ledger(self.lazy) as ledger:
            supply = ValueSupplier.here(self.lazy, ledger, job, budget)
            if self.cluster is not None:
                ask = asked_on(self.cluster, self.lazy, self.code or Code.pickled(self.lazy))
                supply = replace(supply, ask=ask, at_once=supply.at_once * self.cluster.slots)
            yield LazySource(self.lazy, objects, supply, as_given)


@dataclass(frozen=True, eq=False)
class BoundMeasures:
    """Similarities of the same objects, each bound to its form of these objects.

    Attributes
    ----------
    measures
        The similarities.
    weights
        Relative frequency with which a split reads each of several similarities.

    Raises
    ------
    InputError
        The similarities differ in their number of objects, or two of them name one ledger.
    """

    measures: tuple[BoundSimilarity, ...]
    weights: tuple[float, ...] = (1.0,)

    def __post_init__(self) -> None:
        sizes = sorted({len(measure.training) for measure in self.measures})
        if len(sizes) > 1:
            raise InputError(f"similarities must be of the same objects, found {' and '.join(map(str, sizes))} of them")
        ledgers = [os.path.realpath(ledger) for measure in self.measures if (ledger := measure.lazy.ledger) is not None]
        for ledger in ledgers:
            if ledgers.count(ledger) > 1:
                raise InputError(f"two similarities name the ledger {ledger!r}; give each a separate file")

    @property
    def rows(self) -> Dense | Several:
        """The kind of the rows of these similarities."""
        kinds = tuple(Dense(len(measure.training), measure.lazy.kind) for measure in self.measures)
        return kinds[0] if len(kinds) == 1 else Several(kinds, self.weights)

    @contextmanager
    def source(self, objects: Sequence[Objects], job: str, is_fit: bool) -> Iterator[LazySource | SideBySide]:
        """Yield the source for the objects of each measure, with all ledgers open; a fit stays within the budgets."""
        with ExitStack() as stack:
            sources = tuple(
                stack.enter_context(measure.source(of_measure, job, measure.lazy.budget if is_fit else None))
                for measure, of_measure in zip(self.measures, objects, strict=True)
            )
            yield sources[0] if len(sources) == 1 else SideBySide(sources)


def fit_lazily(
    supplied: BoundMeasures,
    method: Method,
    truth: Truth,
    params: Params,
    seed: int,
    watch: Watch | None = None,
    sample_weights: SampleWeights | None = None,
) -> Forest:
    """Train a forest on similarities that are evaluated when they are needed.

    Parameters
    ----------
    supplied
        The similarities and the training objects.
    method, params, seed
        Method, parameters and seed of the forest.
    truth
        Labels or targets of the training objects.
    watch
        Function that is called with the progress.
    sample_weights
        The weight of each training object; None: equal weights.

    Returns
    -------
    Forest
        The trained forest. Its ``provenance["similarity"]`` contains the identity of the function and the objects, and
        the costs; for several similarities, the costs and a list ``measures``. ``provenance["versions"]`` has the
        versions that grew it.

    Raises
    ------
    InputError
        The ledger is in use or contains other values, or an object has no content by which it can be identified.
    JobError
        The function failed for a pair as often as allowed; the ledger keeps the values before.

    Warns
    -----
    DistforestWarning
        The forest has no split.
    """
    lazies = [measure.lazy for measure in supplied.measures]
    check_unbounded(params, tuple(lazy.budget for lazy in lazies))
    objects = [Objects.from_columns(measure.training) for measure in supplied.measures]
    rows, recorded_params = supplied.rows, recorded_parameters(method.parameters, params)
    decides = [method.name, recorded_params, seed, rows.to_dict(), truth.kind, truth.classes]
    decides += [of for lazy, own in zip(lazies, objects, strict=True) for of in (own.sha256, lazy.signature)]
    weights = b"" if sample_weights is None else sample_weights.integers.tobytes()
    job = hashlib.sha256(canonical(decides) + truth.values.tobytes() + weights).hexdigest()
    with supplied.source(objects, job, is_fit=True) as source:
        data = Data(rows, source, truth, sample_weights=sample_weights)
        sources = lazy_sources(source)
        chosen = chosen_cut(method, data, params, seed, lambda own: own.forest([grow_in_lockstep(own, sources)[0]]))
        bound = problem(method, data, params if chosen is None else chosen.into(params), seed)
        arrays, costs = grow_in_lockstep(bound, sources, watch)
        origins = [origin_of(own.lazy, own.objects) for own in sources]
        if len(origins) > 1:
            paid = [own.n_evaluations for own in sources]
            origins = [{"measures": [{**of, "evaluations": n} for of, n in zip(origins, paid, strict=True)]}]
    origin = {**origins[0], **asdict(costs)}
    provenance = {"similarity": origin, **(chosen.entry if chosen else {}), "versions": dict(VERSIONS)}
    forest = replace(bound.forest([arrays]), provenance=provenance)
    stayed = Stayed.from_leaves(forest.table.tree_size, forest.leaves)
    of_trees = warning_about_roots(bound, Roots.from_forest(forest), costs.closed)
    of_trees = of_trees or warning_about_few_trees(bound, lazies, forest.n_trees)
    for warning in (of_trees, stayed.warning(bound.meaning.leaf)):
        if warning:
            warn_caller(warning)
    return forest


def grow_together(inputs: Inputs, shards: Folder, cluster: Cluster, watch: Watch | None) -> Receipt:
    """Grow all trees of a job with expensive functions, and commit them as one shard; calls run on the cluster."""
    start, opened = time.perf_counter(), inputs.opened()
    parts, files = inputs.sources(), list(opened.files)
    calls = cluster if isinstance(cluster, Stream) else None
    with ExitStack() as stack:
        sources = list(parts)
        for place, callback in inputs.callbacks.items():
            asked = parts[place]
            assert isinstance(asked, LazySource)  # noqa: S101  (a function has one)
            supplied = BoundSimilarity(asked.lazy, asked.objects.items, calls, callback.code(asked.lazy))
            sources[place] = stack.enter_context(supplied.source(asked.objects, inputs.budget_id, asked.lazy.budget))
        source = SideBySide(tuple(sources)) if inputs.listed else sources[0]
        assert isinstance(source, (LazySource, SideBySide))  # noqa: S101  (the only source is that of a function)
        bound = inputs.bound(source, files)
        with untouched(files):
            arrays, costs = grow_in_lockstep(bound, lazy_sources(source), watch)
        if few := warning_about_few_trees(bound, [own.lazy for own in lazy_sources(source)], len(arrays["tree_size"])):
            warn_caller(few)
    last, seconds = len(arrays["tree_size"]) - 1, time.perf_counter() - start
    return commit(shards, arrays, Receipt(0, last, shard_name(0, last), seconds, **asdict(costs)))


def evaluations_of(problem: Bound) -> int:
    """Return how many pairs this thread has evaluated so far; 0 without a function."""
    return sum(source.n_evaluations_here for source in lazy_sources(problem.data.matrix))


def grow_in_lockstep(
    problem: Bound, sources: tuple[LazySource, ...], watch: Watch | None = None
) -> tuple[dict[str, np.ndarray], Costs]:
    """Grow all trees together; with a budget, as many at a time as it will probably pay for.

    A tree that is not started before the budget is spent is not part of the forest, because it would always vote for
    the most frequent class; the first tree always is part of it. The root of such a tree counts as closed.

    Parameters
    ----------
    problem
        Method and data, bound to ``sources``.
    sources
        The source of each function, which has its budget. With several functions, trees grow until all budgets are
        spent; beside given similarities, all trees grow.
    watch
        Function that is called with the number of evaluated pairs; the total is the budget, or the number of all pairs.

    Returns
    -------
    arrays : dict
        The arrays of the trees, as `Problem.grow` returns them.
    costs : Costs
        The costs of the fit.
    """
    assert isinstance(problem, Problem)  # noqa: S101  (the source of every caller is one of objects)
    closed, start, pairs = 0, time.perf_counter(), math.comb(problem.n_rows, 2)
    most = sum(pairs if source.supply.budget is None else source.supply.budget for source in sources)

    def paid() -> int:
        return sum(source.n_evaluations for source in sources)

    def report_level(level: Level) -> None:
        nonlocal closed
        closed += level.n_uncut if any(source.spent for source in sources) else 0
        if watch:
            watch(Progress("ask", paid(), most, time.perf_counter() - start))

    watched = replace(problem, growth=replace(problem.growth, watch=report_level))
    parts: list[dict[str, np.ndarray]] = []
    rows = problem.data.rows
    n_measures = len(rows.measures) if isinstance(rows, Several) else 1
    begun, costs = 0, [_likely_cost(problem, n_measures)] * len(sources)
    while begun < problem.n_trees:
        if parts and len(sources) == n_measures and all(source.spent for source in sources):
            break
        before = [source.n_evaluations for source in sources]
        wave = problem.n_trees - begun
        for source, cost in zip(sources, costs, strict=True):
            if source.supply.budget is not None and not source.spent:
                wave = min(wave, int((source.supply.budget - source.n_evaluations) / cost))
        wave = max(1, min(wave, WAVE_ROWS // problem.data.n_rows))
        parts.append(watched.grow(np.arange(begun, begun + wave)))
        begun += wave
        costs = [max(1.0, (own.n_evaluations - n) / wave) for own, n in zip(sources, before, strict=True)]
    if watch:
        watch(Progress("ask", paid(), paid(), time.perf_counter() - start))
    arrays = put_together(parts, list(parts[0]))
    return arrays, Costs(paid(), closed + problem.n_trees - begun)


def warning_about_few_trees(problem: Bound, lazies: list[Lazy], n_grown: int) -> str:
    """Return a warning that the budget was spent on few of the requested trees (DF012); else "".

    Parameters
    ----------
    problem
        The method and the data of the trees.
    lazies
        The functions, with their budgets.
    n_grown
        The number of trees that were started before the budget was spent.
    """
    if n_grown >= FEW_TREES or problem.n_trees < ENOUGH_TREES:
        return ""
    budgets = [lazy.budget for lazy in lazies if lazy.budget is not None]
    spent = f"DF012 the budget of {' and '.join(f'{budget:,}' for budget in budgets)} pairs"
    params = problem.meaning.params
    cure = "give fewer landmarks, or raise it" if params.get("n_landmarks") else "raise it"
    return f"{spent} was spent on {n_grown:,} of {problem.n_trees:,} trees, whose votes are coarse; {cure}"


def _likely_cost(problem: Problem, n_measures: int) -> float:
    """Estimate the pairs that a first tree needs: 2 r q m log2 m, for m objects, r pairs at a node, q columns a side.

    If pairs are kept, one column of each is known below the root: r m (1 + (2 q - 1) log2 m). Measures have equal parts
    of the pairs.
    """
    n, params = problem.data.n_rows, problem.meaning.params
    m = n if problem.routes_out_of_bag else problem.sampling.n_draws
    columns, known = 2 * int(params.get("n_columns", 1)), int("pairing" in params and keeps_pairs(params, n_measures))
    likely = float(params.get("n_pairs", 1)) / n_measures * m * (known + (columns - known) * max(1.0, math.log2(m)))
    return max(1.0, min(likely, most_pairs(params.get("n_landmarks", n), n)))


def nodes_of(forest: Forest, supplied: BoundMeasures, queries: Sequence[Items]) -> Int32s:
    """Return the node in which each query ends in each tree, shape (n_trees, n); only pairs on its paths are evaluated.

    ``queries`` contains them in the form of each similarity.

    Raises
    ------
    InputError
        The forest was trained on other objects.
    """
    with source_of(forest, supplied, queries) as source:
        return apply(forest, source)


@contextmanager
def source_of(forest: Forest, supplied: BoundMeasures, queries: Sequence[Items]) -> Iterator[LazySource | SideBySide]:
    """Yield the similarities of queries to the training objects; raise InputError for objects of another training."""
    objects = [Objects.from_columns(own.training, items) for own, items in zip(supplied.measures, queries, strict=True)]
    check_origins(forest, supplied, objects)
    with supplied.source(objects, "scoring", is_fit=False) as source:
        yield source


def check_origins(forest: Forest, supplied: BoundMeasures, objects: Sequence[Objects]) -> None:
    """Refuse similarities or objects that are not those of the forest's training; raise InputError."""
    rows, n = forest.meaning.rows, len(supplied.measures)
    n_trained = len(rows.measures) if isinstance(rows, Several) else 1
    if n != n_trained:
        raise InputError(f"the forest has learned from {counted(n_trained, 'measure')} of similarity, found {n}")
    for place, (measure, own) in enumerate(zip(supplied.measures, objects, strict=True)):
        check_origin(forest, measure.lazy, own, place)


def origin_among(forest: Forest, place: int) -> object:
    """Return the entry on one of a forest's similarities in its provenance; None if it has none."""
    origin = forest.provenance.get("similarity")
    if not isinstance(forest.meaning.rows, Several) or not isinstance(origin, dict):
        return origin
    measures = origin.get("measures")
    return measures[place] if isinstance(measures, list) and place < len(measures) else None


def check_origin(forest: Forest, lazy: Lazy, objects: Objects, place: int = 0) -> None:
    """Refuse a similarity or objects that are not those of the forest's training; raise InputError.

    ``place`` is the position of the similarity, if the forest has several.
    """
    rows, origin = forest.meaning.rows, origin_among(forest, place)
    own = rows.measures[place] if isinstance(rows, Several) else rows
    what, n_objects = own.measure if isinstance(own, Dense) else own.kind, own.n_columns
    if what != lazy.kind:
        raise InputError(f"the forest reads {what}; Lazy(kind={lazy.kind!r}) does not return that")
    if objects.n_columns != n_objects:
        raise InputError(f"the forest has learned from {counted(n_objects, 'object')}, found {objects.n_columns:,}")
    if not isinstance(origin, dict):
        return
    if origin.get("objects") != objects.sha256:
        cure = "give the training objects as `training`, or as X of `load`"
        raise InputError(f"the forest has learned from other objects, or in another order; {cure}")
    if origin.get("symmetric") != bool(lazy.symmetric):
        raise InputError(f"the forest was trained with symmetric={origin.get('symmetric')}, found {lazy.symmetric}")


def warn_of_change(forest: Forest, lazy: Lazy, place: int = 0) -> None:
    """Warn if the function is not the one that the forest was trained with, or has changed; see `check_origin`."""
    origin = origin_among(forest, place)
    if not isinstance(origin, dict):
        return
    differs = [
        f"{part}: trained with {origin.get(part)!r}, found {value!r}"
        for part, value in lazy.signature.items()
        if origin.get(part) != value
    ]
    if differs:
        text = "; ".join(differs)
        warn_caller(f"the similarity is not the one that the forest was trained with ({text})")


@dataclass(frozen=True, eq=False)
class AskTask:
    """Batches that a worker evaluates in a separate process, at most ``concurrency`` at once."""

    code: Code
    batches: tuple[Batch, ...]
    policy: AskingPolicy
    concurrency: int

    def __str__(self) -> str:
        return f"pairs {self.batches[0].names[0]} to {self.batches[-1].names[-1]}"


def ask_batches(task: AskTask) -> list[FunctionAnswer]:
    """Return the answers to a task's batches, in their order."""
    answers = dict(answers_apart(task.code, task.batches, task.policy, task.concurrency))
    return [answers[number] for number in range(len(task.batches))]


def asked_on(cluster: Stream, lazy: Lazy, code: Code) -> Ask:
    """Return a function that calls ``lazy`` on workers, at most ``lazy.concurrency`` times at once in each thread."""
    policy, n = AskingPolicy(lazy.retries, lazy.timeout), lazy.concurrency

    def tasks(batches: Iterable[Batch]) -> Iterator[AskTask]:
        drawn = iter(batches)
        while held := tuple(itertools.islice(drawn, n)):
            yield AskTask(code, held, policy, n)

    def ask(batches: Iterable[Batch]) -> Iterator[tuple[int, FunctionAnswer]]:
        for place, found in cluster.stream(ask_batches, tasks(batches), Work("ask", lazy.retries)):
            yield from enumerate(found, place * n)

    return ask
