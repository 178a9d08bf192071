"""Companions: what other columns say of the categories of a column, in a forest without a ground truth.

Categories alone have no clusters: whichever way they are parted into two sets, a likelihood of categories is the same,
as each set has its own frequencies. So a candidate that is a column of categories is judged by a companion, a sum over
other columns that is drawn as sums of numbers are,

    s_i = sum over its columns c of a_c x_ic,

where x_ic is a number, or the sign of a category (`distforest.growth.cuts.category_signs`). A category's place in a
node is the mean of s over its rows, and cuts part these places. How a cut is judged is in
`distforest.growth.cuts.category_clusters`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from distforest.forest.frontier import Nodes, longest_of
from distforest.growth.cuts.category_orders import number_categories, tally_for
from distforest.growth.cuts.category_signs import BLUR, CategoryNumbers, derive_keys, number_at
from distforest.growth.cuts.fences import MARGIN, fences_of
from distforest.growth.draws.column_weights import column_at
from distforest.growth.draws.columns import COLUMN_TRIES, Oblique
from distforest.growth.rng import Keys, mix, unit
from distforest.jit import kernel
from distforest.sources.source import Float32s, Floats, Int32s, Ints, Projections, taken

if TYPE_CHECKING:
    from distforest.forest.frontier import Frontier

FIRST_COMPANION = 1 << 37
"""Added, with the attempt, to a node's stream, to get the stream that draws companions."""

NO_COLUMN = -1
"""Where a candidate is no column of categories, and in place of a column that a companion may not read."""


class Judges(NamedTuple):
    """What judges the columns of categories among the candidates of some nodes.

    Attributes
    ----------
    scores
        s of each row, shape (width, n_rows); NaN where it or the row's category is missing, and for other candidates.
    blur
        The variance within the intervals that signs stand for, the sum of a_c^2 `BLUR` over the columns of categories
        that the companion reads, shape (width, n_nodes); NaN for other candidates.
    fences
        The numbers beyond which s is stray, shape (2, width, n_nodes); infinite if none is.
    n_places
        How many categories of the node have a place, shape (width, n_nodes), as `place_categories` counts them.
    """

    scores: Floats
    blur: Floats
    fences: Floats
    n_places: Ints


@dataclass(frozen=True)
class Companions:
    """Companions of columns of categories, one for each candidate that is one.

    Attributes
    ----------
    matrix, numbers
        The features, shape (n_rows, n_columns), and the numbers of their categories.
    draw
        Draws sums of columns; the coefficient of a column of categories has a standard deviation of 1.
    fenced
        Whether stray values of s do not judge.
    keys
        The streams that draw companions in this attempt, shape (n_nodes,); None before an attempt.
    """

    matrix: Float32s
    numbers: CategoryNumbers
    draw: Oblique
    fenced: bool
    keys: Keys | None = None

    def attempted(self, keys: Keys, attempt: int) -> Companions:
        """The companions that the nodes with these streams draw in one attempt."""
        own = np.empty(len(keys), np.uint64)
        derive_keys(keys, FIRST_COMPANION + attempt, own)
        return replace(self, keys=own)

    def drawn(self, frontier: Frontier, own: Int32s) -> Drawn:
        """Draw a companion for each candidate of each node; ``own`` as in `Drawn`, shape (width, n_nodes)."""
        assert self.keys is not None  # noqa: S101  (the grower calls `attempted` first)
        sums = replace(self.draw, width=len(own))(frontier, self.keys, 0)
        signs = np.empty((frontier.n_nodes, len(own)), np.uint64)
        draw_others(self.keys, self.draw.columns.cumulative, own, sums.offset, sums.columns, signs)
        return Drawn(own, signs, sums)

    def judges(self, frontier: Frontier, drawn: Drawn) -> Judges:
        """What companions say of the rows of a frontier."""
        shape = drawn.own.shape
        scores, blur = np.full((shape[0], len(frontier.rows)), np.nan), np.full(shape, np.nan)
        judges = Judges(scores, blur, np.empty((2, *shape)), np.zeros(shape, np.int64))
        fill_scores(frontier.nodes, self.matrix, self.numbers, drawn, judges)
        find_stray(frontier.starts, self.fenced, judges)
        return judges


class Drawn(NamedTuple):
    """Companions that are drawn.

    Attributes
    ----------
    own
        The column of categories that a companion is for, or `NO_COLUMN`, shape (width, n_nodes).
    signs
        The stream of each companion's signs, shape (n_nodes, width).
    sums
        The columns of each companion and their coefficients, node by node; one that is `NO_COLUMN` does not count.
    """

    own: Int32s
    signs: Keys
    sums: Projections

    def chosen(self, nodes: Ints, candidates: Int32s) -> Drawn:
        """One companion for each of some nodes."""
        own, signs = self.own[candidates, nodes], self.signs[nodes, candidates]
        return Drawn(own[np.newaxis], signs[:, np.newaxis], taken(self.sums, nodes, candidates))


@kernel
def draw_others(keys: Keys, cumulative: Floats, own: Int32s, offset: Ints, columns: Int32s, signs: Keys) -> None:
    """Replace a candidate's own column in its companion by another one by weight; `NO_COLUMN` after `COLUMN_TRIES`."""
    width = own.shape[0]
    for f in range(keys.shape[0]):
        for k in range(width):
            signs[f, k] = mix(keys[f] + np.uint64(1 + k))
            key, first, last = mix(keys[f] + np.uint64(1 + width + k)), offset[f * width + k], offset[f * width + k + 1]
            for e in range(first, last):
                if columns[e] != own[k, f]:
                    continue
                columns[e] = NO_COLUMN
                for t in range(COLUMN_TRIES):
                    other = column_at(cumulative, unit(key, t))
                    if other != own[k, f] and other not in columns[first:last]:
                        columns[e] = other
                        break


@kernel
def fill_scores(nodes: Nodes, matrix: Float32s, numbers: CategoryNumbers, drawn: Drawn, judges: Judges) -> None:
    """scores[k, r] = s of row r, and blur[k, f], where candidate k of node f is a column of categories.

    A companion without a column says nothing: s is NaN.
    """
    (starts, rows, _), (own, signs, sums) = nodes, drawn
    width = own.shape[0]
    for f in range(own.shape[1]):
        for k in range(width):
            if own[k, f] == NO_COLUMN:
                continue
            n_read, blur, first, last = 0, 0.0, starts[f], starts[f + 1]
            for r in range(first, last):
                judges.scores[k, r] = 0.0
            for e in range(sums.offset[f * width + k], sums.offset[f * width + k + 1]):
                c, coefficient = sums.columns[e], sums.weights[e]
                if c == NO_COLUMN:
                    continue
                n_read += 1
                if numbers.start[c + 1] > numbers.start[c]:
                    blur += coefficient * coefficient * BLUR
                for r in range(first, last):
                    value = number_at(np.float64(matrix[rows[r], c]), c, signs[f, k], numbers)
                    judges.scores[k, r] += coefficient * value
            judges.blur[k, f] = blur
            for r in range(first, last):
                if n_read == 0 or np.isnan(matrix[rows[r], own[k, f]]):
                    judges.scores[k, r] = np.nan


@kernel
def find_stray(starts: Ints, fenced: bool, judges: Judges) -> None:
    """fences[:, k, f] = the fences of s, see `distforest.growth.cuts.fences`; infinite if not ``fenced``."""
    some = np.empty(longest_of(starts))
    judges.fences[0], judges.fences[1] = -np.inf, np.inf
    for f in range(starts.shape[0] - 1 if fenced else 0):
        for k in range(judges.scores.shape[0]):
            if not np.isnan(judges.blur[k, f]):
                _, _, lower, upper, _ = fences_of(judges.scores[k, starts[f] : starts[f + 1]], MARGIN, some)
                if lower < upper:
                    judges.fences[0, k, f], judges.fences[1, k, f] = lower, upper


@kernel
def place_categories(starts: Ints, weights: Int32s, n_codes: int, judges: Judges, values: Floats) -> None:
    """Replace codes by places: values[k, r] = the mean of s over the rows of the node with the category of row r.

    An s beyond the fences counts as the fence. Categories of whose rows no s is known have no place: NaN.
    """
    scores, blur, fences, n_places = judges
    tally = tally_for(n_codes, longest_of(starts), 1)
    for f in range(starts.shape[0] - 1):
        first, last = starts[f], starts[f + 1]
        for k in range(values.shape[0]):
            if np.isnan(blur[k, f]):
                continue
            n = number_categories(values[k, first:last], tally)
            for r in range(first, last):
                c, s = tally.local[r - first], scores[k, r]
                if c >= 0 and s == s:
                    tally.mass[c] += weights[r]
                    tally.vectors[c, 0] += weights[r] * min(max(s, fences[0, k, f]), fences[1, k, f])
            for c in range(n):
                n_places[k, f] += tally.mass[c] > 0.0
            for r in range(first, last):
                c = tally.local[r - first]
                known = c >= 0 and tally.mass[c] > 0.0
                values[k, r] = tally.vectors[c, 0] / tally.mass[c] if known else np.nan


@kernel
def keep_places(
    some_starts: Ints,
    some_codes: Floats,
    some_places: Floats,
    starts: Ints,
    codes: Floats,
    n_codes: int,
    places: Floats,
) -> None:
    """places[r] = the place of the category of row r among some rows of its node, if it has one there."""
    known = np.full(n_codes, np.nan)
    for f in range(starts.shape[0] - 1):
        for r in range(some_starts[f], some_starts[f + 1]):
            if not np.isnan(some_codes[r]):
                known[np.int64(some_codes[r])] = some_places[r]
        for r in range(starts[f], starts[f + 1]):
            if not np.isnan(codes[r]) and not np.isnan(known[np.int64(codes[r])]):
                places[r] = known[np.int64(codes[r])]
        for r in range(some_starts[f], some_starts[f + 1]):
            if not np.isnan(some_codes[r]):
                known[np.int64(some_codes[r])] = np.nan
