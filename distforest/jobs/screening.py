"""Screening as a step of a job: blocks of features are compared, with the same result on any cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

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
from distforest.sources.row_kinds import Features
from distforest.sources.scratch import OF_HOST, ScratchFolder
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
"""Run of a screen by default."""

SCREENED_ROWS = 256
NEAR_BLOCK = 1024
"""Number of features on one side of a task of the rough screen, in which a pair costs less than ranking features."""


@dataclass(frozen=True)
class ScreenedMatrix:
    """Features that a task can open on its host: in memory of this process, or staged.

    Attributes
    ----------
    matrix
        The features.
    shape
        Numbers of rows that count, and of columns.
    n_categories
        Number of categories of each column, 0 for a numerical column; empty if all are numerical.
    scratch, sample_weight
        For staged features, the folder on each host, and the weights of rows; None: all rows count.
    """

    matrix: NDArray[np.generic] | Staged
    shape: tuple[int, ...]
    n_categories: tuple[int, ...]
    scratch: ScratchFolder = OF_HOST
    sample_weight: Staged | None = None

    @contextmanager
    def opened(self) -> Iterator[tuple[np.ndarray, Ints | None]]:
        """Yield the features and the rows that count; raise an error if the file is written to meanwhile."""
        if not isinstance(self.matrix, Staged):
            yield np.asarray(self.matrix), None
            return
        present = None if self.sample_weight is None else np.flatnonzero(self.sample_weight.open(self.scratch))
        with self.matrix.watched(self.scratch) as features:
            yield features, present


@dataclass(frozen=True)
class BlockTask:
    """A block of features against another: by polynomials of few rows in the rough screen, if ``near``, or by bins.

    ``growth`` is the version of the growth in the process that made the task, as trees depend on the result of a
    screen.
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
    """Return the largest statistic of each feature of a block over the features of the other block, for both blocks."""
    check_own_growth(task.growth)
    n_rows, sizes, same = task.matrix.shape[0], task.matrix.n_categories, task.own == task.others
    rows = screened_rows(task.seed, n_rows, NEAR_ROWS) if task.near else screened_rows(task.seed, n_rows)
    with task.matrix.opened() as (matrix, present):
        if present is not None:
            rows = present[rows].astype(np.int32)
        own = ranks(matrix, rows, np.array(task.own, np.int32), task.seed, sizes)
        others = own if same else ranks(matrix, rows, np.array(task.others, np.int32), task.seed, sizes)
    if not task.near:
        codes = bins(own)
        return largest_dependence(codes, codes if same else bins(others))
    found = polynomial_statistic(polynomials(own), polynomials(others))
    if same:
        np.fill_diagonal(found, 0.0)
    return found.max(axis=1), found.max(axis=0)


def screened(inputs: Inputs, folder: Folder, cluster: Cluster, work: Work) -> Inputs:
    """Return the inputs with the feature weights of a screen, if the parameters request one; it is kept."""
    if inputs.params.get("feature_weights") != "dependence" or inputs.feature_weights:
        return inputs
    assert isinstance(inputs.matrix, Staged)  # noqa: S101  (sparse features were refused when they were staged)
    place, (n_rows, n_columns) = StagingPlace(folder.address, inputs.scratch), inputs.matrix.shape
    present = inputs.sample_weight if inputs.n_absent else None
    shape = n_rows - inputs.n_absent, n_columns
    matrix = ScreenedMatrix(inputs.matrix, shape, inputs.n_categories, inputs.scratch, present)
    found = screen(matrix, inputs.seed, cluster, work)
    weights = place.array("feature_weights", found.weights)
    dependence = place.array("dependence", found.dependence)
    return replace(inputs, feature_weights=weights, dependence=dependence)


def screened_data(data: Data, seed: int, cluster: Cluster, watch: Watch | None = None) -> Data:
    """Return data in memory with the feature weights that a screen finds."""
    if isinstance(data.matrix, SparseFeatures):
        check_sparse({"feature_weights": "dependence"})
    n_categories = data.rows.n_categories if isinstance(data.rows, Features) else ()
    matrix = ScreenedMatrix(data.present, tuple(map(int, data.present.shape)), n_categories)
    found = screen(matrix, seed, cluster, replace(SCREENING, watch=watch))
    return replace(data, feature_weights=found.weights, dependence=found.dependence)


def screen(matrix: ScreenedMatrix, seed: int, cluster: Cluster, work: Work = SCREENING) -> Screen:
    """Measure how much each feature depends on others, and compute the resulting weights.

    Parameters
    ----------
    matrix
        The features.
    seed
        Seed of the forest, which determines the compared rows and the order of ties.
    cluster, work
        The cluster of the tasks, and their run; the result does not depend on them.
    """
    n_rows, n_features = matrix.shape
    features = np.arange(n_features)
    if n_features > NEAR:
        features = nearest_features(_largest(matrix, seed, features, cluster, work, near=True), NEAR)
    largest = np.zeros(n_features)
    largest[features] = _largest(matrix, seed, features, cluster, work, near=False)
    return Screen.from_dependence(largest, len(screened_rows(seed, n_rows)))


def _largest(
    matrix: ScreenedMatrix, seed: int, features: np.ndarray, cluster: Cluster, work: Work, *, near: bool
) -> Floats:
    """Return the largest statistic of each of ``features`` over the other features, shape (n,)."""
    n, size = len(features), NEAR_BLOCK if near else SCREENED_ROWS
    blocks = [slice(first, min(n, first + size)) for first in range(0, n, size)]
    spans = [(own, others) for place, own in enumerate(blocks) for others in blocks[place:]]
    names = features.tolist()
    tasks = [BlockTask(matrix, seed, tuple(names[own]), tuple(names[others]), near, GROWTH) for own, others in spans]
    found = np.zeros(n)
    work = replace(work, name="screen roughly") if near else work
    for (own, others), (mine, theirs) in zip(spans, cluster.each(screen_block, tasks, work), strict=True):
        np.maximum(found[own], mine, out=found[own])
        np.maximum(found[others], theirs, out=found[others])
    return found
