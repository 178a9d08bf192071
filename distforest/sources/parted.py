"""Features that stay where they are stored: read once from the first row to the last, then part by part.

A part is a run of consecutive rows. One process reads all rows, and keeps none of them: it checks them, takes the
digest of all and that of each part, and picks the few rows from which bins are found. Whoever works on a part reads its
rows alone, and finds by the digest whether they are still the same.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from distforest.errors import InputError
from distforest.sources.array_files import begun_digest
from distforest.sources.arrays import bytes_of, open_array
from distforest.sources.binned_table import Bins
from distforest.sources.category_codes import check_codes
from distforest.sources.readings import check_shape
from distforest.sources.staging import Staged
from distforest.sources.stored import Digested
from distforest.threads import ahead

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from distforest.sources.given import ChunkedArray
    from distforest.sources.readings import Reading
    from distforest.sources.scratch import ScratchFolder
    from distforest.sources.source import Float32s, Floats, Int32s, Ints

READ_BYTES = 1 << 25
"""About how much of a part is read at once."""


@dataclass(frozen=True)
class StagedParts:
    """How the features of a job lie in parts.

    Attributes
    ----------
    first_rows
        The first row of each part, and then the number of rows.
    sha256
        Digest of each part's rows, as they are read.
    lacking
        The columns of which a row lacks the value.
    bins
        Where each column's edges begin, shape (n_columns + 1,), and then the edges of all columns.
    judged
        The truth of each row by which cuts are scored: its class, or its vector in fixed point.
    n_present
        How many rows of positive weight there are before each part: all rows, without weights.
    rows_of_pack
        About how many rows a node may have that one process gathers; there is no larger one among those of a pack.
    """

    first_rows: tuple[int, ...]
    sha256: tuple[str, ...]
    lacking: tuple[int, ...]
    bins: Staged
    judged: Staged
    n_present: tuple[int, ...]
    rows_of_pack: int

    @property
    def count(self) -> int:
        """Number of parts."""
        return len(self.sha256)

    def opened_bins(self, n_columns: int, n_categories: tuple[int, ...], scratch: ScratchFolder) -> Bins:
        """The bins of the features; ``n_categories`` are those of each column, empty if all hold numbers."""
        packed: Floats = self.bins.open(scratch)
        first_edge, edges = packed[: n_columns + 1].astype(np.int64), np.array(packed[n_columns + 1 :])
        return Bins((self.first_rows[-1], n_columns), edges, first_edge, self.lacking, n_categories)


class SurveyedRows(NamedTuple):
    """What reading all rows once has found.

    Attributes
    ----------
    staged
        What staging the whole array would have returned; there is no file of it.
    first_rows, sha256, lacking
        As in `StagedParts`.
    rows, sample
        Numbers of the rows that were picked, and these rows.
    """

    staged: Staged
    first_rows: tuple[int, ...]
    sha256: tuple[str, ...]
    lacking: tuple[int, ...]
    rows: Ints
    sample: Float32s


def parted(n_rows: int, n_parts: int, chunk_rows: int) -> tuple[int, ...]:
    """The first row of each part, and then the number of rows; parts begin where chunks do if these are small.

    Examples
    --------
    >>> parted(1000, 3, 1), parted(1000, 3, 50), parted(1000, 3, 400)
    ((0, 333, 666, 1000), (0, 350, 650, 1000), (0, 333, 666, 1000))
    """
    step = chunk_rows if 4 * chunk_rows * n_parts <= n_rows else 1
    inner = (number * n_rows // n_parts for number in range(1, n_parts))
    return 0, *((row if step == 1 else round(row / step) * step) for row in inner), n_rows


def survey_rows(address: str, reading: Reading, n_parts: int, rows: Ints) -> SurveyedRows:
    """Read a Zarr array of features once, and keep some of its rows.

    Parameters
    ----------
    address, reading
        As for `distforest.sources.staging.stage`.
    n_parts
        Number of parts, at most one for each row.
    rows
        Ascending numbers of the rows to keep.

    Raises
    ------
    InputError
        As `distforest.sources.staging.stage`.
    """
    stored = Digested(open_array(address))
    try:
        check_shape(stored, reading)
        shape, dtype = stored.shape, reading.dtype(stored.dtype)
        first_rows = parted(shape[0], n_parts, stored.chunks[0])
        whole = begun_digest(shape, dtype)
        of_parts = [hashlib.sha256() for _ in range(n_parts)]
        lacks, kept = np.zeros(shape[1], np.bool_), list[np.ndarray]()
        for number, digest in enumerate(of_parts):
            for first, given in ahead(_blocks(stored, first_rows[number], first_rows[number + 1]), "distforest-read"):
                block = np.ascontiguousarray(reading.block(given, first))
                whole.update(block.data)
                digest.update(block.data)
                lacks |= np.isnan(block).any(axis=0)
                begin, end = np.searchsorted(rows, (first, first + len(block)))
                kept.append(block[rows[begin:end] - first])
        stored.check_digest()
    except InputError as error:
        raise InputError(f"{address}: {error}") from error
    staged = Staged(address, reading, whole.hexdigest(), shape, dtype.name)
    sha256 = tuple(digest.hexdigest() for digest in of_parts)
    lacking = tuple(np.flatnonzero(lacks).tolist())
    return SurveyedRows(staged, first_rows, sha256, lacking, rows, np.concatenate(kept))


def codes_of_part(staged: Staged, parts: StagedParts, number: int, bins: Bins) -> tuple[np.ndarray, Float32s | None]:
    """Read the rows of a part and find their codes, shape (n_rows, n_columns), and their categories, if they have any.

    Raises
    ------
    InputError
        They have changed since the job was planned, or a code is none of a category.
    """
    first, last = parts.first_rows[number : number + 2]
    codes, digest = np.empty((last - first, staged.shape[1]), np.uint8), hashlib.sha256()
    categories = bins.categories(np.empty((last - first, staged.shape[1]), np.float32))
    for begin, given in _blocks(open_array(staged.address), first, last):
        block = np.ascontiguousarray(staged.reading.block(given, begin))
        digest.update(block.data)
        here = slice(begin - first, begin - first + len(block))
        codes[here] = bins.codes(block)
        own = bins.categories(block)
        if categories is not None and own is not None:
            check_codes(block, bins.n_categories, begin)
            categories[here] = own
    if digest.hexdigest() != parts.sha256[number]:
        raise InputError(f"{staged.address} has changed since the job was planned; start it again")
    return codes, categories


def rows_of_part(staged: Staged, parts: StagedParts, number: int) -> np.ndarray:
    """Read the rows of a part of an array that distforest has written for a job."""
    return np.asarray(open_array(staged.address)[slice(*parts.first_rows[number : number + 2])])


def present_before(first_rows: Sequence[int], weights: Int32s | None) -> tuple[int, ...]:
    """How many rows of positive weight there are before each part."""
    if weights is None:
        return tuple(first_rows[:-1])
    return tuple(int(np.count_nonzero(weights[:first])) for first in first_rows[:-1])


def _blocks(values: ChunkedArray, first: int, last: int) -> Iterator[tuple[int, np.ndarray]]:
    """Blocks of rows of an array on disk, which are whole chunks but for the first and the last one."""
    chunk = values.chunks[0]
    step = max(1, READ_BYTES // max(1, bytes_of(tuple(values.shape[1:]), values.dtype)) // chunk) * chunk
    while first < last:
        end = min(last, (first // step + 1) * step)
        yield first, np.asarray(values[first:end])
        first = end
