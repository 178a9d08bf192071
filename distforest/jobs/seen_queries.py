"""What the tasks of a scoring job have seen of its queries, and what is told of all of them at its end."""

from __future__ import annotations

import json
from collections import Counter
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from distforest.forest.column_ranges import ColumnRanges
from distforest.forest.learned_rows import SeenLeaves
from distforest.forest.missing import told_of_rows_without_values, told_of_unlearned
from distforest.forest.row_ranges import SeenRows
from distforest.forest.square_queries import SeenSquare
from distforest.sources.distance_doubts import SeenSigns

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from distforest.jobs.outline import Outline


class SeenQueries(NamedTuple):
    """What a task has seen of its queries.

    Attributes
    ----------
    lacking
        Numbers of queries without any value.
    unlearned
        How many lack a value that no training row lacked, by column.
    ranges
        Between which numbers each column lies; None of queries that have no features.
    rows
        How rows of similarities compare with those of training; None of other queries.
    signs
        What is seen of the signs of distances to training objects; None of other queries.
    learned
        How many predicted queries end as a training row does; None of other answers.
    """

    lacking: list[int]
    unlearned: dict[int, int]
    ranges: ColumnRanges | None = None
    rows: SeenRows | None = None
    signs: SeenSigns | None = None
    learned: SeenLeaves | None = None

    def content(self) -> bytes:
        """The same as JSON, which a later run of an interrupted job reads."""
        entry: dict[str, object] = {"lacking": self.lacking, "unlearned": sorted(self.unlearned.items())}
        if self.ranges is not None:
            entry["ranges"] = [values.tolist() for values in self.ranges]
        if self.rows is not None:
            *ends, square = self.rows
            entry["rows"] = [values.tolist() for values in ends]
            if square is not None:
                entry["square"] = [values.tolist() for values in square]
        if self.signs is not None:
            entry["signs"] = [self.signs.n_below, float(self.signs.least)]
        if self.learned is not None:
            entry["learned"] = list(self.learned)
        return json.dumps(entry).encode()

    @classmethod
    def of_content(cls, content: bytes) -> SeenQueries | None:
        """What `content` has written; None if it is damaged.

        Nothing was seen if it is empty, as earlier versions wrote it.

        Examples
        --------
        >>> seen = SeenQueries([7], {0: 2}, learned=SeenLeaves(9, 8, 7, 6))
        >>> SeenQueries.of_content(seen.content()) == seen
        True
        >>> SeenQueries.of_content(seen.content()[:-1])
        """
        if not content:
            return cls([], {})
        try:
            return cls._of_entry(json.loads(content))
        except (ValueError, TypeError, KeyError, AttributeError):
            return None

    @classmethod
    def _of_entry(cls, entry: dict[str, Any]) -> SeenQueries:
        read = {name: [np.array(values) for values in entry.get(name, [])] for name in ("ranges", "rows", "square")}
        rows = None
        if read["rows"]:
            counts, beyond, low, high = read["rows"]
            rows = SeenRows(counts, beyond, low, high, SeenSquare(*read["square"]) if read["square"] else None)
        return cls(
            entry["lacking"],
            dict(entry["unlearned"]),
            ColumnRanges(*read["ranges"]) if read["ranges"] else None,
            rows,
            SeenSigns(*entry["signs"]) if "signs" in entry else None,
            SeenLeaves(*entry["learned"]) if "learned" in entry else None,
        )


def told_of_queries(parts: Iterable[SeenQueries], found: Outline) -> Iterator[str]:
    """Yield warnings of queries without any value, or that are unlike the training rows; see `SeenQueries`."""
    rows, unlearned, seen, signs = list[int](), Counter[int](), list[SeenQueries](), SeenSigns()
    for part in parts:
        rows += part.lacking
        unlearned.update(part.unlearned)
        seen.append(part)
        if part.signs is not None:
            signs.join(part.signs)
    if told := signs.told():
        yield told
    if rows:
        yield told_of_rows_without_values(len(rows), found.n_answers, min(rows), found.value)
    if unlearned:
        yield told_of_unlearned(unlearned, found.n_answers, found.names)
    ranges = [part.ranges for part in seen if part.ranges is not None]
    if ranges and found.ranges is not None:
        of_all = reduce(ColumnRanges.joined, ranges)
        yield from filter(None, [found.ranges.told(of_all, found.n_answers, found.names)])
    of_rows = [part.rows for part in seen if part.rows is not None]
    if of_rows and found.known_rows is not None:
        yield from filter(None, [found.known_rows.told(reduce(SeenRows.joined, of_rows))])


def told_of_learned(parts: Iterable[SeenQueries]) -> str:
    """A warning if predicted queries are rows from which the forest has learned; else an empty string."""
    of_leaves = [part.learned for part in parts if part.learned is not None]
    return reduce(SeenLeaves.joined, of_leaves).told() if of_leaves else ""
