"""The estimators of similarity forests: classes and targets of objects of which only similarities are known."""

from __future__ import annotations

import math
import warnings
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from distforest.errors import InputError, warn_caller
from distforest.estimators.forest_estimator import estimated, r_squared, seed_of
from distforest.estimators.on_rows import OnRows
from distforest.forest import scoring
from distforest.growth.methods import METHODS
from distforest.growth.parameters import Parameter
from distforest.jobs.lockstep import BoundSimilarity, fit_lazily, nodes_of, source_of
from distforest.sources.data_frames import told_of_order
from distforest.sources.distance_doubts import SeenDistances, told_of_distances
from distforest.sources.doubts import told_of_amounts, told_of_scales
from distforest.sources.factors import Labels, Targets
from distforest.sources.given import in_memory, is_sparse
from distforest.sources.kernels import KERNELS
from distforest.sources.lazy.callbacks import Lazy
from distforest.sources.lazy.source import items_of
from distforest.sources.opening import opened_array
from distforest.sources.readings import DISSIMILARITIES, SIMILARITIES, read
from distforest.sources.row_kinds import Dense, Features, Kernel, RowKind
from distforest.sources.sparse import SparseSource, read_sparse, with_own_distances
from distforest.sources.truth import Truth, TruthKind

if TYPE_CHECKING:
    from distforest.forest.forest import Forest, Meaning
    from distforest.sources.source import Float32s, Floats, Int32s

SUBSETS = "feature_subsets"
"""Linear similarities over a few random features, drawn anew for every pair."""

SIMILARITY = (
    Parameter(
        "similarity",
        "precomputed",
        "given, or taken of features, or a `Lazy` one that is asked for",
        words=("precomputed", *KERNELS, SUBSETS),
    ),
    Parameter("kind", "similarity", "what a precomputed matrix holds", words=("similarity", "distance")),
    Parameter("gamma", None, "of 'rbf'; None: 1 / (p Var(X))", (1, math.inf), (0.0, math.inf), (None,)),
)

Taken = tuple[RowKind, np.ndarray | SparseSource]
"""How rows of queries are read, and the training matrix."""


class OnSimilarities(OnRows):
    """What the estimators share that read similarities: how these come in."""

    _random_cuts: ClassVar[bool] = False
    similarity: Any
    kind: str
    gamma: float | None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        given = self.similarity == "precomputed"
        tags.input_tags.pairwise = tags.input_tags.allow_nan = tags.input_tags.sparse = given
        return tags

    def _similarities(self, values: Any) -> Taken:
        """Read the training matrix, and say how rows of queries are read."""
        if self.similarity != "precomputed" and self.kind == "distance":
            raise InputError(f"kind='distance' needs similarity='precomputed', found {self.similarity!r}")
        if self.similarity in KERNELS:
            if self.gamma is not None and not 0 < self.gamma < math.inf:
                raise InputError(f"gamma must be positive and finite, found {self.gamma!r}")
            features, gamma = self._read_features(values), self.gamma if self.similarity == "rbf" else None
            self._warn_of_scales(features)
            return Kernel.of(self.similarity, features, gamma), features
        if self.similarity == SUBSETS:
            features = self._read_features(values)
            return Features(features.shape[1]), features
        if self.kind == "distance":
            matrix = self._distances(values)
        else:
            matrix = (read_sparse if is_sparse(values) else read)(values, SIMILARITIES)
        return Dense.of(matrix.shape, self.kind), matrix

    def _distances(self, values: Any) -> Any:
        """Read distances; told of are those below 0, and those of rows to themselves that are not 0."""
        seen = SeenDistances()
        if is_sparse(values):
            stored = with_own_distances(values)
            matrix: Any = read_sparse(stored, DISSIMILARITIES)
            seen.see_sparse(stored)
        else:
            matrix = read(values, DISSIMILARITIES, onlooker=seen)
        Dense.of(matrix.shape, self.kind)  # refused first
        if told := seen.told("kind='similarity'"):
            warn_caller(f"distances: {told}")
        return matrix

    def _warn_of_scales(self, features: Float32s) -> None:
        """Warn where one column is nearly all that a built-in similarity adds up."""
        if told := told_of_scales(features, self.similarity, self._names(), self._random_cuts):
            warn_caller(told)

    def _taken(self, X: Any) -> Taken | None:
        """Read the training matrix as `_similarities` does; for a `Lazy` one the objects, and give None."""
        if isinstance(self.similarity, Lazy):
            self.objects_ = items_of(self.similarity, X)
            self.n_features_in_ = len(self.objects_)
            self._name(None)
            return None
        for name in ("objects_", "n_evaluations_", "n_closed_"):  # of an earlier fit
            self.__dict__.pop(name, None)
        if self.similarity == "precomputed" and (told := told_of_order(X)):
            warn_caller(f"{told}, but they are taken for the same object; give X.loc[X.columns]")
        return self._similarities(self._rows(X, reset=True))

    def _grow_of(self, taken: Taken | None, truth: Truth | None, params: dict[str, Any]) -> None:
        """Grow the forest of what was `_taken`; without a truth it learns from nothing else."""
        if taken is None:
            self._fit_lazily(truth, params)
        else:
            self._grow(*taken, truth, params)
            self._warn_of_distances(taken[1])

    def _warn_of_distances(self, matrix: Any) -> None:
        """Warn where given similarities look like distances, of which the nearest would be taken for the furthest."""
        is_given = self.similarity == "precomputed" and self.kind == "similarity" and isinstance(matrix, np.ndarray)
        if is_given and (told := told_of_distances(matrix)):
            warn_caller(f"{told}; if these are distances, give kind='distance'")

    def _fit_lazily(self, truth: Truth | None, params: dict[str, Any]) -> None:
        truth = truth or Truth(TruthKind.NOTHING, np.empty((len(self.objects_), 0)))
        self._hold(fit_lazily(self._supplied(), self._method, truth, params, seed_of(self.random_state)))
        origin = self.forest_.provenance["similarity"]
        self.n_evaluations_, self.n_closed_ = origin["evaluations"], origin["closed"]

    def _supplied(self) -> BoundSimilarity:
        """Bind the similarity to the training objects, and to the cluster if there is one."""
        if self.client is None:
            return BoundSimilarity(self.similarity, self.objects_)
        from distforest.jobs.on_dask import OnDask  # noqa: PLC0415  (calls in this process do without Dask)

        return BoundSimilarity(self.similarity, self.objects_, OnDask(self.client))

    def _nodes(self, X: Any) -> Int32s:
        if X is None or not isinstance(self.similarity, Lazy):
            return super()._nodes(X)
        check_is_fitted(self)
        return nodes_of(self.forest_, self._supplied(), items_of(self.similarity, X))

    def _given(self) -> dict[str, Any]:
        """Collect the parameters as they were given; a `Lazy` similarity goes by a word."""
        given = super()._given()
        if isinstance(self.similarity, Lazy):
            if self.kind != "similarity":
                raise InputError(f"Lazy(kind=...) says what the function returns; found kind={self.kind!r} beside it")
            given["similarity"] = "precomputed"  # the word for what is not taken of features
        return given


@dataclass(eq=False, repr=False)
class _SimForest(OnSimilarities):
    """What the classifier and the regressor share: their parameters, and what their trees say of rows."""

    _method = METHODS["simforest"]
    _parameters = (*SIMILARITY, *(p for p in _method.parameters if p.name != "class_weight"))
    _relation: ClassVar[type[Labels | Targets]]

    similarity: Any = "precomputed"
    _: KW_ONLY
    kind: str = "similarity"
    gamma: float | None = None
    n_estimators: int = 100
    n_pairs: int = 4
    pairing: str | None = None
    n_columns: int = 1
    n_landmarks: float | None = None
    voting: str = "share"
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
            the address of one. A sparse matrix, SciPy's or the address of one in Zarr, holds similarities (or
            distances) that were observed: what is not stored was not, but the distance of an object to itself,
            which is 0. For a `Lazy` similarity the objects, a sequence of length n, or places in its ``objects``,
            integers of shape (n,).
        y
            A label or a target for each object, shape (n,), likewise. Dates are read in their own unit: see `Targets`.

        Raises
        ------
        InputError
            A parameter, ``X`` or ``y`` cannot be used.

        Warns
        -----
        UserWarning
            Given similarities look like distances; a few targets lie far from all others; or no tree has a cut.
        """
        params = self._checked(y)
        taken, truth = self._taken(X), self._truth(y)
        self._warn_of_far(truth)
        self._grow_of(taken, truth, params)
        self._warn_of_amounts(taken, truth)
        if self.oob_score:
            estimate, count = scoring.out_of_bag(self.forest_)
            self._check_out_of_bag(estimate, estimated(count, "rows"), truth)
        return self

    @classmethod
    def _opens(cls, meaning: Meaning) -> bool:
        """Whether it is the estimator of a forest; classes are those of labels."""
        return super()._opens(meaning) and (cls._relation is Labels) == (meaning.classes is not None)

    def _warn_of_amounts(self, taken: Taken | None, truth: Truth) -> None:
        """Warn where labels may be amounts: whole numbers in the order of a column of what the trees read."""
        if truth.classes is None:
            return
        columns = taken[1] if taken and isinstance(taken[1], np.ndarray) else np.empty((len(truth.values), 0))
        if told := told_of_amounts(np.array(truth.classes)[truth.values], columns, self._names()):
            warn_caller(
                f"labels: {told}, any two of which are equally unlike; if they are amounts, use SimForestRegressor"
            )

    def _truth(self, y: Any) -> Truth:
        y = column_or_1d(in_memory(opened_array(y)), warn=True)
        truth = Truth.of(self._relation(y))
        if self._relation is Labels:
            with warnings.catch_warnings():  # what there is to say of many labels is said once X is known
                warnings.simplefilter("ignore", UserWarning)
                check_classification_targets(y)
            self.classes_ = np.unique(y)
        return truth

    def _said(self, X: Any) -> Floats:
        """Take what the trees say of the rows of ``X`` on average, shape (n, n_outputs)."""
        check_is_fitted(self)
        if not self.forest_.nearest_votes:
            return scoring.predict(self.forest_, self._nodes(X))
        if not isinstance(self.similarity, Lazy):
            return scoring.predict_rows(self.forest_, self._source(X))
        with source_of(self.forest_, self._supplied(), items_of(self.similarity, X)) as source:
            return scoring.predict_rows(self.forest_, source)

    def _check_out_of_bag(self, estimate: Floats, known: np.ndarray, truth: Truth) -> None:
        """Hold what trees say of the training objects that they have not drawn, and how good that is."""
        raise NotImplementedError

    def _out_of_bag(self, name: str) -> Floats:
        """What trees say of the training objects that they have not drawn; raises AttributeError if none were asked."""
        if not hasattr(self, "oob_score_"):
            raise AttributeError(f"{name}: the forest was fitted without oob_score=True")
        return scoring.out_of_bag(self.forest_)[0]


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
        As of `SMERF`; for a `Lazy` similarity ``n_features_in_`` is the number of training objects.
    objects_, n_evaluations_, n_closed_
        For a `Lazy` similarity: the training objects, the pairs that the fit has paid for, and the nodes that were left
        without a cut (or trees without a root) once the budget was spent.
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
    _parameters = (*SIMILARITY, *_SimForest._method.parameters)

    _: KW_ONLY
    class_weight: Any = None

    @cached_property
    def oob_decision_function_(self) -> Floats:
        """Class shares of each training object over the trees that did not draw it, shape (n, n_classes)."""
        return self._out_of_bag("oob_decision_function_")

    def _adopt(self, forest: Forest) -> None:
        super()._adopt(forest)
        self.classes_ = np.asarray(forest.meaning.classes)

    def _check_out_of_bag(self, estimate: Floats, known: np.ndarray, truth: Truth) -> None:
        self.oob_decision_function_ = estimate
        self.oob_score_ = float(np.mean(np.argmax(estimate[known], axis=1) == truth.values[known]))

    def predict(self, X: Any) -> np.ndarray:
        """Find the most probable label of each row of ``X``, the first of equals; shape (n,)."""
        codes = np.argmax(self.predict_proba(X), axis=1)
        labels: np.ndarray = self.classes_[codes]
        return labels

    def predict_proba(self, X: Any) -> Floats:
        """Take the share of each class, as weighted, in the nodes in which ``X`` ends, shape (n, n_classes).

        With ``voting="nearest"`` it is the share of the trees that vote for it.
        """
        return self._said(X)


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
        As of `SMERF`; for a `Lazy` similarity ``n_features_in_`` is the number of training objects.
    objects_, n_evaluations_, n_closed_
        For a `Lazy` similarity: the training objects, the pairs that the fit has paid for, and the nodes that were left
        without a cut (or trees without a root) once the budget was spent.
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

    @cached_property
    def oob_prediction_(self) -> Floats:
        """Mean target of each training object over the trees that did not draw it, shape (n,)."""
        return self._out_of_bag("oob_prediction_")[:, 0]

    def _check_out_of_bag(self, estimate: Floats, known: np.ndarray, truth: Truth) -> None:
        self.oob_prediction_ = estimate[:, 0]
        self.oob_score_ = r_squared(truth.values[known], estimate[known])

    def predict(self, X: Any) -> Floats:
        """Take the mean target of the nodes in which the rows of ``X`` end, or of the objects that vote, shape (n,).

        Of dates it is a number of the unit in which they were given, since 1970: see `Targets`.
        """
        return self._said(X)[:, 0]
