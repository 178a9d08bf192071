"""Scoring from files and to files: a file of queries becomes arrays for as long as they are scored, answers a table.

The arrays lie in the job's folder beside the output, so what scores is `distforest.jobs.score` in every case, in
bounded memory. A table appears when it is whole.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np

from distforest.amounts import counted
from distforest.errors import InputError, warn_caller
from distforest.forest import scoring
from distforest.forest.pairs.pair_scores import is_over_pairs, points_at, training_points
from distforest.forest.sealed.artifact import read_manifest
from distforest.jobs.answers import ANSWERS
from distforest.jobs.score import score
from distforest.jobs.task_data import has_further_columns, opened_forest, points_of, recoded
from distforest.sources.arrays import open_array, write_array, write_growing
from distforest.sources.comparisons import Records
from distforest.sources.files.formats import is_file_of_rows
from distforest.sources.files.ids import IDS, OBJECTS, ids_beside, names_of_rows, read_ids, rows_of_ids
from distforest.sources.files.pair_tables import numbers_of_rows
from distforest.sources.files.queries import (
    Queries,
    QueryOptions,
    ReadColumns,
    TableQueries,
    open_objects,
    open_queries,
    pairs_in_table,
)
from distforest.sources.files.table_writer import table_writer, written_suffix
from distforest.sources.opening import open_matrix, read_rows
from distforest.stores.building import working_folder
from distforest.stores.claims import owned
from distforest.stores.groups import seal_group
from distforest.stores.outputs import ANSWERS_KIND, check_apart, check_new, check_new_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from distforest.forest.forest import Forest
    from distforest.forest.pairs.pair_scores import Points
    from distforest.jobs.cluster import Cluster, Watch
    from distforest.jobs.question import Question
    from distforest.jobs.score import Scored
    from distforest.sources.factors import ClassName
    from distforest.sources.files.table_writer import Column
    from distforest.sources.guarded import ZarrArray
    from distforest.stores.claims import Claim

    class Sliced(Protocol):
        """An array of Arrow."""

        def __len__(self) -> int: ...

        def slice(self, offset: int, length: int) -> Sequence[str]:
            """Some of its values."""
            ...


ROW_NUMBER = "row"
"""The column of a table of answers that numbers the rows from 0, if nothing names them."""

COMPARED = 1 << 10
"""Rows that are compared with those of the training, at most: names of other rows would be wrong without a warning."""

CELLS_AT_ONCE = 1 << 20
"""Cells of a table of answers that are written together, about."""


@dataclass(frozen=True)
class ScoredTable:
    """A table of answers: its path, the forest's digest, the number of rows, and the names of the columns."""

    path: str
    digest: str
    n_rows: int
    columns: tuple[str, ...]


def score_table(
    question: Question,
    output: str,
    cluster: Cluster,
    options: QueryOptions | None = None,
    overwrite: bool = False,
    watch: Watch | None = None,
    claim: Claim | None = None,
) -> Scored | ScoredTable:
    """Answer a question from a file, or to a file, in bounded memory.

    Parameters
    ----------
    question
        What is asked; its ``queries`` may be the path of a table or of a libsvm file.
    output
        Path of the new table, with one of the suffixes `distforest.sources.files.table_writer.WRITTEN_SUFFIXES`, or the
        address of a new Zarr group. It appears when it is whole.
    cluster, watch, claim
        As for `distforest.jobs.score.score`.
    options
        How a file is read; None: ``queries`` is an address in Zarr.
    overwrite
        Whether a file, or answers, at ``output`` may be replaced.

    Raises
    ------
    ConflictError
        Another job owns the output.
    InputError
        As for `score` and `open_queries`; or a table cannot hold the answers.
    ArtifactError
        The forest is damaged.
    """
    check_output(question, output, options, overwrite)
    with owned(output, "another scoring", claim) as own, working_folder(output) as folder:
        forest = opened_forest(question.forest, str(read_manifest(question.forest)["digest"]))
        names = training_names(question, forest)
        queries: Queries | None = None
        if options is not None:
            group = folder.within("queries.zarr").address
            if question.callback is not None:
                objects = open_objects(question.queries, options)
                queries, question = objects, _objects_as_array(question, objects, group)
            else:
                rows = open_queries(question.queries, _wanted(forest, question, options), options)
                queries, question = rows, _as_arrays(question, rows, forest, group)
        if question.pairs is not None and is_file_of_rows(question.pairs):
            question = replace(question, pairs=_pairs_as_array(question, folder.within("pairs.zarr").address))
        if not written_suffix(output):
            return score(question, output, cluster, overwrite, watch, claim=own)
        done = score(question, folder.within("answers.zarr").address, cluster, watch=watch, claim=own)
        table = str(Path(folder.address, f"answers{written_suffix(output)}"))
        columns = _write(_Flat(question, done, forest.meaning.classes, queries, names), table)
        own.take()  # another job may have taken the output over, if this one was frozen for long
        check_new_file(output, overwrite)
        os.replace(table, output)
    n_rows = next(iter(done.shapes.values()))[0]
    return ScoredTable(output, done.digest, n_rows, columns)


def check_output(question: Question, output: str, options: QueryOptions | None, overwrite: bool) -> None:
    """Refuse an output that may not be replaced, or cannot hold the answers; raises InputError as `score_table`."""
    to_table = bool(written_suffix(output))
    check_apart(output, question.addresses())
    if to_table:
        check_new_file(output, overwrite)
        row, expected = ANSWERS[question.answer], f"{output}: answers with a few columns were expected"
        if row.is_graph or "reference" in row.takes:
            found = (
                "a sparse matrix"
                if row.is_graph
                else "a matrix with a column for each row that queries are compared with"
            )
            cure = "name a Zarr group, such as out.zarr, or ask for 'neighbors' or 'pairs'"
            raise InputError(f"{expected}, found {question.answer!r}, {found}; {cure}")
        if options is not None and options.id == ROW_NUMBER:
            raise InputError(f"`id`: a column called {ROW_NUMBER!r} would be taken for the numbers of rows; rename it")
    elif question.training_ids:
        expected = "`training_ids` names the neighbours in a table, such as out.csv"
        raise InputError(f"{expected}, found the Zarr group {output}; its row numbers are the places in `read_ids`")
    elif "://" not in output:  # there, answers that were begun in place may go on
        check_new(output, ANSWERS_KIND, overwrite)
    of_pairs = ANSWERS[question.answer].of_pairs
    if options is not None and options.keep and (of_pairs or not to_table):
        found = "the answer 'pairs'" if of_pairs else f"the Zarr group {output}"
        raise InputError(f"`keep` is for a table with a row for each query, found {found}; name the rows with `id`")


def _wanted(forest: Forest, question: Question, options: QueryOptions) -> ReadColumns:
    """What the columns of a file must be; raises InputError for a forest that reads no table."""
    if options.object is not None:
        raise InputError(f"`object` is for a function, found {options.object!r} without `similarity`; leave it out")
    if has_further_columns(forest):
        raise InputError(
            f"{question.queries}: this forest reads columns beside the features, found a file; give an array"
        )
    return ReadColumns(forest.schema, forest.n_features)


def _as_arrays(question: Question, queries: Queries, forest: Forest, group: str) -> Question:
    """Write a file as arrays, and ask about these."""
    source, schema = question.queries, forest.schema
    if is_over_pairs(forest) and isinstance(queries, TableQueries):
        queries = queries.with_unseen()
        schema = schema and queries.schema
    attributes = {} if schema is None else schema.attributes()
    n_rows = write_growing(group, "X", (forest.n_features,), np.dtype(np.float32), queries.features(), attributes)
    if n_rows == 0:
        raise InputError(f"{source}: rows were expected, found none")
    if warning := queries.warning_about_unseen():
        warn_caller(f"{source}: {warning}")
    return _sealed(question, queries, group, "X")


def _objects_as_array(question: Question, queries: TableQueries, group: str) -> Question:
    """Write a table of objects as an array, and ask about it."""
    objects = queries.objects()
    if not objects.shape[0]:
        raise InputError(f"{question.queries}: rows were expected, found none")
    write_array(group, OBJECTS, objects.shape, objects.dtype, objects.blocks(), objects.attributes)
    return _sealed(question, queries, group, OBJECTS)


def _sealed(question: Question, queries: Queries, group: str, name: str) -> Question:
    """Write the names of the rows beside an array, and ask about the array."""
    names, ids = [name], queries.ids()
    if ids is not None:
        write_array(group, IDS, ids.shape, ids.dtype, ids.blocks(), ids.attributes)
        names.append(IDS)
    seal_group(group, {"distforest": {"type": "arrays", "version": 1, "arrays": names}})
    return replace(question, queries=f"{group}/{name}", source=question.queries)


def _pairs_as_array(question: Question, group: str) -> str:
    """Write the pairs of a table as an array of row numbers; returns its address.

    If rows have names, the pairs do too; all names are then in memory.
    """
    n_rows = int(open_matrix(question.queries).shape[0])
    numbers = numbers_of_rows(question.queries, n_rows, question.called)
    pairs = pairs_in_table(str(question.pairs), numbers, n_rows, question.called)
    write_array(group, "pairs", pairs.shape, pairs.dtype, [pairs])
    return f"{group}/pairs"


# --- names of training rows ---------------------------------------------------------------------------------


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
    rows, schema = recoded(forest, address, read_rows(address, numbers))
    if is_over_pairs(forest):
        learned, found = _values(points_at(training_points(forest), numbers)), _values(points_of(forest, rows, schema))
        strange = np.flatnonzero(~((learned == found) | (np.isnan(learned) & np.isnan(found))).all(axis=1))
    else:
        strange = scoring.misplaced_rows(forest, forest.source(rows), numbers)
    if len(strange):
        other = f"row {numbers[strange[0]]:,} is another"
        expected = "the rows of the training, in their order, were expected"
        raise InputError(f"{address}: {expected}, but {other}; name what {question.forest} was trained on")


def _values(points: Points) -> np.ndarray:
    """All values of some points, with the zeros of sparse ones."""
    if isinstance(points, Records):
        return points.values
    return points if isinstance(points, np.ndarray) else points.dense(np.arange(points.shape[0], dtype=np.int32))


# --- answers as a table -----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Flat:
    """Answers on disk, and what stands beside them in a table."""

    question: Question
    done: Scored
    classes: Sequence[ClassName] | None
    queries: Queries | None
    training_names: np.ndarray | None = None

    @property
    def n_rows(self) -> int:
        """Rows of the table."""
        return next(iter(self.done.shapes.values()))[0]

    def blocks(self) -> Iterator[dict[str, Column]]:
        """Blocks of rows, as columns by name."""
        arrays = {name: open_array(f"{self.done.address}/{name}") for name in self.done.shapes}
        first, step = 0, max(1, CELLS_AT_ONCE // sum(max(1, int(np.prod(own.shape[1:]))) for own in arrays.values()))
        for kept, n_kept in self._kept():
            for start in range(0, n_kept, step):
                rows = slice(first + start, first + min(start + step, n_kept))
                parts: list[dict[str, Column]] = [
                    self._names(arrays, rows),
                    {name: own.slice(start, step) for name, own in kept.items()},
                    *(
                        flat_columns(name, self._named(name, np.asarray(own[rows])), self.classes)
                        for name, own in arrays.items()
                        if name != IDS
                    ),
                ]
                yield _side_by_side(parts)
            first += n_kept

    def _named(self, name: str, values: np.ndarray) -> np.ndarray:
        """Numbers of training rows as their names, if these are known; all other values as they are."""
        return self.training_names[values] if name == "indices" and self.training_names is not None else values

    def _kept(self) -> Iterator[tuple[dict[str, Sliced], int]]:
        """Blocks of kept columns with their number of rows; all rows at once if there are none."""
        n_rows = 0
        for block in self.queries.kept() if self.queries else ():
            n_block = len(next(iter(block.values())))
            yield block, n_block
            n_rows += n_block
        if n_rows not in (0, self.n_rows):
            found = f"found {n_rows:,}; it has changed while it was scored"
            raise InputError(f"{self.question.called}: {counted(self.n_rows, 'row')} were expected, {found}")
        if n_rows == 0:
            yield {}, self.n_rows

    def _names(self, arrays: Mapping[str, ZarrArray], rows: slice) -> dict[str, Column]:
        """The columns that say which row it is, or which pair."""
        if ANSWERS[self.question.answer].of_pairs:
            return self._names_of_pairs(np.asarray(open_array(str(self.question.pairs))[rows]))
        if IDS not in arrays:
            return {ROW_NUMBER: np.arange(rows.start, rows.stop)}
        ids = arrays[IDS]
        values, attributes = np.asarray(ids[rows]), dict(ids.attrs)
        name = str(attributes.get("column") or "id")
        return {name: values if values.ndim == 1 else names_of_rows(values, attributes)}

    def _names_of_pairs(self, pairs: np.ndarray) -> dict[str, Column]:
        """The two rows of each pair by their names, if they have any; the columns say what they are."""
        ids = ids_beside(self.question.queries, int(open_matrix(self.question.queries).shape[0]))
        word = ROW_NUMBER
        sides: list[Column] = [*pairs.T]
        if ids is not None:
            array = open_array(ids)
            attributes = dict(array.attrs)
            word = str(attributes.get("column") or "id")
            values = [np.asarray(array.oindex[side]) for side in pairs.T]
            sides = [side if side.ndim == 1 else names_of_rows(side, attributes) for side in values]
        return {f"left_{word}": sides[0], f"right_{word}": sides[1]}


def _side_by_side(parts: Sequence[Mapping[str, Column]]) -> dict[str, Column]:
    """The columns of all parts; raises InputError if one name would stand twice."""
    columns: dict[str, Column] = {}
    for part in parts:
        if twice := next((name for name in part if name in columns), None):
            raise InputError(f"a table of different columns was expected, found {twice!r} twice; rename it in the file")
        columns |= part
    return columns


def flat_columns(name: str, values: np.ndarray, classes: Sequence[ClassName] | None) -> dict[str, Column]:
    """The columns of a table that an array of answers becomes: one for each of its columns, classes by their names.

    Examples
    --------
    >>> flat_columns("proba", np.array([[0.25, 0.75]]), ["fern", "moss"])
    {'proba_fern': array([0.25]), 'proba_moss': array([0.75])}
    >>> flat_columns("prediction", np.array([1, 0]), ["fern", "moss"])
    {'prediction': array(['moss', 'fern'], dtype='<U4')}
    >>> list(flat_columns("nodes", np.zeros((1, 2), np.int32), None))
    ['tree_0', 'tree_1']
    """
    if values.ndim == 1:
        is_named = name == "prediction" and classes is not None
        return {name: np.array(classes)[values] if is_named else values}
    if name == "prediction" and values.shape[1] == 1:
        return {name: values[:, 0]}
    word = {"nodes": "tree", "indices": "neighbor"}.get(name, name)
    ends = classes if name == "proba" and classes is not None else range(values.shape[1])
    return {f"{word}_{end}": values[:, place] for place, end in enumerate(ends)}


def _write(flat: _Flat, path: str) -> tuple[str, ...]:
    """Write a table, block by block; returns the names of its columns."""
    names: tuple[str, ...] = ()
    with table_writer(path) as write:
        for block in flat.blocks():
            write(block)
            names = tuple(block)
    return names
