"""Metrics that are Euclidean after a linear map: none, Mahalanobis, and what metric-learn finds in a peer process.

What the peer found is kept in a file of JSON lines, so that no fit is run twice: each line is a map with what it was
asked for. A file can be carried to a machine without the peer.
"""

from __future__ import annotations

import json
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from peers import Peer
from scipy.spatial.distance import cdist

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

LEARNED: dict[str, dict[str, Any]] = {
    # As many constraints as RFD has by the paper, and as many projections in all as the authors' code allows.
    "ITML": {"constraints_per_class": 1000, "n_projections": 100_000},
    "LMNN": {"n_neighbors": 3, "learn_rate": 1e-4, "max_iter": 1000},
    "RCA": {},
}
"""metric-learn's metrics with their parameters; all else is metric-learn's default."""


@dataclass(frozen=True)
class Fold:
    """Rows to learn from and rows to classify, each feature scaled to [0, 1] on the former; where they come from."""

    name: str
    repeat: int
    number: int
    n_folds: int
    X: Floats
    y: Ints
    X_test: Floats
    y_test: Ints


def euclidean(fold: Fold) -> Floats:
    """Distances from test rows to rows, shape (n_test, n)."""
    return cdist(fold.X_test, fold.X)


def mahalanobis(fold: Fold) -> Floats:
    """Euclidean distances where the rows have the covariance of the identity."""
    inverse = np.linalg.pinv(np.cov(fold.X, rowvar=False))
    values, vectors = np.linalg.eigh(inverse)
    return mapped(fold, (vectors * np.sqrt(np.maximum(values, 0.0))).T)


def mapped(fold: Fold, components: Floats) -> Floats:
    """Euclidean distances after x -> components x, with components of shape (n_new, p)."""
    return cdist(fold.X_test @ components.T, fold.X @ components.T)


@dataclass
class LearnedMetrics:
    """metric-learn in an environment of its own, and what is known from it; to be used in a ``with`` statement.

    ``python`` is None where there is no such environment, ``cache`` where nothing is to be kept.
    """

    python: str | None
    cache: Path | None
    known: dict[str, Floats] = field(default_factory=dict)
    open_: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> Self:
        if self.cache is not None and self.cache.exists():
            lines = map(json.loads, self.cache.read_text().splitlines())
            self.known = {line["asked"]: np.array(line["components"]) for line in lines}
        if self.python is not None:
            self.peer = self.open_.enter_context(Peer(self.python))
            self.folder = Path(self.open_.enter_context(tempfile.TemporaryDirectory()))
        return self

    def __exit__(self, *_error: object) -> None:
        self.open_.close()

    def distance(self, metric: str, fold: Fold) -> Floats | None:
        """Distances from test rows to rows by one of `LEARNED`; None where it is neither known nor to be had."""
        own: dict[str, Any] = {"metric": metric, **LEARNED[metric], "seed": fold.repeat}
        where = {key: value for key, value in asdict(fold).items() if isinstance(value, str | int)}
        asked = json.dumps({**own, **where})
        if asked not in self.known:
            if self.python is None:
                return None
            self.known[asked] = self._learn(asked, fold, own)
        return mapped(fold, self.known[asked])

    def _learn(self, asked: str, fold: Fold, own: dict[str, Any]) -> Floats:
        """Ask the peer, and keep its answer."""
        print(f"metric-learn: {asked}", file=sys.stderr, flush=True)
        rows, labels = (self.folder / f"{fold.name}-{fold.repeat}-{fold.number}-{what}.npy" for what in "Xy")
        np.save(rows, fold.X)
        np.save(labels, fold.y)
        answer = self.peer.ask("linear_map", rows=str(rows), labels=str(labels), **own)
        if self.cache is not None:
            with self.cache.open("a") as file:
                file.write(json.dumps({"asked": asked, **answer}) + "\n")
        return np.array(answer["components"])
