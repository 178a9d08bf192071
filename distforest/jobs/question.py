"""What is asked of a sealed forest, and what the answer will look like: checked before anything is written."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from distforest.amounts import counted
from distforest.errors import InputError
from distforest.forest import scoring
from distforest.forest.leaves import Means
from distforest.forest.pairs.pair_scores import columns_of, is_over_pairs
from distforest.forest.sealed.artifact import open_forest, read_manifest
from distforest.sources.arrays import open_array
from distforest.sources.feature_names import FeatureNames
from distforest.sources.point_pairs import hold_points
from distforest.sources.readings import FEATURES, read
from distforest.sources.row_kinds import Dense
from distforest.sources.sparse_store import open_matrix, read_rows
from distforest.sources.stored import hold_stored

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from distforest.forest.forest import Forest
    from distforest.jobs.callback import Callback

ANSWERS = ("distance", "proximity", "pairs", "neighbors", "predict", "proba", "apply")
"""What can be asked: distances or proximities to rows, distances of pairs, nearest training rows, labels or means,
shares, nodes."""

ARRAYS = ("queries", "reference", "pairs", "training")
"""The arrays that a question may name."""

SAYING = ("predict", "proba")
"""Answers that follow from what the trees say."""

TO_ROWS = ("distance", "proximity")
"""Answers with a number for each training row, or each row of the reference."""

GOES_WITH = {"reference": TO_ROWS, "pairs": ("pairs",), "n_neighbors": ("neighbors",), "without_self": ("neighbors",)}
"""What only some answers take."""


@dataclass(frozen=True)
class Question:
    """What is asked of a forest.

    Attributes
    ----------
    forest
        Address of a sealed forest.
    queries
        Address of a Zarr array of rows, as `Forest.source` reads them, shape (n, n_columns); of similarities also of
        a sparse matrix in Zarr.
    answer
        One of `ANSWERS`.
    reference
        For ``"distance"`` and ``"proximity"``: address of the rows that they are taken to; the training rows by
        default.
    pairs
        For ``"pairs"``: address of the row numbers of each pair in ``queries``, shape (n_pairs, 2).
    n_neighbors
        For ``"neighbors"``.
    without_self
        For ``"neighbors"``: whether the queries are the training rows, in their order, and none is its own neighbour.
    callback
        The function that similarities are asked of; ``queries`` and ``reference`` then hold objects.
    training
        With a callback, the address of the training objects; their numbers by default.
    strict
        Whether arrays are refused of which chunks are not stored.
    max_bytes
        The most bytes that an array may announce, however few of them are stored.
    """

    forest: str
    queries: str
    answer: str
    reference: str | None = None
    pairs: str | None = None
    n_neighbors: int = 10
    without_self: bool = False
    callback: Callback | None = None
    training: str | None = None
    strict: bool = False
    max_bytes: int | None = None

    @property
    def arrays(self) -> dict[str, str]:
        """The addresses of all arrays that are read, by their names."""
        return {name: own for name in ARRAYS if (own := getattr(self, name))}

    def addresses(self) -> dict[str, str]:
        """What is read, by its name."""
        ledger = self.callback.ledger if self.callback else None
        return {"forest": self.forest, **self.arrays, **({"ledger": ledger} if ledger else {})}


def unused(answer: str, given: Mapping[str, Any]) -> dict[str, str]:
    """What was given that an answer does not take, each with the answers that do, in words.

    Examples
    --------
    >>> unused("apply", {"pairs": "pairs.zarr", "reference": None, "n_neighbors": 10})
    {'pairs': "'pairs'"}
    """
    defaults = {own.name: own.default for own in fields(Question)}
    return {
        name: " or ".join(map(repr, answers))
        for name, answers in GOES_WITH.items()
        if answer not in answers and given.get(name, defaults[name]) != defaults[name]
    }


@dataclass(frozen=True)
class Outline:
    """What will be written: the digest of the forest, arrays by name with dtype and tail, how many answers, classes.

    ``told`` is what there is to say of the arrays that are read.
    """

    digest: str
    arrays: dict[str, tuple[str, tuple[int, ...]]]
    n_answers: int
    classes: list[Any] | None
    told: tuple[str, ...] = ()


def outline(question: Question) -> Outline:
    """Open a question's forest and arrays, on whatever host it is asked; raises what `score` raises at the door."""
    for name, answers in unused(question.answer, vars(question)).items():
        asked = f"`{name}` goes with the answer {answers}"
        raise InputError(f"{asked}, found it with {question.answer!r}; leave it out, or ask for that")
    digest = str(read_manifest(question.forest)["digest"])
    told = tuple(_told_of_arrays(question))
    forest = opened(question.forest, digest)
    _hold_names(question, forest)
    arrays, n_answers = _arrays(question, forest)
    named = question.answer in SAYING and forest.meaning.classes is not None
    return Outline(digest, arrays, n_answers, forest.meaning.classes if named else None, told)


def _told_of_arrays(question: Question) -> Iterator[str]:
    """What there is to say of the arrays; one that cannot be read is told of by its name."""
    for name, address in question.arrays.items():
        try:
            yield from hold_stored([address], question.strict, question.max_bytes)
        except InputError as error:
            raise InputError(f"{name}: {error}") from error
        except OSError as error:  # another try may mend it
            raise OSError(f"{name}: {address} cannot be read: {error}") from error


@lru_cache(maxsize=2)
def opened(address: str, digest: str) -> Forest:
    """The forest, opened once in a process; ``digest`` is part of the key, so that a new forest is opened anew."""
    forest = open_forest(address)
    if forest.digest != digest:
        raise InputError(f"{address} has changed while it was scored; start again")
    return forest


def _hold_names(question: Question, forest: Forest) -> None:
    """Refuse rows whose columns are called otherwise than those that the forest has learned from, or in another order.

    Where one side has no names there is nothing to compare; further columns of points may have any name.
    """
    own = forest.feature_names
    if own is None or question.callback is not None:
        return
    look = open_matrix if isinstance(forest.meaning.rows, Dense) else open_array
    further = is_over_pairs(forest) and columns_of(forest).width > forest.n_features
    for address in (question.queries, question.reference):
        found = FeatureNames.of_array(address, look(address)) if address else None
        if address and found:
            own.hold_same(found.first(forest.n_features) if further else found, address)


def _arrays(question: Question, forest: Forest) -> tuple[dict[str, tuple[str, tuple[int, ...]]], int]:
    """The arrays of the answer by name, (dtype, tail of the shape), and the number of answers."""
    may_be_sparse = isinstance(forest.meaning.rows, Dense) and question.callback is None
    look = open_matrix if may_be_sparse else open_array
    queries = look(question.queries)
    over_pairs = is_over_pairs(forest)
    _check_rows(question, forest, tuple(queries.shape))
    n, training = int(queries.shape[0]), forest.n_training
    to_training = question.answer == "neighbors" or (question.answer in TO_ROWS and not question.reference)
    if not over_pairs and (to_training or (question.answer in SAYING and forest.nearest_votes)):
        training = forest.training_nodes.shape[1]  # refused here where they are not known, before anything is paid for
    if question.answer in TO_ROWS:
        others = int(look(question.reference).shape[0]) if question.reference else training
        return {question.answer: ("float32", (others,))}, n
    if question.answer == "pairs":
        return {"distance": ("float32", ())}, _n_pairs(question, n)
    if question.answer == "neighbors":
        _check_neighbors(question, n, training)
        tail = (question.n_neighbors,)
        return {"indices": ("int64", tail), "distance": ("float32", tail)}, n
    if question.answer == "apply":
        return {"nodes": ("int32", (forest.n_trees,))}, n
    if question.answer not in ANSWERS:
        raise InputError(f"answer must be one of {', '.join(ANSWERS)}, found {question.answer!r}")
    outputs = scoring.predicting(forest).n_outputs
    is_mean = isinstance(forest.leaf_table, Means)
    if question.answer == "proba":
        if is_mean:
            raise InputError("a forest trained on targets has no class shares; ask for 'predict'")
        return {"proba": ("float64", (outputs,))}, n
    return {"prediction": ("float64", (outputs,)) if is_mean else ("int64", ())}, n


def _check_rows(question: Question, forest: Forest, shape: tuple[int, ...]) -> None:
    """Refuse queries, of a shape, that the forest cannot read."""
    if question.callback is None and len(shape) != 2:
        asked = f"{question.queries}: rows, an array of two dimensions, were asked for"
        raise InputError(f"{asked}, found shape {shape}")
    if is_over_pairs(forest):
        _check_points(question, forest)
    elif question.callback is None:
        forest.source(read_rows(question.queries, slice(0, 1)))
    elif not isinstance(forest.meaning.rows, Dense):
        raise InputError(f"{question.forest} reads {forest.meaning.rows.kind}, it has no similarities to ask for")


def _check_points(question: Question, forest: Forest) -> None:
    """Refuse what a forest over pairs cannot answer: it has distances and neighbours of points alone."""
    if question.callback is not None:
        raise InputError(f"{question.forest} reads points, it has no similarities to ask for")
    if question.answer not in {"distance", "pairs", "neighbors"}:
        raise InputError(f"a forest over pairs answers with distance, pairs or neighbors, not with {question.answer!r}")
    points_of(forest, read_rows(question.queries, slice(0, 1)))


def points_of(forest: Forest, values: np.ndarray) -> np.ndarray:
    """Points as a forest over pairs reads them; raises InputError for another number of columns."""
    points, width = read(values, FEATURES), columns_of(forest).width
    if points.shape[1] != width:
        raise InputError(f"X has {points.shape[1]} features, but the forest is expecting {width} features as input")
    hold_points(points, columns_of(forest))
    return points


def _check_neighbors(question: Question, n_queries: int, n_training: int) -> None:
    most = n_training - question.without_self
    if not 1 <= question.n_neighbors <= most:
        raise InputError(f"n_neighbors must be in 1..{most}, found {question.n_neighbors}")
    if question.without_self and n_queries != n_training:
        raise InputError(
            f"{question.queries}: as many rows as in training, {n_training:,}, were expected, as none shall be its own "
            f"neighbour, found {counted(n_queries, 'row')}; ask about other rows without `without_self`"
        )


def _n_pairs(question: Question, n_queries: int) -> int:
    if question.pairs is None:
        raise InputError("pairs: the address of an array of row numbers, shape (n_pairs, 2), was expected")
    pairs = open_array(question.pairs)
    if len(pairs.shape) != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise InputError(
            f"{question.pairs}: integers of shape (n_pairs, 2) were expected, found {pairs.dtype} {pairs.shape}"
        )
    numbers = np.asarray(pairs[...])
    if numbers.size and not (numbers.min() >= 0 and numbers.max() < n_queries):
        raise InputError(f"{question.pairs}: row numbers must be in 0..{n_queries - 1}")
    return len(numbers)
