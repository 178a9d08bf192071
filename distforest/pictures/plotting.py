"""Pictures of forests in several panels: predicted links, how well distances separate classes, drawn features.

They need matplotlib (``pip install 'distforest[plot]'``), but neither pyplot nor a display. Every function takes arrays
and returns a `Picture`, which a notebook shows and ``savefig`` saves; pictures of single axes are the displays of
`distforest.pictures`. Colours are those of Okabe and Ito, which can be told apart under all common forms of colour
blindness.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import MaxNLocator
from sklearn.metrics import auc, average_precision_score, precision_recall_curve, roc_curve

from distforest.arguments import check_finite, numbers, whole
from distforest.errors import InputError
from distforest.pictures.pictured import Classes, Links, RowMap, Weights, check_drawn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.cm import ScalarMappable
    from matplotlib.figure import FigureBase, SubFigure
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

__all__ = [
    "Classes",
    "Links",
    "Picture",
    "Weights",
    "class_separation",
    "feature_weights",
    "link_prediction",
    "overview",
    "principal_coordinates",
]

BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#8A8A8A"
CLASS_COLOURS = (ORANGE, BLUE, "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MARKERS = ("o", "s", "^", "D", "v", "P")
LEGEND_ENTRIES = 15
"""The most classes that a legend names."""

BINS = 40
LETTERS_OF_LEGEND, LETTERS_OF_HANDLE = 13, 6
"""Letters of a legend that fit into an inch; and the place of a line or marker, in letters."""

MOST_FEATURES = 12
"""Largest number of features that are named: those of the largest shares."""


class Picture(Figure):
    """A figure that a notebook shows without pyplot, unlike a plain figure of matplotlib.

    Examples
    --------
    >>> drawn = blank(7.0, 4.0)
    >>> drawn, drawn._repr_png_()[1:4]
    (<Picture size 700x400 with 0 Axes>, b'PNG')
    """

    def _repr_png_(self) -> bytes:
        """The picture as PNG, for IPython."""
        stream = io.BytesIO()
        self.savefig(stream, format="png")
        return stream.getvalue()


def link_prediction(links: Links) -> Picture:
    """Draw a graph beside its predicted links, and the ROC and precision-recall curves of the scored pairs.

    Parameters
    ----------
    links
        The graph and the predictions.

    Examples
    --------
    >>> truth = np.array([[0, 1, 0], [1, 0, 0], [0, 0, 0]])
    >>> pairs = truth[[0, 0, 1], [1, 2, 2]]
    >>> link_prediction(Links(truth, 1 - truth, np.array([0, 0, 1]), pairs, 1.0 - pairs))
    <Picture size 1400x400 with 4 Axes>
    """
    check_drawn(links, Links)
    figure = blank(14.0, 4.0)
    _draw_links(figure, links)
    return figure


def class_separation(classes: Classes) -> Picture:
    """Draw a distance matrix by class, its distances within and between classes, and a map of the rows.

    Parameters
    ----------
    classes
        The rows.

    Examples
    --------
    >>> codes = np.array([0, 0, 1, 1])
    >>> class_separation(Classes((codes[:, None] != codes) * 0.8, codes, ["bad", "good"]))
    <Picture size 1400x400 with 3 Axes>
    """
    check_drawn(classes, Classes)
    figure = blank(14.0, 4.0)
    _draw_classes(figure, classes)
    return figure


def overview(links: Links, classes: Classes) -> Picture:
    """Draw `link_prediction` above `class_separation`.

    Parameters
    ----------
    links, classes
        The data of the two.
    """
    check_drawn(links, Links)
    check_drawn(classes, Classes)
    figure = blank(14.0, 8.0)
    upper, lower = figure.subfigures(2, 1, squeeze=False, hspace=0.06)[:, 0]
    _draw_links(upper, links)
    _draw_classes(lower, classes)
    return figure


def feature_weights(weights: Weights) -> Picture:
    """Draw the dependence of each feature, and the shares of the features that are drawn most.

    Features that depend on others are marked. If features were not screened, their shares are drawn instead of the
    dependence.

    Parameters
    ----------
    weights
        The features.

    Examples
    --------
    >>> feature_weights(Weights(np.array([0.6, 0.3, 0.1]), np.array([0.4, 0.2, 0.0]), ["a", "b", "c"]))
    <Picture size 1200x400 with 2 Axes>
    """
    check_drawn(weights, Weights)
    figure = blank(12.0, 4.0)
    figure.suptitle(weights.title, fontweight="bold")
    every, most = figure.subplots(1, 2, width_ratios=(1.6, 1))
    _draw_every_feature(every, weights)
    _draw_most(most, weights)
    return figure


def canvas(width: float, height: float, ax: Axes | None) -> tuple[Picture | Axes, Axes]:
    """Return the given axes twice, or a new picture and its axes; raises InputError for anything but axes."""
    if ax is not None:
        if not isinstance(ax, Axes):
            raise InputError(f"ax: axes of matplotlib were expected, found {type(ax).__name__}")
        return ax, ax
    picture = blank(width, height)
    return picture, picture.subplots()


def name_lines(shown: Picture | Axes, axes: Axes) -> None:
    """Add a legend: below a new picture, or inside given axes where it covers least."""
    if isinstance(shown, Picture):
        legend_below(shown, axes)
    else:  # the room around given axes is the user's
        axes.legend(loc="best", framealpha=1.0, edgecolor="none")


def legend_below(figure: Figure | SubFigure, axes: Axes) -> None:
    """Add a legend below the axes, where it covers nothing."""
    handles, labels = axes.get_legend_handles_labels()
    letters = LETTERS_OF_LEGEND * figure.bbox.width / figure.figure.dpi
    n_columns = max(1, min(3, int(letters / (max(map(len, labels)) + LETTERS_OF_HANDLE))))
    figure.legend(handles, labels, loc="outside lower center", ncols=n_columns, frameon=False)


def blank(width: float, height: float) -> Picture:
    """Make an empty picture; width and height are in inches."""
    return Picture(figsize=(width, height), layout=ConstrainedLayoutEngine(w_pad=0.09, wspace=0.03))


# --- feature weights --------------------------------------------------------------------------------------


def _draw_every_feature(axes: Axes, weights: Weights) -> None:
    """Draw each feature's dependence by its number, or its share if features were not screened."""
    screened = weights.dependence is not None
    heights = np.asarray(weights.dependence if screened else weights.shares)
    marked, n_features = heights > 0.0, len(heights)
    kind = "depends on another" if screened else "drawn"
    summary = f"{kind}: {int(marked.sum()):,} of {n_features:,}, {weights.shares[marked].sum():.0%} of the draws"
    for chosen, colour, size, label in ((~marked, GREY, 6, "the others"), (marked, ORANGE, 18, summary)):
        places = np.flatnonzero(chosen)
        if len(places):
            axes.vlines(places, 0.0, heights[places], color=colour, linewidth=1, alpha=0.6)
            axes.scatter(places, heights[places], s=size, color=colour, label=label, zorder=3)
    axes.set(xlabel="feature", ylabel="dependence" if screened else "share of the draws")
    top = max(float(heights.max()), 1e-9)
    axes.set(ylim=(-0.03 * top, 1.25 * top), xlim=(-0.5 - 0.01 * n_features, 1.01 * n_features - 0.5))
    axes.xaxis.set_major_locator(MaxNLocator(nbins=8, integer=True))
    axes.set_title("By how much each feature depends on another" if screened else "How often each feature is drawn")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="upper right", ncols=2, frameon=False)


def _draw_most(axes: Axes, weights: Weights) -> None:
    """Draw the shares of the features that are drawn most, by name."""
    most = np.argsort(-weights.shares, kind="stable")[:MOST_FEATURES]
    marked = np.ones(len(most), bool) if weights.dependence is None else weights.dependence[most] > 0.0
    axes.barh(np.arange(len(most)), weights.shares[most], color=np.where(marked, ORANGE, GREY).tolist())
    axes.axvline(1.0 / len(weights.shares), color=BLUE, linestyle="--", linewidth=1.5)
    name_features(axes, most, weights.names)
    axes.set(xlabel="share of the draws", ylabel="feature", xlim=(0.0, None))
    axes.xaxis.set_major_locator(MaxNLocator(nbins=4))
    axes.set_title("Drawn most (dashed: all equal)")
    axes.spines[["top", "right"]].set_visible(False)


def name_features(axes: Axes, most: np.ndarray, names: Sequence[str]) -> None:
    """Label the bars of features from the top: by name, or by number if there are no names."""
    labels = [shortened(names[k]) if len(names) else str(k) for k in most.tolist()]
    axes.set_yticks(np.arange(len(most)), labels, parse_math=False)
    axes.invert_yaxis()


def shortened(name: str, most: int = 24) -> str:
    """Cut a long name, and replace characters that cannot be printed by spaces.

    Examples
    --------
    >>> shortened("a rather long name of a feature")
    'a rather long name of a…'
    """
    shown = "".join(letter if letter.isprintable() else " " for letter in name)
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"


# --- links ------------------------------------------------------------------------------------------------


def _draw_links(figure: FigureBase, links: Links) -> None:
    figure.suptitle(links.title, fontweight="bold")
    known, predicted, roc, precision = figure.subplots(1, 4)
    order = _seriated(links.distance)
    held_out = links.held_out[order].astype(bool)
    known.imshow(links.adjacency[np.ix_(order, order)], cmap=ListedColormap(["white", BLUE]), vmin=0, vmax=1)
    known.set_title("Known links")
    known.set_ylabel("node, in the order of the prediction")
    closeness = 1.0 - links.distance[np.ix_(order, order)]
    image = predicted.imshow(closeness, cmap="Blues", vmin=0)
    predicted.set_title("Predicted: 1 minus forest distance")
    add_bar(figure, predicted, image)
    for axes in (known, predicted):
        _mark(axes, held_out)
    _draw_roc(roc, links.linked, -links.scored)
    _draw_precision(precision, links.linked, -links.scored)


def add_bar(figure: FigureBase, axes: Axes, image: ScalarMappable) -> None:
    """Add a colour bar that takes no room from its matrix, so that all panels of a row have the same size."""
    figure.colorbar(image, cax=axes.inset_axes((1.09, 0.0, 0.06, 1.0)))


def _mark(axes: Axes, held_out: NDArray[np.bool_]) -> None:
    """Mark the held-out nodes on both sides of a matrix."""
    places = np.flatnonzero(held_out)
    outside = len(held_out) + 0.6
    axes.plot(places, np.full(len(places), outside), "^", color=ORANGE, markersize=4, clip_on=False)
    axes.plot(np.full(len(places), outside), places, "<", color=ORANGE, markersize=4, clip_on=False)
    axes.set(xticks=[], yticks=[], xlim=(-0.5, len(held_out) - 0.5), ylim=(len(held_out) - 0.5, -0.5))
    axes.set_xlabel("▲ held-out node", color=ORANGE, labelpad=8)


def _draw_roc(axes: Axes, linked: np.ndarray, score: np.ndarray) -> None:
    fpr, tpr, _ = roc_curve(linked, score, drop_intermediate=False)
    axes.plot(fpr, tpr, color=BLUE, linewidth=2)
    axes.plot([0, 1], [0, 1], color=GREY, linestyle="--", linewidth=1, label="chance")
    axes.set_title(f"ROC: area {auc(fpr, tpr):.3f}")
    on_unit_square(axes, "false positive rate", "true positive rate")
    axes.legend(loc="lower right", frameon=False)


def _draw_precision(axes: Axes, linked: np.ndarray, score: np.ndarray) -> None:
    precision, recall, _ = precision_recall_curve(linked, score)
    axes.step(recall, precision, where="post", color=BLUE, linewidth=2)
    axes.axhline(linked.mean(), color=GREY, linestyle="--", linewidth=1, label="chance: the share of links")
    axes.set_title(f"Precision and recall: area {average_precision_score(linked, score):.3f}")
    on_unit_square(axes, "recall", "precision")
    axes.legend(loc="upper right", frameon=False)


def on_unit_square(axes: Axes, x: str, y: str) -> None:
    """Set labels, ticks and limits of axes for two shares, named ``x`` and ``y``."""
    axes.set(xlabel=x, ylabel=y, xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "", "0.5", "", "1"])
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "", "0.5", "", "1"])
    axes.spines[["top", "right"]].set_visible(False)


def _seriated(distance: np.ndarray) -> NDArray[np.intp]:
    """Order rows by the first principal coordinate of their distances, so that near rows are next to each other."""
    return np.argsort(principal_coordinates(distance, 1)[:, 0], kind="stable")


def principal_coordinates(distance: np.ndarray, n_dimensions: int) -> Floats:
    """Place points so that their Euclidean distances approximate given ones: classical scaling (Torgerson).

    Parameters
    ----------
    distance
        Shape (n, n), symmetric.
    n_dimensions
        Number of dimensions of the map.

    Returns
    -------
    ndarray
        Coordinates, shape (n, n_dimensions), the widest dimension first. The sign of each dimension makes its entry of
        the largest absolute value positive.

    Raises
    ------
    InputError
        The distances are not a square matrix of finite numbers, or ``n_dimensions`` is not an integer >= 1.

    Examples
    --------
    >>> points = np.array([0.0, 1.0, 5.0])
    >>> places = principal_coordinates(np.abs(points[:, None] - points), 1)
    >>> np.allclose(places[:, 0], points - 2.0)
    True
    """
    distance = numbers(distance, "distance", 2)
    if distance.shape[0] != distance.shape[1] or not len(distance):
        raise InputError(f"distance must be a square matrix with rows, found shape {distance.shape}")
    check_finite(distance, "distance")
    squares = distance**2
    centred = squares - squares.mean(axis=0) - squares.mean(axis=1, keepdims=True) + squares.mean()
    values, vectors = np.linalg.eigh(-centred / 2.0)
    widest = np.argsort(values)[::-1][: whole("n_dimensions", n_dimensions, 1)]
    places = vectors[:, widest] * np.sqrt(np.maximum(values[widest], 0.0))
    largest = places[np.argmax(np.abs(places), axis=0), np.arange(places.shape[1])]
    signed: Floats = places * np.where(largest < 0, -1.0, 1.0)
    return signed


# --- classes ----------------------------------------------------------------------------------------------


def _draw_classes(figure: FigureBase, classes: Classes) -> None:
    figure.suptitle(classes.title, fontweight="bold")
    matrix, spread, places = figure.subplots(1, 3, width_ratios=(1, 1.35, 1.35))
    order = np.lexsort((principal_coordinates(classes.distance, 1)[:, 0], classes.codes))
    image = matrix.imshow(classes.distance[np.ix_(order, order)], cmap="cividis", vmin=0)
    add_bar(figure, matrix, image)
    matrix.set_title("Forest distances, rows by class")
    _name_blocks(matrix, classes)
    draw_spread(spread, classes)
    draw_map(places, RowMap(principal_coordinates(classes.distance, 2), classes.codes, classes.names))


def _name_blocks(axes: Axes, classes: Classes) -> None:
    """Label the blocks of a matrix whose rows are ordered by class, and draw lines between them."""
    sizes = np.bincount(classes.codes, minlength=len(classes.names))
    ends = np.cumsum(sizes)
    for end in ends[:-1]:
        axes.axhline(end - 0.5, color="white", linewidth=1.5)
        axes.axvline(end - 0.5, color="white", linewidth=1.5)
    middles = ends - sizes / 2.0 - 0.5
    axes.set_xticks(middles, classes.names)
    axes.set_yticks(middles, classes.names, rotation=90, verticalalignment="center")
    axes.tick_params(length=0)


def draw_spread(axes: Axes, classes: Classes) -> None:
    """Draw histograms of the distances within and between classes."""
    i, j = np.triu_indices(len(classes.codes), 1)
    distance, is_same = classes.distance[i, j], classes.codes[i] == classes.codes[j]
    bins = np.linspace(0.0, max(float(distance.max(initial=0.0)), 1e-9), BINS + 1)
    for chosen, colour, name in ((is_same, BLUE, "same class"), (~is_same, ORANGE, "different classes")):
        if chosen.any():
            share = np.full(int(chosen.sum()), 1.0 / chosen.sum())
            axes.hist(distance[chosen], bins.tolist(), weights=share, color=colour, alpha=0.55, label=name)
            axes.axvline(float(np.median(distance[chosen])), color=colour, linestyle="--", linewidth=1.5)
    axes.set(xlabel="forest distance", ylabel="share of pairs", xlim=(0, bins[-1]))
    axes.set_title("Distances within and between classes (dashed: medians)")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)


def draw_map(axes: Axes, mapped: RowMap) -> None:
    """Draw rows at their places in the plane: by class, by an amount, or all alike."""
    x, y = mapped.places.T
    if mapped.values is None:
        axes.scatter(x, y, s=28, color=BLUE, alpha=0.7, linewidths=0)
    elif not mapped.names:
        drawn = axes.scatter(x, y, s=28, c=mapped.values, cmap="viridis", alpha=0.9, linewidths=0)
        add_bar(axes.figure, axes, drawn)
    else:
        _draw_classes_of_map(axes, mapped)
    axes.set(xlabel="first principal coordinate", ylabel="second principal coordinate")
    axes.set_title(mapped.title)
    axes.spines[["top", "right"]].set_visible(False)


def _draw_classes_of_map(axes: Axes, mapped: RowMap) -> None:
    """Draw the rows of each class in a colour and with a marker."""
    for code, name in enumerate(mapped.names):
        x, y = mapped.places[mapped.values == code].T
        colour = CLASS_COLOURS[code % len(CLASS_COLOURS)]
        marker = MARKERS[(code + code // len(CLASS_COLOURS)) % len(MARKERS)]
        label = name if code < LEGEND_ENTRIES else None
        axes.scatter(x, y, s=28, color=colour, marker=marker, alpha=0.7, linewidths=0, label=label)
    n_more = len(mapped.names) - LEGEND_ENTRIES
    axes.legend(frameon=False, title=f"and {n_more} more" if n_more > 0 else None)
