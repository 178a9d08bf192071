"""Charts: each function draws one on axes of matplotlib, for a display, a command or a page.

They need matplotlib (``pip install 'distforest[plot]'``), but neither pyplot nor a screen. Colours are those of Okabe
and Ito, which can be told apart under all common forms of colour blindness.
"""

from __future__ import annotations

import io
import re
import threading
from itertools import cycle, pairwise
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from distforest.amounts import counted
from distforest.errors import InputError
from distforest.evaluation.roc import ROC, OperatingPoint
from distforest.pictures.trees import CLASS_COLOURS, shortened

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from distforest.arguments import Floats
    from distforest.evaluation.grids import ScoredGrid
    from distforest.forest.pairs.decisions import Band
    from distforest.pictures.clusters import Clusters
    from distforest.pictures.importances import Importances
    from distforest.pictures.trees import DrawnTree
    from distforest.sources.source import Ints

BLUE, ORANGE, GREY, INK = "#0072B2", "#D55E00", "#8A8A8A", "#010203"
"""Colours; on a page, blue becomes its accent and ink its text colour, in light and in dark."""

MARKERS = ("o", "s", "^", "D", "v", "P")
MOST_CURVES = 100
"""Trees whose curves are drawn: the first ones."""

MOST_FEATURES = 12
"""Features that are named: those of the largest values."""

NAMELESS = dict.fromkeys(("Creator", "Date", "Format", "Type"))
"""Metadata of an SVG that are left out, so that it is the same at every time."""

LEGEND_ENTRIES = 15
"""Classes that a legend names."""

BINS = 40

_STYLING = threading.Lock()
"""Held while the style of all figures is that of a page: a worker may make two reports at once."""


class Picture(Figure):
    """Figure that a notebook shows without pyplot, unlike a plain figure of matplotlib.

    Examples
    --------
    >>> drawn = blank(7.0, 4.0)
    >>> drawn, drawn._repr_png_()[1:4]
    (<Picture size 700x400 with 0 Axes>, b'PNG')
    """

    def _repr_png_(self) -> bytes:
        """Return the picture as PNG, for IPython."""
        stream = io.BytesIO()
        self.savefig(stream, format="png")
        return stream.getvalue()


def blank(width: float, height: float) -> Picture:
    """Create an empty picture; width and height are in inches."""
    return Picture(figsize=(width, height), layout="constrained")


def check_axes(ax: object) -> Axes:
    """Check that an object is axes of matplotlib, and return it; raises InputError."""
    if not isinstance(ax, Axes):
        raise InputError(f"ax: axes of matplotlib were expected, found {type(ax).__name__}")
    return ax


def as_svg(title: str, draw: Callable[..., None], *drawn: Any) -> Markup:
    """Draw a chart as SVG for a page, in the page's colours and font.

    Parameters
    ----------
    title
        An alternative text for the chart.
    draw, *drawn
        A function of this module, and its arguments after the axes.
    """
    inked = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color")
    style = {"svg.fonttype": "none", "svg.hashsalt": title, "font.size": 12.5, **dict.fromkeys(inked, INK)}
    stream = io.StringIO()
    with _STYLING, mpl.rc_context(style):
        figure = blank(4.6, 3.2)
        draw(figure.subplots(), *drawn)
        figure.savefig(stream, format="svg", transparent=True, metadata=NAMELESS)
    text = re.sub(r'<g id="[^"]*"', "<g", stream.getvalue())  # the same in each chart
    text = text.replace(BLUE.lower(), "var(--accent)").replace(INK, "currentColor")
    return Markup('<svg role="img" aria-label="{}"').format(title) + Markup(text[text.index("<svg") + 4 :])  # noqa: S704


def add_legend(axes: Axes) -> None:
    """Add a legend if there are labels: below the axes of a picture, or at the best place in given axes."""
    handles, labels = axes.get_legend_handles_labels()
    figure = axes.figure
    if not handles or axes.get_legend() is not None:
        return
    if not isinstance(figure, Picture) or len(figure.axes) > 1:
        axes.legend(loc="best", framealpha=1.0, edgecolor="none")
        return
    letters = 13 * figure.get_figwidth()
    n_columns = max(1, min(3, int(letters / (max(map(len, labels)) + 6))))
    figure.legend(handles, labels, loc="outside lower center", ncols=n_columns, frameon=False)


def _finish(axes: Axes, title: str, x: str, y: str) -> None:
    axes.set(xlabel=x, ylabel=y)
    axes.set_title(title, parse_math=False)
    axes.spines[["top", "right"]].set_visible(False)


def draw_line(axes: Axes, x: Ints, y: Floats, x_name: str, y_name: str) -> None:
    """Draw a line from zero."""
    axes.plot(x, y, color=BLUE, linewidth=2, marker="o" if len(x) == 1 else None)
    axes.set_ylim(0.0, 1.05 * float(y.max()) or 1.0)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
    _finish(axes, "", x_name, y_name)


def draw_counts(axes: Axes, columns: Sequence[tuple[str, int]], x_name: str, y_name: str) -> None:
    """Draw a column for each name and number, and label some of them."""
    axes.bar(np.arange(len(columns)), [n for _, n in columns], color=BLUE, width=0.8)
    places = range(0, len(columns), -(-len(columns) // 4))
    axes.set_xticks(places, [columns[place][0] for place in places])
    axes.yaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
    _finish(axes, "", x_name, y_name)


def draw_roc(
    axes: Axes,
    curves: Sequence[ROC],
    points: Sequence[OperatingPoint],
    log: bool,
    title: str,
    name: str,
    band: Band | None = None,
) -> None:
    """Draw ROC curves of trees, their mean, chance, operating points and a band; a curve by itself has its name."""
    mean = ROC.mean(curves)
    places = np.array([0.0, 1.0])
    if log:
        least = min(float(curve.fpr[curve.fpr > 0.0].min()) for curve in curves)
        left = float(10.0 ** np.clip(np.floor(np.log10(least)), -6.0, -2.0))
        places = left ** np.linspace(1.0, 0.0, 400)
    if len(curves) > 1:
        for number, curve in enumerate(curves[:MOST_CURVES]):
            label = f"{min(len(curves), MOST_CURVES)} trees" if number == 0 else "_"
            axes.plot(*_knots(curve, places), color=BLUE, alpha=0.35, linewidth=0.7, label=label)
    if band is not None:
        label = f"{band.auc_low:.3f} to {band.auc_high:.3f}"
        axes.fill_between(band.fpr, band.low, band.high, color=BLUE, alpha=0.2, linewidth=0, label=f"area {label}")
    area = f"{'their mean' if len(curves) > 1 else name}: area {mean.auc:.3f}"
    axes.plot(*_knots(mean, places), color=BLUE, linewidth=2.5, label=area)
    axes.plot(places, places, color=ORANGE, linestyle="--", linewidth=1, label="chance")
    for point, marker in zip(points, cycle(MARKERS), strict=False):
        axes.plot(point.fpr, point.tpr, marker, color="black", markersize=7, zorder=3, label=point.told())
    axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    if log:
        axes.set(xscale="log", xlim=(places[0], 1.0))
    _finish(axes, title, "false positive rate", "true positive rate")


def _knots(curve: ROC, places: Floats) -> tuple[Floats, Floats]:
    """Return points of a curve, from the first of some rates on: at its knots and at these rates."""
    inside = curve.fpr >= places[0]
    fpr, tpr = np.append(curve.fpr[inside], places), np.append(curve.tpr[inside], curve.at(places))
    order = np.lexsort((tpr, fpr))
    return fpr[order], tpr[order]


def draw_spread(axes: Axes, distance: Floats, codes: Ints) -> None:
    """Draw histograms of the distances within and between classes."""
    i, j = np.triu_indices(len(codes), 1)
    distance, is_same = distance[i, j], codes[i] == codes[j]
    bins = np.linspace(0.0, max(float(distance.max(initial=0.0)), 1e-9), BINS + 1)
    for chosen, colour, name in ((is_same, BLUE, "same class"), (~is_same, ORANGE, "different classes")):
        if chosen.any():
            share = np.full(int(chosen.sum()), 1.0 / chosen.sum())
            axes.hist(distance[chosen], bins.tolist(), weights=share, color=colour, alpha=0.55, label=name)
            axes.axvline(float(np.median(distance[chosen])), color=colour, linestyle="--", linewidth=1.5)
    _finish(axes, "Distances by class (dashed: medians)", "forest distance", "share of pairs")


def draw_map(
    axes: Axes, places: Floats, values: np.ndarray | None, names: Sequence[str], shares: Sequence[float] = ()
) -> None:
    """Draw rows in the plane, coloured by class, by value, or all alike; the axes show their ``shares``."""
    x, y = places.T
    if values is None:
        axes.scatter(x, y, s=28, color=BLUE, alpha=0.7, linewidths=0)
    elif not names:
        axes.figure.colorbar(axes.scatter(x, y, s=28, c=values, alpha=0.9, linewidths=0), ax=axes)
    else:
        for code, name in enumerate(names):
            colour = CLASS_COLOURS[code % len(CLASS_COLOURS)]
            marker = MARKERS[(code + code // len(CLASS_COLOURS)) % len(MARKERS)]
            label = name if code < LEGEND_ENTRIES else None
            own = values == code
            axes.scatter(x[own], y[own], s=28, color=colour, marker=marker, linewidths=0, label=label)
        n_more = len(names) - LEGEND_ENTRIES
        axes.legend(frameon=False, title=f"and {n_more} more" if n_more > 0 else None)
    of_variance = [*(f" ({100.0 * share:.0f}% of variance)" for share in shares), "", ""]
    first, second = (f"{which} principal coordinate{of_variance[k]}" for k, which in enumerate(("first", "second")))
    _finish(axes, "Map by distances", first, second)


def draw_proximity(axes: Axes, clusters: Clusters, title: str = "Proximity, rows by cluster") -> None:
    """Draw a matrix of proximities with rows ordered by cluster, and lines between clusters."""
    least = min(0.0, float(clusters.proximity.min()))
    image = axes.imshow(clusters.ordered, cmap="cividis", vmin=least, interpolation="nearest")
    axes.figure.colorbar(image, ax=axes)
    for end in np.cumsum(clusters.sizes)[:-1]:
        axes.axhline(end - 0.5, color="white", linewidth=1)
        axes.axvline(end - 0.5, color="white", linewidth=1)
    rows, n_clusters = counted(len(clusters.order), "row"), counted(len(clusters.sizes), "cluster")
    axes.set(xticks=[], yticks=[], xlabel=f"{rows} in {n_clusters}", title=title)


def draw_importances(axes: Axes, drawn: Importances) -> None:
    """Draw the largest importances of features, by name."""
    total = np.sum([*drawn.parts.values()], axis=0)
    most = np.argsort(-total, kind="stable")[:MOST_FEATURES]
    begin, places = np.zeros(len(most)), np.arange(len(most))
    for (part, shares), colour in zip(drawn.parts.items(), (BLUE, ORANGE), strict=False):
        axes.barh(places, shares[most], left=begin, color=colour, label=part)
        begin = begin + shares[most]
    if drawn.errors is not None:
        axes.errorbar(total[most], places, xerr=drawn.errors[most], fmt="none", ecolor="black", label="standard error")
    if drawn.is_share:
        axes.axvline(1.0 / len(total), color=GREY, linestyle="--", linewidth=1.5, label="all equal")
        axes.set_xlim(left=0.0)
    names = [drawn.names[k] if drawn.names else str(k) for k in most]
    axes.set_yticks(places, [shortened(name) for name in names], parse_math=False)
    axes.invert_yaxis()  # the largest at the top
    shown_of_all = f", {len(most)} of {len(total):,}" if len(most) < len(total) else ""
    _finish(axes, f"{drawn.title}{shown_of_all}", f"share of {drawn.of}" if drawn.is_share else drawn.of, "feature")


def draw_contributions(axes: Axes, contributions: Floats, baseline: float, names: Sequence[str]) -> None:
    """Draw the contributions of features as steps from the mean distance to the distance of two rows."""
    order = np.argsort(-np.abs(contributions), kind="stable")
    most = order[: MOST_FEATURES - 1] if len(order) > MOST_FEATURES else order
    sizes, labels = contributions[most], [names[k] if len(names) else str(k) for k in most]
    if len(most) < len(order):
        sizes = np.append(sizes, contributions[order[len(most) :]].sum())
        labels.append(f"the other {len(order) - len(most):,}")
    ends, distance = baseline + np.cumsum(sizes), baseline + float(contributions.sum())
    for label, colour, own in (("farther", ORANGE, sizes > 0.0), ("nearer", BLUE, sizes < 0.0)):
        if own.any():
            axes.barh(np.flatnonzero(own), sizes[own], left=(ends - sizes)[own], color=colour, label=label)
    axes.use_sticky_edges = False  # so that the line of the mean is off the spine
    axes.axvline(baseline, color=GREY, linestyle="--", linewidth=1.5, label="mean distance")
    axes.axvline(distance, color="black", linewidth=1.5, label="distance")
    axes.set_yticks(np.arange(len(labels)), [shortened(name) for name in labels], parse_math=False)
    axes.invert_yaxis()
    _finish(axes, "Why this far?", f"distance: {distance:.3g}, mean {baseline:.3g}", "feature")


def draw_grid(axes: Axes, grid: ScoredGrid) -> None:
    """Draw the score of each cell along its first parameter, with a line for each combination of the others."""
    cells, scores = grid.cv_results_["params"], np.array(grid.cv_results_[grid.scoring])
    first, *others = cells[0]
    along = [*dict.fromkeys(str(cell[first]) for cell in cells)]
    place = np.array([along.index(str(cell[first])) for cell in cells])
    lines: dict[str, list[int]] = {}
    for number, cell in enumerate(cells):
        lines.setdefault(", ".join(f"{name}={cell[name]}" for name in others), []).append(number)
    for label, numbers in lines.items():
        axes.plot(place[numbers], scores[numbers], "o-", linewidth=2, label=label or "score")
    best = grid.best_index_
    axes.plot(place[best], scores[best], "o", markersize=13, fillstyle="none", color="black", label="best")
    axes.set_xticks(np.arange(len(along)), along, parse_math=False)
    _finish(axes, "Out-of-bag scores of the grid", first, grid.scoring.replace("_", " "))


def draw_tree(axes: Axes, tree: DrawnTree) -> None:
    """Draw the boxes of a tree, each below its parent, in the largest font that fits."""
    text: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 8, "color": "black", "parse_math": False}
    white = {"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none"}
    shown, rows = {(box.depth, box.place) for box in tree.boxes}, dict[float, list[Any]]()
    for box in tree.boxes:
        x, y, step = box.middle, -float(box.depth), 0.25 / 2.0**box.depth
        is_parted, is_leaf = (box.depth + 1, 2 * box.place) in shown, box.n_leaves == 1
        frame = {"boxstyle": "round,pad=0.35", "facecolor": box.colour, "edgecolor": "black" if is_leaf else GREY}
        held = box.held + ("" if is_leaf or is_parted else f"\n{box.n_leaves:,} leaves")
        rows.setdefault(y, []).append(axes.text(x, y, held, bbox=frame, zorder=3, **text))
        if is_parted:
            fork = [x - step, x - step, x + step, x + step], [y - 1, y - 0.5, y - 0.5, y - 1]
            axes.plot([x, x], [y, y - 0.5], color=GREY, linewidth=1, zorder=1)
            axes.plot(*fork, color=GREY, linewidth=1, zorder=1)
            rows.setdefault(y - 0.5, []).append(axes.text(x, y - 0.5, box.cut, bbox=white, zorder=2, **text))
    axes.set(xlim=(0.0, 1.0), ylim=(min(rows) - 0.45, 0.3), yticks=[], xticks=[])
    if tree.has_scores:
        axes.set_xticks([0.0, 0.25, 0.5, 0.75, 1.0], ["1", "0.75", "0.5", "0.25", "0"])
    axes.set_xlabel("\n".join(tree.lines), fontsize=8)
    axes.set_title(tree.title, fontsize=10, parse_math=False)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_visible(tree.has_scores)
    axes.figure.figure.draw_without_rendering()  # so that the axes have their size
    for _ in range(3):  # widths of letters are whole pixels, so one step may not do
        scale = min(1.0, _room(axes, rows))
        for drawn in (drawn for row in rows.values() for drawn in row):
            drawn.set_fontsize(scale * drawn.get_fontsize())


def _room(axes: Axes, rows: dict[float, list[Any]]) -> float:
    """Return the factor by which texts can grow until two of them touch, or one leaves the axes."""
    width, unit = axes.bbox.width, axes.bbox.height / abs(np.subtract(*axes.get_ylim()))
    found, heights = [], []
    for row in rows.values():
        boxes = [text.get_window_extent() for text in row]
        pad = row[0].get_fontsize() * axes.figure.dpi / 72.0
        middles = [text.get_position()[0] * width for text in row]
        spans = [(x, 0.5 * (box.width + pad)) for x, box in zip(middles, boxes, strict=True)]
        found += [(x - before) / (half + half_before) for (before, half_before), (x, half) in pairwise(spans)]
        found += [min(x, width - x) / half for x, half in spans]
        heights.append(max(box.height for box in boxes) + pad)
    steps = sorted(rows, reverse=True)
    by_row = dict(zip(rows, heights, strict=True))
    found += [2.0 * (upper - lower) * unit / (by_row[upper] + by_row[lower]) for upper, lower in pairwise(steps)]
    return min(found)
