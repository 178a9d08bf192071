"""Splits of the rows of a table, or of a group of arrays, into a training set and a test set."""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from sklearn.model_selection import GroupShuffleSplit, train_test_split

from distforest.amounts import counted
from distforest.errors import InputError, warn_caller
from distforest.sources.arrays import open_arrays, row_blocks, write_array
from distforest.sources.files.formats import format_of, is_file_of_rows
from distforest.sources.files.table_writer import WRITTEN_SUFFIXES, table_writer, written_suffix
from distforest.sources.files.tables import open_table, table_blocks, texts_in
from distforest.sources.files.text_options import TextOptions
from distforest.stores.building import working_folder
from distforest.stores.claims import Claim
from distforest.stores.groups import attributes_of, check_target, destination, seal_group
from distforest.stores.outputs import check_apart, check_new_file

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Bools = NDArray[np.bool_]

FEATURES_ARRAY = "X"
"""The array of a group that has a row for each thing."""


@dataclass(frozen=True)
class Division:
    """Parameters of a division of rows.

    Attributes
    ----------
    test
        The share of rows, or of groups, in the second part, above 0 and below 1.
    stratify
        Name of a column, or array, each value of which has the same share in both parts.
    group
        Name of a column, or array, no value of which is in both parts.
    random_state
        Seed of the draw.

    Examples
    --------
    >>> Division(0.25, random_state=0).rows(8, None).tolist()
    [False, False, True, False, False, False, True, False]
    """

    test: float
    stratify: str | None = None
    group: str | None = None
    random_state: int = 0

    def __post_init__(self) -> None:
        if not 0.0 < self.test < 1.0:
            raise InputError(f"test must be a share above 0 and below 1, found {self.test!r}")
        if self.stratify is not None and self.group is not None:
            found = f"found {self.stratify!r} and {self.group!r}"
            raise InputError(f"`stratify` or `group` was expected, {found}; a group would have to be of one stratum")

    @property
    def by(self) -> str | None:
        """Column by which rows are divided, if any."""
        return self.stratify or self.group

    def rows(self, n_rows: int, values: np.ndarray | None) -> Bools:
        """Draw the rows of the second part by scikit-learn's splitters; return a mask, shape (n_rows,).

        Raises
        ------
        InputError
            A part would have no row, or a stratum has too few rows for both parts.
        """
        numbers = np.arange(n_rows)
        try:
            if self.group is not None:
                splitter = GroupShuffleSplit(1, test_size=self.test, random_state=self.random_state)
                _, chosen = next(splitter.split(numbers, groups=values))
            else:
                _, chosen = train_test_split(
                    numbers, test_size=self.test, random_state=self.random_state, stratify=values
                )
        except ValueError as error:
            what = f"the {counted(n_rows, 'row')}" + (f", by {self.by!r}" if self.by else "")
            raise InputError(f"{what} cannot be split: {error}") from error
        is_test = np.zeros(n_rows, np.bool_)
        is_test[chosen] = True
        return is_test


@dataclass(frozen=True)
class Divided:
    """Two parts that were written, and their numbers of rows."""

    train: str
    test: str
    n_train: int
    n_test: int


def split(
    source: str,
    division: Division,
    train: str,
    test: str,
    text: TextOptions | None = None,
    overwrite: bool = False,
    max_bytes: int | None = None,
) -> Divided:
    """Split the rows of a table, or of a group of arrays, into two, in their order.

    Both outputs appear when both are complete.

    Parameters
    ----------
    source
        Path of a csv, Parquet or Arrow file, or a folder of these; or address of a Zarr group with an array ``X``.
    division
        The parameters of the division.
    train, test
        The two outputs: tables in the formats of their suffixes (for a csv file, csv files), or for a group two groups.
        Rows keep all their columns, or their entries in all arrays, and so also their names.
    text, max_bytes
        The format of a csv file, and the maximum size to which it may decompress, as for `ingest`.
    overwrite
        Whether existing outputs may be replaced, as by `ingest` and `score`.

    Raises
    ------
    InputError
        The source cannot be read or split, or an output exists.
    """
    check_apart(train, {"the table": source, "the other part": test})
    check_apart(test, {"the table": source})
    if is_file_of_rows(source):
        return _split_table(source, division, (train, test), text or TextOptions(), overwrite, max_bytes)
    return _split_group(source, division, (train, test), overwrite)


def _split_table(
    source: str,
    division: Division,
    outputs: tuple[str, str],
    text: TextOptions,
    overwrite: bool,
    max_bytes: int | None,
) -> Divided:
    for output in outputs:
        if not written_suffix(output):
            raise InputError(f"{output}: a csv, Parquet or Arrow file was expected as part of a table; name it so")
        check_new_file(output, overwrite)
    table = open_table(source, format_of(source, None), text, max_bytes)
    typed = [] if table.typed else [own for own in outputs if WRITTEN_SUFFIXES[written_suffix(own)] != "csv"]
    if typed:
        found = f"found {typed[0]}, whose columns have types: numbers of a csv file would be words there"
        raise InputError(f"{source}: parts that are csv files were expected, {found}; name a csv file")
    if not table.headed:
        warn_caller(f"{source}: there is no header, so the parts get one, which counts the columns from 0")
    values: np.ndarray | None = None
    if division.by is None:
        n_rows = sum(len(array) for _, array in table.values(0))
    else:
        values = np.array(texts_in(table, "stratify" if division.stratify else "group", division.by))
        n_rows = len(values)
    is_test = division.rows(n_rows, values)
    with ExitStack() as stack:
        places = []
        for output in outputs:
            stack.enter_context(Claim(output, f"the split of {source}").held())
            folder = stack.enter_context(working_folder(output))
            places.append(str(Path(folder.address, f"part{written_suffix(output)}")))
        with table_writer(places[0], table.separator) as to_train, table_writer(places[1], table.separator) as to_test:
            first = 0
            for block in table_blocks(table):
                here = is_test[first : first + block.num_rows]
                for write, mask in ((to_train, ~here), (to_test, here)):
                    part = block.filter(mask)
                    write(dict(zip(table.columns, part.columns, strict=True)))
                first += len(here)
        for place, output in zip(places, outputs, strict=True):
            check_new_file(output, overwrite)
            os.replace(place, output)
    return Divided(*outputs, int((~is_test).sum()), int(is_test.sum()))


def _split_group(source: str, division: Division, outputs: tuple[str, str], overwrite: bool) -> Divided:
    for output in outputs:
        check_target(output, overwrite)
    arrays = {address.rpartition("/")[2]: array for address, array in open_arrays(source)}
    if FEATURES_ARRAY not in arrays or len(arrays[FEATURES_ARRAY].shape) != 2:
        found = ", ".join(map(repr, arrays)) or "none"
        raise InputError(f"{source}: a table, or a Zarr group with an array 'X' of rows, was expected, found {found}")
    n_rows = int(arrays[FEATURES_ARRAY].shape[0])
    for name, array in arrays.items():
        if array.shape[:1] != (n_rows,) or (name != FEATURES_ARRAY and array.shape == (n_rows, n_rows)):
            expected = f"arrays with an entry for each of {counted(n_rows, 'row')} were expected"
            raise InputError(f"{source}: {expected}, found {name!r} of shape {array.shape}; split the table instead")
    values: np.ndarray | None = None
    if division.by is not None:
        if division.by not in arrays:
            found = ", ".join(map(repr, arrays))
            raise InputError(f"{source}: an array {division.by!r} was expected, found {found}")
        entries = np.asarray(arrays[division.by][...]).reshape(n_rows, -1)
        values = np.unique(entries, axis=0, return_inverse=True)[1].reshape(-1)
    is_test = division.rows(n_rows, values)
    attributes = {name: value for name, value in attributes_of(source).items() if name != "distforest"}
    with ExitStack() as stack:
        for output, mask in zip(outputs, (~is_test, is_test), strict=True):
            place = stack.enter_context(destination(output, overwrite, f"the split of {source}"))
            for name, array in arrays.items():
                shape = (int(mask.sum()), *array.shape[1:])
                own = {key: value for key, value in dict(array.attrs).items() if key != "distforest"}
                chosen = (block[mask[first : first + len(block)]] for first, block in row_blocks(array))
                write_array(place, name, shape, np.dtype(array.dtype), chosen, own)
            seal_group(place, {**attributes, "distforest": {"type": "arrays", "version": 1, "arrays": [*arrays]}})
    return Divided(*outputs, int((~is_test).sum()), int(is_test.sum()))
