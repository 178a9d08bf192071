"""The methods, each a row: how its rows are read, what a node draws, and what a cut may be judged by."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from distforest.errors import InputError
from distforest.forest.forest import Forest, Meaning
from distforest.forest.leaves import (
    Members,
    accumulate,
    leaves_per_tree,
    triangle_size,
)
from distforest.forest.table import NodeTable, route
from distforest.growth.class_weights import ClassWeights
from distforest.growth.criteria import Criterion, Gini, Variance
from distforest.growth.draws import Axis, Draw, Oblique
from distforest.growth.grower import Growth, Limits, project_and_cut
from distforest.growth.histograms import cut_codes
from distforest.growth.isolation import RandomCut, TwoAtRandom, cut_at_random
from distforest.growth.mean_distance import MeanDistance
from distforest.growth.pairs_of_objects import FeatureSubsets, TwoObjects, Unlikeness
from distforest.growth.parameters import ISOLATION_PARAMETERS, SIMFOREST_PARAMETERS, SMERF_PARAMETERS, Parameter
from distforest.growth.rng import bootstrap, subsample
from distforest.sources.arrays import ArraySource
from distforest.sources.binned import BinnedSource
from distforest.sources.kernels import KERNELS, KernelSource
from distforest.sources.lazy import LazySource
from distforest.sources.source import Source

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from distforest.forest.leaves import InBag
    from distforest.growth.grower import Search
    from distforest.sources.source import Ints, Rows

Params = Mapping[str, Any]


@dataclass(frozen=True)
class Data:
    """What a forest learns from, read and checked.

    Attributes
    ----------
    rows
        How the rows are read: see `distforest.forest.forest.Meaning`.
    matrix
        Features, shape (n, p), or similarities, shape (n, n), float32; or similarities as a source.
    judge
        What cuts are judged by: ``"labels"``, ``"targets"``, ``"embedding"``, ``"distances"`` or ``"nothing"``.
    truth
        Codes, shape (n,); targets or embeddings, shape (n, q); distances, shape (n, n); or nothing, shape (n, 0).
    classes
        The classes of the codes.
    largest
        The largest absolute distance.
    """

    rows: dict[str, Any]
    matrix: Any
    judge: str
    truth: np.ndarray
    classes: list[Any] | None = None
    largest: float = 1.0

    @property
    def n_rows(self) -> int:
        """Number of training rows."""
        return int(self.matrix.shape[0])

    def source(self) -> Source:
        """The matrix that splits read."""
        if isinstance(self.matrix, Source):
            return self.matrix
        if self.rows["kind"] in KERNELS:
            return KernelSource(self.matrix, self.matrix, self.rows["kind"], float(self.rows["gamma"]))
        return ArraySource.of(self.matrix)


@dataclass(frozen=True)
class Sampling:
    """Which rows a tree grows on: ``n_draws`` of ``n_rows``, with replacement or without."""

    n_rows: int
    n_draws: int
    replace: bool

    def weights(self, seed: int, trees: Ints) -> NDArray[np.int32]:
        """Multiplicity of each row in each tree, shape (n_trees, n_rows)."""
        weights = np.ones((len(trees), self.n_rows), np.int32)
        if self.replace or self.n_draws < self.n_rows:
            draw = bootstrap if self.replace else subsample
            for own, tree in zip(weights, trees.tolist(), strict=True):
                draw(seed, tree, self.n_draws, own)
        return weights


@dataclass(frozen=True)
class Contents:
    """What a forest holds.

    Attributes
    ----------
    meaning
        Of the forest: leaf-by-leaf tables where every part of it has one, else the members.
    grown
        The arrays that are the parts' arrays one after another.
    repeated
        The arrays that repeat an input, and which one: ``"matrix"`` or ``"truth"`` of `Data`.
    """

    meaning: Meaning
    grown: list[str]
    repeated: dict[str, str]


@dataclass(frozen=True)
class Problem:
    """Data and parameters bound together: what grows trees, and what their leaves keep."""

    meaning: Meaning
    data: Data
    growth: Growth
    sampling: Sampling
    n_trees: int

    def grow(self, trees: Ints) -> dict[str, np.ndarray]:
        """Grow the trees numbered ``trees``; the arrays of a forest of these trees, by name."""
        weights = self.sampling.weights(self.growth.seed, trees)
        table, leaves = self.growth.grow(trees, weights)
        if isinstance(self.growth.source, BinnedSource):
            table = _on_features(table, self.growth.source)
        out = weights == 0
        if out.any() and self._routes_out_of_bag:
            rows = np.arange(self.data.n_rows, dtype=np.int32)
            routed = route(table, self.data.source(), rows, out)
            leaves[out] = routed[out]
        in_bag = weights.astype(np.uint8)
        arrays = {**table.arrays(), "leaves": leaves, "in_bag": in_bag}
        return {**arrays, **self._leaf_arrays(table, leaves, in_bag)}

    @property
    def _routes_out_of_bag(self) -> bool:
        """Whether rows that a tree did not draw are routed: always, unless their values would have to be paid for."""
        return not isinstance(self.data.matrix, LazySource) or bool(self.meaning.params["oob_score"])

    def _leaf_arrays(self, table: NodeTable, leaves: Rows, in_bag: InBag) -> dict[str, np.ndarray]:
        if self.data.judge == "labels":
            one_hot = np.eye(len(self.data.classes or ()))[self.data.truth]
            return {"class_counts": accumulate(table, leaves, in_bag, one_hot).astype(np.int32)}
        if self.data.judge == "distances":
            return {"leaf_distances": self._triangles(table, leaves, in_bag)}
        if self.data.judge == "nothing":
            return {}
        return _means(table, leaves, in_bag, self.data.truth)

    def _triangles(self, table: NodeTable, leaves: Rows, in_bag: InBag) -> np.ndarray:
        """Packed leaf-by-leaf distances of the trees, or nothing where one of them would be too large."""
        sizes = triangle_size(leaves_per_tree(table))
        if (sizes > self.triangle_limit).any():
            return np.empty(0)
        members = Members(table, leaves, in_bag, self.data.truth, float(self.meaning.leaf["scale"]))
        triangles = []
        for tree in range(table.n_trees):
            nodes = np.flatnonzero(table.is_leaf[table.tree_start[tree] : table.tree_start[tree + 1]])
            triangles.append(members.between(tree, nodes, nodes)[np.tril_indices(len(nodes))])
        return np.concatenate(triangles)

    def contents(self, parts: Sequence[Mapping[str, int]]) -> Contents:
        """What a forest of some parts holds; ``parts`` has the lengths of each part's arrays by name."""
        meaning, grown, repeated = self.meaning, list(parts[0]), {}
        if self.data.judge == "distances":
            if all(part["leaf_distances"] for part in parts):
                meaning = replace(meaning, leaf={"kind": "leaf_distances"})
            else:
                grown.remove("leaf_distances")
                repeated["distances"] = "truth"
        if self.data.rows["kind"] in KERNELS:
            repeated["objects"] = "matrix"
        return Contents(meaning, grown, repeated)

    def forest(self, parts: Sequence[Mapping[str, np.ndarray]]) -> Forest:
        """The forest of some parts in memory, each as `grow` gives it, in the order of their trees."""
        contents = self.contents([{name: len(array) for name, array in part.items()} for part in parts])
        arrays = {name: np.concatenate([part[name] for part in parts]) for name in contents.grown}
        arrays |= {name: getattr(self.data, of) for name, of in contents.repeated.items()}
        return Forest.of(contents.meaning, arrays)

    @property
    def triangle_limit(self) -> int:
        """Most leaf pairs that a tree may keep as a table of float64.

        All tables together must not be larger than the float32 training distances, the other way to keep the same.
        """
        return 4 * self.data.n_rows**2 // (8 * self.n_trees)


def _on_features(table: NodeTable, binned: BinnedSource) -> NodeTable:
    """The table with thresholds of the features in place of thresholds of their codes."""
    threshold = table.threshold.copy()
    threshold[~table.is_leaf] = binned.thresholds(table.columns, threshold[~table.is_leaf])
    return replace(table, threshold=threshold)


def _means(table: NodeTable, leaves: Rows, in_bag: InBag, vectors: np.ndarray) -> dict[str, np.ndarray]:
    """Mean and mean squared deviation of each node, about the middle of the data so that nothing cancels."""
    middle = (vectors.min(axis=0) + vectors.max(axis=0)) / 2.0
    centred = vectors - middle
    columns = np.concatenate([centred, (centred**2).sum(axis=1, keepdims=True)], axis=1)
    sums = accumulate(table, leaves, in_bag, columns) / table.n_rows[:, None]
    means, squares = sums[:, :-1], sums[:, -1]
    spreads = np.maximum(squares - (means**2).sum(axis=1), 0.0)
    return {"means": means + middle, "spreads": spreads}


@dataclass(frozen=True)
class Method:
    """One method of the house.

    Attributes
    ----------
    name
        Its name in specs, artifacts and on the command line.
    reads
        ``"features"`` or ``"similarity"``.
    judged_by
        The kinds of truth that its cuts may be judged by.
    parameters
        What it can be told.
    draw
        The draw for some data.
    """

    name: str
    reads: str
    judged_by: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    draw: Callable[[Data, Source, Params], Draw]


def _columns_of_features(data: Data, _source: Source, params: Params) -> Draw:
    n_columns = data.matrix.shape[1]
    oblique = params["splitter"] == "oblique"
    width = n_candidates(params["max_features"], n_columns)
    if oblique:
        return Oblique(n_columns, width, float(params["feature_combinations"] or 1.0))
    return Axis(n_columns, min(width, n_columns))


def _pairs_of_objects(data: Data, source: Source, params: Params) -> Draw:
    unlike = Unlikeness(data.truth.astype(np.float64).reshape(data.n_rows, -1)[:, 0], data.judge == "labels")
    n_pairs, n_columns = int(params["n_pairs"]), int(params["n_columns"])
    if data.rows["kind"] != "features":
        return TwoObjects(source, unlike, n_pairs, n_columns)
    if n_columns != 1:
        raise InputError(f"n_columns={n_columns} averages similarities, and feature_subsets has none; leave it out")
    return FeatureSubsets(data.matrix, unlike, n_pairs)


SMERF = Method(
    "smerf",
    "features",
    ("distances", "labels", "targets", "embedding"),
    SMERF_PARAMETERS,
    _columns_of_features,
)
SIMFOREST = Method("simforest", "similarity", ("labels", "targets"), SIMFOREST_PARAMETERS, _pairs_of_objects)
ISOLATION = Method(
    "isolation",
    "similarity",
    ("nothing",),
    ISOLATION_PARAMETERS,
    lambda _data, source, _params: TwoAtRandom(source),
)
METHODS = {method.name: method for method in (SMERF, SIMFOREST, ISOLATION)}


def n_candidates(max_features: float | str | None, n_columns: int) -> int:
    """The number of candidates that ``max_features`` stands for, at least one.

    Examples
    --------
    >>> [n_candidates(m, 20) for m in ("sqrt", "log2", 0.5, 7, None)]
    [4, 4, 10, 7, 20]
    """
    if max_features == "sqrt":
        return max(1, math.isqrt(n_columns))
    if max_features == "log2":
        return max(1, int(math.log2(n_columns)))
    if max_features is None:
        return n_columns
    if isinstance(max_features, float):
        return max(1, int(max_features * n_columns))
    return int(max_features)


def sampling(params: Params, n_rows: int) -> Sampling:
    """The sampling that ``bootstrap`` and ``max_samples`` stand for; raises InputError."""
    given = params["max_samples"]
    n_draws = max(1, round(given * n_rows)) if isinstance(given, float) else int(given or n_rows)
    if "bootstrap" not in params:  # isolation: some rows once each, all where there are fewer
        return Sampling(n_rows, min(n_draws, n_rows), replace=False)
    if n_draws > n_rows:
        raise InputError(f"max_samples={given!r} asks for more rows than there are ({n_rows})")
    return Sampling(n_rows, n_draws, bool(params["bootstrap"]))


def problem(method: Method, data: Data, params: Params, seed: int) -> Problem:
    """Bind a method to data.

    Parameters
    ----------
    method
        One of `METHODS`.
    data
        Read and checked.
    params
        All of the method's parameters.
    seed
        Of the forest.

    Raises
    ------
    InputError
        The data is not of the kind that the method learns from, or a parameter does not fit its size.
    """
    if data.judge not in method.judged_by:
        raise InputError(f"{method.name} learns from {' or '.join(method.judged_by)}, found {data.judge}")
    if len(data.truth) != data.n_rows:
        raise InputError(
            f"found {data.n_rows} rows of {method.reads} and {len(data.truth)} of {data.judge}: "
            "inconsistent numbers of samples"
        )
    source, search = _searched(data, params)
    params, class_weights = _weighted(data, params)
    criterion, leaf = _judge(data, class_weights)
    rows_of_trees = sampling(params, data.n_rows)
    limits = _limits(params, rows_of_trees.n_draws)
    draw, on_missing = method.draw(data, source, params), str(params.get("on_missing", "stop"))
    growth = Growth(source, draw, criterion, limits, seed, search, on_missing=on_missing)
    meaning = Meaning(method.name, dict(params), seed, data.rows, leaf, data.classes)
    return Problem(meaning, data, growth, rows_of_trees, int(params["n_estimators"] or 1))


def _limits(params: Params, n_draws: int) -> Limits:
    """When a node is a leaf; a tree of random cuts ends where ``n_draws`` rows are usually alone, at ceil(log2)."""
    if "max_depth" not in params:
        return Limits(max_depth=(n_draws - 1).bit_length())
    depth = params["max_depth"]
    return Limits(
        int(params["min_samples_split"] or 2),
        int(params["min_samples_leaf"] or 1),
        None if depth is None else int(depth),
    )


def _searched(data: Data, params: Params) -> tuple[Source, Search]:
    """The source that growth reads, and how a level of it is searched."""
    max_bins = params.get("max_bins")
    if max_bins is None:
        return data.source(), cut_at_random if data.judge == "nothing" else project_and_cut
    if params["splitter"] != "axis":
        raise InputError("max_bins bins single columns; it goes with splitter='axis'")
    return BinnedSource.of(data.matrix, int(max_bins)), cut_codes


def _weighted(data: Data, params: Params) -> tuple[Params, Ints | None]:
    """The parameters with a weight for every label where any was given, and these weights as integers."""
    given = params.get("class_weight")
    if given is None:
        return params, None
    if data.judge != "labels":
        raise InputError(f"class_weight={given!r} goes with labels, found {data.judge}; leave it out")
    weights = ClassWeights.of(given, data.truth, data.classes or [])
    n_draws = sampling(params, data.n_rows).n_draws
    return {**params, "class_weight": weights.given}, weights.integers(n_draws)


def _judge(data: Data, class_weights: Ints | None) -> tuple[Criterion, dict[str, Any]]:
    """The criterion for the data's truth, and the leaf table that it leads to."""
    if data.judge == "labels":
        gini = Gini(data.truth, len(data.classes or ()), class_weights=class_weights)
        weights = {} if class_weights is None else {"class_weights": class_weights.tolist()}
        return gini, {"kind": "class_counts", **weights}
    if data.judge == "distances":
        criterion = MeanDistance.of(ArraySource.of(data.truth).values, data.largest)
        return criterion, {"kind": "members", "scale": criterion.scale}
    if data.judge == "nothing":
        return RandomCut(), {"kind": "path_lengths"}
    factor = 0.5 if data.judge == "targets" else 1.0
    return Variance.of(data.truth, factor), {"kind": "means", "factor": factor}
