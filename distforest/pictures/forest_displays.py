"""Displays of a forest as a whole: what its features give, how well it ranks pairs, what its evaluations buy."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from matplotlib.ticker import StrMethodFormatter
from sklearn.base import clone
from sklearn.metrics import roc_curve

from distforest.amounts import counted
from distforest.errors import InputError
from distforest.estimators.tree_rank import TreeRank
from distforest.evaluation.grids import ScoredGrid
from distforest.evaluation.roc import ROC
from distforest.pictures.closeness import check_forest
from distforest.pictures.curves import OperatingPoint, draw_curves, draw_points, operating_points
from distforest.pictures.display import Display
from distforest.pictures.importances import importances_of, permutation_importances_of
from distforest.pictures.pictured import Budgets, Contributions, Importances, check_drawn
from distforest.pictures.plotting import BLUE, GREY, MOST_FEATURES, ORANGE, name_features
from distforest.sources.lazy.callbacks import Lazy

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike


class ImportancesDisplay(Display):
    """The largest importances of features, by name.

    Parameters
    ----------
    importances : Importances
        The importances of all features.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from distforest import SMERF
    >>> data = load_iris()
    >>> forest = SMERF(20, random_state=0).fit(data.data, data.target)
    >>> display = ImportancesDisplay.from_estimator(forest, names=data.feature_names)
    >>> display.ax_.get_title()
    'Features by importance'
    """

    def __init__(self, importances: Importances) -> None:
        check_drawn(importances, Importances)
        self.importances = importances

    @classmethod
    def from_estimator(
        cls, forest: Any, X: Any = None, y: Any = None, *, names: Sequence[str] = (), ax: Axes | None = None
    ) -> Self:
        """Draw the importances of a forest, with their standard errors over the trees.

        Parameters
        ----------
        forest
            A fitted estimator whose splits read features.
        X, y
            The training rows of a `SMERF` and their ground truth: importances by permutation. Without them, by what
            the splits of a feature give.
        names
            Names of the features; if empty, those of the forest, or their numbers.
        ax
            As of `plot`.

        Raises
        ------
        InputError
            Splits read similarities, no split gains anything, or there is not one name for each feature.
        """
        own = check_forest(forest)
        found = importances_of(own, names) if X is None else permutation_importances_of(own, X, y, names)
        return cls(found).plot(ax)

    def _draw(self, axes: Axes, is_given: bool) -> None:  # noqa: ARG002
        drawn = self.importances
        total = np.sum([*drawn.parts.values()], axis=0)
        most = np.argsort(-total, kind="stable")[:MOST_FEATURES]
        begin = np.zeros(len(most))
        for (part, shares), colour in zip(drawn.parts.items(), (BLUE, ORANGE), strict=False):
            axes.barh(np.arange(len(most)), shares[most], left=begin, color=colour, label=part)
            begin = begin + shares[most]
        if drawn.errors is not None:
            places, errors = np.arange(len(most)), drawn.errors[most]
            axes.errorbar(total[most], places, xerr=errors, fmt="none", ecolor="black", label="standard error")
        if drawn.is_share:
            axes.axvline(1.0 / len(total), color=GREY, linestyle="--", linewidth=1.5, label="all equal")
            axes.set_xlim(left=0.0)
        name_features(axes, most, drawn.names)
        axes.set(xlabel=f"share of {drawn.of}" if drawn.is_share else drawn.of, ylabel="feature")
        shown_of_all = f", {len(most)} of {len(total):,}" if len(most) < len(total) else ""
        axes.set_title(f"{drawn.title}{shown_of_all}")
        axes.spines[["top", "right"]].set_visible(False)


class ExplanationDisplay(Display):
    """Why two rows are near or far: what each feature adds to the mean distance, or takes from it.

    Parameters
    ----------
    contributions : Contributions
        What each feature contributes.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from distforest import SMERF
    >>> data = load_iris()
    >>> forest = SMERF(20, random_state=0).fit(data.data, data.target)
    >>> display = ExplanationDisplay.from_estimator(forest, data.data[0], data.data[100], names=data.feature_names)
    >>> display.ax_.get_xlabel()
    'distance: 1, mean 0.662'
    """

    def __init__(self, contributions: Contributions) -> None:
        check_drawn(contributions, Contributions)
        self.contributions = contributions

    @classmethod
    def from_estimator(
        cls, forest: Any, left: Any, right: Any, *, names: Sequence[str] = (), ax: Axes | None = None
    ) -> Self:
        """Draw why a forest says that two rows are this near or far.

        Parameters
        ----------
        forest
            A fitted estimator with a method ``explain``: `SMERF`, `URerF`, `RFD` or `TreeRank`.
        left, right
            The two rows, shape (n_features,) or (1, n_features); a data frame of one row keeps its names.
        names
            Names of the features, or of RFD's columns of a pair; if empty, those of the forest.
        ax
            As of `plot`.

        Raises
        ------
        InputError
            The forest explains nothing, there is more than one row on a side, or the rows cannot be read.
        """
        own = check_forest(forest)
        if not hasattr(own, "explain"):
            expected = "forest: SMERF, URerF, RFD or TreeRank was expected"
            raise InputError(f"{expected}, as {type(own).__name__} explains no distance")
        found = own.explain(_one_row("left", left), _one_row("right", right))
        return cls(
            Contributions(found.contributions[0], float(found.baselines[0]), list(names) or [*found.columns])
        ).plot(ax)

    def _draw(self, axes: Axes, is_given: bool) -> None:  # noqa: ARG002
        drawn = self.contributions
        order = np.argsort(-np.abs(drawn.contributions), kind="stable")
        most = order[: MOST_FEATURES - 1] if len(order) > MOST_FEATURES else order
        sizes, names = drawn.contributions[most], [drawn.names[k] if drawn.names else str(k) for k in most]
        if len(most) < len(order):
            sizes = np.append(sizes, drawn.contributions[order[len(most) :]].sum())
            names.append(f"the other {len(order) - len(most):,}")
        ends = drawn.baseline + np.cumsum(sizes)
        for label, colour, own in (("farther", ORANGE, sizes > 0.0), ("nearer", BLUE, sizes < 0.0)):
            if own.any():
                places = np.flatnonzero(own)
                axes.barh(places, sizes[own], left=(ends - sizes)[own], color=colour, label=label)
        axes.use_sticky_edges = False  # so that the line of the mean is off the spine
        axes.axvline(drawn.baseline, color=GREY, linestyle="--", linewidth=1.5, label="mean distance")
        axes.axvline(drawn.distance, color="black", linewidth=1.5, label="distance")
        name_features(axes, np.arange(len(names)), names)
        axes.set(xlabel=f"distance: {drawn.distance:.3g}, mean {drawn.baseline:.3g}", ylabel="feature")
        axes.set_title(drawn.title)
        axes.spines[["top", "right"]].set_visible(False)


class ROCDisplay(Display):
    """ROC curves of a distance, or of trees and their mean, with operating points.

    Parameters
    ----------
    curves : sequence of ROC
        The curve; or one for each tree, such as `TreeRank.tree_rocs_`, of which the first 100 are drawn, and the mean
        of all.
    points : sequence of OperatingPoint
        Points to be marked.
    log : bool
        Whether the scale of false positive rates is logarithmic, which shows the few pairs that rank highest.
    title : str
        Title of the picture.
    name : str
        What a curve by itself is called.

    Raises
    ------
    InputError
        There is no curve, or ``curves`` holds anything else.

    Examples
    --------
    >>> display = ROCDisplay.from_predictions([1, 1, 0, 1, 0], [0.1, 0.2, 0.3, 0.4, 0.9], at=[0.0])
    >>> [point.told() for point in display.points], round(display.curves[0].auc, 3)
    (['distance ≤ 0.2: 66.7% found, 0% false'], 0.833)
    """

    size = (5.6, 5.0)

    def __init__(
        self,
        curves: Sequence[ROC],
        points: Sequence[OperatingPoint] = (),
        *,
        log: bool = False,
        title: str = "ROC",
        name: str = "one tree",
    ) -> None:
        self.curves, self.points = _listed_curves(curves), list(points)
        if not self.curves:
            raise InputError("no curves were given; pass at least one")
        self.log, self.title, self.name = log, title, name

    @classmethod
    def from_estimator(
        cls,
        forest: Any,
        X: Any = None,
        y: Any = None,
        *,
        at: Sequence[float] = (0.01, 0.1),
        log: bool = False,
        ax: Axes | None = None,
    ) -> Self:
        """Draw how well the distances of a forest tell pairs of one label from all others.

        Parameters
        ----------
        forest
            A fitted estimator.
        X, y
            Rows, and their labels: all pairs of rows are judged. Without them, the curves of a `TreeRank` on its
            training pairs.
        at
            False positive rates of the operating points.
        log
            As of the display.
        ax
            As of `plot`.

        Raises
        ------
        InputError
            ``X`` is missing for another forest than a `TreeRank`, labels do not go with the rows, or all pairs are of
            one kind.
        """
        own = check_forest(forest)
        if X is not None:
            left, right, similar = _pairs(y)
            distance = own.distance(X)
            if len(distance) != len(np.asarray(y)):
                raise InputError(f"y: a label for each of {counted(len(distance), 'row')} was expected, found {len(y)}")
            return cls.from_predictions(similar, distance[left, right], at=at, log=log, ax=ax)
        if not isinstance(own, TreeRank):
            raise InputError(f"X, y: rows and labels were expected, as {type(own).__name__} keeps no curve of its own")
        mean = own.roc_
        points = [OperatingPoint(rate, mean.tpr_at(rate)) for rate in at]
        return cls(own.tree_rocs_, points, log=log, title="ROC of the training pairs").plot(ax)

    @classmethod
    def from_predictions(
        cls,
        similar: ArrayLike,
        distance: ArrayLike,
        *,
        at: Sequence[float] = (0.01, 0.1),
        log: bool = False,
        title: str = "ROC of pairs",
        ax: Axes | None = None,
    ) -> Self:
        """Draw how well distances tell similar pairs from dissimilar ones.

        Parameters
        ----------
        similar, distance
            Whether each pair is similar, and its distance, shape (n_pairs,).
        at
            False positive rates of the operating points.
        log, title
            As of the display.
        ax
            As of `plot`.

        Raises
        ------
        InputError
            The arrays are not of one length, or all pairs are of one kind.
        """
        points = operating_points(similar, distance, at)
        fpr, tpr, _ = roc_curve(np.asarray(similar) != 0, -np.asarray(distance, np.float64), drop_intermediate=False)
        return cls([ROC(fpr, tpr)], points, log=log, title=title, name="distance").plot(ax)

    def _draw(self, axes: Axes, is_given: bool) -> None:  # noqa: ARG002
        draw_curves(axes, self.curves, self.log, self.title, self.name)
        draw_points(axes, self.points)


class TuningDisplay(Display):
    """The score of each cell of a grid.

    Parameters
    ----------
    tuned : ScoredGrid
        What `distforest.estimators.tuning.tune` has found, or a sealed forest says of the grid from which it was
        chosen. The first parameter of the grid is drawn along the axis, and each combination of the others as a line.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from distforest import SMERF, tune
    >>> X, y = load_iris(return_X_y=True)
    >>> found = tune(SMERF(30, random_state=0), {"min_samples_split": [2, 20, 80]}, X, y)
    >>> TuningDisplay(found).plot().ax_.get_xlabel()
    'min_samples_split'
    """

    def __init__(self, tuned: ScoredGrid) -> None:
        check_drawn(tuned, ScoredGrid)
        self.tuned = tuned

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Axes | None = None) -> Self:
        """Draw the grid from which ``distforest tune`` has chosen a forest that was loaded.

        Raises
        ------
        InputError
            The forest was not chosen from a grid by a job.
        ArtifactError
            What is stored of its grid is no grid.
        """
        check_forest(estimator)
        tuned = ScoredGrid.of_provenance(estimator.forest_.provenance)
        if tuned is None:
            raise InputError("the forest was not chosen from a grid by a tuning job; draw what `tune` has returned")
        return cls(tuned).plot(ax)

    def _draw(self, axes: Axes, is_given: bool) -> None:  # noqa: ARG002
        drawn = self.tuned
        cells, scores = drawn.cv_results_["params"], np.array(drawn.cv_results_[drawn.scoring])
        first, *others = cells[0]
        along = [*dict.fromkeys(str(cell[first]) for cell in cells)]
        place = np.array([along.index(str(cell[first])) for cell in cells])
        lines: dict[str, list[int]] = {}
        for number, cell in enumerate(cells):
            lines.setdefault(", ".join(f"{name}={cell[name]}" for name in others), []).append(number)
        for label, numbers in lines.items():
            axes.plot(place[numbers], scores[numbers], "o-", linewidth=2, label=label or "score")
        best = drawn.best_index_
        axes.plot(place[best], scores[best], "o", markersize=13, fillstyle="none", color="black", label="best")
        axes.set_xticks(np.arange(len(along)), along, parse_math=False)
        axes.set(xlabel=first, ylabel=drawn.scoring.replace("_", " "), title="Out-of-bag scores of the grid")
        axes.spines[["top", "right"]].set_visible(False)


class BudgetDisplay(Display):
    """The accuracy of forests against the number of similarities that they paid for.

    Parameters
    ----------
    budgets : Budgets
        The forests, and their rival, if there is one.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from distforest import Lazy, SimForestClassifier, pairwise
    >>> X, y = load_iris(return_X_y=True)
    >>> near = Lazy(pairwise(lambda a, b: -abs(a - b).sum()), objects=X)
    >>> forest, rows = SimForestClassifier(near, n_estimators=5, random_state=0), np.arange(150)
    >>> display = BudgetDisplay.from_estimator(
    ...     forest, rows[::2], y[::2], rows[1::2], y[1::2], budgets=[200, 800])
    >>> display.budgets.evaluations.tolist(), display.budgets.n_pairs
    ([200.0, 661.0], 2775)
    """

    def __init__(self, budgets: Budgets) -> None:
        check_drawn(budgets, Budgets)
        self.budgets = budgets

    @classmethod
    def from_estimator(
        cls, forest: Any, X: Any, y: Any, X_test: Any, y_test: Any, *, budgets: Sequence[int], ax: Axes | None = None
    ) -> Self:
        """Fit a clone of a forest with each budget, and draw its score on other objects.

        Parameters
        ----------
        forest
            A `SimForestClassifier` or `SimForestRegressor` whose ``similarity`` is `Lazy`; it need not be fitted.
        X, y
            The objects to learn from, and what is taught.
        X_test, y_test
            The objects that are judged.
        budgets
            Numbers of pairs that a fit may pay for.
        ax
            As of `plot`.

        Raises
        ------
        InputError
            The similarity is not lazy, or a budget is no whole number.
        """
        similarity = getattr(forest, "similarity", None)
        if not isinstance(similarity, Lazy):
            raise InputError("forest: one whose similarity=Lazy(...) was expected, as no other pays for its pairs")
        found = []
        for budget in budgets:
            own = clone(forest).set_params(similarity=replace(similarity, budget=budget)).fit(X, y)
            found.append((own.n_evaluations_, own.score(X_test, y_test)))
        n = len(y)
        n_pairs = n * (n - 1) // 2 if similarity.symmetric else n * (n - 1)
        paid, scores = np.array(found, np.float64).reshape(-1, 2).T
        order = np.argsort(paid, kind="stable")
        return cls(Budgets(paid[order], scores[order], n_pairs)).plot(ax)

    @classmethod
    def from_predictions(
        cls, evaluations: ArrayLike, accuracy: ArrayLike, n_pairs: int, *, ax: Axes | None = None, **more: Any
    ) -> Self:
        """Draw accuracies that are known; arguments as of `Budgets`."""
        return cls(Budgets(np.asarray(evaluations), np.asarray(accuracy), n_pairs, **more)).plot(ax)

    def _draw(self, axes: Axes, is_given: bool) -> None:  # noqa: ARG002
        drawn = self.budgets
        axes.plot(drawn.evaluations, drawn.accuracy, "o-", color=BLUE, linewidth=2, label="forest")
        if drawn.rival_accuracy is not None:
            axes.axhline(drawn.rival_accuracy, color=ORANGE, linestyle="--", linewidth=1.5, label=drawn.rival)
        every = f"all {counted(drawn.n_pairs, 'pair')}"
        axes.axvline(drawn.n_pairs, color=GREY, linestyle=":", linewidth=1.5, label=every)
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        axes.set(xlabel="pairs that the forest has paid for", ylabel="accuracy on held-out objects")
        axes.set_xlim(left=0)
        axes.set_title(drawn.title)
        axes.spines[["top", "right"]].set_visible(False)


def _one_row(name: str, row: Any) -> Any:
    """A row as a table of one; raises InputError if there are several."""
    shape = np.shape(row)
    if len(shape) == 2 and shape[0] == 1:
        return row
    if len(shape) != 1:
        raise InputError(f"{name}: one row was expected, shape (n_features,), found shape {shape}")
    return np.asarray(row)[None]


def _pairs(y: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All pairs i < j of rows, and whether the two have one label."""
    if y is None:
        raise InputError("y: labels were expected with X, found None")
    codes = np.unique(np.asarray(y), return_inverse=True)[1]
    left, right = np.triu_indices(len(codes), 1)
    return left, right, codes[left] == codes[right]


def _listed_curves(curves: Iterable[object]) -> list[ROC]:
    """List the curves; raises InputError for anything else."""
    expected = "curves: a list of ROC was expected"
    try:
        entries = [*curves]
    except TypeError:
        raise InputError(f"{expected}, found {type(curves).__name__}") from None
    listed = [entry for entry in entries if isinstance(entry, ROC)]
    if len(listed) < len(entries):
        strange = next(entry for entry in entries if not isinstance(entry, ROC))
        raise InputError(f"{expected}, found {type(strange).__name__}")
    return listed
