# ruff: noqa: PLC0415
"""The answers that a forest can give, one row for each.

A function that computes an answer has its imports inside, so that the command line gets the names without them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from distforest.distance_sides import ONE
from distforest.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

    from distforest.forest.forest import Forest
    from distforest.jobs.question import Question
    from distforest.jobs.task_data import TaskData

    Form = tuple[str, tuple[int, ...]]
    """The dtype of an array, and the shape of one row of it."""

    Values = tuple[np.ndarray, ...]
    """The arrays of an answer, for the rows of a task."""


class Survey(NamedTuple):
    """What decides the form of an answer; ``n_others`` is the number of rows that queries are compared with."""

    forest: Forest
    question: Question
    n_others: int


class Array(NamedTuple):
    """An array that an answer writes; it has a row for each query or pair."""

    name: str
    form: Callable[[Survey], Form]


@dataclass(frozen=True)
class Answer:
    """One answer that a forest can give.

    Attributes
    ----------
    name
        Its name in a question.
    arrays
        The arrays that it writes, each named as the answer or as one of
        `distforest.stores.outputs.ARRAYS_OF_ANSWERS`.
    work
        Computes the arrays, in their order, for the rows of a task.
    over_pairs
        The same for points and a forest over pairs; None if such a forest does not give this answer.
    takes
        Which of a question's ``reference``, ``pairs``, ``n_neighbors``, ``without_self``, ``share``,
        ``training_ids``, ``sides`` and ``distances`` it reads.
        With ``pairs`` it has a row for each pair, otherwise for each query.
    to_training
        Whether queries are compared with the training rows, if there is no reference.
    is_predicted
        Whether it is a prediction of the trees, of classes or targets.
    is_graph
        Whether its arrays are those of a sparse matrix, with as many entries in each row.
    """

    name: str
    arrays: tuple[Array, ...]
    work: Callable[[TaskData], Values]
    over_pairs: Callable[[TaskData], Values] | None = None
    takes: tuple[str, ...] = ()
    to_training: bool = False
    is_predicted: bool = False
    is_graph: bool = False

    @property
    def of_pairs(self) -> bool:
        """Whether there is a row for each pair."""
        return "pairs" in self.takes


# --- what the arrays of an answer look like -------------------------------------------------------------------


def _to_others(of: Survey) -> Form:
    return "float32", (of.n_others,)


def _one_number(_of: Survey) -> Form:
    return "float32", ()


def _form_of_error(of: Survey) -> Form:
    from distforest.forest.standard_errors import TreeDraws

    TreeDraws.from_forest(of.forest)
    return "float32", ()


def _form_of_decision(of: Survey) -> Form:
    if of.forest.decision_threshold is None:
        raise InputError("a forest with a threshold was expected; call set_threshold before it is saved")
    return "bool", ()


def _form_of_probability(of: Survey) -> Form:
    if of.forest.calibration is None:
        raise InputError("a calibrated forest was expected; call calibrate before it is saved")
    return "float64", ()


def _to_neighbors(of: Survey) -> Form:
    return "float32", (of.question.n_neighbors,)


def _form_of_prediction(of: Survey) -> Form:
    from distforest.forest.scoring import predicting

    leaf_table = predicting(of.forest)
    return ("float64", (leaf_table.n_outputs,)) if _is_mean(of.forest) else ("int64", ())


def _form_of_shares(of: Survey) -> Form:
    from distforest.forest.scoring import predicting

    leaf_table = predicting(of.forest)
    if _is_mean(of.forest):
        raise InputError("a forest trained on targets has no class shares; ask for 'predict'")
    return "float64", (leaf_table.n_outputs,)


def _is_mean(forest: Forest) -> bool:
    from distforest.forest.leaves import ClassCounts

    return not isinstance(forest.leaf_table, ClassCounts)


# --- how they are computed ------------------------------------------------------------------------------------


def _distances(data: TaskData) -> Values:
    from distforest.forest import scoring
    from distforest.forest.one_sided import distance_to_training

    if scoring.uses_proximity(data.forest):
        return (1.0 - _proximities(data)[0],)
    if data.own is not None and data.own.sides == ONE:
        with data.own.watched(data.forest) as truth:
            return (distance_to_training(data.forest, data.nodes, truth),)
    return (data.to_others(lambda others: scoring.distance(data.forest, data.nodes, others)),)


def _proximities(data: TaskData) -> Values:
    """The shares of trees in which queries end in the same leaf as training rows, or rows of the reference."""
    from distforest.forest.proximities import proximity

    if data.question.reference is None:
        return (proximity(data.nodes, data.forest.training_index),)
    return (data.to_others(lambda others: proximity(data.nodes, others)),)


def _distances_of_points(data: TaskData) -> Values:
    from distforest.forest.pairs import pair_scores

    others = data.points("reference", slice(None)) if data.question.reference else None
    others = pair_scores.training_points(data.forest) if others is None else others
    return (pair_scores.distance(data.forest, data.points("queries", data.span), others),)


def _distances_of_pairs(data: TaskData) -> Values:
    from distforest.forest import scoring

    return (scoring.pair_distance(data.forest, *data.nodes_of_pairs()),)


def _distances_with_errors(data: TaskData) -> Values:
    from distforest.forest import scoring
    from distforest.forest.standard_errors import pair_standard_errors

    sides = data.nodes_of_pairs()
    return scoring.pair_distance(data.forest, *sides), pair_standard_errors(data.forest, *sides)


def _distances_of_pairs_of_points(data: TaskData) -> Values:
    from distforest.forest.pairs import pair_scores

    rows, (left, right) = data.pairs()
    points = data.points("queries", rows)
    pairs = pair_scores.pairs_of(pair_scores.columns_of(data.forest), points, points)
    return (pair_scores.pair_distance(data.forest, pairs.of_pairs(left, right)),)


def _decisions(data: TaskData) -> Values:
    return (_distances_of_pairs_of_points(data)[0] <= data.forest.decision_threshold,)


def _probabilities(data: TaskData) -> Values:
    assert data.forest.calibration is not None  # noqa: S101  (the form of the answer was asked first)
    return (data.forest.calibration.probability(_distances_of_pairs_of_points(data)[0], data.question.share),)


def _neighbors(data: TaskData) -> Values:
    from distforest.forest import scoring
    from distforest.forest.proximities import nearest

    question, forest = data.question, data.forest
    n_found = question.n_neighbors + question.without_self
    if scoring.uses_proximity(forest):
        training = forest.training_index if data.part_rows is None else forest.training_nodes
        shares, indices = nearest(data.nodes, training, n_found, False, part_rows=data.part_rows)
        distances = 1.0 - shares
    else:
        distances, indices = scoring.kneighbors(forest, data.nodes, forest.training_nodes, n_found, False)
    if question.without_self:
        kept = indices != data.numbers[:, None]
        kept[kept.all(axis=1), -1] = False  # a row that is not among its own nearest rows
        shape = len(indices), question.n_neighbors
        distances, indices = distances[kept].reshape(shape), indices[kept].reshape(shape)
    return indices, distances


def _neighbors_of_points(data: TaskData) -> Values:
    from distforest.forest.pairs import pair_neighbors

    points, question = data.points("queries", data.span), data.question
    numbers = data.numbers if question.without_self else None
    distances, indices = pair_neighbors.kneighbors(data.forest, points, question.n_neighbors, numbers)
    return indices, distances


def _predict(data: TaskData) -> Values:
    from distforest.forest.scoring import predict

    return (predict(data.forest, data.nodes, data.voters),)


def _predict_labels(data: TaskData) -> Values:
    from distforest.forest.scoring import largest_share

    [prediction] = _predict(data)
    return (prediction if _is_mean(data.forest) else largest_share(prediction),)


# --- the table ------------------------------------------------------------------------------------------------

_TABLE = (
    Answer(
        "distance",
        (Array("distance", _to_others),),
        _distances,
        _distances_of_points,
        takes=("reference", "sides", "distances"),
        to_training=True,
    ),
    Answer("proximity", (Array("proximity", _to_others),), _proximities, takes=("reference",), to_training=True),
    Answer(
        "pairs",
        (Array("distance", _one_number),),
        _distances_of_pairs,
        _distances_of_pairs_of_points,
        takes=("pairs",),
    ),
    Answer(
        "standard_error",
        (Array("distance", _one_number), Array("standard_error", _form_of_error)),
        _distances_with_errors,
        takes=("pairs",),
    ),
    Answer("decision", (Array("decision", _form_of_decision),), _decisions, _decisions, takes=("pairs",)),
    Answer(
        "probability",
        (Array("probability", _form_of_probability),),
        _probabilities,
        _probabilities,
        takes=("pairs", "share"),
    ),
    Answer(
        "neighbors",
        (Array("indices", lambda of: ("int64", (of.question.n_neighbors,))), Array("distance", _to_neighbors)),
        _neighbors,
        _neighbors_of_points,
        takes=("n_neighbors", "without_self", "training_ids"),
        to_training=True,
    ),
    Answer(
        "graph",
        (Array("indices", lambda of: ("int32", (of.question.n_neighbors,))), Array("data", _to_neighbors)),
        _neighbors,
        _neighbors_of_points,
        takes=("n_neighbors", "without_self"),
        to_training=True,
        is_graph=True,
    ),
    Answer("predict", (Array("prediction", _form_of_prediction),), _predict_labels, is_predicted=True),
    Answer("proba", (Array("proba", _form_of_shares),), _predict, is_predicted=True),
    Answer("apply", (Array("nodes", lambda of: ("int32", (of.forest.n_trees,))),), lambda data: (data.nodes.T,)),
)
ANSWERS = {row.name: row for row in _TABLE}
"""All answers by their names, in the order in which they are listed."""
