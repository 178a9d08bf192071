"""Door 1: scikit-learn estimators. They check and convert, call the forests, and name the answers."""

from __future__ import annotations

import copy
import os
import tempfile
import warnings
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, TransformerMixin
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import check_array, check_random_state, column_or_1d
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, validate_data

from distforest.errors import ArtifactError, InputError
from distforest.forest import scoring
from distforest.forest.artifact import open_forest, save
from distforest.growth.methods import METHODS, Data, problem
from distforest.growth.parameters import complete
from distforest.jobs.cluster import OnDask
from distforest.jobs.folder import Folder
from distforest.jobs.inputs import dense_rows, from_data, kernel_rows
from distforest.jobs.train import Options, fit, fit_here
from distforest.sources.arrays import open_array
from distforest.sources.factors import Embedding, Graph, Labels, Targets, encoded, finite_vectors
from distforest.sources.kernels import KERNELS
from distforest.sources.readings import (
    DISSIMILARITIES,
    DISTANCES,
    FEATURES,
    GRAPH,
    SIMILARITIES,
    largest_entry,
    read,
)

if TYPE_CHECKING:
    from distforest.forest.forest import Forest
    from distforest.sources.source import Floats, Ints, Rows

Estimator = TypeVar("Estimator", bound="type[_ForestEstimator]")

MOST_PAIRS = 1 << 21
"""Pairs of rows that an error is estimated from: all of them, or so many drawn at random."""

_RUN_TEXT = """
random_state : int, RandomState or None, default=None
    Seed of the forest. An integer is the seed itself, so that the same data lead to the same ``digest_``.
n_jobs : int or None, default=None
    Threads that grow trees: None is 1, -1 all cores. The forest is the same with any number.
client : distributed.Client or None, default=None
    Grow the trees on this Dask cluster; its workers must see this process's temporary folder. The forest is
    the same. Clones share the client; copies and pickles go without it.
"""


def _documented(estimator: Estimator) -> Estimator:
    """Put the parameters of the estimator's method, from the one list of them, into its docstring."""
    lines = [
        f"{row.name} : {row.allowed()}, default={row.default!r}\n    {row.text[0].upper()}{row.text[1:]}."
        for row in METHODS[estimator._method].parameters  # noqa: SLF001
    ]
    text = "\n".join([*lines, _RUN_TEXT.strip()]).replace("\n", "\n    ")
    estimator.__doc__ = (estimator.__doc__ or "").replace("{parameters}", text)
    return estimator


class _ForestEstimator(BaseEstimator):  # type: ignore[misc]
    """What the estimators share: growing a forest, and asking it for distances, neighbours and nodes."""

    _method: ClassVar[str]
    random_state: Any
    n_jobs: int | None
    client: Any

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
        """The distance of each row of ``X`` to each row of ``Y``, or of ``X``: mean over the trees (SMERF, Eq. 3).

        Parameters
        ----------
        X, Y
            Rows like those of `fit`, shapes (n_x, n_columns) and (n_y, n_columns); or addresses of Zarr arrays.

        Returns
        -------
        ndarray of shape (n_x, n_y)
        """
        nodes = self._nodes(X)
        return scoring.distance(self.forest_, nodes, nodes if Y is None else self._nodes(Y))

    def pair_distance(self, left: Any, right: Any) -> Floats:
        """The distance of row k of ``left`` and row k of ``right``, both of shape (n, n_columns); shape (n,)."""
        return scoring.pair_distance(self.forest_, self._nodes(left), self._nodes(right))

    def kneighbors(
        self, X: Any = None, n_neighbors: int = 5, return_distance: bool = True
    ) -> tuple[Floats, Ints] | Ints:
        """The nearest training rows of each row of ``X``.

        Parameters
        ----------
        X
            Rows, shape (n, n_columns). None: the training rows, none of which is its own neighbour.
        n_neighbors
            How many.
        return_distance
            Whether the distances are returned too.

        Returns
        -------
        distances, indices : ndarray of shape (n, n_neighbors)
            Nearest first, equal distances in the order of the index; ``indices`` alone on request.
        """
        check_is_fitted(self)
        training = self.forest_.leaves
        nodes = training if X is None else self._nodes(X)
        distances, indices = scoring.kneighbors(self.forest_, nodes, training, n_neighbors, X is None)
        return (distances, indices) if return_distance else indices

    def apply(self, X: Any) -> Rows:
        """The node of each tree in which each row of ``X`` ends, shape (n, n_trees)."""
        return self._nodes(X).T

    def save(self, address: str | os.PathLike[str]) -> str:
        """Seal the forest in a new Zarr group at a path or URL, for `load`; returns its digest."""
        check_is_fitted(self)
        return save(self.forest_, os.fspath(address))

    def _rows(self, X: Any, reset: bool) -> Any:
        """``X`` for `read`: an array on disk as it is, anything else through scikit-learn's checks."""
        X = _opened(X)
        checks = {"skip_check_array": True} if _is_stored(X) else {"ensure_all_finite": False}
        return validate_data(self, X, reset=reset, **checks)

    def _nodes(self, X: Any) -> Rows:
        """The nodes of the rows of ``X``, shape (n_trees, n)."""
        check_is_fitted(self)
        return scoring.apply(self.forest_, self.forest_.source(self._rows(X, reset=False)))

    def _params(self) -> dict[str, Any]:
        """The method's parameters, all faults at once; plain Python values, as they are sealed."""
        names = [parameter.name for parameter in METHODS[self._method].parameters]
        given = {name: getattr(self, name) for name in names}
        plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in given.items()}
        return complete(METHODS[self._method].parameters, plain)

    def _grow(self, data: Data, params: dict[str, Any]) -> None:
        """Grow the forest, here or on the cluster."""
        seed = _seed(self.random_state)
        if self.client is None:
            self.forest_ = fit_here(problem(METHODS[self._method], data, params, seed), _threads(self.n_jobs))
        else:
            with tempfile.TemporaryDirectory(prefix="distforest-") as place:
                inputs = from_data(data, self._method, params, seed, f"{place}/job")
                sealed = fit(inputs, f"{place}/forest.zarr", Folder(f"{place}/job"), OnDask(self.client), Options())
                self.forest_ = open_forest(sealed.address)
        self.digest_ = self.forest_.digest


@_documented
class SMERF(TransformerMixin, _ForestEstimator):  # type: ignore[misc]
    """Similarity and metric random forest (Tomita and Vogelstein): learns a given distance from features.

    A cut makes the mean pairwise distance inside the two sides as small as it can be; the distance of two rows is
    the mean training distance between the leaves in which they end, averaged over the trees.

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
        With ``oob_score``: root mean squared error and coefficient of determination of the out-of-bag distances,
        over all pairs i < j of training rows where there are no more than 2^21, else over 2^21 drawn at random.
    n_features_in_, feature_names_in_
        Number of features, and their names where ``X`` has string names.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = SMERF(n_estimators=20, random_state=0).fit(X, y)
    >>> forest.distance(X[:1], X[[1, 50, 100]]).round(1)
    array([[0., 1., 1.]])
    >>> forest.kneighbors(X[:1], n_neighbors=3, return_distance=False).shape
    (1, 3)
    """

    _method = "smerf"
    __metadata_request__fit: ClassVar = {"Z": UNUSED}
    __metadata_request__score: ClassVar = {"Z": UNUSED}

    def __init__(
        self,
        n_estimators: int = 500,
        *,
        max_features: int | float | str | None = "sqrt",
        splitter: str = "axis",
        feature_combinations: float = 1.5,
        max_bins: int | None = None,
        min_samples_split: int = 2,
        min_samples_leaf: int = 1,
        max_depth: int | None = None,
        bootstrap: bool = True,
        max_samples: int | float | None = None,
        oob_score: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
        client: Any = None,
    ) -> None:
        self.n_estimators = n_estimators
        self.max_features = max_features
        self.splitter = splitter
        self.feature_combinations = feature_combinations
        self.max_bins = max_bins
        self.min_samples_split = min_samples_split
        self.min_samples_leaf = min_samples_leaf
        self.max_depth = max_depth
        self.bootstrap = bootstrap
        self.max_samples = max_samples
        self.oob_score = oob_score
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.client = client

    def fit(self, X: Any, Z: Any) -> Self:
        """Grow the forest.

        Parameters
        ----------
        X
            Features, shape (n, n_features): array-like, Zarr array, or the address of one.
        Z
            What the forest learns: distances, shape (n, n), in any of these forms; `Labels`, `Targets`,
            `Embedding` or `Graph`; or a vector of length n, read as `Targets` where it holds fractional numbers,
            else (strings, booleans, whole numbers) as `Labels`.

        Raises
        ------
        InputError
            A parameter, ``X`` or ``Z`` cannot be used.
        """
        params = self._params()
        features = read(self._rows(X, reset=True), FEATURES)
        judge, truth, classes = _taught(_relation(Z))
        largest = largest_entry(truth) if judge == "distances" else 1.0
        rows = {"kind": "features", "n_columns": features.shape[1]}
        self._grow(Data(rows, features, judge, truth, classes, largest), params)
        if self.oob_score:
            left, right = _pairs(len(features))
            found, count = scoring.out_of_bag_distance(self.forest_, left, right)
            known = _estimated(count, "pairs")
            true, found = _distances(judge, truth, left[known], right[known]), found[known]
            self.oob_rmse_ = float(np.sqrt(np.mean((true - found) ** 2)))
            self.oob_score_ = float(r2_score(true, found))
        return self

    def transform(self, X: Any) -> Floats:
        """The distance of each row of ``X`` to each training row, shape (n, n_training)."""
        nodes = self._nodes(X)
        return scoring.distance(self.forest_, nodes, self.forest_.leaves)

    def score(self, X: Any, Z: Any) -> float:
        """Coefficient of determination of the distances of all pairs i < j of ``X`` (of 2^21 where there are more).

        Parameters
        ----------
        X
            Rows, shape (n, n_features).
        Z
            Their true distances, in any form that `fit` takes; a vector is read as it was when the forest learned.
        """
        nodes = self._nodes(X)
        judge, truth, _ = _taught(_relation(Z, self.forest_.meaning.leaf))
        if len(truth) != nodes.shape[1]:
            raise InputError(f"found {nodes.shape[1]} rows of X and {len(truth)} of Z: inconsistent numbers of samples")
        left, right = _pairs(len(truth))
        step = max(1, (1 << 25) // self.forest_.n_trees)
        blocks = [slice(first, first + step) for first in range(0, len(left), step)]
        found = [scoring.pair_distance(self.forest_, nodes[:, left[b]], nodes[:, right[b]]) for b in blocks]
        return float(r2_score(_distances(judge, truth, left, right), np.concatenate(found)))

    @property
    def feature_importances_(self) -> Floats:
        """Share of each feature in the gain of all cuts, shape (n_features_in_,)."""
        check_is_fitted(self)
        return scoring.feature_importances(self.forest_)


class _SimForest(_ForestEstimator):
    """What the two similarity forests share: their parameters, and how similarities come in."""

    _method = "simforest"

    def __init__(
        self,
        similarity: str = "precomputed",
        *,
        kind: str = "similarity",
        gamma: float | None = None,
        n_estimators: int = 100,
        n_pairs: int = 2,
        min_samples_split: int = 2,
        min_samples_leaf: int = 3,
        max_depth: int | None = None,
        bootstrap: bool = True,
        max_samples: int | float | None = None,
        oob_score: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
        client: Any = None,
    ) -> None:
        self.similarity = similarity
        self.kind = kind
        self.gamma = gamma
        self.n_estimators = n_estimators
        self.n_pairs = n_pairs
        self.min_samples_split = min_samples_split
        self.min_samples_leaf = min_samples_leaf
        self.max_depth = max_depth
        self.bootstrap = bootstrap
        self.max_samples = max_samples
        self.oob_score = oob_score
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.client = client

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = tags.input_tags.allow_nan = self.similarity == "precomputed"
        return tags

    def fit(self, X: Any, y: Any) -> Self:
        """Grow the forest.

        Parameters
        ----------
        X
            For ``similarity="precomputed"`` the similarity (or distance) of each object to each, shape (n, n), NaN
            where it was not observed; else features, shape (n, n_features). Array-like, Zarr array, or an address.
        y
            A label or a target for each object, shape (n,).

        Raises
        ------
        InputError
            A parameter, ``X`` or ``y`` cannot be used.
        """
        params = self._params()
        self._check_similarity()
        values = self._rows(X, reset=True)
        if y is None:
            raise InputError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        judge, truth, classes = self._truth(column_or_1d(_in_memory(_opened(y)), warn=True))
        if self.similarity in KERNELS:
            matrix = read(values, FEATURES)
            rows = kernel_rows(self.similarity, matrix, self.gamma if self.similarity == "rbf" else None)
        else:
            matrix = read(values, DISSIMILARITIES if self.kind == "distance" else SIMILARITIES)
            rows = dense_rows(matrix.shape, self.kind)
        self._grow(Data(rows, matrix, judge, truth, classes), params)
        if self.oob_score:
            estimate, count = scoring.out_of_bag(self.forest_)
            self._keep_out_of_bag(estimate, truth, _estimated(count, "rows"))
        return self

    def _check_similarity(self) -> None:
        if self.similarity not in ("precomputed", *KERNELS):
            known = ", ".join(map(repr, ("precomputed", *KERNELS)))
            raise InputError(f"similarity must be one of {known}, found {self.similarity!r}")
        kinds = ("similarity", "distance") if self.similarity == "precomputed" else ("similarity",)
        if self.kind not in kinds:
            allowed = " or ".join(map(repr, kinds))
            raise InputError(f"kind must be {allowed} with similarity={self.similarity!r}, found {self.kind!r}")
        if self.gamma is not None and not (isinstance(self.gamma, Real) and 0 < self.gamma < float("inf")):
            raise InputError(f"gamma must be a positive number or None, found {self.gamma!r}")

    def _truth(self, y: np.ndarray) -> tuple[str, np.ndarray, list[Any] | None]:
        raise NotImplementedError

    def _keep_out_of_bag(self, estimate: Floats, truth: np.ndarray, known: np.ndarray) -> None:
        raise NotImplementedError


@_documented
class SimForestClassifier(ClassifierMixin, _SimForest):  # type: ignore[misc]
    """Similarity forest (Sathe and Aggarwal): classifies objects of which only similarities are known.

    A node draws pairs of objects of different classes, i and j, and cuts its objects by how much more similar they
    are to j than to i, where the classes come apart best. Two objects are as distant as two draws from the leaves
    in which they end are likely to differ in class, averaged over the trees.

    Parameters
    ----------
    similarity : 'precomputed', 'linear', 'cosine' or 'rbf', default='precomputed'
        A matrix of similarities, or the similarity that is computed from features.
    kind : 'similarity' or 'distance', default='similarity'
        What a precomputed matrix holds.
    gamma : float or None, default=None
        Of ``similarity="rbf"``; None: 1 / (n_features Var(X)).
    {parameters}

    Attributes
    ----------
    forest_, digest_, n_features_in_, feature_names_in_
        As of `SMERF`.
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted.
    oob_decision_function_ : ndarray of shape (n, n_classes)
        With ``oob_score``: class shares of each training object over the trees that did not draw it; NaN where every
        tree did.
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

    def predict(self, X: Any) -> np.ndarray:
        """The most probable label of each row of ``X``, shape (n,); among equals the first of ``classes_``."""
        labels: np.ndarray = self.classes_[np.argmax(self.predict_proba(X), axis=1)]
        return labels

    def predict_proba(self, X: Any) -> Floats:
        """The share of each class in the nodes in which the rows of ``X`` end, shape (n, n_classes)."""
        nodes = self._nodes(X)
        return scoring.predict(self.forest_, nodes)

    def _truth(self, y: np.ndarray) -> tuple[str, np.ndarray, list[Any] | None]:
        check_classification_targets(y)
        self.classes_ = np.unique(y)
        return _taught(Labels(y))

    def _keep_out_of_bag(self, estimate: Floats, truth: np.ndarray, known: np.ndarray) -> None:
        self.oob_decision_function_ = estimate
        self.oob_score_ = float(accuracy_score(truth[known], np.argmax(estimate[known], axis=1)))


@_documented
class SimForestRegressor(RegressorMixin, _SimForest):  # type: ignore[misc]
    """Similarity forest for targets: a cut makes the variance of the targets inside the two sides smallest.

    A node draws pairs of objects, the more often the further their targets are apart, and cuts its objects by how
    much more similar they are to the one than to the other; see `SimForestClassifier`. Two objects are as distant
    as half the mean squared difference of two targets from the leaves in which they end.

    Parameters
    ----------
    similarity, kind, gamma
        As of `SimForestClassifier`.
    {parameters}

    Attributes
    ----------
    forest_, digest_, n_features_in_, feature_names_in_
        As of `SMERF`.
    oob_prediction_ : ndarray of shape (n,)
        With ``oob_score``: target of each training object predicted by the trees that did not draw it; NaN where
        every tree did.
    oob_score_ : float
        With ``oob_score``: coefficient of determination of these.

    Examples
    --------
    >>> X = np.arange(20.0).reshape(-1, 1)
    >>> forest = SimForestRegressor("linear", n_estimators=50, random_state=0).fit(X, 3 * X[:, 0])
    >>> bool(abs(forest.predict([[10.0]])[0] - 30) < 5)
    True
    """

    def predict(self, X: Any) -> Floats:
        """The mean target of the nodes in which the rows of ``X`` end, shape (n,)."""
        nodes = self._nodes(X)
        return scoring.predict(self.forest_, nodes)[:, 0]

    def _truth(self, y: np.ndarray) -> tuple[str, np.ndarray, list[Any] | None]:
        return _taught(Targets(y))

    def _keep_out_of_bag(self, estimate: Floats, truth: np.ndarray, known: np.ndarray) -> None:
        self.oob_prediction_ = estimate[:, 0]
        self.oob_score_ = float(r2_score(truth[known, 0], estimate[known, 0]))


def load(address: str | os.PathLike[str]) -> SMERF | SimForestClassifier | SimForestRegressor:
    """Open a sealed forest as the fitted estimator that it came from, whichever door it was grown through.

    It answers as the original does. It has no names of features and no out-of-bag estimates, which the forest does
    not hold; ``random_state`` is the seed that was used, and ``gamma`` the number.

    Parameters
    ----------
    address
        Path or URL of the forest.

    Raises
    ------
    ArtifactError
        There is no sealed forest, or it is damaged.
    """
    forest = open_forest(os.fspath(address))
    meaning, rows = forest.meaning, forest.meaning.rows
    try:
        params: dict[str, Any] = complete(METHODS[meaning.method].parameters, meaning.params)
    except (KeyError, InputError) as error:
        raise ArtifactError(f"{address}: a forest of an unknown method or with unknown parameters: {error}") from error
    if meaning.method == SMERF._method:  # noqa: SLF001
        found: Any = SMERF(**params, random_state=meaning.seed)
    else:
        dense = rows["kind"] == "dense"
        params |= {"similarity": "precomputed" if dense else rows["kind"], "kind": rows.get("measure", "similarity")}
        params |= {"gamma": rows["gamma"] if rows["kind"] == "rbf" else None, "random_state": meaning.seed}
        found = (SimForestRegressor if meaning.classes is None else SimForestClassifier)(**params)
        if meaning.classes is not None:
            found.classes_ = np.asarray(meaning.classes)
    found.forest_, found.digest_ = forest, forest.digest
    found.n_features_in_ = rows.get("n_features", rows["n_columns"])
    return found  # type: ignore[no-any-return]


def _opened(values: Any) -> Any:
    """The Zarr array at an address; anything else as it is."""
    return open_array(os.fspath(values)) if isinstance(values, (str, os.PathLike)) else values


def _is_stored(values: Any) -> bool:
    """Whether ``values`` is an array on disk, to be read block by block: a Zarr array, or one like it."""
    return hasattr(values, "chunks") and hasattr(values, "dtype")


def _in_memory(values: Any) -> Any:
    return np.asarray(values[...]) if _is_stored(values) else values


def _seed(random_state: Any) -> int:
    """An integer as it is; else one drawn from the RandomState."""
    if not isinstance(random_state, Integral):
        return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))
    if not 0 <= int(random_state) < 2**63:
        raise InputError(f"random_state must be an integer in [0, 2^63), a RandomState or None, found {random_state!r}")
    return int(random_state)


def _threads(n_jobs: int | None) -> int:
    """Scikit-learn's ``n_jobs``: None is 1, -1 all cores, -2 all but one."""
    if n_jobs is None:
        return 1
    if not isinstance(n_jobs, Integral) or n_jobs == 0:
        raise InputError(f"n_jobs must be None or an integer that is not 0, found {n_jobs!r}")
    return int(n_jobs) if n_jobs > 0 else max(1, (os.cpu_count() or 1) + 1 + int(n_jobs))


def _relation(Z: Any, learned: dict[str, Any] | None = None) -> Any:
    """``Z`` as `Labels`, `Targets`, `Embedding`, `Graph` or a matrix.

    A vector is read by the leaves that a forest has ``learned``, or else by its values.
    """
    if Z is None:
        raise InputError("SMERF requires y to be passed, but the target y is None: give distances, labels or targets")
    Z = _opened(Z)
    if isinstance(Z, (Labels, Targets, Embedding, Graph)):
        return Z
    if not _is_stored(Z):
        Z = np.asarray(Z)
    if len(Z.shape) != 1:
        return Z
    vector = _in_memory(Z)
    leaf = learned or {}
    if leaf.get("kind") == "class_counts":
        return Labels(vector)
    if leaf.get("kind") == "means":
        return Targets(vector) if leaf["factor"] == 0.5 else Embedding(vector)  # noqa: PLR2004
    if vector.dtype.kind == "f":
        finite_vectors(vector, "Z")
    kind = type_of_target(vector, input_name="Z")
    if kind not in {"binary", "multiclass", "continuous"}:
        raise InputError(f"Z of one dimension must hold labels or targets, found {kind} of dtype {vector.dtype}")
    return Targets(vector) if kind == "continuous" else Labels(vector)


def _taught(relation: Any) -> tuple[str, np.ndarray, list[Any] | None]:
    """What cuts are judged by: its kind, its numbers, and the classes of labels."""
    if isinstance(relation, Labels):
        codes, classes = encoded(relation.values)
        return "labels", codes, classes
    if isinstance(relation, (Targets, Embedding)):
        judge = "targets" if isinstance(relation, Targets) else "embedding"
        return judge, finite_vectors(relation.values, judge), None
    matrix = _opened(relation.adjacency) if isinstance(relation, Graph) else relation
    if not _is_stored(matrix):
        matrix = check_array(matrix, ensure_all_finite=False, input_name="Z")
    return "distances", read(matrix, GRAPH if isinstance(relation, Graph) else DISTANCES), None


def _distances(judge: str, truth: np.ndarray, left: Ints, right: Ints) -> Floats:
    """The true distances of pairs of rows, shape (n_pairs,)."""
    if judge == "labels":
        return (truth[left] != truth[right]).astype(np.float64)
    if judge == "distances":
        return truth[left, right].astype(np.float64)
    squares = np.zeros(len(left))
    for column in truth.T:
        squares += (column[left] - column[right]) ** 2
    return squares / 2.0 if judge == "targets" else squares


def _pairs(n_rows: int) -> tuple[Ints, Ints]:
    """All pairs i < j of rows, or `MOST_PAIRS` of them drawn with replacement, the same ones every time."""
    if n_rows * (n_rows - 1) // 2 <= MOST_PAIRS:
        left, right = np.triu_indices(n_rows, 1)
        return left, right
    numbers = np.random.default_rng(0)
    first = numbers.integers(n_rows, size=MOST_PAIRS)
    second = (first + numbers.integers(1, n_rows, size=MOST_PAIRS)) % n_rows
    return np.minimum(first, second), np.maximum(first, second)


def _estimated(count: Ints, things: str) -> np.ndarray:
    """Which ``things`` have an out-of-bag estimate; warns where some have none, refuses where all."""
    known: np.ndarray = count > 0
    if not known.any():
        raise InputError(
            f"oob_score: no tree left any of the {things} out of its sample; set bootstrap=True or a smaller "
            "max_samples, or grow more trees"
        )
    if not known.all():
        text = f"{int((~known).sum())} of {len(known)} {things} have no out-of-bag estimate; grow more trees"
        warnings.warn(text, stacklevel=3)
    return known
