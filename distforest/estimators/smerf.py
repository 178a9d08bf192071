"""The estimator of SMERF."""

from __future__ import annotations

import warnings
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Self, overload

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import ClassifierTags
from sklearn.utils.validation import check_is_fitted

from distforest.amounts import counted
from distforest.errors import InputError, warn_caller
from distforest.estimators.by_blocks import by_blocks
from distforest.estimators.forest_estimator import (
    have_estimates,
    n_threads,
    r_squared,
    seed_of,
    warn_of_mean,
)
from distforest.estimators.input_types import (
    CategoricalLike,
    FeaturesLike,
    FeatureWeightsLike,
    RowsLike,
    SeedLike,
    SparseLike,
    TaughtLike,
    TruthLike,
    VectorLike,
)
from distforest.estimators.on_features import OnFeatures
from distforest.evaluation.grids import weights_of_pairs
from distforest.evaluation.sides import score_sides
from distforest.forest import importances, one_sided, scoring, standard_errors
from distforest.forest.taught_truth import check_own_distances
from distforest.growth.methods import METHODS
from distforest.growth.problem import Data
from distforest.jobs.asked_distances import Learner, ask_distances
from distforest.jobs.lockstep import BoundSimilarity
from distforest.jobs.train import fit_here
from distforest.sides import CHOSEN, ONE, SIDED, TWO
from distforest.sources.collections import computed
from distforest.sources.factors import Distances, Graph, Labels
from distforest.sources.given import in_memory, is_sparse, unmasked
from distforest.sources.lazy.callbacks import Lazy
from distforest.sources.lazy.source import sequence_of
from distforest.sources.opening import opened_rows
from distforest.sources.row_kinds import Features
from distforest.sources.row_order import told_of_order
from distforest.sources.truth import Truth, TruthKind, pairs_of_rows

if TYPE_CHECKING:
    from distributed import Client
    from sklearn.utils import Tags

    from distforest.evaluation.sides import ScoredSides
    from distforest.forest.importances import FeatureImportances
    from distforest.growth.parameters import Value
    from distforest.jobs.asked_distances import AskedDistances
    from distforest.sources.source import Float32s, Floats
    from distforest.sources.sparse_features import SparseFeatures

BLOCK_NODES = 1 << 25
"""Nodes that are looked up at once, on each side, to score pairs of rows."""


@dataclass(eq=False, repr=False)
class SMERF(ClassNamePrefixFeaturesOutMixin, TransformerMixin, OnFeatures):  # type: ignore[misc]
    """Similarity and metric random forest (Tomita and Vogelstein): learns a given distance from features.

    A split minimises the mean pairwise distance within its two sides. The distance of two rows is the mean training
    distance between the leaves in which they end, averaged over the trees.

    ``feature_weights`` may also be an array of numbers >= 0, shape (n_features,).

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    forest_ : Forest
        The forest.
    digest_ : str
        SHA-256 of the forest: equal forests have the same digest, wherever they were grown.
    feature_importances_ : ndarray of shape (n_features_in_,)
        Share of each feature in the gain of all splits.
    feature_weights_, dependence_
        As in `URerF`.
    classes_ : ndarray
        The labels, sorted, if the forest has learned labels.
    oob_rmse_, oob_score_ : float
        With ``oob_score``: root mean squared error and coefficient of determination of the out-of-bag distances of all
        pairs i < j of training rows whose distances were observed, or of 2^21 random pairs if there are more. With
        labels, too, it is that of their distances, 0 and 1, and not an accuracy. 1 is
        best; the mean distance as the answer to all pairs has 0; below 0 the forest is worse than that.
    unobserved_share_ : float
        Share of all pairs of leaves of which no distance was observed, so that their parents stand in; 0.0 if the
        distances were complete.
    n_evaluations_ : int
        After a fit to a `Lazy` function: the number of pairs that it has paid for.
    n_features_in_, feature_names_in_, feature_dtypes_in_
        Number of features; and their names and dtypes, if ``X`` is a data frame with string names or a Zarr array with
        the attribute ``feature_names``. A saved forest keeps them.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = SMERF(n_estimators=20, random_state=0).fit(X, y)
    >>> forest.distance(X[:1], X[[1, 50, 100]]).round(1)
    array([[0., 1., 1.]])

    For cross-validation, give distances as `Distances`, whose rows and columns are selected together:

    >>> from sklearn.model_selection import GridSearchCV
    >>> from distforest import Distances
    >>> lengths = Distances(abs(X[:, 2, None] - X[:, 2]))
    >>> search = GridSearchCV(SMERF(20, random_state=0), {"max_depth": [1, 5]}, cv=3)
    >>> search.fit(X[:, [0, 1, 3]], lengths).best_params_
    {'max_depth': 5}
    """

    _method = METHODS["smerf"]
    _parameters = _method.parameters

    n_estimators: int = 500
    _: KW_ONLY
    max_features: float | str | None = "auto"
    feature_combinations: float = 1.0
    coefficients: str = "sign"
    feature_weights: FeatureWeightsLike = None
    splitter: str = "best"
    criterion: str | None = None
    max_bins: int | None = None
    min_samples_split: int = 2
    min_samples_leaf: int = 1
    max_depth: int | None = None
    bootstrap: bool = True
    max_samples: float | None = None
    oob_score: bool = False
    categorical_features: CategoricalLike = "from_dtype"
    random_state: SeedLike = None
    n_jobs: int | None = None
    verbose: int = 0
    warm_start: bool = False
    client: Client | None = None

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags = ClassifierTags()  # of `predict_proba`; the forest may learn other truths, so it is none
        return tags

    def fit(self, X: FeaturesLike | SparseLike, y: TaughtLike, sample_weight: VectorLike | None = None) -> Self:
        """Grow the forest.

        Parameters
        ----------
        X
            Features, shape (n, n_features): array-like, data frame, sparse matrix, Zarr array, or the address of one.
            In a sparse matrix an absent value is 0.
        y
            The ground truth: distances, shape (n, n), as a matrix or as `Distances`; `Labels`, `Targets`, `Embedding`
            or `Graph`; or a vector, shape (n,). NaN in a matrix is an unobserved distance, `ObservedDistances`
            are a sparse matrix of the observed ones. A vector with fractional numbers is read as `Targets`, any other
            (strings, booleans, whole numbers) as `Labels`. Give dates as `Targets`. A `Lazy` function of distances is
            asked for as many pairs as its budget allows, of the objects that it names, one for each row, or of the rows
            of ``X``; the distances of all other pairs are unobserved.
        sample_weight
            A weight for each row, shape (n,): array-like, Zarr array, or the address of one. Whole weights count as so
            many equal rows, fractional ones in relation to their mean; a row of weight 0 is absent. None: 1 for all.

        Raises
        ------
        InputError
            A parameter, ``X``, ``y`` or ``sample_weight`` cannot be used.
        JobError
            A `Lazy` function failed for a pair as often as it may; its ledger keeps what it returned before.

        Warns
        -----
        DistforestWarning
            A check has found something, or the forest has learned little: see the page on checks.
        """
        params = self._checked_params(y)
        X, y, sample_weight = computed(X, y, sample_weight)
        self._warn_of_order(X, y=y, sample_weight=sample_weight)
        matrix = y.adjacency if isinstance(y, Graph) else y.values if isinstance(y, Distances) else y
        if warning := told_of_order(matrix, "y"):
            warn_caller(f"DF005 {warning}")
        features = self._training_features(X)
        weights = self._read_weights(sample_weight, features.shape[0])
        self.__dict__.pop("n_evaluations_", None)  # of an earlier fit
        self._are_labels_stated = isinstance(y, Labels)
        asked = self._asked(y, X, features, params, weights) if isinstance(y, Lazy) else None
        truth = asked.truth() if asked else Truth.of(y)
        self._grow_on(features, truth, params, weights)
        if asked is not None:
            self.n_evaluations_ = asked.n_evaluations
            self.forest_ = replace(self.forest_, provenance={**self.forest_.provenance, "distances": asked.origin})
        if self.oob_score:
            self._estimate_out_of_bag(truth, weights)
        return self

    def _estimate_out_of_bag(self, truth: Truth, weights: Floats | None) -> None:
        """Set the errors of out-of-bag distances; ``weights`` are those of rows."""
        left, right = pairs_of_rows(self.forest_.n_training)
        estimate, count = scoring.out_of_bag_distance(self.forest_, left, right)
        known = have_estimates(count, "pairs")
        true = truth.distances(left, right)
        known &= ~np.isnan(true)
        true, estimate = true[known], estimate[known]
        of_pairs = weights_of_pairs(weights, left[known], right[known])
        self.oob_rmse_ = float(np.sqrt(np.average((true - estimate) ** 2, weights=of_pairs)))
        self.oob_score_ = r_squared(true, estimate, of_pairs)
        warn_of_mean(self.oob_score_, "distances")

    def _score_out_of_bag(self, y: Any) -> None:
        truth, weights = scoring.truth_as_learned(self.forest_, y), self.forest_.sample_weight
        self._check_n_taught(truth)
        if truth.classes != self.forest_.meaning.classes:
            raise InputError(f"y: classes {self.forest_.meaning.classes} were expected, found {truth.classes}")
        check_own_distances(self.forest_, truth)
        self._estimate_out_of_bag(truth, None if weights is None else weights.astype(np.float64))

    def _asked(
        self,
        lazy: Lazy,
        X: FeaturesLike | SparseLike,
        features: Float32s | SparseFeatures,
        params: dict[str, Value],
        sample_weight: Floats | None,
    ) -> AskedDistances:
        """Ask a function for distances of the training rows, within its budget."""
        n = features.shape[0]
        if lazy.objects is None and is_sparse(opened_rows(X)):
            raise InputError("Lazy: without objects the function gets the rows of X, which are sparse; name objects")
        objects = sequence_of(in_memory(opened_rows(X)) if lazy.objects is None else lazy.objects)
        if len(objects) != n:
            raise InputError(f"Lazy(objects=...): one for each of {counted(n, 'row')} of X, found {len(objects):,}")
        rows = Features(features.shape[1], self._n_categories())
        present = np.ones(n, np.bool_) if sample_weight is None else sample_weight > 0.0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # the fit itself warns of what is odd
            integers = self._integer_weights(params, Truth(TruthKind.DISTANCES, np.empty((n, 0))), sample_weight)

        def data(truth: Truth) -> Data:
            return Data(rows, features, truth, self._weights(), sample_weights=integers)

        learner = Learner(self._method, params, self._seed(), data, partial(fit_here, threads=n_threads(self.n_jobs)))
        with self._told_progress() as watch:
            return ask_distances(BoundSimilarity(lazy, objects, self._calls()), learner, present, watch)

    @property
    def classes_(self) -> np.ndarray:
        """The labels, sorted; raises AttributeError if the forest has learned anything else."""
        check_is_fitted(self, "forest_")
        if self.forest_.meaning.classes is None:
            raise AttributeError("classes_: the forest was not taught labels")
        return np.asarray(self.forest_.meaning.classes)

    @by_blocks
    def predict(self, X: RowsLike) -> np.ndarray:
        """Predict labels, targets or points of an embedding, whichever the forest has learned.

        Returns
        -------
        ndarray of shape (n,), or (n, q) for an embedding of q > 1 dimensions
            The label with the largest mean share in the leaves in which a row ends, the first of equal ones; or the
            mean over these leaves. A date is predicted as a number in the unit of the training dates, counted from
            1970: see `Targets`.

        Raises
        ------
        InputError
            The forest has learned distances, so it predicts only distances.
        """
        nodes = self._nodes(X)
        means = scoring.predict(self.forest_, nodes)
        if self.forest_.meaning.classes is not None:
            labels: np.ndarray = self.classes_[np.argmax(means, axis=1)]
            return labels
        return means[:, 0] if means.shape[1] == 1 else means

    @by_blocks
    def predict_proba(self, X: RowsLike) -> Floats:
        """Compute the mean share of each class in the leaves in which the rows of ``X`` end, shape (n, n_classes).

        Raises
        ------
        InputError
            The forest has not learned labels.
        """
        nodes = self._nodes(X)
        shares = scoring.predict(self.forest_, nodes)
        if self.forest_.meaning.classes is None:
            are_targets = self.forest_.meaning.leaf.learned in {TruthKind.TARGETS, TruthKind.DIFFERENCES}
            truth = "targets" if are_targets else "an embedding"
            raise InputError(f"a forest that was trained on {truth} has no class shares; ask for `predict`")
        return shares

    @property
    def unobserved_share_(self) -> float:
        """Share of all pairs of leaves of which no distance was observed; 0.0 if the distances were complete."""
        check_is_fitted(self, "forest_")
        return scoring.unobserved_share(self.forest_)

    @property
    def _n_features_out(self) -> int:
        return self.forest_.n_training

    @by_blocks
    def transform(self, X: RowsLike) -> Floats:
        """Compute the distance of each row of ``X`` to each training row, shape (n, n_training)."""
        nodes = self._nodes(X)
        return scoring.distance(self.forest_, nodes, self.forest_.training_nodes)

    def training_distance(self, X: RowsLike, y: TruthLike, *, sides: str = "auto") -> Floats:
        """Compute the distance of each row of ``X`` to each training row, one-sided if that is better out of bag.

        `transform` compares the leaves of both rows. The *one-sided* distance compares the leaf of the new row with the
        training row itself: it is the mean of the training row's own distances to the members of that leaf, over the
        trees. So in a graph a training node's own links count.

        Parameters
        ----------
        X
            Rows as for `fit`, shape (n, n_features).
        y
            What the training rows were taught, as for `fit`. It is compared with what the forest keeps: absolute
            differences, links, and distances where the leaf table is ``"members"``, as a whole; otherwise the mean
            distances of leaves, so nothing is known of a row that no tree drew, and of the distance of two rows that no
            tree drew together, nor of changes that leave these means as they are (see ``distforest inspect`` for the
            kind of leaf table).
        sides
            ``"two"``, the distance of `transform`; ``"one"``, the one-sided distance; ``"auto"``, the one that scores
            better for training rows as if they were new, see `compare_sides`.

        Returns
        -------
        ndarray of shape (n, n_training)

        Raises
        ------
        InputError
            ``X`` cannot be read, ``y`` is no ground truth of the training rows, or ``sides`` is none of these.

        Warns
        -----
        DistforestWarning
            Both distances score the same, so that the choice says nothing.

        Examples
        --------
        >>> import numpy as np
        >>> from distforest import SMERF, Graph
        >>> X = np.arange(12.0)[:, None]
        >>> A = abs(X - X.T) == 1  # a path
        >>> forest = SMERF(50, min_samples_leaf=3, random_state=0).fit(X, Graph(A))
        >>> forest.training_distance(X[:1] - 0.1, Graph(A), sides="one").argmin()  # linked to most of the leaf of row 0
        np.int64(1)
        """
        if sides not in SIDED:
            raise InputError(f"sides: one of {', '.join(map(repr, SIDED))} was expected, found {sides!r}")
        nodes, truth = self._nodes(X), self._training_truth(y)
        if sides == CHOSEN:
            found = score_sides(self.forest_, truth)
            sides = found.chosen
            if found.told:
                warn_caller(found.told)
        if sides == TWO:
            return scoring.distance(self.forest_, nodes, self.forest_.training_nodes)
        return one_sided.distance_to_training(self.forest_, nodes, truth)

    def compare_sides(self, y: TruthLike, scoring: str | None = None) -> ScoredSides:
        """Score the distance of two leaves and the one-sided one, see `training_distance`, for training rows.

        A training row counts as new to the trees that did not draw it, and is compared with all other training rows,
        or with 2,048 random ones of them, which are known to the trees.

        Parameters
        ----------
        y
            What the training rows were taught, as for `fit`.
        scoring
            One of the scores of `tune`; None: ``"roc_auc"`` if the true distances have two values, as links have,
            otherwise ``"spearman"``.

        Returns
        -------
        ScoredSides
            ``chosen`` is the better one, ``scores`` has all scores of both.

        Raises
        ------
        InputError
            ``y`` is no ground truth of the training rows, the score is not defined for it, or every tree drew all rows.
        """
        check_is_fitted(self, "forest_")
        return score_sides(self.forest_, self._training_truth(y), scoring)

    def _training_truth(self, y: TruthLike) -> Truth:
        """Read what the training rows were taught; raises InputError if it is of others."""
        truth = scoring.truth_as_learned(self.forest_, y)
        check_own_distances(self.forest_, truth)
        return truth

    def oob_distance(
        self, left: VectorLike, right: VectorLike, *, sides: str | None = None, y: TruthLike | None = None
    ) -> Floats:
        """Compute the distance of pairs of training rows by the trees that drew neither of the two.

        Parameters
        ----------
        left, right
            Numbers of the rows, shape (n_pairs,) both.
        sides
            None: both rows count as new. ``"two"`` or ``"one"``: the left row counts as new, to the trees that did not
            draw it, and the right one is known; the distance is that of `training_distance`.
        y
            With ``sides``: what the training rows were taught, as for `fit`.

        Returns
        -------
        ndarray of shape (n_pairs,)
            NaN where every tree drew a row that counts as new, and for a row with itself.

        Raises
        ------
        InputError
            There are not as many left rows as right rows, a number is none of a training row, or one of ``sides`` and
            ``y`` is missing.

        Examples
        --------
        >>> from distforest import SMERF
        >>> forest = SMERF(100, random_state=0).fit([[0.0], [0.1], [5.0], [5.1]], [0, 0, 1, 1])
        >>> forest.oob_distance([0, 0], [1, 2])
        array([0.  , 0.75])
        """
        check_is_fitted(self, "forest_")
        n = self.forest_.n_training
        pairs = [np.asarray(unmasked(side)) for side in (left, right)]
        for side in pairs:
            if side.ndim != 1 or side.dtype.kind not in "iu" or len(side) != len(pairs[0]):
                found = " and ".join(f"{one.dtype} of shape {one.shape}" for one in pairs)
                raise InputError(f"pairs: as many integers on the left as on the right were expected, found {found}")
            if len(side) and not 0 <= side.min() <= side.max() < n:
                found = side.min() if side.min() < 0 else side.max()
                raise InputError(f"pairs: numbers of training rows from 0 to {n - 1} were expected, found {found}")
        if sides is None and y is None:
            return scoring.out_of_bag_distance(self.forest_, *(side.astype(np.int64) for side in pairs))[0]
        if sides not in (TWO, ONE) or y is None:
            expected = f"sides: {TWO!r} or {ONE!r} was expected, with y"
            raise InputError(f"{expected}, found {sides!r} {'without' if y is None else 'with'} y")
        truth = self._training_truth(y)
        known = one_sided.known_distances_of_pairs(self.forest_, truth, *(side.astype(np.int64) for side in pairs))
        of_sides = dict(zip((TWO, ONE), known, strict=True))
        return of_sides[sides]

    @overload
    def pair_distance(self, left: RowsLike, right: RowsLike, return_std: Literal[False] = False) -> Floats: ...

    @overload
    def pair_distance(self, left: RowsLike, right: RowsLike, return_std: Literal[True]) -> tuple[Floats, Floats]: ...

    def pair_distance(
        self, left: RowsLike, right: RowsLike, return_std: bool = False
    ) -> Floats | tuple[Floats, Floats]:
        """Compute the distance of row k of ``left`` to row k of ``right``.

        Parameters
        ----------
        left, right
            Rows, shapes (n, n_features) both.
        return_std
            Whether to return standard errors, too.

        Returns
        -------
        distances, standard_errors : ndarray of shape (n,)
            Only ``distances`` if not ``return_std``. A standard error says how much the forest's distance of a pair
            would vary if it were grown on other rows of the same kind, by a jackknife over the rows that trees drew
            (Wager, Hastie and Efron, 2014). It does not say how far the *true* distance is: that has a noise of its
            own, and a forest draws distances towards the mean, which no jackknife sees. With few trees it is noise
            itself, so grow several for each row.

        Raises
        ------
        InputError
            The rows cannot be read, or with ``return_std`` all trees have drawn the same rows.

        Examples
        --------
        >>> X = np.random.default_rng(0).normal(size=(60, 5))
        >>> Z = np.abs(np.subtract.outer(X[:, 0], X[:, 0]))
        >>> forest = SMERF(200, random_state=0).fit(X, Z)
        >>> distances, errors = forest.pair_distance(X[:1], X[1:2], return_std=True)
        >>> distances.shape, errors.shape, bool(0.0 < errors[0] < 0.2)
        ((1,), (1,), True)
        """
        nodes, others = self._nodes(left), self._nodes(right)
        distances = scoring.pair_distance(self.forest_, nodes, others)
        if not return_std:
            return distances
        return distances, standard_errors.pair_standard_errors(self.forest_, nodes, others)

    def score(self, X: RowsLike, y: TruthLike, sample_weight: VectorLike | None = None) -> float:
        """Compute the coefficient of determination of the distances of all pairs i < j of rows, at most 2^21 pairs.

        Parameters
        ----------
        X
            Rows, shape (n, n_features).
        y
            The ground truth in any form that `fit` accepts; a vector is read as the kind that the forest has learned.
        sample_weight
            A weight for each row, shape (n,), as for `fit`; a pair weighs the product of the weights of its two rows.

        Raises
        ------
        InputError
            ``y`` is no ground truth for these rows, or ``sample_weight`` cannot be used.

        Warns
        -----
        DistforestWarning
            All pairs are equally far apart, as rows of one class are, so that the score says nothing.
        """
        X, y, sample_weight = computed(X, y, sample_weight)
        nodes = self._nodes(X)
        truth = scoring.truth_as_learned(self.forest_, y)
        _check_same_length(truth, nodes.shape[1])
        weights = self._read_weights(sample_weight, nodes.shape[1])
        rows = np.arange(nodes.shape[1]) if weights is None else np.flatnonzero(weights)
        if len(rows) < 2:
            raise InputError(f"score compares pairs: two rows of positive weight were expected, found {len(rows)}")
        left, right = (rows[places] for places in pairs_of_rows(len(rows)))
        true = truth.distances(left, right)
        known = ~np.isnan(true)
        left, right, true = left[known], right[known], true[known]
        if len(true) > 1 and (true == true[0]).all():
            told = f"all {len(true):,} pairs are at distance {true[0]:g}, so that R2 says nothing"
            warn_caller(f"score: {told}; shuffle the rows, or stratify by label, where parts of them are held out")
        if 4 * len(left) > nodes.shape[1] ** 2:  # many pairs cost less by the whole matrix
            estimate = scoring.distance(self.forest_, nodes, nodes)[left, right]
        else:
            step = max(1, BLOCK_NODES // self.forest_.n_trees)
            blocks = (slice(first, first + step) for first in range(0, len(left), step))
            parts = [scoring.pair_distance(self.forest_, nodes[:, left[b]], nodes[:, right[b]]) for b in blocks]
            estimate = np.concatenate(parts)
        return r_squared(true, estimate, weights_of_pairs(weights, left, right))

    def permutation_importances(self, X: RowsLike, y: TruthLike, *, random_state: SeedLike = 0) -> FeatureImportances:
        """Compute by how much the out-of-bag distances of pairs become worse when a feature is permuted.

        In each tree the values of a feature are permuted among rows that the tree did not draw, and the mean squared
        error of the tree's distances of all pairs of these rows is compared with that before (Breiman, Random Forests,
        2001, section 10, with pairs instead of rows). The importance is the mean increase over the trees, in the
        squared unit of the distance. It is of an original feature also where splits read sums of several. It may be
        below 0 for a feature that does not matter. Of more than 512 rows that a tree did not draw, 512 are drawn at
        random. A pair weighs the product of the weights of its rows, and unobserved pairs are left out.

        Parameters
        ----------
        X, y
            The rows and the ground truth that the forest has learned, in their order. For other rows there is
            scikit-learn's ``permutation_importance``.
        random_state
            Seed of the permutations.

        Returns
        -------
        FeatureImportances
            With standard errors over the trees.

        Raises
        ------
        InputError
            ``X`` are not the training rows, ``y`` is not what they were taught, or no tree left two of them out.

        Examples
        --------
        >>> X = np.random.default_rng(0).normal(size=(120, 5))
        >>> Z = np.abs(np.subtract.outer(X[:, 0] + X[:, 1], X[:, 0] + X[:, 1]))
        >>> forest = SMERF(50, max_features=None, feature_combinations=2, random_state=0).fit(X, Z)
        >>> found = forest.permutation_importances(X, Z)
        >>> sorted(name for name, _, _ in found.largest(2))
        ['x0', 'x1']
        """
        check_is_fitted(self)
        source = self._source(X)
        truth = scoring.truth_as_learned(self.forest_, y)
        _check_same_length(truth, source.shape[0])
        if len(truth.values) == self.forest_.n_training:  # other rows are refused below
            check_own_distances(self.forest_, truth)
        names = self._feature_names()
        return importances.permutation_importances(self.forest_, source, truth, names, seed_of(random_state))


def _check_same_length(truth: Truth, n_rows: int) -> None:
    """Raise InputError if the ground truth is not of so many rows."""
    if len(truth.values) != n_rows:
        text = f"found {counted(n_rows, 'row')} of X and {len(truth.values)} of {truth.kind.noun}"
        raise InputError(f"{text}: inconsistent numbers of samples")
