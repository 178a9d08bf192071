"""Peers that need an environment of their own: a process in it answers questions, and times them where it answers.

::

    python -m venv treeple; treeple/bin/pip install treeple==0.10.3 scikit-learn==1.6.1
    python -m venv forestgeom; forestgeom/bin/pip install forestgeom==0.4.0
    python benchmarks/unsupervised.py --peer-python treeple/bin/python forestgeom/bin/python
    python -m venv metric; metric/bin/pip install metric-learn==0.7.0 "scikit-learn<1.8"
    python benchmarks/rfd.py table_k --peer-python metric/bin/python

`Peer` starts this file with the Python of the environment, which needs NumPy and the peer only. Questions and answers
are lines of JSON; arrays travel as files. `against_peers.py` makes the environments itself; what it asks
for, ``contend``, is in `contenders.py`.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import subprocess
import sys
import time
import warnings
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from contenders import contend, learned_metric, peak_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import TextIO

    from numpy.typing import NDArray

    Answer = dict[str, Any]


# --- here: who asks ---------------------------------------------------------------------------------------


def inherited(python: str) -> dict[str, str]:
    """The variables of this process for one of a Python: of another one without ``PYTHONPATH``, which is for ours."""
    return {name: own for name, own in os.environ.items() if python == sys.executable or name != "PYTHONPATH"}


class PeerEnded(SystemExit):
    """A peer's process is gone."""


class Peer:
    """A process of another Python that answers questions, one at a time; to be used in a ``with`` statement.

    ``variables`` are added to those of this process. The other Python finds its own packages alone.
    """

    def __init__(self, python: str, variables: Mapping[str, str] | None = None) -> None:
        self.process = subprocess.Popen(
            [python, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            env=inherited(python) | dict(variables or {}),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        with contextlib.suppress(BrokenPipeError), self.process:  # closes the pipes, so that its loop ends, and waits
            pass

    def ask(self, question: str, **given: Any) -> Answer:
        """The answer of the function ``question`` of this file to ``given``."""
        if self.process.stdin is None or self.process.stdout is None:
            raise SystemExit("a peer's process has no pipes")
        try:
            self.process.stdin.write(json.dumps({"question": question, "given": given}) + "\n")
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise PeerEnded(f"the peer's process has ended on the question {question!r}; its error stands above")
        answer: Answer = json.loads(line)
        return answer


@dataclass(frozen=True)
class Environments:
    """The Pythons that were named, asked which peers they have."""

    pythons: tuple[str, ...]

    def python_with(self, package: str) -> str | None:
        """The first Python whose environment has a package, and None where none has."""
        return next((python for python in self.pythons if self.versions(python).get(package)), None)

    @staticmethod
    @functools.cache
    def versions(python: str) -> dict[str, str]:
        """The peers of an environment, and what they stand on, with their versions."""
        with Peer(python) as peer:
            return peer.ask("packages")

    def facts(self) -> str:
        """What was named, in one line."""
        own = [", ".join(f"{k} {v}" for k, v in self.versions(python).items() if v) for python in self.pythons]
        return f"Peers: {'; '.join(own)}." if own else "No peers were named (--peer-python)."


# --- there: who answers -----------------------------------------------------------------------------------


PACKAGES = ("treeple", "forestgeom", "metric-learn", "umap-learn", "pynndescent", "aeon", "ydf", "distforest")


def packages() -> Answer:
    """Versions of the peers and of what they stand on; None where they are not there."""

    def found(name: str) -> str | None:
        try:
            return version(name)
        except PackageNotFoundError:
            return None

    return {name: found(name) for name in (*PACKAGES, "scikit-learn", "numpy", "scipy", "numba")}


@functools.cache
def array(path: str) -> NDArray[Any]:
    """An array on disk, read once."""
    return np.asarray(np.load(path))


def trees(path: str, seeds: list[int], oblique: bool, keeps_on: bool, **params: Any) -> Answer:
    """Seconds in which treeple grows two-means trees, and the sizes of their nodes.

    `fit` makes a dense similarity of all rows and clusters it after growing; both are left out. With ``keeps_on`` a
    node is not closed where the peer finds that its own best cut makes things worse.
    """
    from treeple.tree import (  # noqa: PLC0415  (in the peer's environment)
        UnsupervisedDecisionTree,
        UnsupervisedObliqueDecisionTree,
    )

    class GrownOnly(UnsupervisedObliqueDecisionTree if oblique else UnsupervisedDecisionTree):  # type: ignore[misc]
        def compute_similarity_matrix(self, X: object) -> None:
            """Nothing: growing alone is timed."""

        def _assign_labels(self, matrix: object) -> None:
            """Nothing either."""

    rows, least = array(path), -np.inf if keeps_on else 0.0
    start = time.perf_counter()
    grown = [
        GrownOnly(criterion="twomeans", min_impurity_decrease=least, random_state=seed, **params).fit(rows)
        for seed in seeds
    ]
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "sizes": [np.sort(own.tree_.n_node_samples).tolist() for own in grown]}


def forest_of(nodes: NDArray[np.int32]) -> Any:
    """A forest as forestgeom asks for one, of which only the leaves are known, shape (n, n_trees)."""
    from sklearn.base import BaseEstimator  # noqa: PLC0415  (in the peer's environment)

    class Leaves(BaseEstimator):  # type: ignore[misc]
        def fit(self, _rows: object) -> Self:
            """Nothing to do: it was grown elsewhere."""
            return self

        def get_leaf_matrix(self, _rows: object) -> NDArray[np.int32]:
            """The leaf of each row in each tree."""
            return nodes

        def __sklearn_is_fitted__(self) -> bool:
            return True

    return Leaves()


def sparse_proximity(path: str, n_neighbors: int, answers: str) -> Answer:
    """Seconds and peak memory in which forestgeom makes the sparse proximity of rows whose leaves are given.

    The nearest rows are taken from it, row by row, and kept in the file ``answers``; that is timed apart.
    """
    from forestgeom.proximity import Proximity  # noqa: PLC0415  (in the peer's environment)

    nodes = array(path)
    before = peak_bytes()
    start = time.perf_counter()
    found = Proximity(forest_of(nodes), weight_scheme="uniform").fit(nodes).training_proximity()
    made, peak = time.perf_counter(), peak_bytes()
    nearest = np.stack([strongest(found, row, n_neighbors) for row in range(found.shape[0])])
    taken = time.perf_counter()
    np.save(answers, nearest)
    times = {"seconds": made - start, "seconds_to_choose": taken - made}
    return {**times, "peak_bytes": peak, "before_bytes": before, "n_stored": int(found.nnz)}


def strongest(matrix: Any, row: int, n: int) -> NDArray[np.float32]:
    """The ``n`` largest entries of a row of a sparse matrix but the diagonal, largest first, filled up with zeros."""
    first, last = matrix.indptr[row], matrix.indptr[row + 1]
    others = matrix.data[first:last][matrix.indices[first:last] != row]
    found = np.zeros(n, np.float32)
    largest = np.sort(others[np.argpartition(others, -n)[-n:]] if len(others) > n else others)[::-1]
    found[: len(largest)] = largest
    return found


def linear_map(metric: str, rows: str, labels: str, seed: int, **params: Any) -> Answer:
    """The map that metric-learn finds from labels, shape (n_new, p), and the seconds it took.

    ITML sweeps over its constraints until ``n_projections`` are done or it has converged. RCA's chunks are the classes:
    the points that a thousand must-link pairs a class join.
    """
    import metric_learn  # noqa: F401, PLC0415  (before the clock runs)

    warnings.simplefilter("ignore")  # of its use of scikit-learn, and that a class has fewer pairs than were expected
    X, y = array(rows), array(labels)
    start = time.perf_counter()
    if metric == "RCA":
        found = learned_metric("RCA", X, y, **params)
    elif metric == "ITML":
        n = params["constraints_per_class"] * len(np.unique(y))
        sweeps = max(1, params["n_projections"] // (2 * n))
        found = learned_metric("ITML_Supervised", X, y, n_constraints=n, max_iter=sweeps, random_state=seed)
    else:
        found = learned_metric(metric, X, y, random_state=seed, **params)
    return {"components": found.components_.tolist(), "seconds": time.perf_counter() - start}


ANSWERS: dict[str, Callable[..., Answer]] = {
    function.__name__: function for function in (packages, trees, sparse_proximity, linear_map, contend)
}


def serve(lines: Iterable[str], answers: TextIO) -> None:
    """Answer questions until there are no more."""
    for line in lines:
        asked = json.loads(line)
        print(json.dumps(ANSWERS[asked["question"]](**asked["given"])), file=answers, flush=True)


if __name__ == "__main__":
    stdout = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a peer prints is no answer
    serve(sys.stdin, stdout)
