"""Door 1: scikit-learn estimators. They check and convert, call the forests, and name the answers."""

from __future__ import annotations

import copy
import math
import os
import tempfile
import warnings
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, TransformerMixin
from sklearn.utils import check_random_state, column_or_1d
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from distforest.errors import ArtifactError, InputError
from distforest.forest import scoring
from distforest.forest.artifact import open_forest, save
from distforest.growth.class_weights import key_of
from distforest.growth.methods import METHODS, Data, problem
from distforest.growth.parameters import Parameter, complete
from distforest.jobs.folder import Folder
from distforest.jobs.inputs import dense_rows, from_data, kernel_rows
from distforest.jobs.lockstep import Supplied, fit_lazily, nodes_of
from distforest.jobs.train import Options, fit, fit_here
from distforest.sources.callbacks import Lazy
from distforest.sources.factors import Labels, Targets
from distforest.sources.kernels import KERNELS
from distforest.sources.lazy import items_of
from distforest.sources.readings import DISSIMILARITIES, FEATURES, SIMILARITIES, read
from distforest.sources.sparse import SparseSource, is_sparse, read_sparse
from distforest.sources.truth import Truth, in_memory, is_stored, opened, pairs_of_rows

if TYPE_CHECKING:
    from distforest.forest.forest import Forest
    from distforest.outliers import SimForestOutlier
    from distforest.sources.source import Floats, Ints, Rows

BLOCK_NODES = 1 << 25
"""Nodes that are looked up at once where pairs of rows are scored, on each side."""

SUBSETS = "feature_subsets"
"""Linear similarities over a few random features, drawn anew for every pair."""

SIMILARITY = (
    Parameter("similarity", "precomputed", "given, or taken of features", words=("precomputed", *KERNELS, SUBSETS)),
    Parameter("kind", "similarity", "what a precomputed matrix holds", words=("similarity", "distance")),
    Parameter("gamma", None, "of 'rbf'; None: 1 / (p Var(X))", (1, math.inf), (0.0, math.inf), (None,)),
)
_RUN = """random_state : int, RandomState or None, default=None
    Seed of the forest. An integer is the seed itself: the same data then lead to the same ``digest_``.
n_jobs : int or None, default=None
    Threads that grow trees: None is 1, -1 all cores. The forest is the same with any number.
client : distributed.Client or None, default=None
    Grow the trees on this Dask cluster, whose workers must see this process's temporary folder. The forest
    is the same. Clones share the client; copies and pickles go without it."""


class ForestEstimator(BaseEstimator):  # type: ignore[misc]
    """What all estimators share: growing a forest, and asking it for distances, neighbours and nodes."""

    _method: ClassVar[str]
    _parameters: ClassVar[tuple[Parameter, ...]] = ()
    random_state: Any
    n_jobs: int | None
    client: Any
    forest_: Forest

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        # each parameter is described once, in growth/parameters.py
        rows = [f"{p.name} : {p.allowed()}, default={p.default!r}\n    {p.text}" for p in cls._parameters]
        text = "\n".join([*rows, _RUN]).replace("\n", "\n    ")
        cls.__doc__ = (cls.__doc__ or "").replace("{parameters}", text)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "client": None}  # a connection cannot be copied

    def __sklearn_clone__(self) -> Self:
        twin: Self = BaseEstimator.__sklearn_clone__(copy.copy(self))
        twin.client = self.client
        return twin

    def distance(self, X: Any, Y: Any = None) -> Floats:
        """Take the distance of each row of ``X`` to each of ``Y``, the mean over the trees (SMERF, Eq. 3).

        Parameters
        ----------
        X, Y
            Rows like those of `fit`, shapes (n_x, n_columns) and (n_y, n_columns), in memory or in Zarr;
            ``Y`` is ``X`` by default.

        Returns
        -------
        ndarray of shape (n_x, n_y)
        """
        nodes = self._nodes(X)
        return scoring.distance(self.forest_, nodes, nodes if Y is None else self._nodes(Y))

    def pair_distance(self, left: Any, right: Any) -> Floats:
        """Take the distance of row k of ``left`` to row k of ``right``, shapes (n, n_columns); shape (n,)."""
        return scoring.pair_distance(self.forest_, self._nodes(left), self._nodes(right))

    def proximity(self, X: Any, Y: Any = None) -> Floats:
        """Take the share of trees in which each row of ``X`` ends in the same node as each of ``Y``.

        Parameters
        ----------
        X, Y
            As for `distance`.

        Returns
        -------
        ndarray of shape (n_x, n_y)
        """
        nodes = self._nodes(X)
        return scoring.proximity(nodes, nodes if Y is None else self._nodes(Y))

    def leaf_embedding(self, X: Any) -> Any:
        """Take the rows of ``X`` as sparse vectors: a column for each node of the forest, 1 where a row ends.

        Returns
        -------
        csr_matrix of shape (n, n_nodes)
            ``E @ E.T / n_estimators`` is the `proximity` of the rows.
        """
        return scoring.leaf_embedding(self.forest_, self._nodes(X))

    def kneighbors(self, X: Any = None, n_neighbors: int = 5, return_distance: bool = True) -> Any:
        """Find the nearest training rows of each row of ``X``.

        Parameters
        ----------
        X
            Rows, shape (n, n_columns). None: the training rows, none of which is its own neighbour.
        n_neighbors, return_distance
            How many, and whether their distances are returned too.

        Returns
        -------
        distances, indices : ndarray of shape (n, n_neighbors)
            Nearest first, equal distances in the order of the index; ``indices`` alone on request.
        """
        check_is_fitted(self)
        training = self.forest_.training_nodes
        nodes = training if X is None else self._nodes(X)
        distances, indices = scoring.kneighbors(self.forest_, nodes, training, n_neighbors, X is None)
        return (distances, indices) if return_distance else indices

    def apply(self, X: Any) -> Rows:
        """Find the node of each tree in which each row of ``X`` ends, shape (n, n_trees)."""
        return self._nodes(X).T

    def save(self, address: str | os.PathLike[str]) -> str:
        """Seal the forest in a new Zarr group at a path or URL, for `load`; returns its digest."""
        check_is_fitted(self)
        return save(self.forest_, os.fspath(address))

    def _adopt(self, forest: Forest) -> None:
        """Take a forest that was opened for the fitted one."""
        self.forest_, self.digest_ = forest, forest.digest
        self.n_features_in_ = forest.meaning.rows.get("n_features", forest.meaning.rows["n_columns"])

    def _rows(self, X: Any, reset: bool) -> Any:
        """Pass ``X`` on to `read`: an array on disk as it is, anything else through scikit-learn's checks."""
        X = opened(X)
        if is_stored(X):
            return validate_data(self, X, reset=reset, skip_check_array=True)
        accept_sparse = "csr" if self.__sklearn_tags__().input_tags.sparse else False
        return validate_data(self, X, reset=reset, accept_sparse=accept_sparse, ensure_all_finite=False)

    def _nodes(self, X: Any) -> Rows:
        """Find the nodes of the rows of ``X``, shape (n_trees, n)."""
        check_is_fitted(self)
        return scoring.apply(self.forest_, self.forest_.source(self._rows(X, reset=False)))

    def _checked(self, truth: Any) -> dict[str, Any]:
        """Refuse bad parameters, all at once, or no truth; return the method's parameters as plain values."""
        if truth is None:
            raise InputError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        given = {row.name: getattr(self, row.name) for row in self._parameters}
        plain = {name: _plain(value) for name, value in given.items()}
        complete(self._parameters, plain)
        return {row.name: plain.get(row.name, row.default) for row in METHODS[self._method].parameters}

    def _grow(
        self, rows: dict[str, Any], matrix: np.ndarray | SparseSource, truth: Truth, params: dict[str, Any]
    ) -> None:
        """Grow the forest, here or on the cluster."""
        data = Data(rows, matrix, truth.judge, truth.values, truth.classes, truth.largest)
        seed, method = _seed(self.random_state), METHODS[self._method]
        if self.client is None:
            self.forest_ = fit_here(problem(method, data, params, seed), _n_threads(self.n_jobs))
        else:
            with tempfile.TemporaryDirectory(prefix="distforest-") as place:
                from distforest.jobs.on_dask import OnDask  # noqa: PLC0415  (a fit in threads does without Dask)

                job = Folder(f"{place}/job")
                inputs = from_data(data, method.name, params, seed, job.address)
                done = fit(inputs, f"{place}/forest.zarr", job, OnDask(self.client), Options())
                self.forest_ = open_forest(done.address)
        self.digest_ = self.forest_.digest


@dataclass(eq=False, repr=False)
class SMERF(TransformerMixin, ForestEstimator):  # type: ignore[misc]
    """Similarity and metric random forest (Tomita and Vogelstein): learns a given distance from features.

    A cut makes the mean pairwise distance inside its two sides as small as it can be. The distance of two
    rows is the mean training distance between the leaves in which they end, averaged over the trees.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    forest_ : Forest
        The forest.
    digest_ : str
        sha256 of the forest: equal for equal forests, wherever and however grown.
    feature_importances_ : ndarray of shape (n_features_in_,)
        Share of each feature in the gain of all cuts.
    oob_rmse_, oob_score_ : float
        With ``oob_score``: root mean squared error and coefficient of determination of the out-of-bag
        distances of all pairs i < j of training rows, or of 2^21 pairs drawn at random where there are more.
    n_features_in_, feature_names_in_
        Number of features, and their names where ``X`` has string names.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = SMERF(n_estimators=20, random_state=0).fit(X, y)
    >>> forest.distance(X[:1], X[[1, 50, 100]]).round(1)
    array([[0., 1., 1.]])
    """

    _method = "smerf"
    _parameters = METHODS["smerf"].parameters
    __metadata_request__fit: ClassVar = {"Z": UNUSED}
    __metadata_request__score: ClassVar = {"Z": UNUSED}

    n_estimators: int = 500
    _: KW_ONLY
    max_features: float | str | None = "sqrt"
    splitter: str = "axis"
    feature_combinations: float = 1.5
    max_bins: int | None = None
    min_samples_split: int = 2
    min_samples_leaf: int = 1
    max_depth: int | None = None
    bootstrap: bool = True
    max_samples: float | None = None
    oob_score: bool = False
    random_state: Any = None
    n_jobs: int | None = None
    client: Any = None

    def fit(self, X: Any, Z: Any) -> Self:
        """Grow the forest.

        Parameters
        ----------
        X
            Features, shape (n, n_features): array-like, Zarr array, or the address of one.
        Z
            What the forest learns: distances, shape (n, n), likewise; `Labels`, `Targets`, `Embedding` or
            `Graph`; or a vector of length n, read as `Targets` where it holds fractional numbers, else
            (strings, booleans, whole numbers) as `Labels`.

        Raises
        ------
        InputError
            A parameter, ``X`` or ``Z`` cannot be used.
        """
        params = self._checked(Z)
        features = read(self._rows(X, reset=True), FEATURES)
        truth = Truth.of(Z)
        self._grow({"kind": "features", "n_columns": features.shape[1]}, features, truth, params)
        if self.oob_score:
            left, right = pairs_of_rows(len(features))
            found, count = scoring.out_of_bag_distance(self.forest_, left, right)
            known = _estimated(count, "pairs")
            true, found = truth.distances(left[known], right[known]), found[known]
            self.oob_rmse_ = float(np.sqrt(np.mean((true - found) ** 2)))
            self.oob_score_ = _r_squared(true, found)
        return self

    def transform(self, X: Any) -> Floats:
        """Take the distance of each row of ``X`` to each training row, shape (n, n_training)."""
        nodes = self._nodes(X)
        return scoring.distance(self.forest_, nodes, self.forest_.training_nodes)

    def score(self, X: Any, Z: Any) -> float:
        """Take the coefficient of determination of the distances of all pairs i < j of rows, at most 2^21.

        ``Z`` takes any form that `fit` takes; a vector is read as the forest has learned.
        """
        nodes = self._nodes(X)
        truth = Truth.of(Z, self.forest_.meaning.leaf)
        if len(truth.values) != nodes.shape[1]:
            text = f"found {nodes.shape[1]} rows of X and {len(truth.values)} of {truth.judge}"
            raise InputError(f"{text}: inconsistent numbers of samples")
        left, right = pairs_of_rows(nodes.shape[1])
        return _r_squared(truth.distances(left, right), self._pair_distances(nodes, left, right))

    def _pair_distances(self, nodes: Rows, left: Ints, right: Ints) -> Floats:
        """Take the distances of pairs of rows; a pair costs less where the whole matrix is asked for."""
        if 4 * len(left) > nodes.shape[1] ** 2:
            return scoring.distance(self.forest_, nodes, nodes)[left, right]
        step = max(1, BLOCK_NODES // self.forest_.n_trees)
        blocks = [slice(first, first + step) for first in range(0, len(left), step)]
        found = [scoring.pair_distance(self.forest_, nodes[:, left[b]], nodes[:, right[b]]) for b in blocks]
        return np.concatenate(found)

    @property
    def feature_importances_(self) -> Floats:
        """Share of each feature in the gain of all cuts, shape (n_features_in_,)."""
        check_is_fitted(self)
        return scoring.feature_importances(self.forest_)


class OnSimilarities(ForestEstimator):
    """What the estimators share that read similarities: how these come in."""

    similarity: Any
    kind: str
    gamma: float | None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        given = self.similarity == "precomputed"
        tags.input_tags.pairwise = tags.input_tags.allow_nan = tags.input_tags.sparse = given
        return tags

    def _similarities(self, values: Any) -> tuple[dict[str, Any], np.ndarray | SparseSource]:
        """Read the training matrix, and say how rows of queries are read."""
        if self.similarity != "precomputed" and self.kind == "distance":
            raise InputError(f"kind='distance' needs similarity='precomputed', found {self.similarity!r}")
        if self.similarity in KERNELS:
            if self.gamma is not None and not 0 < self.gamma < math.inf:
                raise InputError(f"gamma must be positive and finite, found {self.gamma!r}")
            features, gamma = read(values, FEATURES), self.gamma if self.similarity == "rbf" else None
            return kernel_rows(self.similarity, features, gamma), features
        if self.similarity == SUBSETS:
            features = read(values, FEATURES)
            return {"kind": "features", "n_columns": features.shape[1]}, features
        reading = DISSIMILARITIES if self.kind == "distance" else SIMILARITIES
        matrix = read_sparse(values, reading) if is_sparse(values) else read(values, reading)
        return dense_rows(matrix.shape, self.kind), matrix


@dataclass(eq=False, repr=False)
class _SimForest(OnSimilarities):
    """What the classifier and the regressor share: their parameters, and objects instead of similarities."""

    _method = "simforest"
    _parameters = (*SIMILARITY, *(p for p in METHODS["simforest"].parameters if p.name != "class_weight"))
    _relation: ClassVar[type[Labels | Targets]]

    similarity: Any = "precomputed"
    _: KW_ONLY
    kind: str = "similarity"
    gamma: float | None = None
    n_estimators: int = 100
    n_pairs: int = 2
    n_columns: int = 1
    on_missing: str = "stop"
    min_samples_split: int = 2
    min_samples_leaf: int = 3
    max_depth: int | None = None
    bootstrap: bool = True
    max_samples: float | None = None
    oob_score: bool = False
    random_state: Any = None
    n_jobs: int | None = None
    client: Any = None

    def fit(self, X: Any, y: Any) -> Self:
        """Grow the forest.

        Parameters
        ----------
        X
            For ``similarity="precomputed"`` the similarity (or distance) of each object to each, NaN where it
            was not observed, shape (n, n); else features, shape (n, n_features). Array-like, Zarr array, or
            the address of one. A sparse matrix holds similarities (or distances) that were observed, its
            diagonal too: what is not stored was not. For a `Lazy` similarity the objects, a sequence of
            length n, or places in its ``objects``, integers of shape (n,).
        y
            A label or a target for each object, shape (n,), likewise.

        Raises
        ------
        InputError
            A parameter, ``X`` or ``y`` cannot be used.
        """
        params = self._checked(y)
        if isinstance(self.similarity, Lazy):
            self.objects_ = items_of(self.similarity, X)
            truth = self._truth(y)
            self._fit_lazily(truth, params)
        else:
            rows, matrix = self._similarities(self._rows(X, reset=True))
            truth = self._truth(y)
            self._grow(rows, matrix, truth, params)
        self._estimate_out_of_bag(truth)
        return self

    def _truth(self, y: Any) -> Truth:
        y = column_or_1d(in_memory(opened(y)), warn=True)
        if self._relation is Labels:
            check_classification_targets(y)
            self.classes_ = np.unique(y)
        return Truth.of(self._relation(y))

    def _fit_lazily(self, truth: Truth, params: dict[str, Any]) -> None:
        method, seed = METHODS[self._method], _seed(self.random_state)
        self.forest_ = fit_lazily(self._supplied(), method, truth, params, seed)
        self.digest_ = self.forest_.digest
        origin = self.forest_.provenance["similarity"]
        self.n_evaluations_, self.n_closed_ = origin["evaluations"], origin["closed"]

    def _supplied(self) -> Supplied:
        """Bind the similarity to the training objects, and to the cluster if there is one."""
        if self.client is None:
            return Supplied(self.similarity, self.objects_)
        from distforest.jobs.on_dask import OnDask  # noqa: PLC0415  (calls in this process do without Dask)

        return Supplied(self.similarity, self.objects_, OnDask(self.client))

    def _nodes(self, X: Any) -> Rows:
        if not isinstance(self.similarity, Lazy):
            return super()._nodes(X)
        check_is_fitted(self)
        return nodes_of(self.forest_, self._supplied(), items_of(self.similarity, X))

    def _checked(self, truth: Any) -> dict[str, Any]:
        if not isinstance(self.similarity, Lazy):
            return super()._checked(truth)
        if self.kind != "similarity":
            raise InputError(f"Lazy(kind=...) says what the function returns; found kind={self.kind!r} beside it")
        given = copy.copy(self)
        given.similarity = "precomputed"
        return given._checked(truth)

    def _estimate_out_of_bag(self, truth: Truth) -> None:
        if self.oob_score:
            estimate, count = scoring.out_of_bag(self.forest_)
            known = _estimated(count, "rows")
            if truth.judge == "labels":
                self.oob_decision_function_ = estimate
                self.oob_score_ = float(np.mean(np.argmax(estimate[known], axis=1) == truth.values[known]))
            else:
                self.oob_prediction_ = estimate[:, 0]
                self.oob_score_ = _r_squared(truth.values[known], estimate[known])


@dataclass(eq=False, repr=False)
class SimForestClassifier(ClassifierMixin, _SimForest):  # type: ignore[misc]
    """Similarity forest (Sathe and Aggarwal): classifies objects of which only similarities are known.

    A node draws pairs of objects of different classes and cuts its objects by how much more similar they are
    to the one than to the other, where the classes come apart best. The distance of two objects is the
    probability that labels drawn from the leaves in which they end differ, averaged over the trees.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    forest_, digest_, n_features_in_, feature_names_in_
        As of `SMERF`.
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted.
    oob_decision_function_ : ndarray of shape (n, n_classes)
        With ``oob_score``: class shares of each training object over the trees that did not draw it; NaN
        where every tree did.
    oob_score_ : float
        With ``oob_score``: accuracy of these.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = SimForestClassifier(n_estimators=20, random_state=0).fit(X @ X.T, y)
    >>> forest.predict(X[[0, 50, 100]] @ X.T)
    array([0, 1, 2])
    """

    _relation = Labels
    _parameters = (*SIMILARITY, *METHODS["simforest"].parameters)

    _: KW_ONLY
    class_weight: Any = None

    def predict(self, X: Any) -> np.ndarray:
        """Find the most probable label of each row of ``X``, the first of equals; shape (n,)."""
        codes = np.argmax(self.predict_proba(X), axis=1)
        labels: np.ndarray = self.classes_[codes]
        return labels

    def predict_proba(self, X: Any) -> Floats:
        """Take the share of each class, as weighted, in the nodes in which ``X`` ends, shape (n, n_classes)."""
        nodes = self._nodes(X)
        return scoring.predict(self.forest_, nodes)


class SimForestRegressor(RegressorMixin, _SimForest):  # type: ignore[misc]
    """Similarity forest for targets: a cut makes the variance of the targets inside its two sides smallest.

    A node draws pairs of objects, the more often the further their targets are apart. The distance of two
    objects is half the mean squared difference of targets from the leaves in which they end.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    forest_, digest_, n_features_in_, feature_names_in_
        As of `SMERF`.
    oob_prediction_ : ndarray of shape (n,)
        With ``oob_score``: mean target of each training object over the trees that did not draw it; NaN
        where every tree did.
    oob_score_ : float
        With ``oob_score``: coefficient of determination of these.

    Examples
    --------
    >>> X = np.arange(20.0).reshape(-1, 1)
    >>> forest = SimForestRegressor("linear", n_estimators=50, random_state=0).fit(X, 3 * X[:, 0])
    >>> bool(abs(forest.predict([[10.0]])[0] - 30) < 5)
    True
    """

    _relation = Targets

    def predict(self, X: Any) -> Floats:
        """Take the mean target of the nodes in which the rows of ``X`` end, shape (n,)."""
        nodes = self._nodes(X)
        return scoring.predict(self.forest_, nodes)[:, 0]


def load(
    address: str | os.PathLike[str], similarity: Lazy | None = None, X: Any = None
) -> SMERF | SimForestClassifier | SimForestRegressor | SimForestOutlier:
    """Open a sealed forest as a fitted estimator, whichever door it was grown through.

    It answers as the original does, but has no names of features and no out-of-bag errors, which a forest
    does not hold; ``random_state`` and ``gamma`` are the numbers that were used.

    Parameters
    ----------
    address
        Path or URL of the forest.
    similarity
        What similarities are asked of from now on; a forest names its function, but does not hold it. Without it, a
        forest that has learned from similarities is asked with rows of them.
    X
        With ``similarity``, the training objects as `fit` took them.

    Raises
    ------
    ArtifactError
        There is no sealed forest, or it is damaged.
    InputError
        ``similarity`` for a forest that does not read similarities, or without ``X``.
    """
    forest = open_forest(os.fspath(address))
    meaning, rows = forest.meaning, forest.meaning.rows
    try:
        params: dict[str, Any] = complete(METHODS[meaning.method].parameters, meaning.params)
    except (KeyError, InputError) as error:
        raise ArtifactError(f"{address}: unknown method or parameters: {error}") from error
    kind: Any = SMERF
    if meaning.method == "isolation":
        from distforest.outliers import SimForestOutlier  # noqa: PLC0415  (it is built of what is here)

        kind = SimForestOutlier
    if meaning.method == "simforest":
        kind = SimForestRegressor if meaning.classes is None else SimForestClassifier
        weights = params.pop("class_weight")
        if meaning.classes is not None:
            params["class_weight"] = _by_label(weights, meaning.classes)
    if issubclass(kind, OnSimilarities):
        params["similarity"] = {"dense": "precomputed", "features": SUBSETS}.get(rows["kind"], rows["kind"])
        params["kind"] = rows.get("measure", "similarity")
        params["gamma"] = rows["gamma"] if rows["kind"] == "rbf" else None
    found: Any = kind(**params, random_state=meaning.seed)
    found._adopt(forest)
    if similarity is not None:
        if rows["kind"] != "dense" or X is None:
            raise InputError("similarity=Lazy(...) goes with X, the training objects, of a forest on similarities")
        found.similarity, found.kind, found.objects_ = similarity, "similarity", items_of(similarity, X)
    if kind is SimForestClassifier:
        found.classes_ = np.asarray(meaning.classes)
    return found


def _plain(value: Any) -> Any:
    """A parameter in Python's own types; the labels of a table as strings."""
    if isinstance(value, Mapping):
        return {key_of(label): _plain(weight) for label, weight in value.items()}
    return value.item() if isinstance(value, np.generic) else value


def _by_label(weights: Any, classes: list[Any]) -> Any:
    """Turn a table of class weights by strings into one by labels."""
    if not isinstance(weights, Mapping):
        return weights
    return {label: weights[key_of(label)] for label in classes if key_of(label) in weights}


def _n_threads(n_jobs: Any) -> int:
    """Read ``n_jobs`` as scikit-learn does: None is 1, -1 all cores, -2 all but one."""
    if n_jobs is None:
        return 1
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, (int, np.integer)) or n_jobs == 0:
        raise InputError(f"n_jobs must be None or an integer other than 0, found {n_jobs!r}")
    return int(n_jobs) if n_jobs > 0 else max(1, (os.cpu_count() or 1) + 1 + int(n_jobs))


def _seed(random_state: Any) -> int:
    """Take an integer as it is; else draw one from the RandomState."""
    if not isinstance(random_state, Integral):
        return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))
    if not 0 <= int(random_state) < 2**63:
        raise InputError(f"random_state must be in [0, 2^63), a RandomState or None, found {random_state!r}")
    return int(random_state)


def _estimated(count: Ints, things: str) -> np.ndarray:
    """Which ``things`` have an out-of-bag estimate; warns where some have none, refuses where all."""
    known: np.ndarray = count > 0
    if not known.any():
        cure = "set bootstrap=True or a smaller max_samples, or grow more trees"
        raise InputError(f"oob_score: no tree left any of the {things} out of its sample; {cure}")
    if not known.all():
        text = f"{int((~known).sum())} of {len(known)} {things} have no out-of-bag estimate; grow more trees"
        warnings.warn(text, stacklevel=3)
    return known


def _r_squared(true: Floats, found: Floats) -> float:
    from sklearn.metrics import r2_score  # noqa: PLC0415  (a tenth of a second that a fit does without)

    return float(r2_score(true, found))
