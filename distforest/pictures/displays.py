"""Displays: pictures on one set of axes that contain their data, as in scikit-learn."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from distforest.amounts import counted
from distforest.arguments import numbers
from distforest.errors import InputError
from distforest.estimators.tree_rank import TreeRank
from distforest.evaluation.grids import ScoredGrid
from distforest.evaluation.roc import ROC, OperatingPoint, roc_of_distances
from distforest.pictures import charts
from distforest.pictures.closeness import check_forest, closeness
from distforest.pictures.clusters import clustered, places_with_shares
from distforest.pictures.importances import importances_of, permutation_importances_of
from distforest.pictures.trees import drawn_tree
from distforest.sources.arrays import are_targets
from distforest.sources.factors import named_classes, names_of_classes
from distforest.sources.given import in_memory
from distforest.sources.opening import opened_array

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase
    from numpy.typing import ArrayLike

    from distforest.arguments import Floats
    from distforest.forest.pairs.decisions import Band, Calibration
    from distforest.pictures.clusters import Clusters
    from distforest.pictures.importances import Importances
    from distforest.pictures.trees import DrawnTree
    from distforest.sources.source import Ints


class Display:
    """Picture on one set of axes.

    ``from_estimator(forest, X, y, ax=None)`` draws results of a fitted estimator of this package, and
    ``from_predictions`` draws given values; both return the display. ``X`` are rows as for ``distance``, None: the
    training rows. ``y`` are their labels, an array or its address. ``ax`` is as for `plot`. Both raise InputError if
    ``forest`` is not an estimator that can be drawn, or there is not one label for each row.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The axes on which `plot` has drawn last.
    figure_ : matplotlib figure
        The figure with these axes.
    """

    chart: ClassVar[Callable[..., None]]
    size: tuple[float, float] = (7.0, 4.0)
    """Width and height in inches of a new figure."""

    ax_: Axes
    figure_: FigureBase

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw the picture.

        Parameters
        ----------
        ax
            Axes to draw on; None: a new figure, which a notebook shows and ``figure_.savefig`` saves.

        Returns
        -------
        Display
            This display.

        Raises
        ------
        InputError
            ``ax`` is not axes of matplotlib.
        """
        self.ax_ = charts.blank(*self.size).subplots() if ax is None else charts.check_axes(ax)
        self.figure_ = self.ax_.figure
        self.chart(self.ax_, *(getattr(self, field.name) for field in fields(self)))  # type: ignore[arg-type]
        charts.add_legend(self.ax_)
        return self

    def _repr_png_(self) -> bytes | None:
        """Return the picture as PNG, for IPython; None if it was drawn on given axes, which their figure shows."""
        figure = getattr(self, "figure_", None)
        return figure._repr_png_() if isinstance(figure, charts.Picture) else None


@dataclass(repr=False, eq=False)
class ImportancesDisplay(Display):
    """Largest importances of features, by name.

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

    importances: Importances
    chart = staticmethod(charts.draw_importances)

    @classmethod
    def from_estimator(
        cls, forest: Any, X: Any = None, y: Any = None, *, names: Sequence[str] = (), ax: Axes | None = None
    ) -> Self:
        """Draw the importances of features, with their standard errors over the trees.

        With ``X`` and ``y``, the training rows of a `SMERF` and their ground truth, importances are by permutation.
        ``names`` are those of the features; if empty, the forest's, or numbers.
        """
        own = check_forest(forest)
        found = importances_of(own, names) if X is None else permutation_importances_of(own, X, y, names)
        return cls(found).plot(ax)


@dataclass(repr=False, eq=False)
class ExplanationDisplay(Display):
    """Contribution of each feature to the difference between the distance of two rows and the mean distance.

    Parameters
    ----------
    contributions : array-like of shape (n_features,)
        How much each feature raises or lowers the distance relative to the baseline.
    baseline : float
        The mean distance of the training rows; the distance is the sum of the baseline and all contributions.
    names : sequence of str
        Names of the features; if empty, their numbers are shown.

    Raises
    ------
    InputError
        There are names, but not one for each feature.

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

    contributions: Floats
    baseline: float
    names: Sequence[str] = ()
    chart = staticmethod(charts.draw_contributions)

    def __post_init__(self) -> None:
        self.contributions = numbers(self.contributions, "contributions", 1)
        if len(self.names) not in (0, len(self.contributions)):
            n_features = counted(len(self.contributions), "feature")
            raise InputError(f"names: none, or one for each of {n_features} was expected, found {len(self.names)}")

    @classmethod
    def from_estimator(
        cls, forest: Any, left: Any, right: Any, *, names: Sequence[str] = (), ax: Axes | None = None
    ) -> Self:
        """Draw the explanation of the distance of two rows by a `SMERF`, `URerF`, `RFD` or `TreeRank`.

        Each row has shape (n_features,) or (1, n_features); a data frame of one row keeps its names. ``names`` are
        those of the features, or of RFD's columns of a pair; if empty, the forest's.
        """
        own = check_forest(forest)
        if not hasattr(own, "explain"):
            expected = "forest: SMERF, URerF, RFD or TreeRank was expected"
            raise InputError(f"{expected}, as {type(own).__name__} explains no distance")
        found = own.explain(_one_row("left", left), _one_row("right", right))
        return cls(found.contributions[0], float(found.baselines[0]), list(names) or [*found.columns]).plot(ax)


@dataclass(repr=False, eq=False)
class TuningDisplay(Display):
    """Score of each cell of a grid.

    Parameters
    ----------
    tuned : ScoredGrid
        The result of `distforest.estimators.tuning.tune`, or the grid in the provenance of a sealed forest. The first
        parameter of the grid is drawn along the axis, and each combination of the others as a line.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from distforest import SMERF, tune
    >>> X, y = load_iris(return_X_y=True)
    >>> found = tune(SMERF(30, random_state=0), {"min_samples_split": [2, 20, 80]}, X, y)
    >>> TuningDisplay(found).plot().ax_.get_xlabel()
    'min_samples_split'
    """

    tuned: ScoredGrid
    chart = staticmethod(charts.draw_grid)

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Axes | None = None) -> Self:
        """Draw the grid from which ``distforest tune`` has chosen a loaded forest; raises InputError without a grid."""
        tuned = ScoredGrid.of_provenance(check_forest(estimator).forest_.provenance)
        if tuned is None:
            raise InputError("the forest was not chosen from a grid by a tuning job; draw what `tune` has returned")
        return cls(tuned).plot(ax)


@dataclass(repr=False, eq=False)
class ROCDisplay(Display):
    """ROC curves of a distance, or of trees and their mean, with operating points.

    Parameters
    ----------
    curves : sequence of ROC
        One curve; or one for each tree, such as `TreeRank.tree_rocs_`, of which the first 100 and the mean of all are
        drawn.
    points : sequence of OperatingPoint
        Points to be marked.
    log : bool
        Whether the scale of false positive rates is logarithmic, which shows the few pairs that rank highest.
    title : str
        Title of the picture.
    name : str
        What a curve by itself is called.
    band : Band or None
        The band of the curves in resamples of identities, as `Calibration.roc_band` returns it.

    Raises
    ------
    InputError
        There is no curve.

    Examples
    --------
    >>> display = ROCDisplay.from_predictions([1, 1, 0, 1, 0], [0.1, 0.2, 0.3, 0.4, 0.9], at=[0.0])
    >>> [point.told() for point in display.points], round(display.curves[0].auc, 3)
    (['distance ≤ 0.2: 66.7% found, 0% false'], 0.833)
    """

    size = (5.6, 5.0)

    curves: Sequence[ROC]
    points: Sequence[OperatingPoint] = ()
    log: bool = False
    title: str = "ROC"
    name: str = "one tree"
    band: Band | None = None
    chart = staticmethod(charts.draw_roc)

    def __post_init__(self) -> None:
        if not self.curves:
            raise InputError("no curves were given; pass at least one")

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
        """Draw the ROC curve of distances that classify pairs of the same label against all others.

        Without rows and labels, the curves of a `TreeRank` on its training pairs are drawn. ``at`` are the false
        positive rates of the operating points.
        """
        own = check_forest(forest)
        if X is not None:
            distance = own.distance(X)
            codes, _ = _coded(y, len(distance))
            left, right = np.triu_indices(len(codes), 1)
            return cls.from_predictions(codes[left] == codes[right], distance[left, right], at=at, log=log, ax=ax)
        if not isinstance(own, TreeRank):
            raise InputError(f"X, y: rows and labels were expected, as {type(own).__name__} keeps no curve of its own")
        mean = own.roc_
        points = [OperatingPoint(rate, mean.tpr_at(rate)) for rate in at]
        return cls(own.tree_rocs_, points, log=log, title="ROC of the training pairs").plot(ax)

    @classmethod
    def from_calibration(
        cls, calibration: Calibration, threshold: float | None = None, *, log: bool = False, ax: Axes | None = None
    ) -> Self:
        """Draw the curve of the pairs of a calibration, such as ``calibration_``, with its band and a threshold."""
        points = [] if threshold is None else [OperatingPoint(*calibration.rates_at(threshold), threshold)]
        band = calibration.roc_band()
        curve = ROC(band.fpr, band.tpr)
        return cls([curve], points, log=log, title="ROC of the calibration", name="distance", band=band).plot(ax)

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
        """Draw the ROC curve of distances of pairs, shape (n_pairs,); raises InputError if all are of one class."""
        curve, points = roc_of_distances(similar, distance, at)
        return cls([curve], points, log=log, title=title, name="distance").plot(ax)


@dataclass(repr=False, eq=False)
class DistancesDisplay(Display):
    """Histograms of the distances of rows within and between classes.

    Parameters
    ----------
    distance : ndarray of shape (n, n)
        Distances of the rows.
    codes : ndarray of shape (n,)
        The class of each row, as a number.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from distforest import RFD
    >>> X, y = load_iris(return_X_y=True)
    >>> DistancesDisplay.from_estimator(RFD(20, random_state=0).fit(X, y), X, y).ax_.get_xlabel()
    'forest distance'
    """

    distance: Floats
    codes: Ints
    chart = staticmethod(charts.draw_spread)

    @classmethod
    def from_estimator(cls, forest: Any, X: Any, y: Any, *, ax: Axes | None = None) -> Self:
        """Draw the distances of labelled rows."""
        return cls.from_predictions(y, check_forest(forest).distance(X), ax=ax)

    @classmethod
    def from_predictions(cls, y: Any, distance: ArrayLike, *, ax: Axes | None = None) -> Self:
        """Draw given distances, shape (n, n), of rows with labels, shape (n,); raises as `from_estimator`."""
        matrix = numbers(distance, "distance", 2)
        return cls(matrix, _coded(y, len(matrix))[0]).plot(ax)


@dataclass(repr=False, eq=False)
class MapDisplay(Display):
    """Map of rows in the plane: the first two principal coordinates of their distances.

    Parameters
    ----------
    places : ndarray of shape (n, 2)
        Coordinates of the rows.
    values : ndarray of shape (n,), or None
        A number for each row; with ``names``, the index of its class. None: all rows are drawn alike.
    names : sequence of str
        Names of the classes; empty if ``values`` are quantities.
    shares : sequence of float
        Share of the variance along each dimension; empty if unknown.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from distforest import SMERF
    >>> X, y = load_iris(return_X_y=True)
    >>> MapDisplay.from_estimator(SMERF(20, random_state=0).fit(X, y), X, y).names
    ['0', '1', '2']
    """

    size = (5.6, 4.6)

    places: Floats
    values: np.ndarray | None = None
    names: Sequence[str] = ()
    shares: Sequence[float] = ()
    chart = staticmethod(charts.draw_map)

    @classmethod
    def from_estimator(cls, forest: Any, X: Any = None, y: Any = None, *, ax: Axes | None = None) -> Self:
        """Draw a map of rows, coloured by labels or by quantities, which are fractional numbers and targets."""
        return cls.from_predictions(y, check_forest(forest).distance(X), ax=ax)

    @classmethod
    def from_predictions(cls, y: Any, distance: ArrayLike, *, ax: Axes | None = None) -> Self:
        """Draw a map from given distances, shape (n, n); ``y`` and errors are as for `from_estimator`."""
        places, shares = places_with_shares(np.asarray(distance), 2)
        places = np.pad(places, ((0, 0), (0, 2 - places.shape[1])))  # of a single row
        values, names = (None, ()) if y is None else _coded(y, len(places), may_be_amounts=True)
        return cls(places, values, names, shares.tolist()).plot(ax)


@dataclass(repr=False, eq=False)
class ProximityDisplay(Display):
    """Matrix of the proximities of rows, ordered by clusters, with lines between clusters.

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

    clusters: Clusters
    chart = staticmethod(charts.draw_proximity)

    @classmethod
    def from_estimator(
        cls, forest: Any, X: Any = None, *, n_clusters: int | None = None, ax: Axes | None = None
    ) -> Self:
        """Draw proximities (for a forest over pairs, 1 - distance) in ``n_clusters`` or up to 10 clusters."""
        return cls.from_predictions(closeness(forest, X), n_clusters=n_clusters, ax=ax)

    @classmethod
    def from_predictions(cls, proximity: ArrayLike, *, n_clusters: int | None = None, ax: Axes | None = None) -> Self:
        """Draw given proximities, shape (n, n), where larger means nearer; otherwise as `from_estimator`."""
        return cls(clustered(proximity, n_clusters)).plot(ax)


@dataclass(repr=False, eq=False)
class TreeDisplay(Display):
    """Upper nodes of a tree, or cells of a ranking tree, with their contents and splits.

    The cells of a ranking tree are placed by score, with the most similar pairs on the left. If a single split divides
    a cell, it is described in words. Otherwise the number of splits is shown, and the column that the first one reads.

    Parameters
    ----------
    tree : DrawnTree
        The tree, as `distforest.pictures.trees.drawn_tree` describes it.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from distforest import TreeRank
    >>> forest = TreeRank(1, n_pairs=500, leafrank_depth=1, random_state=0).fit(*load_iris(return_X_y=True))
    >>> TreeDisplay.from_estimator(forest, depth=2).figure_
    <Picture size 680x490 with 1 Axes>
    """

    tree: DrawnTree
    chart = staticmethod(charts.draw_tree)

    @classmethod
    def from_estimator(
        cls, forest: Any, tree: int = 0, *, depth: int = 3, names: Sequence[str] = (), ax: Axes | None = None
    ) -> Self:
        """Draw a tree down to a depth from 1 to 6; in small axes the text is smaller.

        ``names`` are those of the features, or of the training objects; if empty, the forest's, or numbers.
        """
        return cls(drawn_tree(check_forest(forest), tree, depth, names)).plot(ax)

    @property
    def size(self) -> tuple[float, float]:  # type: ignore[override]
        """Return the width and height in inches that the boxes need."""
        return self.tree.size


def _one_row(name: str, row: Any) -> Any:
    """Return a row as a table of one row; raises InputError if there are several."""
    shape = np.shape(row)
    if len(shape) == 2 and shape[0] == 1:
        return row
    if len(shape) != 1:
        raise InputError(f"{name}: one row was expected, shape (n_features,), found shape {shape}")
    return np.asarray(row)[None]


def _coded(y: Any, n_rows: int, may_be_amounts: bool = False) -> tuple[np.ndarray, list[str]]:
    """Return labels as codes, and their names, which `ingest` stores at an address; raises InputError.

    With ``may_be_amounts``, fractional numbers and stored targets are quantities, which are returned without names.
    """
    opened = opened_array(y)
    names, values = names_of_classes(opened), np.asarray(None if opened is None else in_memory(opened))
    if values.shape != (n_rows,):
        raise InputError(f"y: one for each of {counted(n_rows, 'row')} was expected, found shape {values.shape}")
    are_fractional = values.dtype.kind == "f" and bool((values != np.round(values)).any())
    if may_be_amounts and names is None and (are_fractional or are_targets(opened)):
        return values, []
    classes, codes = np.unique(values, return_inverse=True)
    return codes, [*map(str, named_classes(classes.tolist(), names))]
