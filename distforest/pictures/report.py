"""A report on a sealed forest: one HTML page that holds all it shows, and asks for nothing.

It says what the forest itself says; what a forest does not hold, its ground truth, may be given again.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined

from distforest.amounts import counted, in_bytes, value_in_words
from distforest.errors import InputError
from distforest.estimators.loading import load
from distforest.estimators.smerf import SMERF
from distforest.estimators.tree_rank import TreeRank
from distforest.evaluation.grids import ScoredGrid
from distforest.forest import scoring
from distforest.forest.estimates import Estimates
from distforest.forest.merged_trees import merged_in_words
from distforest.forest.roots import Roots
from distforest.forest.taught_truth import check_own_distances
from distforest.html_table import with_code
from distforest.pictures.closeness import closeness_of_some
from distforest.pictures.clusters import clustered
from distforest.pictures.importances import importances_of, reads_features
from distforest.pictures.out_of_bag import error_curve, out_of_bag_roc
from distforest.pictures.tree_shapes import TreeShapes
from distforest.sources.opening import opened_array
from distforest.sources.row_kinds import input_in_words
from distforest.sources.truth import Truth, TruthKind
from distforest.sources.weights import OF_PAIRS

try:
    from distforest.pictures import charts
except ModuleNotFoundError:  # without matplotlib, the tables stand alone
    charts = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from distforest.forest.forest import Forest

    Facts = list[tuple[str, str]]

MOST_TOLD = 20
"""Most features in the list of importances."""

MOST_LINES = 10
"""Lines of the table beside a curve."""

RATES = (0.001, 0.01, 0.05, 0.1, 0.2, 0.5)
"""False positive rates at which the page lists a ROC curve."""

_TEMPLATES = Environment(
    loader=PackageLoader("distforest.pictures"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
)
_TEMPLATES.filters["marked"] = with_code

TAUGHT = {
    TruthKind.LABELS: ("y", "labels", "Labels(y)"),
    TruthKind.TARGETS: ("y", "targets", "Targets(y)"),
    TruthKind.DIFFERENCES: ("y", "targets", "Targets(y, metric='absolute')"),
    TruthKind.EMBEDDING: ("Z", "an embedding", "Embedding(Z)"),
    TruthKind.DIRECTIONS: ("Z", "an embedding", "Embedding(Z, metric='cosine')"),
    TruthKind.DISTANCES: ("Z", "distances, or the Graph from which they follow", "Distances(Z)"),
}
"""The name of each kind of truth in these lines, what it is, and how SMERF's `fit` takes it."""

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
        taught, or labels. None: the error is shown as far as the fit has recorded it.
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
    params = {**forest.meaning.params, "seed": forest.meaning.seed}
    repeated = "\n".join(f"$ {line}" for line in (f"distforest verify {shlex.quote(address)}", made_by) if line)
    errors = _error(forest, known)
    sections = [
        _data(forest, () if errors else (f"The fit has recorded no error out of bag. {_cure(forest)}",)),
        ReportSection("Parameters", facts=[(name, repr(value)) for name, value in params.items()]),
        *_grid(forest),
        _run(forest, run),
        *errors,
        *_curve(estimator, known),
        _importances(estimator),
        *_shapes(forest),
        _proximity(estimator),
        ReportSection("Grow it again", facts=_versions(forest), code=(_in_python(estimator, forest), repeated)),
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
    is_known = learned in (TruthKind.LABELS, TruthKind.TARGETS)
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


def _data(forest: Forest, told: tuple[str, ...]) -> ReportSection:
    """What the forest was grown from; and what the page lacks."""
    meaning, similarity = forest.meaning, _entries(forest, "similarity")
    facts = [
        ("Training", counted(forest.n_training, "point" if forest.leaves is None else "row")),
        ("Read as", f"{meaning.rows.kind}, {counted(forest.n_columns, 'column')}"),
        ("Taught", IN_WORDS.get(meaning.leaf.learned, str(meaning.leaf.learned))),
    ]
    if forest.schema is not None:
        facts.append(("Features", _some(forest.schema.told())))
    if meaning.classes is not None:
        facts.append(("Classes", _some([*map(str, meaning.classes)])))
    for name, entry in _entries(forest, "inputs").items():
        words = input_in_words(name, meaning.rows.to_dict(), is_asked=bool(similarity))
        facts.append((f"Input: {words}", value_in_words(entry)))
    if similarity:
        facts.append(("Similarity", value_in_words(similarity)))
    return ReportSection("Data", told, facts)


def _grid(forest: Forest) -> list[ReportSection]:
    """The grid from which the parameters were chosen, if they were."""
    found = ScoredGrid.of_provenance(forest.provenance)
    if found is None:
        return []
    best = ", ".join(f"{name}={value}" for name, value in found.best_params_.items())
    scoring = found.scoring.replace("_", " ")
    told = f"The best of {counted(len(found.rows()), 'cell')} by {scoring}, out of bag: {best}."
    *names, rank = found.columns
    known = [name for name in names if any(value == value for value in found.cv_results_[name])]  # any that is no NaN
    order = np.argsort(found.cv_results_[rank], kind="stable")[:MOST_TOLD].tolist()
    cells = [[found.cv_results_[name][number] for name in (rank, *known)] for number in order]
    lines = [tuple(f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in line) for line in cells]
    headings = ("rank", *(name.removeprefix("param_").replace("_", " ") for name in known))
    return [ReportSection("Grid", (told,), table=ReportTable(headings, lines))]


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
    return facts + [("Grown by", value_in_words(own)) for own in (grown if isinstance(grown, list) else [])]


# --- how good it is ---------------------------------------------------------------------------------------


def _error(forest: Forest, truth: Truth | None) -> list[ReportSection]:
    """The error out of bag over the trees; without a truth what the fit has recorded, if it has."""
    title, found, learned = "Error out of bag", Estimates.of(forest.provenance), forest.meaning.leaf.learned
    facts = []
    if found.oob_score is not None:  # the attribute `oob_score_` of its estimator
        kinds = (
            (forest.leaves is None, "Pairs classified correctly"),
            (found.oob_rmse is not None, "R² of distances"),
            (learned is TruthKind.LABELS, "Objects classified correctly"),
            (True, "R² of targets"),
        )
        facts.append((next(words for is_it, words in kinds if is_it), in_digits(found.oob_score)))
    if found.oob_rmse is not None:
        facts.append(("RMSE of distances", in_digits(found.oob_rmse)))
    if found.pruning is not None:
        facts.append(("Pruned", f"to a gain of {found.pruning.gain:g}"))
    if truth is None:
        return [ReportSection(title, (f"As the fit has recorded it. {_cure(forest)}",), facts)] if facts else []
    curve = error_curve(forest, truth)
    last = in_digits(float(curve.error[-1]))
    told = (f"{_capitalized(curve.measure)}: {last} by all {counted(forest.n_trees, 'tree')}, of {curve.judged}.",)
    places = np.unique(np.linspace(0, len(curve.error) - 1, MOST_LINES).astype(np.int64)).tolist()
    table = ReportTable(
        ("trees", curve.measure), [(f"{curve.n_trees[k]:,}", in_digits(float(curve.error[k]))) for k in places]
    )
    chart = _chart(title, "draw_line", curve.n_trees, curve.error, "trees", curve.measure)
    return [ReportSection(title, told, facts, chart, table)]


def _cure(forest: Forest) -> str:
    """What draws the error of a forest out of bag."""
    of_labels = forest.meaning.leaf.learned in (TruthKind.LINKS, TruthKind.NOTHING)
    given = "labels of the training rows" if of_labels else "what the forest was taught"
    return f"Give {given} as `--truth` to draw it."


def _curve(estimator: Any, truth: Truth | None) -> list[ReportSection]:
    """The ROC curve of pairs out of bag, or of a ranking forest that of its training pairs; none without either."""
    if truth is not None and truth.kind is TruthKind.LABELS:
        title, how = "ROC of pairs out of bag", "pairs of one label are similar"
        curve = out_of_bag_roc(estimator.forest_, truth)
    elif isinstance(estimator, TreeRank):
        title, how = "ROC of the training pairs", "the mean of the trees, better than of new pairs"
        curve = estimator.roc_
    else:
        return []
    pairs = zip(RATES, curve.at(RATES).tolist(), strict=True)
    table = ReportTable(
        ("false positive rate", "true positive rate"),
        [(f"{100 * rate:g}%", f"{100 * found:.1f}%") for rate, found in pairs],
    )
    chart = _chart(title, "draw_roc", [curve], (), False, "", "pairs")
    return [ReportSection(title, (f"Area {curve.auc:.4f}; {how}.",), chart=chart, table=table)]


# --- what it has learned ----------------------------------------------------------------------------------


def _importances(estimator: Any) -> ReportSection:
    """The features by importance."""
    title = "Importances"
    if not reads_features(estimator):
        return ReportSection(title, ("Splits read similarities to whole objects, so no feature has an importance.",))
    try:
        found = importances_of(estimator)
    except InputError as error:
        return ReportSection(title, (_capitalized(f"{error}."),))
    total = np.sum([*found.parts.values()], axis=0)
    most = np.argsort(-total, kind="stable")[:MOST_TOLD].tolist()
    columns = {"share": total, **(found.parts if len(found.parts) > 1 else {})}
    if found.errors is not None:
        columns["standard error"] = found.errors
    lines = []
    for k in most:
        name = found.names[k] if found.names else f"feature {k}"
        lines.append((name, *(f"{100 * values[k]:.1f}%" for values in columns.values())))
    if len(total) > len(most):
        rest = f"{100 * (total.sum() - total[most].sum()):.1f}%"
        lines.append((f"the other {len(total) - len(most):,}", rest, *[""] * (len(columns) - 1)))
    table = ReportTable(("feature", *columns), lines, [float(total[k] / total.max()) for k in most])
    return ReportSection(title, (f"Shares of {found.of}.",), table=table)


def _shapes(forest: Forest) -> list[ReportSection]:
    """How deep leaves lie, and what they hold."""
    shapes, things = TreeShapes.of(forest), "pairs" if forest.leaves is None else "rows"
    leaves = counted(len(shapes.depths), "leaf", "leaves")
    found = (
        ("Depths of leaves", "depth", shapes.depths, shapes.depths_told()),
        ("Sizes of leaves", f"{things} in bag", shapes.sizes, shapes.sizes_told()),
    )
    return [
        ReportSection(
            title,
            (f"{leaves}: median {in_digits(float(np.median(own)))}, {own.min():,} to {own.max():,}.",),
            chart=_chart(title, "draw_counts", counts, name, "leaves"),
            table=ReportTable((name, "leaves"), [(what, f"{n:,}") for what, n in counts]),
        )
        for title, name, own, counts in found
    ]


def _proximity(estimator: Any) -> ReportSection:
    """How near the training rows are, by cluster."""
    title, forest = "Proximity by cluster", estimator.forest_
    try:
        found = clustered(closeness_of_some(estimator))
    except InputError as error:
        return ReportSection(title, (_capitalized(f"{error}."),))
    n, rows = len(found.order), f"{_noun(forest)}s"
    which = f"{n:,} of the {forest.n_training:,} {rows}, drawn at random," if n < forest.n_training else f"All {rows}"
    kind = "the share of trees in which two share a leaf" if forest.leaves is not None else "1 \N{MINUS SIGN} distance"
    lines = []
    for cluster, size in enumerate(found.sizes.tolist()):
        own = found.codes == cluster
        within, beyond = found.proximity[np.ix_(own, own)], found.proximity[np.ix_(own, ~own)]
        others = f"{(within.sum() - np.trace(within)) / (size * (size - 1)):.3f}" if size > 1 else ""
        lines.append((f"{cluster + 1}", f"{size:,}", others, f"{beyond.mean():.3f}" if beyond.size else ""))
    return ReportSection(
        title,
        (f"{which} against each other: {kind}. Dark is 0, bright is 1.",),
        chart=_chart(title, "draw_proximity", found, ""),
        table=ReportTable(("cluster", "rows", "mean within", "mean to others"), lines),
    )


# --- words ------------------------------------------------------------------------------------------------


def _entries(forest: Forest, name: str) -> dict[str, Any]:
    """An entry of the provenance, which anybody may have written."""
    found = forest.provenance.get(name)
    return found if isinstance(found, dict) else {}


def _capitalized(text: str) -> str:
    """A text that begins with a capital letter; its names stay as they are."""
    return text[:1].upper() + text[1:]


def _some(names: Sequence[str], most: int = MOST_TOLD) -> str:
    """The first names, and how many more there are."""
    return ", ".join(names[:most]) + (f", and {len(names) - most:,} more" if len(names) > most else "")


# --- how it is grown again ---------------------------------------------------------------------------------


def _in_python(estimator: Any, forest: Forest) -> str:
    """Lines that grow the forest again."""
    kind, learned = type(estimator).__name__, forest.meaning.leaf.learned
    shape = f"{counted(forest.n_training, 'row')}, {counted(forest.n_features, 'column')}"
    imported, data, names = [kind], [_datum("X", forest, "matrix", shape)], ["X"]
    if learned in TAUGHT:
        name, what, relation = TAUGHT[learned]
        data.append(_datum(name, forest, str(learned), what))
        is_told = isinstance(estimator, SMERF)
        imported += [relation.partition("(")[0]] if is_told else []
        names.append(relation if is_told else name)
    elif learned is TruthKind.LINKS:
        data.append(_datum("y", forest, "labels", "labels; known pairs go into fit_pairs(X, pairs, similar)"))
        names.append("y")
    if told := merged_in_words(forest.provenance):
        data.append(f"# {told}: one fit for each seed, and distforest.merge of them all")
    if OF_PAIRS.key in forest.provenance:
        data.append("# the given pairs had weights: fit_pairs(..., pair_weight=w) gives them again")
    if forest.sample_weight is not None:
        data.append("# training rows had weights: sample_weight=w gives them again")
    if "similarity" in forest.provenance:
        data.append("# similarities were asked of a function: similarity=Lazy(...) gives it again")
    grown = f"forest = {kind}({_arguments(estimator)}).fit({', '.join(names)})"
    check = f'assert forest.digest_ == "{forest.digest}"'
    return "\n".join([f"from distforest import {', '.join(imported)}", "", *data, grown, check])


def _datum(name: str, forest: Forest, entry: str, what: str) -> str:
    """A line that names data: by the address and the digest that the forest keeps, or else by what they are."""
    inputs = forest.provenance.get("inputs")
    known = inputs.get(entry) if isinstance(inputs, dict) else None
    if not isinstance(known, dict) or not isinstance(known.get("address"), str):
        return f"{name} = ...  # {what}"
    return f"{name} = {known['address']!r}  # {what}, sha256 {known.get('sha256')}"


def _arguments(estimator: Any) -> str:
    """The arguments of an estimator that are not its defaults."""
    default = type(estimator)().get_params()
    given = {name: ... if isinstance(value, np.ndarray) else value for name, value in estimator.get_params().items()}
    changed = {name: value for name, value in given.items() if value is ... or value != default[name]}
    return ", ".join(f"{name}={'...' if value is ... else repr(value)}" for name, value in changed.items())


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
