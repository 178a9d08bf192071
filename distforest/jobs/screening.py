"""Screening as a step of a job: blocks of features are compared with blocks; any cluster gives the same result."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from distforest.growth.draws.dependence import (
    NEAR,
    NEAR_ROWS,
    Screen,
    bins,
    largest_dependence,
    nearest_features,
    polynomial_statistic,
    polynomials,
    ranks,
    screened_rows,
)
from distforest.growth.methods import GROWTH, check_sparse
from distforest.jobs.cluster import Cluster, Work
from distforest.jobs.versions import check_own_growth
from distforest.sources.row_kinds import Features, RowKind
from distforest.sources.sparse_features import SparseFeatures
from distforest.sources.staged_arrays import StagingPlace
from distforest.sources.staging import Staged

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from distforest.growth.problem import Data
    from distforest.jobs.cluster import Watch
    from distforest.jobs.inputs import Inputs
    from distforest.sources.scratch import ScratchFolder
    from distforest.sources.source import Floats, Ints
    from distforest.stores.folder import Folder

SCREENING = Work("screen")
"""How a screen runs by default."""

SCREENED_ROWS = 256
NEAR_BLOCK = 1024
"""Features on one side of a task: more for the rough screen, in which a pair costs less than ranking its features."""


class ScreenedMatrix(Protocol):
    """Features that a task can open on its host."""

    @property
    def n_categories(self) -> tuple[int, ...]:
        """Number of categories of each column, 0 for a column of numbers; empty if all hold numbers."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows and columns."""

    def opened(self) -> AbstractContextManager[tuple[np.ndarray, Ints | None]]:
        """The features, for a block, and the rows that count; None: all."""


@dataclass(frozen=True)
class InMemory:
    """Features in the memory of this process."""

    matrix: NDArray[np.generic]
    n_categories: tuple[int, ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows and columns."""
        return tuple(map(int, self.matrix.shape))

    def opened(self) -> AbstractContextManager[tuple[np.ndarray, Ints | None]]:
        """The features, for a block; all rows count."""
        return nullcontext((np.asarray(self.matrix), None))


@dataclass(frozen=True)
class BlockTask:
    """A block of features against another; ``near``: the rough screen by polynomials of few rows, otherwise by bins.

    ``growth`` is the version of the growth in the process that made the task: trees follow from the result of a screen.
    """

    matrix: ScreenedMatrix
    seed: int
    own: tuple[int, ...]
    others: tuple[int, ...]
    near: bool
    growth: int = 1

    def __str__(self) -> str:
        return f"features {self.own[0]} to {self.own[-1]} against {self.others[0]} to {self.others[-1]}"


def screen_block(task: BlockTask) -> tuple[Floats, Floats]:
    """The largest statistic of each feature of a block over the features of the other block, for both blocks."""
    check_own_growth(task.growth)
    with task.matrix.opened() as (matrix, present):
        return _statistics(task, matrix, present)


def _statistics(task: BlockTask, matrix: np.ndarray, present: Ints | None) -> tuple[Floats, Floats]:
    n_rows = task.matrix.shape[0]
    rows = screened_rows(task.seed, n_rows, NEAR_ROWS) if task.near else screened_rows(task.seed, n_rows)
    if present is not None:
        rows = present[rows].astype(np.int32)
    sizes, same = task.matrix.n_categories, task.own == task.others
    own = ranks(matrix, rows, np.array(task.own, np.int32), task.seed, sizes)
    others = own if same else ranks(matrix, rows, np.array(task.others, np.int32), task.seed, sizes)
    if not task.near:
        codes = bins(own)
        return largest_dependence(codes, codes if same else bins(others))
    found = polynomial_statistic(polynomials(own), polynomials(others))
    if same:
        np.fill_diagonal(found, 0.0)
    return found.max(axis=1), found.max(axis=0)


@dataclass(frozen=True)
class OnHosts:
    """Features that every host has staged, or can stage; the rows whose ``sample_weight`` is 0 do not count."""

    staged: Staged
    scratch: ScratchFolder
    sample_weight: Staged | None = None
    n_absent: int = 0
    n_categories: tuple[int, ...] = ()

    @classmethod
    def of(cls, inputs: Inputs) -> OnHosts:
        """The features of a job."""
        assert isinstance(inputs.matrix, Staged)  # noqa: S101  (features are never sparse)
        weights = inputs.sample_weight if inputs.n_absent else None
        return cls(inputs.matrix, inputs.scratch, weights, inputs.n_absent, n_categories_of(inputs.rows))

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows and columns."""
        return self.staged.shape[0] - self.n_absent, *self.staged.shape[1:]

    @contextmanager
    def opened(self) -> Iterator[tuple[np.ndarray, Ints | None]]:
        """The features, for a block, and the rows that count; raises if their file is written to meanwhile."""
        scratch = self.scratch
        present = None if self.sample_weight is None else np.flatnonzero(self.sample_weight.open(scratch))
        with self.staged.watched(scratch) as features:
            yield features, present


def screened(inputs: Inputs, folder: Folder, cluster: Cluster, work: Work) -> Inputs:
    """The inputs with the feature weights from a screen, if the parameters call for one; stored in the job's folder."""
    if inputs.params.get("feature_weights") != "dependence" or inputs.feature_weights:
        return inputs
    assert isinstance(inputs.matrix, Staged)  # noqa: S101  (refused when they were staged)
    place = StagingPlace(folder.address, inputs.scratch)
    found = screen(OnHosts.of(inputs), inputs.seed, cluster, work)
    weights = place.array("feature_weights", found.weights)
    dependence = place.array("dependence", found.dependence)
    return replace(inputs, feature_weights=weights, dependence=dependence)


def screened_data(data: Data, seed: int, cluster: Cluster, watch: Watch | None = None) -> Data:
    """Data in memory with the feature weights that a screen finds."""
    if isinstance(data.matrix, SparseFeatures):
        check_sparse({"feature_weights": "dependence"})
    found = screen(InMemory(data.present, n_categories_of(data.rows)), seed, cluster, replace(SCREENING, watch=watch))
    return replace(data, feature_weights=found.weights, dependence=found.dependence)


def n_categories_of(rows: RowKind) -> tuple[int, ...]:
    """The number of categories of each feature; empty if all are numbers."""
    return rows.n_categories if isinstance(rows, Features) else ()


def screen(matrix: ScreenedMatrix, seed: int, cluster: Cluster, work: Work = SCREENING) -> Screen:
    """Measure how much each feature depends on others, and the weights that follow.

    Parameters
    ----------
    matrix
        The features.
    seed
        Seed of the forest; it decides which rows are compared and how ties are broken.
    cluster, work
        Where the tasks run, and how; the result does not depend on it.
    """
    n_rows, n_features = matrix.shape
    features = np.arange(n_features)
    if n_features > NEAR:
        features = nearest_features(_largest(matrix, seed, features, cluster, work, near=True), NEAR)
    largest = np.zeros(n_features)
    largest[features] = _largest(matrix, seed, features, cluster, work, near=False)
    return Screen.of(largest, len(screened_rows(seed, n_rows)))


def _largest(
    matrix: ScreenedMatrix, seed: int, features: np.ndarray, cluster: Cluster, work: Work, *, near: bool
) -> Floats:
    """The largest statistic of each of ``features`` over the other features, shape (n,)."""
    spans = list(_pairs_of_blocks(len(features), NEAR_BLOCK if near else SCREENED_ROWS))
    names = features.tolist()
    tasks = [BlockTask(matrix, seed, tuple(names[own]), tuple(names[others]), near, GROWTH) for own, others in spans]
    found = np.zeros(len(features))
    work = replace(work, name="screen roughly") if near else work
    for (own, others), (mine, theirs) in zip(spans, cluster.each(screen_block, tasks, work), strict=True):
        np.maximum(found[own], mine, out=found[own])
        np.maximum(found[others], theirs, out=found[others])
    return found


def _pairs_of_blocks(n: int, size: int) -> Iterator[tuple[slice, slice]]:
    blocks = [slice(first, min(n, first + size)) for first in range(0, n, size)]
    for place, own in enumerate(blocks):
        for others in blocks[place:]:
            yield own, others
