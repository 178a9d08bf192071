"""Displays of a distance: within and between classes, as a map, by clusters; of outliers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from distforest.amounts import counted
from distforest.arguments import check_finite, numbers
from distforest.errors import InputError
from distforest.estimators.outliers import SimForestOutlier
from distforest.pictures.closeness import check_forest, closeness
from distforest.pictures.clusters import clustered
from distforest.pictures.display import Display
from distforest.pictures.pictured import Classes, Clusters, RowMap, check_drawn
from distforest.pictures.plotting import BINS, BLUE, GREY, ORANGE, add_bar, draw_map, draw_spread, principal_coordinates
from distforest.sources.arrays import are_targets
from distforest.sources.factors import named_classes, names_of_classes
from distforest.sources.given import in_memory
from distforest.sources.opening import opened_array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike

    from distforest.arguments import Floats

KS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
"""Numbers of neighbours at which precision is computed if none are given, as far as there are so many points."""


class DistancesDisplay(Display):
    """Histograms of the distances of rows within and between classes.

    Parameters
    ----------
    classes : Classes
        Distances of the rows, and their classes.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from distforest import RFD
    >>> X, y = load_iris(return_X_y=True)
    >>> DistancesDisplay.from_estimator(RFD(20, random_state=0).fit(X, y), X, y).ax_.get_xlabel()
    'forest distance'
    """

    def __init__(self, classes: Classes) -> None:
        check_drawn(classes, Classes)
        self.classes = classes

    @classmethod
    def from_estimator(cls, forest: Any, X: Any, y: Any, *, ax: Axes | None = None) -> Self:
        """Draw the distances of a forest.

        Parameters
        ----------
        forest
            A fitted estimator.
        X, y
            Rows, as `distance` takes them, and their labels; ``X`` None: the training rows.
        ax
            As of `plot`.

        Raises
        ------
        InputError
            There is not one label for each row, or there are less than two rows.
        """
        return cls.from_predictions(y, check_forest(forest).distance(X), ax=ax)

    @classmethod
    def from_predictions(cls, y: Any, distance: ArrayLike, *, ax: Axes | None = None) -> Self:
        """Draw given distances, shape (n, n), of rows with these labels, shape (n,); errors as `from_estimator`."""
        codes, names = _coded(y)
        return cls(Classes(np.asarray(distance), codes, names)).plot(ax)

    def _draw(self, axes: Axes, is_given: bool) -> None:  # noqa: ARG002
        draw_spread(axes, self.classes)


class MapDisplay(Display):
    """Rows in the plane, so that near ones are near: the first two principal coordinates of their distances.

    Parameters
    ----------
    places : RowMap
        The places of the rows, and what is known of these.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from distforest import SMERF
    >>> X, y = load_iris(return_X_y=True)
    >>> MapDisplay.from_estimator(SMERF(20, random_state=0).fit(X, y), X, y).places.names
    ['0', '1', '2']
    """

    size = (5.6, 4.6)

    def __init__(self, places: RowMap) -> None:
        check_drawn(places, RowMap)
        self.places = places

    @classmethod
    def from_estimator(cls, forest: Any, X: Any = None, y: Any = None, *, ax: Axes | None = None) -> Self:
        """Draw a map of rows by the distances of a forest.

        Parameters
        ----------
        forest
            A fitted estimator.
        X
            Rows, as `distance` takes them; None: the training rows.
        y
            Labels of the rows, or amounts, by which they are coloured, or the address of an array of them; None: all
            alike. Fractional numbers are amounts, and so are targets that say so.
        ax
            As of `plot`.

        Raises
        ------
        InputError
            There is not one label or number for each row.
        """
        return cls.from_predictions(y, check_forest(forest).distance(X), ax=ax)

    @classmethod
    def from_predictions(cls, y: Any, distance: ArrayLike, *, ax: Axes | None = None) -> Self:
        """Draw a map by given distances, shape (n, n); ``y`` and errors as of `from_estimator`."""
        places = principal_coordinates(np.asarray(distance), 2)
        if places.shape[1] < 2:  # of a single row
            places = np.hstack([places, np.zeros((len(places), 2 - places.shape[1]))])
        values, names = (None, []) if y is None else _amounts_or_codes(y)
        return cls(RowMap(places, values, names)).plot(ax)

    def _draw(self, axes: Axes, is_given: bool) -> None:  # noqa: ARG002
        draw_map(axes, self.places)


class ProximityDisplay(Display):
    """Proximities of rows as a matrix, ordered by clusters, with lines between these.

    Parameters
    ----------
    clusters : Clusters
        The proximities, and the clusters of the rows.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from distforest import URerF
    >>> forest = URerF(20, random_state=0).fit(load_iris().data)
    >>> ProximityDisplay.from_estimator(forest, n_clusters=3).clusters.order.shape
    (150,)
    """

    size = (5.4, 4.8)

    def __init__(self, clusters: Clusters) -> None:
        check_drawn(clusters, Clusters)
        self.clusters = clusters

    @classmethod
    def from_estimator(
        cls, forest: Any, X: Any = None, *, n_clusters: int | None = None, ax: Axes | None = None
    ) -> Self:
        """Draw how near a forest finds rows to each other: shares of common leaves, of pairs 1 - distance.

        Parameters
        ----------
        forest
            A fitted estimator.
        X
            Rows, as `distance` takes them; None: the training rows.
        n_clusters
            Number of clusters; None: up to 10, where they lie farthest apart.
        ax
            As of `plot`.

        Raises
        ------
        InputError
            ``n_clusters`` is out of range, or as the forest's ``distance``.
        """
        return cls.from_predictions(closeness(forest, X), n_clusters=n_clusters, ax=ax)

    @classmethod
    def from_predictions(cls, proximity: ArrayLike, *, n_clusters: int | None = None, ax: Axes | None = None) -> Self:
        """Draw given proximities, shape (n, n); larger means nearer. Arguments and errors as of `from_estimator`."""
        return cls(clustered(proximity, n_clusters)).plot(ax)

    def _draw(self, axes: Axes, is_given: bool) -> None:  # noqa: ARG002
        drawn = self.clusters
        image = axes.imshow(drawn.ordered, cmap="cividis", vmin=min(0.0, float(drawn.proximity.min())))
        add_bar(axes.figure, axes, image)
        for end in np.cumsum(drawn.sizes)[:-1]:
            axes.axhline(end - 0.5, color="white", linewidth=1)
            axes.axvline(end - 0.5, color="white", linewidth=1)
        rows, n_clusters = counted(len(drawn.order), "row"), counted(len(drawn.sizes), "cluster")
        axes.set(xticks=[], yticks=[], xlabel=f"{rows} in {n_clusters}")
        axes.set_title(drawn.title)


class OutlierScoresDisplay(Display):
    """How usual rows are: a histogram of their scores, with the one below which they are outliers.

    Parameters
    ----------
    scores : array-like of shape (n,)
        Scores, as `SimForestOutlier.score_samples` gives them.
    offset : float
        Rows that score less are outliers.

    Raises
    ------
    InputError
        There is no score, or one is not finite.

    Examples
    --------
    >>> from distforest import SimForestOutlier
    >>> forest = SimForestOutlier("rbf", random_state=0).fit([[0.0], [0.1], [0.2], [0.1], [9.0]])
    >>> display = OutlierScoresDisplay.from_estimator(forest)
    >>> int(display.scores.argmin())
    4
    """

    def __init__(self, scores: ArrayLike, offset: float) -> None:
        self.scores, self.offset = numbers(scores, "scores", 1), float(offset)
        if not len(self.scores):
            raise InputError("scores must have one number or more, found none")
        check_finite(self.scores, "scores")

    @classmethod
    def from_estimator(cls, forest: Any, X: Any = None, *, ax: Axes | None = None) -> Self:
        """Draw the scores of a `SimForestOutlier`.

        Parameters
        ----------
        forest
            A fitted `SimForestOutlier`.
        X
            Rows, as `score_samples` takes them; None: the training rows.
        ax
            As of `plot`.

        Raises
        ------
        InputError
            ``forest`` is another estimator.
        """
        if not isinstance(forest, SimForestOutlier):
            raise InputError(f"forest: a SimForestOutlier was expected, found {type(forest).__name__}")
        return cls(check_forest(forest).score_samples(X), forest.offset_).plot(ax)

    def _draw(self, axes: Axes, is_given: bool) -> None:  # noqa: ARG002
        is_outlier = self.scores < self.offset
        bins = np.histogram_bin_edges(np.append(self.scores, self.offset), BINS).tolist()
        for chosen, colour, name in ((~is_outlier, BLUE, "usual"), (is_outlier, ORANGE, "outliers")):
            label = f"{name}: {int(chosen.sum()):,}"
            axes.hist(self.scores[chosen], bins, color=colour, alpha=0.75, label=label)
        axes.axvline(self.offset, color=GREY, linestyle="--", linewidth=1.5, label=f"{self.offset:.3g}")
        axes.set(xlabel="score: near \N{MINUS SIGN}1 for outliers", ylabel="rows")
        axes.set_title("How usual the rows are")
        axes.spines[["top", "right"]].set_visible(False)


def _coded(y: Any) -> tuple[np.ndarray, list[str]]:
    """Labels as codes, and their names; at an address, those that `ingest` has kept."""
    opened = opened_array(y)
    values, codes = np.unique(in_memory(opened), return_inverse=True)
    return codes, [*map(str, named_classes(values.tolist(), names_of_classes(opened)))]


def _amounts_or_codes(y: Any) -> tuple[np.ndarray | Floats, list[str]]:
    """Amounts as they are, all else as codes of classes with their names.

    Amounts are fractional numbers, and targets that say so.
    """
    opened = opened_array(y)
    values = in_memory(opened)
    are_fractional = values.dtype.kind == "f" and bool((values != np.round(values)).any())
    are_named = names_of_classes(opened) is not None
    if not are_named and (are_fractional or are_targets(opened)):
        return values, []
    return _coded(opened)
