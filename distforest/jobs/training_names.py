"""The names of a forest's training rows, which stand in a table of neighbours instead of their numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from distforest.amounts import counted
from distforest.errors import InputError
from distforest.forest import scoring
from distforest.forest.pairs.pair_scores import Points, is_over_pairs, points_at, training_points
from distforest.jobs.answers import ANSWERS
from distforest.jobs.asked import has_further_columns, points_of, recoded
from distforest.sources.files.formats import is_file_of_rows
from distforest.sources.files.ids import read_ids, rows_of_ids
from distforest.sources.opening import open_matrix, read_rows

if TYPE_CHECKING:
    from distforest.forest.forest import Forest
    from distforest.jobs.question import Question

COMPARED = 1 << 10
"""Rows that are compared with those of the training, at most: names of other rows would be wrong without a word."""


def training_names(question: Question, forest: Forest) -> np.ndarray | None:
    """The names of the training rows in their order, shape (n_training,); None: no answer has them.

    Raises
    ------
    InputError
        There are no names at ``training_ids``, or they are those of other rows than the forest has learned from.

    Notes
    -----
    A forest does not keep its rows, but the leaf of each (over pairs, the points). So some of the rows beside the names
    walk down the trees, and must end where the training rows did. Where labels alone are named there are no such rows,
    and only their number is compared.
    """
    if question.training_ids is None or "training_ids" not in ANSWERS[question.answer].takes:
        return None
    if is_file_of_rows(question.training_ids):
        expected = "the group that `distforest ingest` has made of the training table was expected, such as wines.zarr"
        raise InputError(f"{question.training_ids}: {expected}, found a file")
    rows = rows_of_ids(question.training_ids)
    n_rows = int(open_matrix(rows).shape[0])
    if n_rows != forest.n_training:
        expected = f"the {counted(forest.n_training, 'row')} of the training were expected"
        raise InputError(f"{rows}: {expected}, found {n_rows:,}; name what {question.forest} was trained on")
    if question.callback is None and rows.endswith("/X") and not has_further_columns(forest):
        _check_same(question, forest, rows)
    return read_ids(rows)


def _check_same(question: Question, forest: Forest, address: str) -> None:
    """Refuse rows that are not those of the training, as far as some of them show; raises InputError."""
    numbers = np.unique(np.linspace(0, forest.n_training - 1, COMPARED).astype(np.int64))
    rows = recoded(forest, address, read_rows(address, numbers))
    if is_over_pairs(forest):
        learned, found = _values(points_at(training_points(forest), numbers)), _values(points_of(forest, rows))
        strange = np.flatnonzero(~((learned == found) | (np.isnan(learned) & np.isnan(found))).all(axis=1))
    else:
        strange = scoring.strange_rows(forest, forest.source(rows), numbers)
    if len(strange):
        other = f"row {numbers[strange[0]]:,} is another"
        expected = "the rows of the training, in their order, were expected"
        raise InputError(f"{address}: {expected}, but {other}; name what {question.forest} was trained on")


def _values(points: Points) -> np.ndarray:
    """All values of some points, with the zeros of sparse ones."""
    return points if isinstance(points, np.ndarray) else points.dense(np.arange(points.shape[0], dtype=np.int32))
