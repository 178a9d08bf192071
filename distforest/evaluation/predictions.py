"""Scores of predictions: accuracy, log-loss, ROC AUC, R2 and RMSE, with bootstrap intervals.

Each measure is a function of weights, one for each row: 1, or how often a resample has drawn it. What does not depend
on the weights, such as errors, is computed once for all resamples. Of pairs the points are drawn, so that a pair occurs
as often as the product of its points.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from distforest.amounts import are, counted
from distforest.errors import InputError, warn_caller
from distforest.evaluation.roc import OperatingPoint, roc_of_distances
from distforest.forest.pairs.decisions import Calibration, HeldThreshold
from distforest.forest.pairs.held_out import linked_identities
from distforest.sources.arrays import open_array, open_arrays
from distforest.sources.factors import encoded, named_classes, names_of_classes
from distforest.sources.files.bounds import quoted
from distforest.sources.files.formats import format_of, is_file_of_rows
from distforest.sources.files.ids import IDS, WHOLE, ids_beside, names_of_rows
from distforest.sources.files.table_arrays import numbers_in
from distforest.sources.files.tables import open_table, texts_in
from distforest.sources.files.text_options import TextOptions
from distforest.sources.named_links import check_named_links
from distforest.stores.addresses import naming
from distforest.stores.groups import attributes_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from distforest.arguments import Floats
    from distforest.forest.pairs.decisions import Band
    from distforest.sources.files.tables import Table
    from distforest.sources.source import Int32s

    Ints = NDArray[np.int64]
    Weighted = Callable[[NDArray[np.float64]], float]
    Measures = dict[str, tuple[Weighted, float]]
    _Pair = tuple[str, ...]

ANSWER_OF_ARRAY = {"prediction": "predict", "proba": "proba"}
"""The answer that a group contains, by the name of its array."""

LEVEL = 0.95
"""The share of resamples in an interval."""

PREDICTION, PROBA = "prediction", "proba_"
"""The column of predictions in a table of answers, and the prefix of columns of class shares."""

PAIR_LEFT, PAIR_RIGHT, PAIR_DISTANCE, NUMBERED = "left_", "right_", "distance", "row"
"""How the columns of pairs begin, which end with what names the rows, or with ``"row"`` for their numbers."""

MOST_PAIRS_SHOWN = 3
"""The most pairs that a message lists."""

WITH_POINT = re.compile(r"^(-?\d+)\.0+$")
"""A whole number as a column of floats may write it, 7.0."""


@dataclass(frozen=True)
class Measured:
    """Measure of all rows, and its interval over resamples; None where too few resamples have a value.

    ``baseline`` is the value of a constant prediction.
    """

    name: str
    value: float
    low: float | None
    high: float | None
    baseline: float


@dataclass(frozen=True)
class PredictionScores:
    """Scores of predictions: the answers, the ground truth, the number of rows or pairs, and each measure.

    ``always`` is the answer of the baseline, in words; ``roc`` are points of the ROC curve of pairs. ``held`` has for
    each false positive rate the threshold that new identities hold, or why there is none; ``band`` is the whole curve.
    """

    answer: str
    truth: str
    n_rows: int
    n_resamples: int
    measures: tuple[Measured, ...]
    always: str
    roc: tuple[OperatingPoint, ...] = ()
    held: tuple[HeldThreshold | str, ...] = ()
    band: Band | None = None


def score_predictions(
    answer: str,
    truth: str | None,
    label: str | None = None,
    target: str | None = None,
    n_resamples: int = 200,
    seed: int = 0,
    text: TextOptions | None = None,
    pairs: Sequence[str] = (),
    fpr: Sequence[float] = (),
) -> PredictionScores:
    """Score predictions against the ground truth.

    Parameters
    ----------
    answer
        Path of a table that `distforest.jobs.score_table.score_table` wrote: predictions, class shares, or distances of
        pairs. Or the address of a group in which `distforest.jobs.score.score` wrote predictions or class shares, or of
        their array.
    truth
        Path of a table, or the address of an array with a label or a target of each row. None: the table ``answer``.
        If the answers have names of rows, and the table has a column with the same title, or the array is stored
        beside such names, rows are found by name; otherwise by order.
    label, target
        Column of ``truth`` with labels, or with numbers. Pairs are similar if their points have the same label; with
        ``pairs``, ``label`` states whether a pair is similar, such as yes or no, and ``target`` is its distance.
    n_resamples
        Number of resamples of the rows, or of the points of pairs, for the intervals; 0: no intervals.
    seed
        Seed of the resamples.
    text
        Format of ``truth`` if it is a csv file; its first row names the columns.
    pairs
        The two columns of ``truth`` that identify the measured or labelled pair. (): for a ``target``, the columns with
        the same names as in ``answer``; labels are then those of points. A string may contain both names, separated by
        a comma. The direction of a pair does not matter. If a pair has several rows, measured distances are averaged,
        and labels are scored row by row.
    fpr
        False positive rates, in [0, 1], of pairs that are scored by labels. For each the answer has the largest
        distance up to which at most this share of the dissimilar pairs lies, if there is one; and the distance at
        which new identities keep the rate. An identity is a label, or what similar pairs connect.

    Raises
    ------
    InputError
        The answers have none of these forms, or the ground truth does not fit them.

    Warns
    -----
    DistforestWarning
        Some rows have a label that is not a class of the forest, so that log-loss and ROC AUC are left out; or some
        pairs were not measured, and are left out.
    """
    if label is not None and target is not None:
        raise InputError(
            f"`label` or `target` was expected, found {label!r} and {target!r}; predictions are of one kind"
        )
    if n_resamples < 0:
        raise InputError(f"n_resamples must not be negative, found {n_resamples}")
    group, _, name = answer.rstrip("/").rpartition("/")
    if is_file_of_rows(answer):
        answers = _Answers.from_table(answer)
    else:
        is_array = name in ANSWER_OF_ARRAY and _answer_in(group) == ANSWER_OF_ARRAY[name]
        answers = _Answers.from_group(group if is_array else answer)
    known = _Known(answer if truth is None else truth, label, target, text or TextOptions(), tuple(pairs))
    if pairs and not (answers.pairs and known.is_table and known.column is not None):
        expected = "`pairs` is for distances of pairs, with the `target` or the `label` of a table"
        raise InputError(f"{expected}, found {', '.join(pairs)!r} with others; leave it out")
    if known.is_table and known.column is None:
        raise InputError(
            f"{known.place}: the column of what is true was expected, found none; give `label` or `target`"
        )
    if known.is_target and answers.proba is not None:
        raise InputError(f"{known.place}: labels were expected, for class shares, found numbers; give `label`")
    if fpr and (known.is_target or not answers.pairs):
        raise InputError(
            f"`fpr` is for distances of pairs, with the `label` of their points, found {fpr[0]:g}; leave it out"
        )
    measured = _of_rows(answers, known) if not answers.pairs else _of_pairs(answers, known, fpr)
    found = np.full((n_resamples, len(measured.measures)), np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):  # such as a resample of one class alone
        for number in range(n_resamples):
            drawn = np.random.default_rng([seed, number]).integers(measured.n_points, size=measured.n_points)
            times = np.bincount(drawn, minlength=measured.n_points).astype(np.float64)
            weights = times[measured.points].prod(axis=0)
            found[number] = [measure(weights) for measure, _ in measured.measures.values()]
        every = np.ones(measured.points.shape[1])
        values = [measure(every) for measure, _ in measured.measures.values()]
    listed = [
        Measured(name, value, *_interval(in_resamples), baseline)
        for (name, (_, baseline)), value, in_resamples in zip(measured.measures.items(), values, found.T, strict=True)
    ]
    of_pairs = measured.always, measured.roc, measured.held, measured.band
    return PredictionScores(answer, known.place, len(every), n_resamples, tuple(listed), *of_pairs)


def _interval(values: Floats) -> tuple[float | None, float | None]:
    """Return the interval of most resamples; None if most have no value, such as those with a single class."""
    finite = values[np.isfinite(values)]
    if 2 * len(finite) <= len(values):
        return None, None
    low, high = np.quantile(finite, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


# --- answers and what is true -----------------------------------------------------------------------------


def _answer_in(group: str) -> object:
    """Return the answer that a group contains."""
    mark = attributes_of(group).get("distforest")
    return mark.get("answer") if isinstance(mark, dict) else None


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
        """Return the numbers, or predictions as numbers; raises InputError."""
        if self.numbers is not None:
            return self.numbers
        try:
            return np.array(self.predicted or (), str).astype(np.float64)
        except ValueError as error:
            raise InputError(
                f"{self.place}: predicted numbers were expected, found classes ({error}); give `label`"
            ) from None

    @classmethod
    def from_table(cls, address: str) -> _Answers:
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
    def from_group(cls, address: str) -> _Answers:
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
    """Ground truth: a column of a table, or an array. ``pairs`` are the columns that identify a measured pair."""

    place: str
    label: str | None
    target: str | None
    text: TextOptions
    pairs: tuple[str, ...] = ()

    @property
    def is_table(self) -> bool:
        """Whether the ground truth is a column of a table."""
        return is_file_of_rows(self.place)

    @property
    def column(self) -> str | None:
        """Column."""
        return self.label or self.target

    @property
    def is_target(self) -> bool:
        """Whether the ground truth consists of numbers to predict, not of labels."""
        if self.is_table:
            return self.target is not None
        array = open_array(self.place)
        return array.dtype.kind == "f" and "classes" not in array.attrs

    def table(self) -> Table:
        """Return the table; its first row names its columns."""
        return open_table(self.place, format_of(self.place, None), replace(self.text, header=True))

    def labels(self) -> list[str]:
        """Return the label of each row."""
        if self.is_table:
            return texts_in(self.table(), "label", str(self.column))
        array = open_array(self.place)
        codes, classes = encoded(np.asarray(array[...]).reshape(-1))
        names = named_classes(classes, names_of_classes(array))
        return [_text(names[code]) for code in codes.tolist()]

    def numbers(self) -> Floats:
        """Return the target of each row."""
        if self.is_table:
            table = self.table()
            return numbers_in(table, "target", str(self.column), table.cells)
        return np.asarray(open_array(self.place)[...], np.float64).reshape(-1)

    def order(self, answers: _Answers, n_rows: int) -> Ints:
        """Return the row of the ground truth of each answer, by name or else by number; raises InputError."""
        if self.place == answers.place:
            return np.arange(n_rows)
        if answers.names is not None and (own := self._names(answers.names[0], n_rows)) is not None:
            own, wanted = _written_alike(own, answers.names[1])
            if own == wanted:
                return np.arange(n_rows)  # so a name that occurs twice does no harm
            return _places_of(wanted, own, self.place)
        if n_rows != answers.n_rows:
            expected = f"what is true of {counted(answers.n_rows, 'row')} of {answers.place} was expected"
            cure = "give the rows that were scored, in their order"
            raise InputError(f"{self.place}: {expected}, found {n_rows:,}; {cure}")
        return np.arange(n_rows)

    def _names(self, column: str, n_rows: int) -> Sequence[str] | None:
        """Return the names of the rows in a column of the table, or beside the array; None if there are none."""
        if self.is_table:
            table = self.table()
            return texts_in(table, "id", column) if column in table.columns else None
        if (address := ids_beside(self.place, n_rows)) is None:
            return None
        ids = open_array(address)
        attributes = dict(ids.attrs)
        return names_of_rows(np.asarray(ids[...]), attributes) if attributes.get("column") == column else None


def _written_alike(names: Sequence[str], others: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return both lists of names, with 7.0 as 7 if all names of the other list are integers.

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


def _places_of(wanted: Sequence[str], names: Sequence[str], place: str) -> Ints:
    """Return the numbers of the rows with the given names; raises InputError for unknown or repeated names."""
    numbers: dict[str, int] = {}
    for number, name in enumerate(names):
        if (first := numbers.setdefault(name, number)) != number:
            expected = f"another name in each row was expected, found {quoted(name)} in rows {first:,} and {number:,}"
            cure = "score with another --id, whose names differ, or without it"
            raise InputError(f"{place}: {expected}; {cure}")
    if absent := next((name for name in wanted if name not in numbers), None):
        raise InputError(f"{place}: a row named {quoted(absent)} was expected, as in the answers, found none")
    return np.array([numbers[name] for name in wanted], np.int64)


def _text(value: object) -> str:
    """Return a class as a table writes it: 1.0 is 1."""
    return f"{value:.0f}" if isinstance(value, float) and value.is_integer() else str(value)


def _plain(label: str) -> str:
    """Normalise how a label is written: True is true, and 1.0 is 1."""
    return WITH_POINT.sub(r"\1", label.lower() if label.lower() in {"true", "false"} else label)


# --- measures ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Compared:
    """Measures of rows or pairs, each with its value for a constant prediction; and that prediction in words.

    ``points`` are the points of each row or pair, shape (1, n) or (2, n), out of ``n_points``, which resamples draw.
    """

    measures: Measures
    always: str
    points: Ints
    n_points: int
    roc: tuple[OperatingPoint, ...] = ()
    held: tuple[HeldThreshold | str, ...] = ()
    band: Band | None = None


def _area(positive: NDArray[np.bool_], scores: np.ndarray) -> Weighted:
    """Compute the area under the ROC curve: the share of positives above negatives, with ties as one half."""
    _, place = np.unique(scores, return_inverse=True)

    def area(weights: Floats) -> float:
        above = np.bincount(place, weights * positive)
        below = np.bincount(place, weights * ~positive)
        return float((np.cumsum(below) - below / 2.0) @ above / (above.sum() * below.sum()))

    return area


def _of_numbers(true: Floats, predicted: Floats) -> Measures:
    """Compute R2 and RMSE of predicted numbers, and those of the mean as the prediction."""
    squares = (true - predicted) ** 2

    def r_squared(weights: Floats) -> float:
        return float(1.0 - weights @ squares / (weights @ (true - np.average(true, weights=weights)) ** 2))

    def rmse(weights: Floats) -> float:
        return float(np.sqrt(weights @ squares / weights.sum()))

    return {"R2": (r_squared, 0.0), "RMSE": (rmse, float(true.std()))}


def _correlation_of_ranks(true: Floats, predicted: Floats) -> Weighted:
    """Compute Spearman's correlation; equal numbers have the mean of their ranks."""
    places = [np.unique(values, return_inverse=True)[1] for values in (true, predicted)]

    def correlation(weights: Floats) -> float:
        counts = [np.bincount(place, weights) for place in places]
        ranks = [(np.cumsum(count) - count / 2.0)[place] for count, place in zip(counts, places, strict=True)]
        one, other = (rank - np.average(rank, weights=weights) for rank in ranks)
        return float(weights @ (one * other) / np.sqrt((weights @ one**2) * (weights @ other**2)))

    return correlation


def _of_rows(answers: _Answers, known: _Known) -> _Compared:
    """Compute the measures of predictions of rows."""
    if known.is_target:
        numbers = known.numbers()
        true = numbers[known.order(answers, len(numbers))]
        measures, always = _of_numbers(true, answers.as_numbers()), "the mean"
    else:
        labels = known.labels()
        true_labels = [labels[row] for row in known.order(answers, len(labels))]
        measures, always = _of_labels(answers, true_labels, known.place)
    return _Compared(measures, always, np.arange(answers.n_rows)[None], answers.n_rows)


def _of_labels(answers: _Answers, true: Sequence[str], place: str) -> tuple[Measures, str]:
    """Compute (balanced) accuracy, and for class shares log-loss and ROC AUC of each class against all others.

    The answer for all rows is the largest class, or as shares those of all classes.
    """
    proba, classes = answers.proba, list(answers.classes)
    predicted = [classes[k] for k in proba.argmax(axis=1)] if proba is not None else list(answers.predicted or ())
    present, counts = np.unique(np.array(true), return_counts=True)
    if not set(true) & {*predicted, *classes}:
        found = f"found {quoted(true[0])} among the labels, and {quoted(predicted[0])} among the predictions"
        true, predicted, classes = ([_plain(label) for label in labels] for labels in (true, predicted, classes))
        if not set(true) & {*predicted, *classes}:
            raise InputError(f"{place}: labels of the classes that are predicted were expected, {found}")
    names = [*classes, *sorted({*true, *predicted} - set(classes))]
    number = {name: code for code, name in enumerate(names)}
    codes, guesses = (np.array([number[label] for label in labels]) for labels in (true, predicted))
    is_right, of_all = codes == guesses, counts / counts.sum()

    def balanced(weights: Floats) -> float:
        of_class = np.bincount(codes, weights)
        return float(np.mean(np.bincount(codes, weights * is_right)[of_class > 0] / of_class[of_class > 0]))

    measures: Measures = {
        "accuracy": (lambda weights: float(np.average(is_right, weights=weights)), float(of_all.max())),
        "balanced accuracy": (balanced, 1 / len(present)),
    }
    always = f"{quoted(str(present[counts.argmax()]))}, the largest class"
    if proba is None:
        return measures, always
    if strange := sorted(set(true) - set(classes)):
        left_out = "so log-loss and ROC AUC are left out; drop its rows"
        warn_caller(f"{place}: {quoted(strange[0])} is no class of the forest, {left_out}")
        return measures, always
    shares = proba / proba.sum(axis=1, keepdims=True)
    losses = -np.log(np.clip(shares[np.arange(len(codes)), codes], np.finfo(shares.dtype).eps, None))
    areas = [_area(codes == k, shares[:, k]) for k in ([1] if len(classes) == 2 else range(len(classes)))]
    return measures | {
        "log-loss": (
            lambda weights: float(np.average(losses, weights=weights)),
            float(-(of_all * np.log(of_all)).sum()),
        ),
        "ROC AUC": (lambda weights: float(np.mean([area(weights) for area in areas])), 0.5),
    }, always


def _of_pairs(answers: _Answers, known: _Known, fpr: Sequence[float]) -> _Compared:
    """Compute the ROC AUC of distances of pairs by the labels of their points, without pairs of equal points.

    If the distances of pairs are known, they are compared with these, as in `_of_measured`.
    """
    assert answers.pairs is not None  # noqa: S101  (the caller has looked)
    if known.is_target:
        return _of_measured(answers, known)
    if known.pairs:
        return _of_links(answers, known, fpr)
    labels = np.array(known.labels())
    word, *sides = answers.pairs
    if word != NUMBERED and not known.is_table:
        raise InputError(
            f"{known.place}: a table with the column {quoted(word)} was expected, as pairs name their points"
        )
    names = [str(number) for number in range(len(labels))] if word == NUMBERED else texts_in(known.table(), "id", word)
    names, wanted = _written_alike(names, [name for side in sides for name in side])
    points = _places_of(wanted, names, known.place).reshape(2, -1)
    apart = points[0] != points[1]
    points = points[:, apart]
    similar, distance = labels[points[0]] == labels[points[1]], answers.as_numbers()[apart]
    return _by_area(known.place, similar, distance, fpr, points, encoded(labels)[0])


def _by_area(
    place: str,
    similar: NDArray[np.bool_],
    distance: Floats,
    fpr: Sequence[float],
    points: Ints,
    identities: Int32s,
) -> _Compared:
    """ROC AUC of distances of pairs, and the points of the curve at some false positive rates.

    ``identities`` are those of all points, of which ``points`` has two numbers for each pair.
    """
    if similar.all() or not similar.any():
        raise InputError(f"{place}: similar and dissimilar pairs were expected, found pairs of one kind")
    found = _Compared({"ROC AUC": (_area(similar, -distance), 0.5)}, "the same distance", points, len(identities))
    if not fpr:
        return found
    calibration, held = Calibration(distance, similar, identities[points.T]), list[HeldThreshold | str]()
    for rate in fpr:
        try:
            held.append(calibration.decision(rate))
        except InputError as error:
            held.append(str(error))
    roc = tuple(roc_of_distances(similar, distance, fpr)[1])
    return replace(found, roc=roc, held=tuple(held), band=calibration.roc_band())


def _of_links(answers: _Answers, known: _Known, fpr: Sequence[float]) -> _Compared:
    """Compute the ROC AUC of distances of pairs that a table labels, row by row; warns of other pairs."""
    table, asked, labelled = _pairs_in_table(answers, known)
    codes, names = encoded(texts_in(table, "label", str(known.label)))
    with naming(known.place, "similar"):
        check_named_links(names if len(names) > 1 else None)
    _warn_of_lacking(answers, known, asked, labelled)
    distances = dict(zip(asked, answers.as_numbers().tolist(), strict=True))
    rows = [row for row, pair in enumerate(labelled) if pair in distances and pair[0] != pair[1]]
    found = [labelled[row] for row in rows]
    points, places = np.unique(np.array(found), return_inverse=True)
    distance = np.array([distances[pair] for pair in found])
    places, similar = places.reshape(-1, 2), codes[rows] == 1
    identities = linked_identities(places.astype(np.int32), similar, len(points))
    return _by_area(known.place, similar, distance, fpr, places.T, identities)


def _of_measured(answers: _Answers, known: _Known) -> _Compared:
    """Compute rank correlation, R2 and RMSE of distances of measured pairs; warns of other pairs."""
    asked, measured = _measured_distances(answers, known)
    _warn_of_lacking(answers, known, asked, measured)
    rows = [row for row, pair in enumerate(asked) if pair in measured and pair[0] != pair[1]]
    true = np.array([measured[asked[row]] for row in rows])
    predicted = answers.as_numbers()[rows]
    names, points = np.unique(np.array([asked[row] for row in rows]), return_inverse=True)
    measures = {"Spearman": (_correlation_of_ranks(true, predicted), 0.0), **_of_numbers(true, predicted)}
    return _Compared(measures, "the mean distance", points.reshape(-1, 2).T, len(names))


def _warn_of_lacking(answers: _Answers, known: _Known, asked: list[_Pair], predicted: Collection[_Pair]) -> None:
    """Warn of pairs of the answers without ground truth; raises InputError if no pair has any."""
    here, apart = set(predicted), [pair for pair in asked if pair[0] != pair[1]]
    lacking, column = [pair for pair in apart if pair not in here], quoted(str(known.column))
    if len(lacking) == len(apart):
        one, other = (" and ".join(map(quoted, pair)) for pair in (asked[0], next(iter(predicted))))
        raise InputError(
            f"{known.place}: {column} of the pairs of {answers.place} was expected, found none of them; "
            f"its first pair is {one}, and here {other}"
        )
    if lacking:
        listed = ", ".join(" and ".join(map(quoted, pair)) for pair in lacking[:MOST_PAIRS_SHOWN])
        found = f"{len(lacking):,} of {counted(len(asked), 'pair')} of {answers.place} {are(len(lacking))} left out"
        warn_caller(f"{known.place}: {found}, without {column} here, such as {listed}")


def _measured_distances(answers: _Answers, known: _Known) -> tuple[list[_Pair], dict[_Pair, float]]:
    """Return the pairs of the answers, and the mean distance of each measured pair; raises InputError."""
    table, asked, measured = _pairs_in_table(answers, known)
    values = numbers_in(table, "target", str(known.target), table.cells, with_missing=True)
    found_values: dict[_Pair, list[float]] = {}
    for pair, value in zip(measured, values.tolist(), strict=True):
        if not np.isnan(value):
            found_values.setdefault(pair, []).append(value)
    if not found_values:
        raise InputError(f"{known.place}: measured pairs were expected, found none")
    return asked, {pair: float(np.mean(of_pair)) for pair, of_pair in found_values.items()}


def _pairs_in_table(answers: _Answers, known: _Known) -> tuple[Table, list[_Pair], list[_Pair]]:
    """Return the table of the ground truth, the pairs of the answers, and those of its rows; raises InputError."""
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
    return table, _pairs_in_order(wanted), _pairs_in_order(names)


def _pairs_in_order(names: Sequence[str]) -> list[_Pair]:
    """Return pairs from all first names followed by all second ones, with the names of each pair in order."""
    half = len(names) // 2
    return [tuple(sorted(pair)) for pair in zip(names[:half], names[half:], strict=True)]
