"""Compilation of the kernels of some jobs on a cluster before the jobs start; compiled kernels are kept on disk.

A process compiles one kernel at a time, so workers share the kernels of a method only if they grow different parts of a
tree. The search for cuts among distances takes almost half of the time, so it is a part by itself. Workers read kernels
that others have compiled from disk, so a part that needs kernels of another part comes late in its worker.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from distforest.forest.frontier import Frontier
from distforest.growth.cuts.search import Limits
from distforest.growth.problem import Problem
from distforest.jobs.cluster import Work

if TYPE_CHECKING:
    from collections.abc import Callable

    from distforest.growth.methods import Bound
    from distforest.jobs.cluster import Cluster, Watch
    from distforest.jobs.inputs import Inputs


@dataclass(frozen=True)
class Part:
    """A part of a method to compile, and the inputs of a job with that method."""

    run: Callable[[Bound], None]
    inputs: Inputs

    def __str__(self) -> str:
        return f"{self.run.__name__} of {self.inputs.method}"


@dataclass(frozen=True)
class CompileTask:
    """Parts that one worker compiles, one after another."""

    parts: tuple[Part, ...]

    def __str__(self) -> str:
        return ", ".join(map(str, self.parts))


def search_root(problem: Bound) -> None:
    """Search the root of a tree for a cut among candidates whose values are all 0, so that none is found."""
    if isinstance(problem, Problem):
        root = Frontier.roots(np.ones((1, problem.n_rows), np.int32))
        problem.growth.criterion.at(root).cut(root, np.zeros((problem.width, problem.n_rows)), 1)


def grow_stump(problem: Bound) -> None:
    """Grow a tree without a cut: everything except drawing, reading and cutting, such as walks and the leaf table."""
    if isinstance(problem, Problem):
        replace(problem, growth=replace(problem.growth, limits=Limits(max_depth=0))).grow(np.arange(1))


def grow_tree(problem: Bound) -> None:
    """Grow a tree."""
    problem.grow(np.arange(1))


def compile_parts(task: CompileTask) -> None:
    """Compile the parts of a task, or load their kernels from the cache, and discard what grows."""
    for part in task.parts:
        part.run(part.inputs.problem())


def compile_kernels(first: Inputs, *others: Inputs, cluster: Cluster, watch: Watch | None = None) -> None:
    """Compile the kernels of jobs on a cluster, or load them, so that the time of training does not include it.

    The job whose search compiles longest should be the first. While a worker compiles that search, another worker
    compiles what both jobs share, and the other methods. No worker waits for another, and few kernels are compiled
    twice.
    """
    tasks = [
        CompileTask((Part(search_root, first), Part(grow_tree, first))),
        CompileTask((Part(grow_stump, first), *(Part(grow_tree, other) for other in others))),
    ]
    cluster.each(compile_parts, tasks, Work("compile", watch=watch))
