"""Distances from an expensive function, evaluated for some pairs of rows, so that SMERF grows as from incomplete ones.

objects -> random pairs -> a first forest -> pairs that it finds near -> matrix with NaN for pairs without a value
"""

from __future__ import annotations

import hashlib
import math
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from distforest.amounts import counted
from distforest.errors import InputError
from distforest.forest.forest import canonical
from distforest.growth.asked_pairs import (
    FIRST_TREES,
    first_forest_seed,
    least_leaf,
    near_pairs,
    pairs_anywhere,
    rows_for_selves,
)
from distforest.growth.methods import METHODS, problem
from distforest.jobs.cluster import Progress, Stream
from distforest.jobs.lockstep import BoundSimilarity
from distforest.sources.array_files import Mapped, untouched
from distforest.sources.factors import Distances
from distforest.sources.lazy.lazy_source import Objects, origin_of
from distforest.sources.staged_arrays import StagingPlace
from distforest.sources.truth import Truth, TruthKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from distforest.forest.forest import Forest, Params
    from distforest.growth.methods import Bound, Method
    from distforest.growth.problem import Data
    from distforest.jobs.cluster import Cluster, Watch
    from distforest.jobs.inputs import Inputs
    from distforest.sources.lazy.lazy_source import LazySource
    from distforest.sources.source import Floats, Int32s, Ints
    from distforest.stores.folder import Folder

MOST_REQUESTED = 1 << 20
"""Largest number of pairs in one request."""

SELF_ASKED = 8
"""Rows whose distance to themselves is evaluated; if it is not 0 for one of them, it is evaluated for all rows."""


@dataclass(frozen=True, eq=False)
class EvaluatedDistances:
    """The answers of a function.

    Attributes
    ----------
    distances
        The distances, NaN where none was evaluated or the function returned none, shape (n_rows, n_rows).
    n_evaluations
        Number of pairs that were evaluated at a cost.
    origin
        The identity of the function and the objects, for the forest's provenance.
    present
        Which rows take part, shape (n_rows,).
    """

    distances: Floats
    n_evaluations: int
    origin: dict[str, object]
    present: NDArray[np.bool_]

    def truth(self) -> Truth:
        """Return the distances as a ground truth, after warning of doubtful values among the rows that are present."""
        if self.present.all():
            return Truth.from_given(Distances(self.distances))
        Truth.from_given(Distances(self.distances)[np.flatnonzero(self.present)])  # which warns
        return Truth.from_given(self.distances, TruthKind.DISTANCES)


@dataclass(frozen=True, eq=False)
class Learner:
    """The learner of the first forest: the method with its parameters and seed, and the data of a truth."""

    method: Method
    params: Params
    seed: int
    data_of: Callable[[Truth], Data]
    grow: Callable[[Bound], Forest]

    def leaves(self, distances: Floats, n_known: int) -> Int32s:
        """Return the leaves of the rows in the first forest, from the known distances, shape (n_trees, n)."""
        truth = Truth.from_given(distances, TruthKind.DISTANCES)
        least = max(int(self.params["min_samples_leaf"]), least_leaf(len(distances), n_known))
        weights = self.params["feature_weights"]
        changed = {
            "n_estimators": FIRST_TREES,
            "min_samples_leaf": least,
            "oob_score": False,
            "feature_weights": None if weights == "dependence" else weights,
        }
        seed = first_forest_seed(self.seed)
        bound = problem(self.method, self.data_of(truth), {**self.params, **changed}, seed)
        leaves = self.grow(bound).leaves
        assert leaves is not None  # noqa: S101  (a forest over rows keeps their leaves)
        return leaves


def ask_distances(
    supplied: BoundSimilarity, learner: Learner, present: NDArray[np.bool_], watch: Watch | None = None
) -> EvaluatedDistances:
    """Evaluate as many distances as the budget allows, half of random pairs, half where a first forest finds rows near.

    The evaluated pairs follow from the seed, the budget, the features and the answers. Pairs that a ledger contains are
    free, which changes nothing else.

    Parameters
    ----------
    supplied
        The function, and the object of each row.
    learner
        The learner of the first forest.
    present
        Which rows take part, shape (n_rows,).
    watch
        Function that is called with the number of evaluated pairs.

    Raises
    ------
    InputError
        The function returns similarities or is not symmetric, or the ledger is in use or contains other values.
    JobError
        The function failed for a pair as often as allowed; the ledger keeps the values before.
    """
    lazy, n, seed = supplied.lazy, len(supplied.training), learner.seed
    _check(supplied)
    objects = Objects.from_columns(supplied.training)
    decides = [learner.method.name, seed, objects.sha256, lazy.signature]
    job = hashlib.sha256(canonical(decides)).hexdigest()
    with supplied.source(objects, job, None, as_given=True) as source:
        asked = _Asking(source, n, watch, math.comb(n, 2) + n if lazy.budget is None else int(lazy.budget))
        asked.ask_selves(np.flatnonzero(present), seed)
        n_pairs = math.comb(int(present.sum()), 2)
        n_left = min(n_pairs, asked.left)
        first = pairs_anywhere(n, present, n_left if n_left == n_pairs else -(-n_left // 2), seed)
        asked.ask(first)
        if n_left > len(first):
            leaves = learner.leaves(asked.distances, len(first))
            near = near_pairs(np.where(present, leaves, -1).astype(np.int32), first, n_left - len(first), seed)
            asked.ask(near)
            if n_left > len(first) + len(near):  # so few pairs share a leaf
                more = pairs_anywhere(n, present, n_left, seed)
                more = np.setdiff1d(more, np.concatenate([first, near]), assume_unique=True)
                asked.ask(more[: n_left - len(first) - len(near)])
        origin = {**origin_of(lazy, objects), "evaluations": source.n_evaluations}
        return EvaluatedDistances(asked.distances, source.n_evaluations, origin, present)


def with_evaluated_distances(
    inputs: Inputs, folder: Folder, cluster: Cluster, grow: Callable[[Bound], Forest], watch: Watch | None = None
) -> Inputs:
    """Return the inputs with the distances of a function as their truth, if the job names such a function.

    The distances are staged in the job's folder. The evaluated pairs, and so the truth, follow from the inputs. When an
    interrupted job is resumed, a ledger makes the repeated evaluations free. ``grow`` grows a forest in this process.
    """
    if inputs.asked is None or inputs.asked.origin is not None:
        return inputs
    callback, place, files = inputs.asked.callback, StagingPlace(folder.address, inputs.scratch), list[Mapped]()
    lazy = callback.lazy()
    objects = np.asarray(inputs.asked.objects.open(place.scratch, files))
    before = inputs.data(inputs.matrix.open(place.scratch, files), files)

    def taught(truth: Truth) -> Data:
        return replace(before, truth=truth)

    calls = cluster if isinstance(cluster, Stream) else None
    supplied = BoundSimilarity(lazy, objects, calls, callback.code(lazy))
    learner = Learner(METHODS[inputs.method], inputs.params, inputs.seed, taught, grow)
    weights = before.sample_weight
    present = np.ones(before.n_rows, np.bool_) if weights is None else weights > 0
    with untouched(files):
        found = ask_distances(supplied, learner, present, watch)
    truth = found.truth()
    return replace(
        inputs,
        truth=place.array("asked", truth.values),
        largest=truth.largest,
        offset=truth.offset,
        n_unobserved=truth.n_unobserved,
        asked=replace(inputs.asked, origin=found.origin),
    )


def _check(supplied: BoundSimilarity) -> None:
    """Refuse functions that do not return distances of pairs, and budgets that are too small; raise InputError."""
    lazy, n = supplied.lazy, len(supplied.training)
    if lazy.kind != "distance":
        cure = "return distances, and declare it: Lazy(function, kind='distance')"
        raise InputError(f"SMERF learns distances, found a function of similarities (kind={lazy.kind!r}); {cure}")
    if not lazy.symmetric:
        cure = "let the function return the mean of both directions"
        raise InputError(f"SMERF learns one distance for a pair, found symmetric=False; {cure}")
    if lazy.budget is not None and lazy.budget < n:
        expected = f"a budget of at least one evaluation for each of {counted(n, 'row')} was expected"
        raise InputError(f"{expected}, found {lazy.budget}; raise it, or fit on fewer rows")


class _Asking:
    """The distances so far, and the remaining budget."""

    def __init__(self, source: LazySource, n_rows: int, watch: Watch | None, budget: int) -> None:
        self.source, self.watch, self.left = source, watch, budget
        self.distances: Floats = np.full((n_rows, n_rows), np.nan)
        self.start, self.total = time.perf_counter(), min(budget, math.comb(n_rows, 2))

    def ask_selves(self, rows: Ints, seed: int) -> None:
        """Evaluate the distances of some rows to themselves, and of all rows if one is not 0; otherwise they are 0."""
        n, some = len(self.distances), rows_for_selves(rows, SELF_ASKED, seed)
        self.ask(some * (n + 1))
        if np.nan_to_num(self.distances[some, some]).any():
            self.ask(np.setdiff1d(rows, some) * (n + 1))
        own = self.distances.diagonal()
        np.fill_diagonal(self.distances, np.where(np.isnan(own) & ~np.isin(np.arange(n), rows), own[some[0]], own))
        if not np.nan_to_num(own).any():
            np.fill_diagonal(self.distances, 0.0)

    def ask(self, codes: Ints) -> None:
        """Evaluate the pairs with these codes."""
        for first in range(0, len(codes), MOST_REQUESTED):
            left, right = np.divmod(codes[first : first + MOST_REQUESTED], len(self.distances))
            values = self.source.entries(left.astype(np.int32), right.astype(np.int32))
            self.distances[left, right] = self.distances[right, left] = values
            self.left -= len(left)
            if self.watch:
                done = self.total - max(0, self.left)
                self.watch(Progress("ask", done, self.total, time.perf_counter() - self.start))
