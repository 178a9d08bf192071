"""Predictions judged by what is true: accuracy, log-loss, ROC AUC, R2 and RMSE, with intervals by bootstrap.

The measures are scikit-learn's and SciPy's, each as a function of the rows that it judges. A resample has n rows, drawn
with replacement; of pairs the points are drawn, so that a pair occurs as often as the product of its points.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import ConstantInputWarning, spearmanr
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.metrics import (
    accuracy_score,
    log_loss,
    r2_score,
    recall_score,
    roc_auc_score,
    root_mean_squared_error,
)

from distforest.amounts import are, counted
from distforest.errors import InputError, warn_caller
from distforest.sources.arrays import open_array, open_arrays
from distforest.sources.factors import encoded, named_classes, names_of_classes
from distforest.sources.files.bounds import quoted
from distforest.sources.files.formats import format_of, is_file_of_rows
from distforest.sources.files.ids import IDS, WHOLE, ids_beside, names_of_rows
from distforest.sources.files.table_arrays import numbers_in
from distforest.sources.files.tables import open_table, texts_in
from distforest.sources.files.text_options import TextOptions
from distforest.stores.groups import attributes_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from distforest.arguments import Floats
    from distforest.sources.files.tables import Table

    Ints = NDArray[np.int64]
    Measure = Callable[[Ints], float]
    _Pair = tuple[str, ...]

ANSWER_OF_ARRAY = {"prediction": "predict", "proba": "proba"}
"""The answer that a group holds, by the name of its array."""

LEVEL = 0.95
"""The share of resamples whose values lie in an interval."""

PREDICTION, PROBA = "prediction", "proba_"
"""The column of predictions in a table of answers, and how those of class shares begin."""

PAIR_LEFT, PAIR_RIGHT, PAIR_DISTANCE, NUMBERED = "left_", "right_", "distance", "row"
"""How the columns of pairs begin, which end with what names the rows, or with ``"row"`` for their numbers."""


PAIRS_TOLD = 3
"""The most pairs that a message lists."""

WITH_POINT = re.compile(r"^(-?\d+)\.0+$")
"""A whole number as a column of floats may write it, 7.0."""


@dataclass(frozen=True)
class Measured:
    """A measure of all rows, and the interval of its values in resamples; None where too few have a value.

    ``baseline`` is what an answer reaches that is the same for all rows.
    """

    name: str
    value: float
    low: float | None
    high: float | None
    baseline: float


@dataclass(frozen=True)
class JudgedPredictions:
    """How good predictions are: what was judged by what, how many rows or pairs, and each measure.

    ``always`` is the answer of the baseline, in words.
    """

    answer: str
    truth: str
    n_rows: int
    n_resamples: int
    measures: tuple[Measured, ...]
    always: str


@dataclass(frozen=True)
class _Baseline:
    """An answer that is the same for all rows, in words, and the value of each measure for it."""

    always: str
    values: Mapping[str, float]


def _answer_in(group: str) -> object:
    """The answer that a group says it holds."""
    mark = attributes_of(group).get("distforest")
    return mark.get("answer") if isinstance(mark, dict) else None


def _group_of(address: str) -> str:
    """The group of an array of predictions or class shares; any other address stays as it is."""
    group, _, name = address.rstrip("/").rpartition("/")
    return group if name in ANSWER_OF_ARRAY and _answer_in(group) == ANSWER_OF_ARRAY[name] else address


def judge(
    answer: str,
    truth: str | None,
    label: str | None = None,
    target: str | None = None,
    n_resamples: int = 200,
    seed: int = 0,
    text: TextOptions | None = None,
    pairs: Sequence[str] = (),
) -> JudgedPredictions:
    """Measure how good predictions are.

    Parameters
    ----------
    answer
        Path of a table that `distforest.jobs.score_table.score_table` wrote: predictions, class shares, or distances of
        pairs. Or the address of a group in which `distforest.jobs.score.score` wrote predictions or class shares, or of
        their array in it.
    truth
        Path of a table, or the address of an array with a label or a target of each row. None: the table ``answer``.
        If the answers have names of rows, and the table a column called as they are, or the array such names beside
        it, rows are found by name, else by their order.
    label, target
        Column of ``truth`` with labels, or with numbers. Pairs are similar if their points have the same label; of
        measured pairs ``target`` is the distance.
    n_resamples
        How often rows, or the points of pairs, are drawn anew for the intervals; 0: no intervals.
    seed
        Seed of these draws.
    text
        How ``truth`` is written, if it is a csv file; its first row names the columns.
    pairs
        The two columns of ``truth`` that say which pair was measured; (): as they are called in ``answer``. A string
        may hold both names, separated by a comma. A pair is the same in both directions, and the mean of its rows is
        taken.

    Raises
    ------
    InputError
        The answers are none of these, or the truth does not fit them.

    Warns
    -----
    DistforestWarning
        Some rows have a label that is no class of the forest, so that log-loss and ROC AUC are left out; or some pairs
        were not measured, and are left out.
    """
    if label is not None and target is not None:
        raise InputError(
            f"`label` or `target` was expected, found {label!r} and {target!r}; predictions are of one kind"
        )
    if n_resamples < 0:
        raise InputError(f"n_resamples must not be negative, found {n_resamples}")
    answers = _Answers.at(answer)
    known = _Known(answer if truth is None else truth, label, target, text or TextOptions(), tuple(pairs))
    if pairs and not (answers.pairs and known.is_table and target is not None):
        expected = "`pairs` is for distances of pairs, with the `target` of a table"
        raise InputError(f"{expected}, found {', '.join(pairs)!r} with others; leave it out")
    if known.is_table and known.column is None:
        raise InputError(
            f"{known.place}: the column of what is true was expected, found none; give `label` or `target`"
        )
    if known.is_target and answers.proba is not None:
        raise InputError(f"{known.place}: labels were expected, for class shares, found numbers; give `label`")
    measures, baseline, n_rows, draw = _of_pairs(answers, known) if answers.pairs else _of_rows(answers, known)
    found = np.full((n_resamples, len(measures)), np.nan)
    for number in range(n_resamples):
        if len(drawn := draw(np.random.default_rng([seed, number]))):
            found[number] = [_value(measure, drawn) for measure in measures.values()]
    every = np.arange(n_rows)
    each = zip(measures.items(), found.T, strict=True)
    measured = tuple(
        Measured(name, _value(measure, every), *_interval(values), baseline.values[name])
        for (name, measure), values in each
    )
    return JudgedPredictions(answer, known.place, n_rows, n_resamples, measured, baseline.always)


def _interval(values: Floats) -> tuple[float | None, float | None]:
    """Between which values most resamples lie; None if most have no value, such as those of one class alone."""
    finite = values[np.isfinite(values)]
    if 2 * len(finite) <= len(values):
        return None, None
    low, high = np.quantile(finite, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


# --- answers and what is true -----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Answers:
    """Answers on disk: texts or numbers of each row, or pairs with their distances; and the names of the rows."""

    place: str
    n_rows: int
    names: tuple[str, Sequence[str]] | None = None
    predicted: Sequence[str] | None = None
    numbers: Floats | None = None
    classes: tuple[str, ...] = ()
    proba: Floats | None = None
    pairs: tuple[str, Sequence[str], Sequence[str]] | None = None

    def as_numbers(self) -> Floats:
        """The numbers, or predictions as numbers; raises InputError."""
        if self.numbers is not None:
            return self.numbers
        try:
            return np.array([float(text) for text in self.predicted or ()])
        except ValueError as error:
            raise InputError(
                f"{self.place}: predicted numbers were expected, found classes ({error}); give `label`"
            ) from error

    @classmethod
    def at(cls, address: str) -> _Answers:
        """Read answers; raises InputError."""
        if is_file_of_rows(address):
            return cls._of_table(address)
        return cls._of_group(_group_of(address))

    @classmethod
    def _of_table(cls, address: str) -> _Answers:
        table = open_table(address, format_of(address, None), TextOptions())
        columns = table.columns
        word = columns[0].removeprefix(PAIR_LEFT)
        if columns == (f"{PAIR_LEFT}{word}", f"{PAIR_RIGHT}{word}", PAIR_DISTANCE):
            left, right = (texts_in(table, "answer", name) for name in columns[:2])
            return cls(
                address, len(left), pairs=(word, left, right), numbers=numbers_in(table, "answer", PAIR_DISTANCE)
            )
        first = columns[0]
        names = (first, texts_in(table, "id", first)) if first not in (NUMBERED, PREDICTION) else None
        shares = [name for name in columns if name.startswith(PROBA)]
        if PREDICTION in columns:
            texts = texts_in(table, "answer", PREDICTION)
            return cls(address, len(texts), names, predicted=texts)
        if shares:
            proba = np.stack([numbers_in(table, "answer", name) for name in shares], axis=1)
            classes = tuple(name.removeprefix(PROBA) for name in shares)
            if not np.allclose(proba.sum(axis=1), 1.0):
                raise InputError(
                    f"{address}: class shares with the sum 1 were expected, found others; keep no 'proba_...'"
                )
            return cls(address, len(proba), names, classes=classes, proba=proba)
        found = ", ".join(map(quoted, columns[:10]))
        expected = "a column 'prediction', columns 'proba_...', or 'left_...', 'right_...' and 'distance' were expected"
        raise InputError(f"{address}: {expected}, found {found}; write them with `distforest score`")

    @classmethod
    def _of_group(cls, address: str) -> _Answers:
        kind = _answer_in(address)
        if kind not in ("predict", "proba"):
            raise InputError(
                f"{address}: predictions or class shares were expected, found {kind!r}; write them with `score`"
            )
        arrays = {place.rpartition("/")[2]: array for place, array in open_arrays(address)}
        array = arrays.get("prediction" if kind == "predict" else "proba")
        if array is None:
            raise InputError(f"{address}: the array of the answer {kind!r} was expected, found none; score again")
        values, own = np.asarray(array[...]), array.attrs.get("classes")
        classes = tuple(map(_text, own)) if isinstance(own, list) else ()
        names = None
        if IDS in arrays:
            attributes = dict(arrays[IDS].attrs)
            names = str(attributes.get("column")), names_of_rows(np.asarray(arrays[IDS][...]), attributes)
        if kind == "proba":
            return cls(address, len(values), names, classes=classes, proba=values)
        if values.dtype.kind == "i":
            return cls(address, len(values), names, predicted=[classes[code] for code in values])
        if values.shape[1] != 1:
            raise InputError(f"{address}: predictions of one target were expected, found {values.shape[1]} columns")
        return cls(address, len(values), names, numbers=values[:, 0])


@dataclass(frozen=True)
class _Known:
    """What is true: a column of a table, or an array. ``pairs`` are the columns that say which pair was measured."""

    place: str
    label: str | None
    target: str | None
    text: TextOptions
    pairs: tuple[str, ...] = ()

    @property
    def is_table(self) -> bool:
        """Whether it is a column of a table."""
        return is_file_of_rows(self.place)

    @property
    def column(self) -> str | None:
        """The column."""
        return self.label or self.target

    @property
    def is_target(self) -> bool:
        """Whether it is numbers to predict, not labels."""
        if self.is_table:
            return self.target is not None
        array = open_array(self.place)
        return array.dtype.kind == "f" and "classes" not in array.attrs

    def table(self) -> Table:
        """The table; its first row names its columns."""
        return open_table(self.place, format_of(self.place, None), replace(self.text, header=True))

    def labels(self) -> list[str]:
        """The label of each row."""
        if self.is_table:
            return texts_in(self.table(), "label", str(self.column))
        array = open_array(self.place)
        codes, classes = encoded(np.asarray(array[...]).reshape(-1))
        names = named_classes(classes, names_of_classes(array))
        return [_text(names[code]) for code in codes.tolist()]

    def numbers(self) -> Floats:
        """The target of each row."""
        if self.is_table:
            table = self.table()
            return numbers_in(table, "target", str(self.column), table.cells)
        return np.asarray(open_array(self.place)[...], np.float64).reshape(-1)

    def order(self, answers: _Answers, n_rows: int) -> Ints:
        """The row in which the truth of each answer is: by name, or else by number; raises InputError."""
        if self.place == answers.place:
            return np.arange(n_rows)
        if answers.names is not None and (own := self._names(answers.names[0], n_rows)) is not None:
            own, wanted = _written_alike(own, answers.names[1])
            if own == wanted:
                return np.arange(n_rows)  # so a name that occurs twice does no harm
            return _numbers_of(wanted, _numbers_by_name(own, self.place), self.place)
        if n_rows != answers.n_rows:
            expected = f"what is true of {counted(answers.n_rows, 'row')} of {answers.place} was expected"
            cure = "give the rows that were scored, in their order"
            raise InputError(f"{self.place}: {expected}, found {n_rows:,}; {cure}")
        return np.arange(n_rows)

    def _names(self, column: str, n_rows: int) -> Sequence[str] | None:
        """The names of the rows by a column of the table, or those beside the array; None if there are none."""
        if self.is_table:
            table = self.table()
            return texts_in(table, "id", column) if column in table.columns else None
        if (address := ids_beside(self.place, n_rows)) is None:
            return None
        ids = open_array(address)
        attributes = dict(ids.attrs)
        return names_of_rows(np.asarray(ids[...]), attributes) if attributes.get("column") == column else None


def _written_alike(names: Sequence[str], others: Sequence[str]) -> tuple[list[str], list[str]]:
    """Both as they are, but 7.0 is 7 if all names of the other side are whole numbers.

    Examples
    --------
    >>> _written_alike(["7.0", "8.0"], ["8", "7"]), _written_alike(["7.0"], ["v8"])
    ((['7', '8'], ['8', '7']), (['7.0'], ['v8']))
    """
    if all(map(WHOLE.fullmatch, others)):
        names = [WITH_POINT.sub(r"\1", name) for name in names]
    if all(map(WHOLE.fullmatch, names)):
        others = [WITH_POINT.sub(r"\1", name) for name in others]
    return list(names), list(others)


def _numbers_by_name(names: Sequence[str], place: str) -> dict[str, int]:
    """The number of each row by its name; raises InputError if two have one name."""
    numbers: dict[str, int] = {}
    for number, name in enumerate(names):
        if (first := numbers.setdefault(name, number)) != number:
            expected = f"another name in each row was expected, found {quoted(name)} in rows {first:,} and {number:,}"
            cure = "score with another --id, whose names differ, or without it"
            raise InputError(f"{place}: {expected}; {cure}")
    return numbers


def _numbers_of(names: Sequence[str], numbers: dict[str, int], place: str) -> Ints:
    """The numbers of rows with these names; raises InputError."""
    if absent := next((name for name in names if name not in numbers), None):
        raise InputError(f"{place}: a row named {quoted(absent)} was expected, as in the answers, found none")
    return np.array([numbers[name] for name in names], np.int64)


def _text(value: object) -> str:
    """A class as a table writes it: 1.0 is 1."""
    return f"{value:.0f}" if isinstance(value, float) and value.is_integer() else str(value)


def _plain(label: str) -> str:
    """A label without what depends on who has written it: True is true, and 1.0 is 1."""
    if label.lower() in {"true", "false"}:
        return label.lower()
    try:
        return _text(float(label))
    except ValueError:
        return label


# --- measures ---------------------------------------------------------------------------------------------

Resample = Callable[[np.random.Generator], "Ints"]
"""The rows of a resample."""


def _value(measure: Measure, rows: Ints) -> float:
    """A measure of some rows; NaN where it has none, such as rows of one class alone."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", (UndefinedMetricWarning, ConstantInputWarning))
        return float(measure(rows))


def _of_rows(answers: _Answers, known: _Known) -> tuple[dict[str, Measure], _Baseline, int, Resample]:
    """The measures of predictions of rows."""
    if known.is_target:
        numbers = known.numbers()
        true = numbers[known.order(answers, len(numbers))]
        measures = _of_targets(true, answers.as_numbers())
        baseline = _Baseline("the mean", {"R2": 0.0, "RMSE": float(true.std())})
    else:
        labels = known.labels()
        true_labels = [labels[row] for row in known.order(answers, len(labels))]
        measures = _of_labels(answers, true_labels, known.place)
        baseline = _of_one_class(true_labels)
    n = answers.n_rows
    return measures, baseline, n, lambda rng: rng.integers(n, size=n)


def _of_targets(true: Floats, predicted: Floats) -> dict[str, Measure]:
    """R2 and RMSE of predicted targets."""
    return {
        "R2": lambda rows: r2_score(true[rows], predicted[rows]),
        "RMSE": lambda rows: root_mean_squared_error(true[rows], predicted[rows]),
    }


def _of_one_class(true: Sequence[str]) -> _Baseline:
    """The baseline of labels: always the largest class, or as shares those of all classes.

    Examples
    --------
    >>> _of_one_class(["fern", "moss", "fern", "fern"])
    _Baseline(always="'fern', the largest class", values={'accuracy': 0.75, 'balanced accuracy': 0.5, 'log-loss':
    0.56..., 'ROC AUC': 0.5})
    """
    names, counts = np.unique(np.array(true), return_counts=True)
    shares = counts / counts.sum()
    values = {"accuracy": float(shares.max()), "balanced accuracy": 1 / len(names)}
    values |= {"log-loss": float(-(shares * np.log(shares)).sum()), "ROC AUC": 0.5}
    return _Baseline(f"{quoted(str(names[counts.argmax()]))}, the largest class", values)


def _of_labels(answers: _Answers, true: Sequence[str], place: str) -> dict[str, Measure]:
    """Accuracy and balanced accuracy; of class shares also log-loss and ROC AUC, of one class against all others."""
    proba, classes = answers.proba, list(answers.classes)
    predicted = [classes[k] for k in proba.argmax(axis=1)] if proba is not None else list(answers.predicted or ())
    if not set(true) & {*predicted, *classes}:
        found = f"found {quoted(true[0])} among the labels, and {quoted(predicted[0])} among the predictions"
        true, predicted, classes = ([_plain(label) for label in labels] for labels in (true, predicted, classes))
    if not set(true) & {*predicted, *classes}:
        raise InputError(f"{place}: labels of the classes that are predicted were expected, {found}")
    names = [*classes, *sorted({*true, *predicted} - set(classes))]
    number = {name: code for code, name in enumerate(names)}
    codes, guesses = (np.array([number[label] for label in labels]) for labels in (true, predicted))
    measures: dict[str, Measure] = {
        "accuracy": lambda rows: accuracy_score(codes[rows], guesses[rows]),
        "balanced accuracy": lambda rows: recall_score(
            codes[rows], guesses[rows], labels=np.unique(codes[rows]), average="macro"
        ),
    }
    if proba is None:
        return measures
    if strange := sorted(set(true) - set(classes)):
        left_out = "so log-loss and ROC AUC are left out; drop its rows"
        warn_caller(f"{place}: {quoted(strange[0])} is no class of the forest, {left_out}")
        return measures
    shares = proba / proba.sum(axis=1, keepdims=True)
    judged = [1] if len(classes) == 2 else range(len(classes))
    return measures | {
        "log-loss": lambda rows: log_loss(codes[rows], shares[rows], labels=range(len(classes))),
        "ROC AUC": lambda rows: np.mean([roc_auc_score(codes[rows] == k, shares[rows, k]) for k in judged]),
    }


def _of_pairs(answers: _Answers, known: _Known) -> tuple[dict[str, Measure], _Baseline, int, Resample]:
    """ROC AUC of distances of pairs, which are similar if of one label; a pair of a point with itself is left out.

    Where the distance of each pair is known, it is judged as in `_of_measured`.
    """
    if known.is_target:
        return _of_measured(answers, known)
    labels = np.array(known.labels())
    assert answers.pairs is not None  # noqa: S101  (the caller has looked)
    word, *sides = answers.pairs
    if word != NUMBERED and not known.is_table:
        raise InputError(
            f"{known.place}: a table with the column {quoted(word)} was expected, as pairs name their points"
        )
    names = [str(number) for number in range(len(labels))] if word == NUMBERED else texts_in(known.table(), "id", word)
    names, wanted = _written_alike(names, [name for side in sides for name in side])
    numbers = _numbers_of(wanted, _numbers_by_name(names, known.place), known.place)
    left, right = numbers.reshape(2, -1)
    apart = left != right
    left, right = left[apart], right[apart]
    similar, distance = labels[left] == labels[right], answers.as_numbers()[apart]
    if similar.all() or not similar.any():
        raise InputError(f"{known.place}: similar and dissimilar pairs were expected, found pairs of one kind")
    measures = {"ROC AUC": lambda rows: roc_auc_score(similar[rows], -distance[rows])}
    baseline = _Baseline("the same distance", {"ROC AUC": 0.5})
    return measures, baseline, len(left), _pairs_of_drawn_points(left, right, len(labels))


def _of_measured(answers: _Answers, known: _Known) -> tuple[dict[str, Measure], _Baseline, int, Resample]:
    """Rank correlation, R2 and RMSE of distances of pairs that were measured; the others are left out, and told."""
    asked, measured = _measured_distances(answers, known)
    rows = [row for row, pair in enumerate(asked) if pair in measured and pair[0] != pair[1]]
    if not rows:
        one, other = (" and ".join(map(quoted, pair)) for pair in (asked[0], next(iter(measured))))
        raise InputError(
            f"{known.place}: distances of the pairs of {answers.place} were expected, found none of them; "
            f"its first pair is {one}, and here {other}"
        )
    if lacking := [pair for pair in asked if pair not in measured and pair[0] != pair[1]]:
        listed = ", ".join(" and ".join(map(quoted, pair)) for pair in lacking[:PAIRS_TOLD])
        found = f"{len(lacking):,} of {counted(len(asked), 'pair')} of {answers.place} {are(len(lacking))} left out"
        warn_caller(f"{known.place}: {found}, without a distance here, such as {listed}")
    true = np.array([measured[asked[row]] for row in rows])
    predicted = answers.as_numbers()[rows]
    names, points = np.unique(np.array([asked[row] for row in rows]), return_inverse=True)
    left, right = points.reshape(-1, 2).T
    measures = {
        "Spearman": lambda rows: spearmanr(predicted[rows], true[rows]).statistic,
        **_of_targets(true, predicted),
    }
    baseline = _Baseline("the mean distance", {"Spearman": 0.0, "R2": 0.0, "RMSE": float(true.std())})
    return measures, baseline, len(rows), _pairs_of_drawn_points(left, right, len(names))


def _pairs_of_drawn_points(left: Ints, right: Ints, n_points: int) -> Resample:
    """Resample points; a pair occurs as often as the product of how often its points were drawn."""

    def draw(rng: np.random.Generator) -> Ints:
        times = np.bincount(rng.integers(n_points, size=n_points), minlength=n_points)
        return np.repeat(np.arange(len(left)), times[left] * times[right])

    return draw


def _measured_distances(answers: _Answers, known: _Known) -> tuple[list[_Pair], dict[_Pair, float]]:
    """The pairs of the answers, and the mean distance of each measured pair; names are in order. Raises InputError."""
    assert answers.pairs is not None  # noqa: S101  (the caller has looked)
    if not known.is_table:
        raise InputError(f"{known.place}: a table of measured pairs was expected, as pairs name their points")
    table, word = known.table(), answers.pairs[0]
    own = f"{PAIR_LEFT}{word}", f"{PAIR_RIGHT}{word}"
    named = [table.columns[place] for place in table.positions("pairs", known.pairs)]
    columns = named or [name for name in own if name in table.columns]
    if len(columns) != 2:
        found = ", ".join(map(quoted, columns or table.columns[:10]))
        raise InputError(
            f"{known.place}: two columns that name a pair were expected, found {found}; name them as `pairs`, or give "
            "the `label` of points"
        )
    sides = [text for name in columns for text in texts_in(table, "pairs", name)]
    names, wanted = _written_alike(sides, [name for side in answers.pairs[1:] for name in side])
    values = numbers_in(table, "target", str(known.target), table.cells, with_missing=True)
    found_values: dict[_Pair, list[float]] = {}
    for pair, value in zip(_pairs_in_order(names), values.tolist(), strict=True):
        if not np.isnan(value):
            found_values.setdefault(pair, []).append(value)
    if not found_values:
        raise InputError(f"{known.place}: measured pairs were expected, found none")
    return _pairs_in_order(wanted), {pair: float(np.mean(of_pair)) for pair, of_pair in found_values.items()}


def _pairs_in_order(names: Sequence[str]) -> list[_Pair]:
    """Pairs, of which the first names come first and then the second ones; the names of each pair in order."""
    half = len(names) // 2
    return [tuple(sorted(pair)) for pair in zip(names[:half], names[half:], strict=True)]
