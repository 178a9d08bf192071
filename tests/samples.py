"""Small data of every kind that a forest learns from, and the problems and forests that tests make of it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from distforest.forest.forest import Forest
from distforest.forest.frontier import Frontier
from distforest.forest.node_table import NodeTable
from distforest.growth.methods import METHODS, Bound, problem
from distforest.growth.pairs.pair_methods import pair_columns
from distforest.growth.parameters import complete
from distforest.growth.problem import Data
from distforest.growth.rng import streams
from distforest.sources.lazy.callbacks import pairwise
from distforest.sources.row_kinds import Dense, Features, Kernel
from distforest.sources.source import Projections, Source
from distforest.sources.truth import Truth, TruthKind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from distforest.growth.problem import Problem

N_ROWS, N_COLUMNS = 36, 5
SEED = 11

PAPER: dict[str, Any] = {"n_columns": 1, "on_missing": "stop"}
"""SimForest as in the paper, which is its default for functions and features."""

PAPER_RULE: dict[str, Any] = {
    "criterion": "fast_bic",
    "relative": False,
    "n_witnesses": 0,
    "max_features": "sqrt",
    "feature_combinations": 0.05,
    "coefficients": "sign",
    "feature_weights": None,
    "splitter": "best",
    "min_samples_split": 100,
    "bootstrap": True,
    "max_samples": None,
}
"""URerF as in its paper."""

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "labels": ("smerf", {}),
    "oblique": ("smerf", {"feature_combinations": 2.5}),
    "binned": ("smerf", {"max_bins": 6}),
    "targets": ("smerf", {"min_samples_leaf": 2}),
    "binned_targets": ("smerf", {"max_bins": 256}),
    "embedding": ("smerf", {"bootstrap": False, "max_samples": 0.7}),
    "distances": ("smerf", {"min_samples_split": 12}),
    "members": ("smerf", {"n_estimators": 6}),
    "random": (
        "smerf",
        {"splitter": "random", "coefficients": "normal", "feature_combinations": 2.0, "feature_weights": "given"},
    ),
    "urerf": ("urerf", {"min_samples_split": 6, "feature_weights": "given"}),
    "urerf_paper": (
        "urerf",
        {
            "criterion": "fast_bic",
            "relative": False,
            "n_witnesses": 0,
            "max_features": "sqrt",
            "coefficients": "sign",
            "feature_weights": None,
            "splitter": "best",
            "min_samples_split": 6,
            "bootstrap": True,
            "max_samples": None,
        },
    ),
    "dense": ("simforest", {"min_samples_leaf": 1}),
    "missing": ("simforest", {"min_samples_leaf": 1, "n_pairs": 3, **PAPER}),
    "means": ("simforest", {"min_samples_leaf": 1, "n_pairs": 3}),
    "surrogate": ("simforest", {"n_pairs": 3, "n_columns": 2, "on_missing": "surrogate"}),
    "landmarks": ("simforest", {"n_landmarks": 0.75, "n_columns": 2, "n_pairs": 3}),
    "landmark_targets": ("simforest", {"n_landmarks": 0.5, "n_columns": 2, "min_samples_leaf": 1}),
    "linear": ("simforest", {}),
    "cosine": ("simforest", {"bootstrap": False}),
    "rbf": ("simforest", {"min_samples_leaf": 1}),
    "rbf_targets": ("simforest", {}),
    "manhattan": ("simforest", {"pairing": "fresh", "n_pairs": 2}),
}
"""Name of each case: its method, and its parameters where they are not the defaults."""

PAIR_CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "votes": ("rfd", {"n_constraints": 20, "min_samples_leaf": 2}),
    "ranks": ("treerank", {"n_pairs": 90, "max_depth": 3, "leafrank_depth": 2, "min_samples_leaf": 3}),
}
"""The same of forests over pairs of points."""

VOTING_CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "nearest": ("simforest", {"voting": "nearest", "n_pairs": 3, "min_samples_leaf": 6}),
    "nearest_targets": ("simforest", {"voting": "nearest", "n_landmarks": 0.5}),
}
"""The same of forests in which training objects vote, so that nodes alone predict nothing."""

INCOMPLETE = ("missing", "means", "surrogate", "nearest", "nearest_targets")
KERNEL_CASES = ("linear", "cosine", "rbf", "rbf_targets", "manhattan")
UNTAUGHT_CASES = ("urerf", "urerf_paper")
WEIGHTED_CASES = ("random", "urerf")
FEATURE_CASES = (
    *("labels", "oblique", "binned", "targets", "binned_targets", "embedding", "distances", "members"),
    *("random", *UNTAUGHT_CASES),
)


def features(n_rows: int = N_ROWS, n_columns: int = N_COLUMNS, seed: int = 0) -> NDArray[np.float32]:
    """Features with ties and duplicated rows."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_columns)).astype(np.float32)
    X[:, 0] = rng.integers(0, 4, n_rows)
    X[n_rows // 2] = X[0]
    return X


def labels(n_rows: int = N_ROWS, seed: int = 0) -> NDArray[np.int32]:
    """Codes of three classes that follow from two columns, some of them by chance."""
    X = features(n_rows, seed=seed)
    codes = (X[:, 0] > 1).astype(np.int32) + (X[:, 1] > 0.3)
    flipped = np.random.default_rng(seed + 1).random(n_rows) < 0.15
    return np.where(flipped, (codes + 1) % 3, codes).astype(np.int32)


def distances(n_rows: int = N_ROWS, seed: int = 0) -> NDArray[np.float32]:
    """Symmetric distances; the diagonal is not 0, as that of a graph without loops."""
    rng = np.random.default_rng(seed + 2)
    X = features(n_rows, seed=seed)
    z = np.abs(X[:, 1, None] - X[:, 1]) + rng.random((n_rows, n_rows))
    z = (z + z.T).astype(np.float32)
    return (z + z.T) / np.float32(2)


def similarities(n_rows: int = N_ROWS, seed: int = 0, missing: float = 0.0) -> NDArray[np.float32]:
    """Similarities of objects; a share of the pairs is unobserved."""
    X = features(n_rows, seed=seed).astype(np.float64)
    S = np.exp(-0.2 * ((X[:, None] - X) ** 2).sum(axis=2)).astype(np.float32)
    gone = np.triu(np.random.default_rng(seed + 3).random((n_rows, n_rows)) < missing, 1)
    S[gone | gone.T] = np.nan
    return S


@pairwise
def gap(a: float, b: float) -> float:
    """The gap."""
    return abs(a - b)


def queries(case: str, n_rows: int = 9) -> NDArray[np.float32]:
    """New rows as a case's forest reads them: features, or similarities to the training objects."""
    X = features(n_rows, seed=77)
    if case in FEATURE_CASES or case in KERNEL_CASES or case in PAIR_CASES:
        return X
    apart = X.astype(np.float64)[:, None] - features()
    S = np.exp(-0.2 * (apart**2).sum(axis=2)).astype(np.float32)
    S[np.random.default_rng(8).random(S.shape) < (0.2 if case in INCOMPLETE else 0.0)] = np.nan
    return S


def truth_of(case: str, n_rows: int = N_ROWS, seed: int = 0) -> Truth:
    """What cuts are judged by."""
    X = features(n_rows, seed=seed).astype(np.float64)
    if case.endswith("targets"):
        return Truth(TruthKind.TARGETS, X[:, 1:2] * 3 + X[:, :1] + 50.0)
    if case == "embedding":
        return Truth(TruthKind.EMBEDDING, X[:, :2] @ np.array([[1.0, 2.0, 0.5], [0.25, -1.0, 4.0]]))
    if case in {"distances", "members"}:
        z = distances(n_rows, seed)
        return Truth(TruthKind.DISTANCES, z, largest=float(z.max()))
    if case in UNTAUGHT_CASES:
        return Truth(TruthKind.NOTHING, np.empty((n_rows, 0)))
    return Truth(TruthKind.LABELS, labels(n_rows, seed), ["a", "b", "c"])


def data_of(case: str, n_rows: int = N_ROWS, seed: int = 0) -> Data:
    """The data of a case."""
    matrix, rows = features(n_rows, seed=seed), Features(N_COLUMNS)
    if case in KERNEL_CASES:
        kind = case.split("_", maxsplit=1)[0]
        rows = Kernel(kind, n_rows, N_COLUMNS, 0.25)
    elif case in PAIR_CASES:
        method, params = PAIR_CASES[case]
        rows = pair_columns(complete(METHODS[method].parameters, params), N_COLUMNS)
    elif case not in FEATURE_CASES:
        matrix = similarities(n_rows, seed, 0.2 if case in INCOMPLETE else 0.0)
        rows = Dense(n_rows)
    weights = np.array([4.0, 3.0, 2.0, 1.0, 0.0]) if case in WEIGHTED_CASES else None
    return Data(rows, matrix, truth_of(case, n_rows, seed), feature_weights=weights)


def retaught(data: Data, values: np.ndarray, **changes: Any) -> Data:
    """The data with other values of its truth."""
    return replace(data, truth=replace(data.truth, values=values, **changes))


def problem_of(case: str, data: Data | None = None, seed: int = SEED, **params: Any) -> Any:
    """A case's method bound to its data, or to ``data``; four trees."""
    method, own = {**CASES, **PAIR_CASES, **VOTING_CASES}[case]
    chosen = complete(METHODS[method].parameters, {"n_estimators": 4, **own, **params})
    return problem(METHODS[method], data_of(case) if data is None else data, chosen, seed)


def as_split(case: str, problem: Problem) -> Source:
    """The training rows of a case as its splits read them."""
    return problem.growth.source if case == "means" else problem.data.source()


def forest_from(problem: Bound) -> Forest:
    """Grow all trees at once in this thread, without the plan and the threads of `fit_here`."""
    return problem.forest([problem.grow(np.arange(problem.n_trees))])


def without_bootstrap(data: Data, **params: Any) -> Problem:
    """One SMERF tree on all rows that tries all columns at every node."""
    chosen = {"n_estimators": 1, "bootstrap": False, "max_features": None, **params}
    return problem(METHODS["smerf"], data, complete(METHODS["smerf"].parameters, chosen), SEED)


def with_matrix(data: Data, matrix: np.ndarray) -> Data:
    """The same data with other features or similarities."""
    return replace(data, matrix=matrix)


def bits(arrays: Mapping[str, np.ndarray]) -> dict[str, bytes]:
    """Arrays to be compared bit for bit."""
    return {name: array.tobytes() for name, array in arrays.items()}


def level(
    rows: Sequence[Sequence[int]], weights: Sequence[Sequence[int]], trees: Sequence[int] | None = None
) -> Frontier:
    """A frontier of nodes 0, 1, ... with these rows and weights; each of a tree of its own, or of the ``trees``."""
    sizes = [len(group) for group in rows]
    return Frontier(
        np.array(range(len(rows)) if trees is None else trees, np.int64),
        np.arange(len(rows), dtype=np.int32),
        np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        np.array([row for group in rows for row in group], np.int32),
        np.array([w for group in weights for w in group], np.int32),
    )


def keys_of(seed: int, tree: Sequence[int], node: Sequence[int]) -> NDArray[np.uint64]:
    """The random streams of some nodes."""
    keys = np.empty(len(tree), np.uint64)
    streams(seed, np.array(tree, np.int64), np.array(node, np.int32), keys)
    return keys


def projections(terms: Sequence[Sequence[Sequence[tuple[int, float]]]]) -> Projections:
    """Projections from (column, weight) of each candidate of each node."""
    flat = [candidate for node in terms for candidate in node]
    offset = np.concatenate([[0], np.cumsum([len(candidate) for candidate in flat])]).astype(np.int64)
    columns = np.array([column for candidate in flat for column, _ in candidate], np.int32)
    weights = np.array([weight for candidate in flat for _, weight in candidate], np.float64)
    return Projections(len(terms[0]), offset, columns, weights)


def chi_square(found: np.ndarray, expected: np.ndarray) -> float:
    """How many standard deviations a chi-square statistic lies above its mean."""
    statistic = float(((found - expected) ** 2 / expected).sum())
    freedom = len(found) - 1
    return (statistic - freedom) / math.sqrt(2 * freedom)


def trees_of_any_shape(sizes: list[int], thresholds: list[float], seed: int) -> NodeTable:
    """Trees of two columns with so many cuts each, which part one leaf after another, drawn at random."""
    rng = np.random.default_rng(seed)
    left, right = [], []
    for n_cuts in sizes:
        own = np.full((2, 2 * n_cuts + 1), -1, np.int32)
        leaves = [0]
        for cut in range(n_cuts):
            node = leaves.pop(int(rng.integers(len(leaves))))
            own[:, node] = 2 * cut + 1, 2 * cut + 2
            leaves += own[:, node].tolist()
        left.append(own[0])
        right.append(own[1])
    lefts, n_cuts = np.concatenate(left), sum(sizes)
    return NodeTable(
        tree_size=np.array([2 * size + 1 for size in sizes]),
        left=lefts,
        right=np.concatenate(right),
        threshold=rng.choice(thresholds, len(lefts)),
        gain=np.zeros(len(lefts)),
        n_rows=np.ones(len(lefts), np.int64),
        width=(lefts >= 0).astype(np.int32),
        columns=rng.integers(0, 2, n_cuts).astype(np.int32),
        weights=np.ones(n_cuts),
    )
