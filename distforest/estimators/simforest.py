"""Estimators of similarity forests, which classify objects or predict targets from similarities only."""

from __future__ import annotations

import math
import warnings
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from distforest.errors import InputError, warn_caller
from distforest.estimators.by_blocks import by_blocks
from distforest.estimators.forest_estimator import (
    have_estimates,
    print_to_stderr,
    r_squared,
    seed_of,
    warn_of_mean,
)
from distforest.estimators.input_types import ClassWeightLike, RowsLike, SeedLike, SimilarityLike, VectorLike
from distforest.estimators.on_rows import OnRows
from distforest.estimators.similarity_lists import (
    PRECOMPUTED,
    check_similarities,
    matrices_of,
    side_by_side,
    similarities_of,
    weights_of,
)
from distforest.forest import scoring
from distforest.forest.chosen_cut import BEST, ChosenCut
from distforest.growth.methods import METHODS
from distforest.growth.parameters import Parameter
from distforest.jobs.lockstep import (
    BoundMeasures,
    BoundSimilarity,
    check_origins,
    fit_lazily,
    nodes_of,
    source_of,
    warn_of_change,
)
from distforest.jobs.trial_forests import chosen_cut
from distforest.sources.collections import computed, is_dask_array
from distforest.sources.factors import (
    Distances,
    Graph,
    Labels,
    ObservedDistances,
    Targets,
    names_of_classes,
    refuse_names,
)
from distforest.sources.files.ids import warning_about_square_order
from distforest.sources.given import in_memory, is_sparse
from distforest.sources.kernels import KERNELS
from distforest.sources.lazy.callbacks import Lazy
from distforest.sources.lazy.lazy_source import Objects, items_of
from distforest.sources.opening import address_of, opened_array
from distforest.sources.readings import DISSIMILARITIES, SIMILARITIES, check_shape, read
from distforest.sources.row_kinds import Dense, Features, Kernel, RowKind, Several, is_built_in
from distforest.sources.row_order import warning_about_order
from distforest.sources.sparse import SparseSource, read_sparse, with_own_distances
from distforest.sources.truth import Truth, TruthKind
from distforest.stores.addresses import naming

if TYPE_CHECKING:
    from collections.abc import Callable

    import scipy.sparse
    from distributed import Client
    from numpy.typing import NDArray
    from sklearn.utils import Tags

    from distforest.forest.forest import Forest, Meaning
    from distforest.growth.parameters import Value
    from distforest.growth.problem import Data, Problem
    from distforest.sources.arrays import Matrix
    from distforest.sources.lazy.identity import Items
    from distforest.sources.source import Floats, Int32s, Source

SUBSETS = "feature_subsets"
"""The name of linear similarities over a few features, drawn anew for every pair of objects."""

SIMILARITY = (
    Parameter(
        "similarity",
        "precomputed",
        "given as a matrix, computed from features, or evaluated when needed by a `Lazy` function; or a list of "
        "similarities, of which each candidate draws one",
        words=("precomputed", *KERNELS, SUBSETS),
        lazy=True,
    ),
    Parameter(
        "similarity_weights",
        None,
        "how often a candidate draws each similarity of a list: an array of numbers >= 0, shape (n_similarities,); "
        "None: equally often",
        words=(None,),
    ),
    Parameter("kind", "similarity", "what a precomputed matrix holds", words=("similarity", "distance")),
    Parameter("gamma", None, "scale of 'rbf'; None: 1 / (p Var(X))", (1, math.inf), (0.0, math.inf), (None,)),
)


class TrainingMatrix(NamedTuple):
    """Matrix that a forest learns from, and how rows of the same kind are read."""

    rows: RowKind
    values: np.ndarray | SparseSource


class OnSimilarities(OnRows):
    """Base class of the estimators that read similarities: precomputed, from features, or evaluated when needed."""

    _random_cuts: ClassVar[bool] = False
    similarity: SimilarityLike
    similarity_weights: VectorLike | None
    kind: str
    gamma: float | None
    objects_: Items | list[Items]
    _training_items: list[Items]
    n_evaluations_: int | None
    n_closed_: int | None

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        similarities = similarities_of(self.similarity)
        is_matrix = all(similarity == PRECOMPUTED for similarity in similarities)
        tags.input_tags.pairwise = is_matrix
        tags.input_tags.sparse = is_matrix and len(similarities) == 1
        tags.input_tags.three_d_array = is_matrix and len(similarities) > 1
        tags.input_tags.allow_nan = not self._lazy  # what a function compares is its own matter
        return tags

    @property
    def _lazy(self) -> tuple[Lazy, ...]:
        """Similarities that functions evaluate; may be empty."""
        return tuple(one for one in similarities_of(self.similarity) if isinstance(one, Lazy))

    @property
    def _reads_features(self) -> bool:
        return PRECOMPUTED not in similarities_of(self.similarity)

    def _training_matrix(self, values: Matrix | scipy.sparse.spmatrix, similarity: str) -> TrainingMatrix:
        """Read the matrix that the forest learns from by one similarity."""
        if similarity != PRECOMPUTED:
            if self.kind == "distance":
                raise InputError(f"kind='distance' needs similarity='precomputed', found {similarity!r}")
            if similarity in KERNELS and self.gamma is not None and not 0 < self.gamma < math.inf:
                raise InputError(f"gamma must be positive and finite, found {self.gamma!r}")
            features = self._read_features(values)
            if similarity == SUBSETS:
                return TrainingMatrix(Features(features.shape[1]), features)
            return TrainingMatrix(
                Kernel.from_features(similarity, features, self.gamma if similarity == "rbf" else None), features
            )
        matrix: np.ndarray | SparseSource
        reading = DISSIMILARITIES if self.kind == "distance" else SIMILARITIES
        if not is_sparse(values):
            matrix = read(values, reading)
        else:
            matrix = read_sparse(with_own_distances(values) if self.kind == "distance" else values, reading)
        return TrainingMatrix(Dense.from_shape(matrix.shape, self.kind), matrix)

    def _read_training(self, X: RowsLike) -> TrainingMatrix | None:
        """Read the training matrix; for a `Lazy` similarity, keep the training objects and return None."""
        if self._lazy:
            self._set_objects(X)
            self.n_features_in_ = len(self._training_items[0])
            self._set_schema(None)
            return None
        for name in ("objects_", "n_evaluations_", "n_closed_"):  # of an earlier fit
            self.__dict__.pop(name, None)
        similarities = [str(similarity) for similarity in similarities_of(self.similarity)]
        if len(similarities) == 1:
            return self._only_matrix(X, similarities[0])
        if similarities[0] == PRECOMPUTED:
            parts = []
            for place, matrix in enumerate(matrices_of(X, len(similarities))):
                with naming(f"X, matrix {place}", f"matrix {place}"):
                    parts.append(self._only_matrix(matrix, PRECOMPUTED, reset=place == 0))
        else:
            rows = self._rows(X, reset=True)
            parts = [self._training_matrix(rows, similarity) for similarity in similarities]
        dense = [part.values for part in parts if isinstance(part.values, np.ndarray)]
        if len(dense) < len(parts):
            raise InputError("several similarities are read from dense matrices, found a sparse one; give X.toarray()")
        measures = tuple(part.rows for part in parts if isinstance(part.rows, (Dense, Kernel)))
        several = Several(measures, weights_of(self.similarity_weights, len(similarities)))
        return TrainingMatrix(several, side_by_side(dense) if similarities[0] == PRECOMPUTED else dense[0])

    def _only_matrix(self, X: RowsLike, similarity: str, reset: bool = True) -> TrainingMatrix:
        """Read the training matrix of one similarity."""
        if isinstance(X, (Distances, ObservedDistances, Graph)):
            cure = "give the matrix itself, with kind='distance' if it holds distances"
            raise InputError(f"X: a matrix was expected, found `{type(X).__name__}`, which teaches SMERF; {cure}")
        if similarity == PRECOMPUTED:
            address = address_of(X)
            if warning := warning_about_order(X, "X") or (address and warning_about_square_order(address)):
                warn_caller(f"DF005 {warning}")
            if self.kind == "distance" and len(getattr(X, "shape", ())) == 1:
                check_shape(X, DISSIMILARITIES)  # here, as scikit-learn takes it for features
        return self._training_matrix(self._rows(X, reset=reset), similarity)

    def _source(self, X: RowsLike) -> Source:
        """Read rows as `OnRows` does, and for several precomputed similarities the rows of a matrix for each."""
        rows = self.forest_.meaning.rows
        if not isinstance(rows, Several) or rows.is_built_in:
            return super()._source(X)
        matrices = (self._rows(matrix, reset=False) for matrix in matrices_of(X, len(rows.measures)))
        return self.forest_.source(side_by_side(np.asarray(matrix[:]) for matrix in matrices))

    def _restore(self, forest: Forest) -> None:
        super()._restore(forest)
        rows = forest.meaning.rows
        if isinstance(rows, Several) and not rows.is_built_in:
            self.n_features_in_ = rows.n_objects

    def _bind_again(self, X: RowsLike) -> None:
        """Bind the `Lazy` similarities of an opened forest to its training objects ``X``.

        Raises
        ------
        InputError
            The forest has learned from other similarities or objects.
        """
        self._set_objects(X)
        supplied = self._bound()
        check_origins(self.forest_, supplied, [Objects.from_columns(own) for own in self._training_items])
        for place, measure in enumerate(supplied.measures):
            warn_of_change(self.forest_, measure.lazy, place)

    def _set_objects(self, X: RowsLike) -> None:
        """Keep the training objects, in the form of each `Lazy` similarity."""
        self._training_items = self._items(X)
        is_list = isinstance(self.similarity, (list, tuple))
        self.objects_ = self._training_items if is_list else self._training_items[0]

    def _items(self, X: RowsLike) -> list[Items]:
        """Return the objects of rows, in the form of each `Lazy` similarity."""
        return [items_of(lazy, X) for lazy in self._lazy]

    def _grow_from_similarities(
        self,
        training: TrainingMatrix | None,
        truth: Truth | None,
        params: dict[str, Value],
        sample_weight: Floats | None = None,
    ) -> None:
        """Grow the forest from the matrix of `_read_training`, or from the objects of a `Lazy` similarity."""
        if training is not None:
            rows = training.rows
            if sample_weight is not None and is_built_in(rows) and self.gamma is None:
                rows = rows.weighted(np.asarray(training.values), sample_weight)
            self._grow(rows, training.values, truth, params, sample_weight=sample_weight)
            return
        if self.warm_start:
            cure = "fit again with more trees: a ledger keeps the pairs that were evaluated"
            raise InputError(f"warm_start=True does not go with a Lazy similarity, whose trees grow together; {cure}")
        truth = truth or Truth(TruthKind.NOTHING, np.empty((self.n_features_in_, 0)))
        seed, weights = seed_of(self.random_state), self._integer_weights(params, truth, sample_weight)
        with self._reported_progress() as watch:
            self._set_forest(fit_lazily(self._bound(), self._method, truth, params, seed, watch, weights))
        origin = self.forest_.provenance["similarity"]
        self.n_evaluations_, self.n_closed_ = origin["evaluations"], origin["closed"]

    def _bound(self) -> BoundMeasures:
        """Bind the similarities to the training objects, and to the cluster if there is one."""
        lazy, cluster = self._lazy, self._calls()
        measures = (BoundSimilarity(one, own, cluster) for one, own in zip(lazy, self._training_items, strict=True))
        return BoundMeasures(tuple(measures), weights_of(self.similarity_weights, len(lazy)))

    def _nodes(self, X: RowsLike | None) -> Int32s:
        """Find the nodes of the rows of ``X`` as `OnRows` does, or by the `Lazy` similarity."""
        check_is_fitted(self)
        if X is None or not self._lazy:
            if X is not None and "similarity" in self.forest_.provenance and np.ndim(X) != 2:
                cure = "load(address, similarity=Lazy(pairwise(f), ...), X=...) with the objects that it learned from"
                raise InputError(f"X: the forest asks a function for similarities, and has none; {cure}")
            return super()._nodes(X)
        return nodes_of(self.forest_, self._bound(), self._items(X))

    def _params(self) -> dict[str, Value]:
        """Return the parameters as set; the first similarity represents all, and a matrix represents a function."""
        params, similarities = super()._params(), similarities_of(self.similarity)
        [parameter] = (own for own in self._parameters if own.name == "similarity")
        check_similarities(similarities, parameter, SUBSETS)
        weights_of(self.similarity_weights, len(similarities))
        params |= {"similarity": str(similarities[0]), "similarity_weights": None}
        if self._lazy:
            if self.kind != "similarity":
                raise InputError(f"Lazy(kind=...) says what the function returns; found kind={self.kind!r} beside it")
            params["similarity"] = PRECOMPUTED  # as it is not computed from features
        return params


@dataclass(eq=False, repr=False)
class _SimForest(OnSimilarities):
    """Base class of the classifier and the regressor: their parameters, training and predictions."""

    _method = METHODS["simforest"]
    _parameters = (*SIMILARITY, *(p for p in _method.parameters if p.name != "class_weight"))
    _relation: ClassVar[type[Labels | Targets]]

    similarity: SimilarityLike = "precomputed"
    _: KW_ONLY
    similarity_weights: VectorLike | None = None
    kind: str = "similarity"
    gamma: float | None = None
    n_estimators: int = 100
    n_pairs: int = 4
    pairing: str | None = None
    n_columns: int | None = None
    cut: str = "best"
    n_landmarks: float | None = None
    voting: str = "share"
    on_missing: str | None = None
    criterion: str | None = None
    min_samples_split: int = 2
    min_samples_leaf: int = 3
    max_depth: int | None = None
    bootstrap: bool = True
    max_samples: float | None = None
    oob_score: bool = False
    random_state: SeedLike = None
    n_jobs: int | None = None
    verbose: int = 0
    warm_start: bool = False
    client: Client | None = None

    def fit(self, X: RowsLike, y: VectorLike, sample_weight: VectorLike | None = None) -> Self:
        """Grow the forest.

        Parameters
        ----------
        X
            For ``similarity="precomputed"`` the similarity (or distance) of each pair of objects, shape (n, n), NaN
            where it is unobserved; for a list of them, an array of shape (n, n, n_similarities) or a list of matrices.
            Otherwise features, shape (n, n_features). Array-like, data frame, Zarr array, or the address of one. In a
            sparse matrix (of SciPy, or the address of one in Zarr) entries that are not stored are unobserved, except
            that the distance of an object to itself is 0. For a `Lazy` similarity, the objects, a sequence of length n,
            or their positions in its ``objects``, integers of shape (n,).
        y
            A label or a target for each object, shape (n,): array-like, Zarr array, or the address of one. Dates are
            read in their own unit: see `Targets`.
        sample_weight
            A weight for each object, shape (n,), as for `SMERF.fit`.

        Raises
        ------
        InputError
            A parameter, ``X``, ``y`` or ``sample_weight`` cannot be used.

        Warns
        -----
        DistforestWarning
            A check has a finding, or the forest has learned little: see the page on checks.
        """
        params = self._checked_params(y)
        X, y, sample_weight = computed(X, y, sample_weight)
        self._warn_of_order(X, y=y, sample_weight=sample_weight)
        training, truth = self._read_training(X), self._truth(y)
        weights = self._read_weights(sample_weight, len(truth.values))
        self._grow_from_similarities(training, truth, params, weights)
        if self.verbose and (chosen := ChosenCut.from_provenance(self.forest_.provenance)):
            print_to_stderr(chosen.in_words())
        if self.oob_score:
            self._estimate_out_of_bag(truth, weights)
        return self

    def _estimate_out_of_bag(self, truth: Truth, weights: Floats | None) -> None:
        """Set the out-of-bag predictions of the training objects and their score; ``weights`` are those of objects."""
        estimate, count = scoring.out_of_bag(self.forest_)
        known = have_estimates(count, "rows")
        self._set_out_of_bag(estimate, known, truth, None if weights is None else weights[known])

    def _score_out_of_bag(self, y: Any) -> None:
        truth, weights = self._truth(y), self.forest_.sample_weight
        self._check_n_taught(truth)
        if truth.classes is not None and truth.classes != self.forest_.meaning.classes:
            raise InputError(f"y: classes {self.forest_.meaning.classes} were expected, found {truth.classes}")
        self._estimate_out_of_bag(truth, None if weights is None else weights.astype(np.float64))

    def _chosen_cut(
        self, data: Data, params: dict[str, Value], seed: int, grown: Callable[[Problem], Forest]
    ) -> ChosenCut | None:
        return chosen_cut(self._method, data, params, seed, grown)

    @property
    def cut_(self) -> str:
        """Cut of candidates, ``"best"``, ``"zero"`` or ``"exemplars"``, from the parameters or a trial."""
        check_is_fitted(self)
        return str(self.forest_.meaning.params.get("cut", BEST))

    @property
    def cut_errors_(self) -> dict[str, float]:
        """Out-of-bag error of the trial with each cut: the largest share of wrong votes, or the mean squared error."""
        check_is_fitted(self)
        if (chosen := ChosenCut.from_provenance(self.forest_.provenance)) is None:
            raise AttributeError("cut_errors_: the forest was fitted without cut='auto'")
        return chosen.errors

    @property
    def feature_importances_(self) -> Floats:
        """Share of each similarity of a list in the gain of all cuts, shape (n_similarities,)."""
        check_is_fitted(self)
        if not isinstance(self.forest_.meaning.rows, Several):
            raise AttributeError("feature_importances_: the forest reads one similarity")  # noqa: TRY004  (a property)
        return scoring.measure_importances(self.forest_)

    @classmethod
    def _opens(cls, meaning: Meaning) -> bool:
        """Return whether a forest is one of this estimator: with classes for labels, without for targets."""
        return super()._opens(meaning) and (cls._relation is Labels) == (meaning.classes is not None)

    def _truth(self, y: VectorLike) -> Truth:
        """Read labels or targets, and keep the classes of labels."""
        opened = opened_array(y)
        if self._relation is Targets:
            refuse_names(names_of_classes(opened), "y")
        values = column_or_1d(in_memory(opened), warn=True)
        truth = Truth.from_given(
            Targets(values) if self._relation is Targets else Labels(values, names_of_classes(opened))
        )
        if self._relation is Labels:
            with warnings.catch_warnings():  # a check looks at many labels, once X is known
                warnings.simplefilter("ignore", UserWarning)
                check_classification_targets(values)
            classes = np.unique(values)
            self.classes_ = classes if classes.tolist() == truth.classes else np.asarray(truth.classes)
        return truth

    def _predict(self, X: RowsLike) -> Floats:
        """Compute the mean prediction of the trees for the rows of ``X``, shape (n, n_outputs)."""
        check_is_fitted(self)
        if not self.forest_.nearest_votes:
            return scoring.predict(self.forest_, self._nodes(X))
        if not self._lazy:
            return scoring.predict_rows(self.forest_, self._source(X))
        with source_of(self.forest_, self._bound(), self._items(X)) as source:
            return scoring.predict_rows(self.forest_, source)

    def _predicted(self, X: RowsLike, y: VectorLike, sample_weight: VectorLike | None) -> tuple[Any, Any, Any]:
        """Predict the rows of ``X``, and compute ``y`` and ``sample_weight``, in one graph.

        A Dask array of rows, which have no names, is never in memory as a whole.
        """
        if is_dask_array(X):
            return computed(self.predict(X), y, sample_weight)
        X, y, sample_weight = computed(X, y, sample_weight)
        return self.predict(X), y, sample_weight

    def _set_out_of_bag(self, estimate: Floats, known: NDArray[np.bool_], truth: Truth, weights: Floats | None) -> None:
        """Set the out-of-bag predictions of the training objects and their score, over the objects that have one.

        ``weights`` are those of the objects that have one; None: equal weights.
        """
        raise NotImplementedError

    def _out_of_bag(self, name: str) -> Floats:
        """Compute the out-of-bag predictions; raises AttributeError for ``name`` without ``oob_score``."""
        if not hasattr(self, "oob_score_"):
            raise AttributeError(f"{name}: the forest was fitted without oob_score=True")
        return scoring.out_of_bag(self.forest_)[0]


@dataclass(eq=False, repr=False)
class SimForestClassifier(ClassifierMixin, _SimForest):  # type: ignore[misc]
    """Similarity forest (Sathe and Aggarwal), which classifies objects by their similarities.

    A node draws pairs of objects of different classes. It splits its objects by the difference of their similarities to
    the two objects of a pair, where this separates the classes best. The distance of two objects is the probability
    that labels drawn from the leaves in which they end differ, averaged over the trees.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    forest_, digest_, n_features_in_, feature_names_in_
        As in `SMERF`; for a `Lazy` similarity ``n_features_in_`` is the number of training objects.
    objects_, n_evaluations_, n_closed_
        For a `Lazy` similarity: the training objects, or for a list those of each similarity; the number of pairs that
        the fit has evaluated; and the number of nodes that were not split, or trees that were not begun, because the
        budget was spent.
    cut_ : str
        How candidates are cut: ``"best"``, ``"zero"`` or ``"exemplars"``, which a trial chooses with ``cut="auto"``.
    cut_errors_ : dict
        With ``cut="auto"``: for each cut, the largest share of objects that a trial forest may have misclassified.
    feature_importances_ : ndarray of shape (n_similarities,)
        For a list of similarities: the share of each in the gain of all cuts.
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted.
    oob_decision_function_ : ndarray of shape (n, n_classes)
        With ``oob_score``: class shares of each training object over the trees that did not draw it; NaN if every tree
        drew it.
    oob_score_ : float
        With ``oob_score``: accuracy of the most probable out-of-bag classes.

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
    class_weight: ClassWeightLike = None

    @cached_property
    def oob_decision_function_(self) -> Floats:
        """Class shares of each training object over the trees that did not draw it, shape (n, n_classes)."""
        return self._out_of_bag("oob_decision_function_")

    def _restore(self, forest: Forest) -> None:
        super()._restore(forest)
        self.classes_ = np.asarray(forest.meaning.classes)

    def _set_out_of_bag(self, estimate: Floats, known: NDArray[np.bool_], truth: Truth, weights: Floats | None) -> None:
        self.oob_decision_function_ = estimate
        codes = truth.values[known]
        is_right = np.argmax(estimate[known], axis=1) == codes
        self.oob_score_ = float(np.average(is_right, weights=weights))
        of_classes = np.bincount(codes, weights=weights)
        largest = float(of_classes.max() / of_classes.sum())
        if self.class_weight is None and self.oob_score_ <= largest:  # weights may give up accuracy for rare classes
            found = f"trees classify {self.oob_score_:.2f} of the objects correctly that they did not draw"
            warn_caller(f"DF012 oob_score: {found}, no more than by answering the largest class always ({largest:.2f})")

    @by_blocks
    def predict(self, X: RowsLike) -> np.ndarray:
        """Predict the most probable label of each row of ``X``, the first among equals; shape (n,)."""
        codes = np.argmax(self.predict_proba(X), axis=1)
        labels: np.ndarray = self.classes_[codes]
        return labels

    @by_blocks
    def predict_proba(self, X: RowsLike) -> Floats:
        """Compute the probability of each class for the rows of ``X``, shape (n, n_classes).

        It is the mean weighted share of the class in the nodes in which the row ends; with ``voting="nearest"``, the
        share of the trees that vote for the class.
        """
        return self._predict(X)

    def score(self, X: RowsLike, y: VectorLike, sample_weight: VectorLike | None = None) -> float:
        """Compute the accuracy of the predicted labels, as scikit-learn does.

        Parameters
        ----------
        X
            Rows as for `predict`.
        y, sample_weight
            The ground truth of each row, and its weight, both of shape (n,).
        """
        from sklearn.metrics import accuracy_score  # noqa: PLC0415  (a tenth of a second that a fit does without)

        predicted, true, weights = self._predicted(X, y, sample_weight)
        return float(accuracy_score(true, predicted, sample_weight=weights))


class SimForestRegressor(RegressorMixin, _SimForest):  # type: ignore[misc]
    """Similarity forest (Sathe and Aggarwal) for targets: a split minimises the variance within its two sides.

    A node draws pairs of objects, with higher probability the further apart their targets are. The distance of two
    objects is half the mean squared difference of targets from the leaves in which they end.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    forest_, digest_, n_features_in_, feature_names_in_
        As in `SMERF`; for a `Lazy` similarity ``n_features_in_`` is the number of training objects.
    objects_, n_evaluations_, n_closed_, feature_importances_
        As in `SimForestClassifier`.
    cut_ : str
        Where candidates are cut: ``"best"`` or ``"zero"``, which a trial chooses with ``cut="auto"``.
    cut_errors_ : dict
        With ``cut="auto"``: the out-of-bag mean squared error of a trial forest with each cut.
    oob_prediction_ : ndarray of shape (n,)
        With ``oob_score``: mean target of each training object over the trees that did not draw it; NaN if every tree
        drew it.
    oob_score_ : float
        With ``oob_score``: coefficient of determination of the out-of-bag predictions.

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

    def _set_out_of_bag(self, estimate: Floats, known: NDArray[np.bool_], truth: Truth, weights: Floats | None) -> None:
        self.oob_prediction_ = estimate[:, 0]
        self.oob_score_ = r_squared(truth.values[known], estimate[known], weights)
        warn_of_mean(self.oob_score_)

    @by_blocks
    def predict(self, X: RowsLike) -> Floats:
        """Predict the target of each row of ``X``, shape (n,): the mean of the nodes in which it ends, or of the votes.

        A date is predicted as a number in the unit of the training dates, counted from 1970: see `Targets`.
        """
        return self._predict(X)[:, 0]

    def score(self, X: RowsLike, y: VectorLike, sample_weight: VectorLike | None = None) -> float:
        """Compute the coefficient of determination of the predicted targets, as scikit-learn does.

        Parameters
        ----------
        X
            Rows as for `predict`.
        y, sample_weight
            The ground truth of each row, and its weight, both of shape (n,).
        """
        predicted, true, weights = self._predicted(X, y, sample_weight)
        return r_squared(true, predicted, weights)
