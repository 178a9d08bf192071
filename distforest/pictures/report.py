"""A report on a sealed forest: one HTML page that holds all it shows, and asks for nothing.

It says what the forest itself says; what a forest does not hold, its ground truth, may be given again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined

from distforest.amounts import counted, in_bytes
from distforest.errors import InputError
from distforest.estimators.loading import load
from distforest.estimators.tree_rank import TreeRank
from distforest.evaluation.grids import ScoredGrid
from distforest.evaluation.roc import ROC
from distforest.forest import scoring
from distforest.forest.estimates import Estimates
from distforest.forest.roots import Roots
from distforest.forest.taught_truth import check_own_distances, tells_what_was_taught
from distforest.pictures.closeness import closeness_of_some
from distforest.pictures.clusters import clustered
from distforest.pictures.importances import importances_of, reads_features
from distforest.pictures.out_of_bag import error_curve, out_of_bag_roc
from distforest.pictures.repetition import repetition
from distforest.pictures.tree_shapes import TreeShapes
from distforest.sources.opening import opened_array
from distforest.sources.row_kinds import input_in_words
from distforest.sources.truth import Truth, TruthKind

try:
    from distforest.pictures import charts
except ModuleNotFoundError:  # without matplotlib, the tables stand alone
    charts = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from distforest.forest.forest import Forest
    from distforest.pictures.clusters import Clusters
    from distforest.pictures.importances import Importances

    Facts = list[tuple[str, str]]

MOST_TOLD = 20
"""Features that are told by importance."""

MOST_LINES = 10
"""Lines of the table beside a curve."""

RATES = (0.001, 0.01, 0.05, 0.1, 0.2, 0.5)
"""False positive rates at which a ROC curve is told."""

_TEMPLATES = Environment(
    loader=PackageLoader("distforest.pictures"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
)

IN_WORDS = {TruthKind.LINKS: "which pairs belong together", TruthKind.NOTHING: "nothing"}
"""Kinds of ground truth whose names do not tell everybody what they are."""


@dataclass(frozen=True)
class ReportTable:
    """A table: its headings, its lines, and of each line a share that is drawn as a bar, if any are."""

    headings: tuple[str, ...]
    lines: Sequence[tuple[str, ...]]
    bars: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class ReportSection:
    """A section of the page: a heading, sentences, facts, a chart with its table, and blocks of code."""

    title: str
    told: tuple[str, ...] = ()
    facts: Sequence[tuple[str, str]] = ()
    chart: str = ""
    table: ReportTable | None = None
    code: tuple[str, ...] = ()


def report_page(
    address: str, *, truth: object = None, run: Sequence[tuple[str, str]] = (), made_by: str = ""
) -> tuple[str, Forest]:
    """Write the report on a sealed forest.

    Parameters
    ----------
    address
        Path or URL of the forest.
    truth
        What is known of its training rows, in their order, as `fit` takes it, or the address of it: what the forest was
        taught, or labels. None: the error is told as far as the fit has recorded it.
    run
        Names and values of what is known of the job that grew it.
    made_by
        The command that makes the report.

    Returns
    -------
    page : str
        The page, as HTML.
    forest : Forest
        The forest.

    Raises
    ------
    ArtifactError
        There is no sealed forest, or it is damaged.
    InputError
        The truth is of another kind or length, or labels or targets in another order than the forest was taught; or no
        row is out of bag.
    """
    estimator: Any = load(address)
    forest: Forest = estimator.forest_
    known = None if truth is None else _truth(estimator, truth)
    sections = [
        _data(forest),
        ReportSection("Parameters", facts=_parameters(forest)),
        *_grid(forest),
        _run(forest, run),
        _error(forest, known),
        *_curve(estimator, known),
        _importances(estimator),
        *_shapes(forest),
        _proximity(estimator),
        ReportSection("Grow it again", facts=_versions(forest), code=repetition(estimator, address, made_by)),
    ]
    page = _TEMPLATES.get_template("report.html").render(
        title=f"{type(estimator).__name__}: {Path(address).name}",
        kind=type(estimator).__name__,
        address=address,
        forest=forest,
        lead=(
            counted(forest.n_trees, "tree"),
            counted(forest.n_training, _noun(forest)),
            f"seed {forest.meaning.seed}",
        ),
        warning=Roots.of_forest(forest).told(),
        sections=sections,
    )
    return page, forest


def _truth(estimator: Any, given: object) -> Truth:
    """Read a truth as the forest has learned; labels if it was taught pairs or nothing."""
    forest: Forest = estimator.forest_
    learned = forest.meaning.leaf.learned
    if learned in (TruthKind.LINKS, TruthKind.NOTHING):
        return _labels(forest, given)
    truth = scoring.truth_as_learned(forest, given)
    is_known = learned in (TruthKind.LABELS, TruthKind.TARGETS) and tells_what_was_taught(forest)
    if is_known and truth.kind == learned and len(truth.values) == forest.n_training:
        check_own_distances(forest, truth, "truth")  # other rows, or another order, would be judged like any others
    return truth


def _labels(forest: Forest, given: object) -> Truth:
    """Read labels of rows of which a forest was taught nothing, or pairs; raises InputError for anything else."""
    rows = f"labels of {counted(forest.n_training, _noun(forest))}"
    cure = "give the array of labels, such as the y that `distforest ingest --label` writes"
    opened = opened_array(given)
    shape = tuple(np.shape(opened) if isinstance(opened, Sequence) else getattr(opened, "shape", ()))
    if len(shape) == 2:
        raise InputError(f"truth: {rows} were expected, found an array of shape {shape}; {cure}")
    truth = Truth.of(opened, TruthKind.LABELS)
    n_classes = len(truth.classes or ())
    if truth.kind is TruthKind.LABELS and n_classes in (1, len(truth.values)):
        found = "one label for all rows" if n_classes == 1 else "another label in each row, as of numbers"
        raise InputError(f"truth: {rows} were expected, some equal and some not, found {found}; {cure}")
    return truth


def _noun(forest: Forest) -> str:
    return "training point" if forest.leaves is None else "training row"


# --- what it is -------------------------------------------------------------------------------------------


def _data(forest: Forest) -> ReportSection:
    """What the forest was grown from."""
    meaning, schema = forest.meaning, forest.schema
    facts = [
        ("Training", counted(forest.n_training, "point" if forest.leaves is None else "row")),
        ("Read as", f"{meaning.rows.kind}, {counted(forest.n_columns, 'column')}"),
        ("Taught", IN_WORDS.get(meaning.leaf.learned, str(meaning.leaf.learned))),
    ]
    if schema is not None:
        facts.append(("Features", _some(schema.told())))
    if meaning.classes is not None:
        facts.append(("Classes", _some([*map(str, meaning.classes)])))
    rows, is_asked = meaning.rows.to_dict(), bool(_entries(forest, "similarity"))
    for name, entry in _entries(forest, "inputs").items():
        facts.append((f"Input: {input_in_words(name, rows, is_asked=is_asked)}", _in_words(entry)))
    facts += [("Similarity", _in_words(own)) for own in [_entries(forest, "similarity")] if own]
    return ReportSection("Data", facts=facts)


def _parameters(forest: Forest) -> Facts:
    return [(name, repr(value)) for name, value in forest.meaning.params.items()] + [("seed", f"{forest.meaning.seed}")]


def _grid(forest: Forest) -> list[ReportSection]:
    """The grid from which the parameters were chosen, if they were."""
    found = ScoredGrid.of_provenance(forest.provenance)
    if found is None:
        return []
    best = ", ".join(f"{name}={value}" for name, value in found.best_params_.items())
    told = f"The best of {counted(len(found.rows()), 'cell')} by {_spoken(found.scoring)}, out of bag: {best}."
    rank = found.columns[-1]
    names = [name for name in found.columns[:-1] if not all(_is_nan(value) for value in found.cv_results_[name])]
    order = np.argsort(found.cv_results_[rank], kind="stable")[:MOST_TOLD].tolist()
    lines = [tuple(_in_short(found.cv_results_[name][number]) for name in (rank, *names)) for number in order]
    headings = ("rank", *(_spoken(name.removeprefix("param_")) for name in names))
    return [ReportSection("Grid", (told,), table=ReportTable(headings, lines))]


def _spoken(name: str) -> str:
    return name.replace("_", " ")


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _in_short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _run(forest: Forest, run: Sequence[tuple[str, str]]) -> ReportSection:
    """What growing it has cost, as far as it is known."""
    costs, facts = _entries(forest, "similarity"), list(run)
    for name, words in (("evaluations", "pairs paid for"), ("closed", "nodes closed as the budget was spent")):
        if isinstance(costs.get(name), int):
            facts.append((name.capitalize(), f"{costs[name]:,} {words}"))
    n_bytes = sum(array.nbytes for array in forest.arrays().values())
    facts += [("Nodes", f"{len(forest.table.left):,}"), ("Size", f"{in_bytes(n_bytes)} decoded")]
    told = () if run else ("A sealed forest keeps neither seconds nor memory; a report on a job has both.",)
    return ReportSection("Run", told, facts)


def _versions(forest: Forest) -> Facts:
    """Which versions have grown and sealed it."""
    facts = [(name, str(version)) for name, version in _entries(forest, "versions").items()]
    grown = forest.provenance.get("grown_by")
    return facts + [("Grown by", _in_words(own)) for own in (grown if isinstance(grown, list) else [])]


# --- how good it is ---------------------------------------------------------------------------------------


def _error(forest: Forest, truth: Truth | None) -> ReportSection:
    """The error out of bag over the trees; without a truth what the fit has recorded."""
    found = Estimates.of(forest.provenance)
    facts = [(_score(forest, found), in_digits(found.oob_score))] if found.oob_score is not None else []
    facts += [("RMSE of distances", in_digits(found.oob_rmse))] if found.oob_rmse is not None else []
    if found.pruning is not None:
        facts.append(("Pruned", f"to a gain of {found.pruning.gain:g}"))
    title = "Error out of bag"
    if truth is None:
        recorded = "As the fit has recorded it." if facts else "The fit has recorded none."
        is_given = forest.meaning.leaf.learned not in (TruthKind.LINKS, TruthKind.NOTHING)
        cure = "A forest does not hold what it was taught: give that as --truth to draw it." if is_given else ""
        return ReportSection(title, (f"{recorded} {cure or 'Give labels as --truth to draw it.'}",), facts)
    curve = error_curve(forest, truth)
    last = in_digits(float(curve.error[-1]))
    told = (f"{curve.measure.capitalize()}: {last} by all {counted(forest.n_trees, 'tree')}, of {curve.judged}.",)
    chart = _chart(title, "draw_line", curve.n_trees, curve.error, "trees", curve.measure)
    places = np.unique(np.linspace(0, len(curve.error) - 1, MOST_LINES).astype(np.int64))
    lines = [(f"{curve.n_trees[k]:,}", in_digits(float(curve.error[k]))) for k in places.tolist()]
    return ReportSection(title, told, facts, chart, table=ReportTable(("trees", curve.measure), lines))


def _score(forest: Forest, found: Estimates) -> str:
    """What the score that a fit has recorded measures, the attribute ``oob_score_`` of its estimator."""
    if forest.leaves is None:
        return "Pairs classified correctly"
    if found.oob_rmse is not None:
        return "R² of distances"
    return "Objects classified correctly" if forest.meaning.leaf.learned is TruthKind.LABELS else "R² of targets"


def _curve(estimator: Any, truth: Truth | None) -> list[ReportSection]:
    """The ROC curve of pairs out of bag, or of a ranking forest that of its training pairs; none without either."""
    if truth is not None and truth.kind is TruthKind.LABELS:
        return [
            _told_curve(
                "ROC of pairs out of bag", out_of_bag_roc(estimator.forest_, truth), "pairs of one label are similar"
            )
        ]
    if isinstance(estimator, TreeRank):
        return [
            _told_curve("ROC of the training pairs", estimator.roc_, "the mean of the trees, better than of new pairs")
        ]
    return []


def _told_curve(title: str, curve: ROC, how: str) -> ReportSection:
    rates = curve.at(RATES).tolist()
    lines = [(f"{100 * rate:g}%", f"{100 * found:.1f}%") for rate, found in zip(RATES, rates, strict=True)]
    names = ("false positive rate", "true positive rate")
    chart = _chart(title, "draw_curves", [curve], False, "", "pairs")
    return ReportSection(title, (f"Area {curve.auc:.4f}; {how}.",), (), chart, table=ReportTable(names, lines))


# --- what it has learned ----------------------------------------------------------------------------------


def _importances(estimator: Any) -> ReportSection:
    """The features by importance."""
    title = "Importances"
    if not reads_features(estimator):
        return ReportSection(title, ("Splits read similarities to whole objects, so no feature has an importance.",))
    try:
        found = importances_of(estimator)
    except InputError as error:
        return ReportSection(title, (f"{error}.".capitalize(),))
    return ReportSection(title, (f"Shares of {found.of}.",), table=_table_of_importances(found))


def _table_of_importances(found: Importances) -> ReportTable:
    total = np.sum([*found.parts.values()], axis=0)
    most = np.argsort(-total, kind="stable")[:MOST_TOLD].tolist()
    several = len(found.parts) > 1
    lines = []
    for k in most:
        parts = [f"{100 * shares[k]:.1f}%" for shares in found.parts.values()] if several else []
        if found.errors is not None:
            parts.append(f"{100 * found.errors[k]:.1f}%")
        lines.append((found.names[k] if found.names else f"feature {k}", f"{100 * total[k]:.1f}%", *parts))
    rest = total.sum() - total[most].sum()
    if len(total) > len(most):
        n_more = len(found.parts) * several + (found.errors is not None)
        lines.append((f"the other {len(total) - len(most):,}", f"{100 * rest:.1f}%", *[""] * n_more))
    bars = [float(total[k] / total.max()) for k in most]
    errors = () if found.errors is None else ("standard error",)
    return ReportTable(("feature", "share", *(found.parts if several else ()), *errors), lines, bars)


def _shapes(forest: Forest) -> list[ReportSection]:
    """How deep leaves lie, and what they hold."""
    shapes, things = TreeShapes.of(forest), "pairs" if forest.leaves is None else "rows"
    leaves = counted(len(shapes.depths), "leaf", "leaves")
    sizes = shapes.sizes_told()
    found = (
        ("Depths of leaves", "depth", shapes.depths, shapes.depths_told(), shapes.depths_told(MOST_LINES)),
        ("Sizes of leaves", f"{things} in bag", shapes.sizes, sizes, sizes),
    )
    return [
        ReportSection(
            title,
            (f"{leaves}: median {in_digits(float(np.median(own)))}, {own.min():,} to {own.max():,}.",),
            chart=_chart(title, "draw_columns", columns, name, "leaves"),
            table=ReportTable((name, "leaves"), [(what, f"{n:,}") for what, n in lines]),
        )
        for title, name, own, columns, lines in found
    ]


def _proximity(estimator: Any) -> ReportSection:
    """How near the training rows are, by cluster."""
    title, forest = "Proximity by cluster", estimator.forest_
    try:
        found = clustered(closeness_of_some(estimator))
    except InputError as error:
        return ReportSection(title, (f"{error}.".capitalize(),))
    n = len(found.order)
    rows, few = f"{_noun(forest)}s", n < forest.n_training
    which = f"{n:,} of the {forest.n_training:,} {rows}, drawn at random," if few else f"All {rows}"
    kind = "the share of trees in which two share a leaf" if forest.leaves is not None else "1 \N{MINUS SIGN} distance"
    told = (f"{which} against each other: {kind}. Dark is 0, bright is 1.",)
    return ReportSection(title, told, chart=_chart(title, "draw_proximity", found, ""), table=_table_of_clusters(found))


def _table_of_clusters(found: Clusters) -> ReportTable:
    lines = []
    for cluster, size in enumerate(found.sizes.tolist()):
        own = found.codes == cluster
        within, beyond = found.proximity[np.ix_(own, own)], found.proximity[np.ix_(own, ~own)]
        others = (within.sum() - np.trace(within)) / (size * (size - 1)) if size > 1 else None
        lines.append(
            (f"{cluster + 1}", f"{size:,}", *(_share(own) for own in (others, beyond.mean() if beyond.size else None)))
        )
    return ReportTable(("cluster", "rows", "mean within", "mean to others"), lines)


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


# --- words ------------------------------------------------------------------------------------------------


def _entries(forest: Forest, name: str) -> dict[str, Any]:
    """An entry of the provenance, which anybody may have written."""
    found = forest.provenance.get(name)
    return found if isinstance(found, dict) else {}


def _some(names: Sequence[str], most: int = MOST_TOLD) -> str:
    """The first names, and how many more there are."""
    return ", ".join(names[:most]) + (f", and {len(names) - most:,} more" if len(names) > most else "")


def _in_words(value: object) -> str:
    """A value of the provenance, as far as it is made of dicts, lists and plain values."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_in_words(held)}" for key, held in value.items())
    return ", ".join(map(_in_words, value)) if isinstance(value, list) else str(value)


def in_digits(value: float) -> str:
    """A number in three digits, or all of a whole one.

    Examples
    --------
    >>> in_digits(0.12345), in_digits(1500.0), in_digits(250.5)
    ('0.123', '1,500', '250')
    """
    return f"{value:,.0f}" if value == round(value) or abs(value) >= 100.0 else f"{value:.3g}"


def _chart(title: str, drawing: str, *drawn: object) -> str:
    """A chart as SVG, by a function of `charts`; nothing without matplotlib."""
    return "" if charts is None else charts.as_svg(title, getattr(charts, drawing), *drawn)
