"""The sets of categories of a cut, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from distforest.pictures.plotting import shortened
from distforest.sources.point_pairs import PairColumns, two_of

if TYPE_CHECKING:
    from distforest.forest.forest import Forest


def set_in_words(forest: Forest, own: int, is_left: bool = True) -> str:
    """The categories that go left, or right, at a node of the whole table; the others are named if these do.

    A category of a pair of points is an unordered pair.
    """
    table, rows, sets = forest.table, forest.meaning.rows, forest.table.category_sets
    codes = sets.codes[sets.start[own] : sets.start[own + 1]].tolist()
    column = int(table.columns[table.offset[own]])
    of_pairs = isinstance(rows, PairColumns)
    feature = column % rows.n_features if of_pairs else column
    names = forest.schema.columns[feature].categories if forest.schema else ()

    def named_category(code: int) -> str:
        return shortened(names[code], 12) if names else str(code)

    listed = [" & ".join(map(named_category, two_of(code) if of_pairs else (code,))) for code in codes[:3]]
    more = f", \N{HORIZONTAL ELLIPSIS} ({len(codes)})" if codes[3:] else ""
    return f"{'in' if sets.others_right[own] == is_left else 'not in'} {{{', '.join(listed)}{more}}}"
