"""Orders of categories: a cut of a column of categories splits them into two sets.

A node puts the categories of its rows in an order, and the ordinary scans then cut their ranks. Let v_c be the mean of
the vectors of a category's rows, less the mean of all rows, and m_c their weight. With A the sum of m_c v_c over the
left side, a cut gains ``||A||^2 m / (m_L m_R)``. The vectors are targets or those of an embedding; for labels they are
the unit vectors of the classes, as Gini impurity is the variance of these.

- One dimension (targets, or the share of the second of two classes): one of the cuts in the order of the means is the
  best of all subsets (Fisher, On grouping for maximum homogeneity, 1958; Breiman, Friedman, Olshen, Stone,
  Classification and regression trees, 1984, theorem 4.5). This does not hold where a side may be too light.
- Several dimensions (classes, embeddings): a hyperplane perpendicular to the difference of their means parts the best
  two sets (Burshtein, Della Pietra, Kanevsky, Nadas, Minimum impurity partitions, 1992). The first order is that along
  the first principal direction of the means (Coppersmith, Hong, Hosking, Partitioning nominal attributes in decision
  trees, 1999). Its best cut gives the direction of the next order, -A, as long as the gain rises: a step of two-means.
- Distances: the same with the distances to some rows of the node, see `rank_by_distances`.

Categories are numbered in the order of their first rows, so nothing depends on their codes. Categories with equal means
have equal ranks: no best cut separates them. If the means of all are equal, they are ordered by weight, the heaviest
first, because a cut that gains 0 is a cut, as cuts below it may gain.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from distforest.forest.frontier import Nodes, longest_of
from distforest.growth.cuts.blocks import Where
from distforest.growth.cuts.ordering import order_values
from distforest.growth.cuts.scan import (
    Impurity,
    SummedGroups,
    add_row,
    bins_for,
    clear_group,
    groups_for,
    load_vectors,
    rows_as_groups,
)
from distforest.jit import kernel, no_refcount
from distforest.sources.source import Floats, Int32s, Ints

if TYPE_CHECKING:
    from numpy.typing import NDArray

POWER_STEPS = 30
"""Largest number of steps towards the first principal direction; any direction near it gives nearly the same order."""

ORDERS = 8
"""Largest number of orders that are tried one after another; the gain rarely rises after the second."""

REFERENCES = 64
"""Number of evenly spaced rows of a node to which the distances of all its rows are read."""

ROUNDING = 1e-12
"""Relative increase of the gain that is required to try another order."""


class Tally(NamedTuple):
    """Working arrays for the categories of one node and candidate; c of them are seen, in q dimensions.

    Attributes
    ----------
    slot
        The number of each code in the node, -1 if it does not occur, shape (n_codes,).
    seen
        The codes in the node, in the order of their first rows, shape (c,).
    local
        The number of each row's category, -1 if its value is missing, shape (n,).
    mass
        m_c, shape (c,).
    vectors
        v_c, shape (c, q).
    direction, left
        The direction of the order, and A or a similar vector, shape (q,).
    score, rank
        The score of each category along the direction, and the rank of this score, shape (c,).
    order, keys, spare
        As in `order_values`, shape (c,).
    """

    slot: Int32s
    seen: Int32s
    local: Int32s
    mass: Floats
    vectors: Floats
    direction: Floats
    left: Floats
    score: Floats
    rank: Floats
    order: Ints
    keys: NDArray[np.uint64]
    spare: NDArray[np.uint64]


@kernel
def tally_for(n_codes: int, longest: int, n_dimensions: int) -> Tally:
    """Allocate the arrays for nodes of up to ``longest`` rows and columns of up to ``n_codes`` categories."""
    most = min(n_codes, longest)
    return Tally(
        np.full(n_codes, -1, np.int32),
        np.empty(most, np.int32),
        np.empty(longest, np.int32),
        np.empty(most),
        np.empty((most, n_dimensions)),
        np.empty(n_dimensions),
        np.empty(n_dimensions),
        np.empty(most),
        np.empty(most),
        np.empty(most, np.int64),
        np.empty(most, np.uint64),
        np.empty(most, np.uint64),
    )


@no_refcount
def rank_groups(impurity: Impurity, bins: SummedGroups, places: Ints, tally: Tally) -> None:
    """Rank the groups at some positions, which are categories, by the means of their sums: see `rank_by_means`."""
    load_vectors(impurity, bins, places, tally.mass, tally.vectors)
    rank_by_means(places.shape[0], tally)


@kernel
def rank_by_sums(
    nodes: Nodes,
    truth: Int32s | Ints,
    impurity: Impurity,
    n_dimensions: int,
    n_codes: int,
    is_categorical: NDArray[np.bool_],
    values: Floats,
) -> None:
    """Replace codes by ranks, values[k, r] where is_categorical[k, node of r]; they are ordered in ``n_dimensions``."""
    starts, rows, weights = nodes
    longest = longest_of(starts)
    tally = tally_for(n_codes, longest, n_dimensions)
    groups, bins = groups_for(impurity, longest), bins_for(impurity, min(n_codes, longest))
    places = np.arange(min(n_codes, longest))
    for node in range(starts.shape[0] - 1):
        first, last = starts[node], starts[node + 1]
        are_read = False
        for k in range(values.shape[0]):
            if not is_categorical[k, node]:
                continue
            if not are_read:
                rows_as_groups(impurity, rows[first:last], weights[first:last], truth, groups)
                are_read = True
            n = number_categories(values[k, first:last], tally)
            for c in range(n):
                clear_group(bins, c)
            for r in range(last - first):
                if tally.local[r] >= 0:
                    add_row(bins, tally.local[r], groups, r)
            rank_groups(impurity, bins, places[:n], tally)
            write_ranks(tally, values[k, first:last])


@no_refcount
def number_categories(values: Floats, tally: Tally) -> int:
    """Number the categories of a node's rows in the order of occurrence, and clear their sums; return their number."""
    slot, seen, local = tally.slot, tally.seen, tally.local
    n = 0
    for r in range(values.shape[0]):
        local[r] = -1
        if values[r] == values[r]:
            code = np.int64(values[r])
            if slot[code] < 0:
                slot[code], seen[n] = n, code
                tally.mass[n] = 0.0
                for q in range(tally.vectors.shape[1]):
                    tally.vectors[n, q] = 0.0
                n += 1
            local[r] = slot[code]
    for c in range(n):
        slot[seen[c]] = -1
    return n


@no_refcount
def write_ranks(tally: Tally, values: Floats) -> None:
    """values[r] = the rank of the category of row r; missing values stay."""
    for r in range(values.shape[0]):
        if tally.local[r] >= 0:
            values[r] = tally.rank[tally.local[r]]


@no_refcount
def rank_by_means(n: int, tally: Tally) -> None:
    """Rank n categories by their sums in ``vectors``, which becomes v_c."""
    if not n:
        return
    if tally.vectors.shape[1] == 1:
        for c in range(n):
            tally.vectors[c, 0] /= tally.mass[c]
        tally.direction[0] = 1.0
        rank_along(n, tally)
        return
    centre(n, tally)
    first_direction(n, tally)
    gain = 0.0
    for _ in range(ORDERS):
        rank_along(n, tally)
        found = best_of_order(n, tally)
        if found <= gain * (1.0 + ROUNDING):
            break
        gain = found


@no_refcount
def centre(n: int, tally: Tally) -> None:
    """vectors[c] = vectors[c] / m_c - (the sum of all vectors) / m."""
    mass, vectors, left = tally.mass, tally.vectors, tally.left
    for q in range(vectors.shape[1]):
        total, whole = 0.0, 0.0
        for c in range(n):
            total += vectors[c, q]
            whole += mass[c]
        left[q] = total / whole
    for c in range(n):
        for q in range(vectors.shape[1]):
            vectors[c, q] = vectors[c, q] / mass[c] - left[q]


@no_refcount
def first_direction(n: int, tally: Tally) -> None:
    """Compute the first eigenvector of sum_c m_c v_c v_c', by power steps from the v_c of the largest m_c |v_c|^2."""
    mass, vectors, direction, after = tally.mass, tally.vectors, tally.direction, tally.left
    largest, start = -1.0, 0
    for c in range(n):
        squares = 0.0
        for q in range(vectors.shape[1]):
            squares += vectors[c, q] * vectors[c, q]
        if mass[c] * squares > largest * (1.0 + ROUNDING):
            largest, start = mass[c] * squares, c
    for q in range(vectors.shape[1]):
        direction[q] = vectors[start, q]
    normalise(direction)
    for _ in range(POWER_STEPS):
        for q in range(vectors.shape[1]):
            after[q] = 0.0
        for c in range(n):
            along = mass[c] * inner(vectors[c], direction)
            for q in range(vectors.shape[1]):
                after[q] += along * vectors[c, q]
        normalise(after)
        same = inner(after, direction)
        for q in range(vectors.shape[1]):
            direction[q] = after[q]
        if same > 1.0 - 1e-6:
            break


@no_refcount
def inner(one: Floats, other: Floats) -> float:
    """Return the sum of one[q] other[q]."""
    total = 0.0
    for q in range(one.shape[0]):
        total += one[q] * other[q]
    return total


@no_refcount
def normalise(vector: Floats) -> None:
    """Divide a vector by its length, if that is not 0; by its largest entry first, so that no square overflows."""
    largest = 0.0
    for q in range(vector.shape[0]):
        largest = max(largest, abs(vector[q]))
    if largest == 0.0:
        return
    for q in range(vector.shape[0]):
        vector[q] /= largest
    length = np.sqrt(inner(vector, vector))
    for q in range(vector.shape[0]):
        vector[q] /= length


@no_refcount
def rank_along(n: int, tally: Tally) -> None:
    """Rank the categories by v_c . direction; equal products have equal ranks unless all are equal."""
    score = tally.score[:n]
    for c in range(n):
        score[c] = inner(tally.vectors[c], tally.direction)
    rank_scores(n, tally)


@no_refcount
def rank_scores(n: int, tally: Tally) -> None:
    """Rank the categories by ``score``; if all are equal, by weight, the heaviest first, then by occurrence."""
    score, rank, order = tally.score[:n], tally.rank, tally.order
    order_values(score, order, tally.keys, tally.spare)
    last = 0.0
    for e in range(n):
        if e > 0 and score[order[e]] > score[order[e - 1]]:
            last += 1.0
        rank[order[e]] = last
    if last == 0.0 and n > 1:
        for c in range(n):
            score[c] = -tally.mass[c]
        order_values(score, order, tally.keys, tally.spare)
        for e in range(n):
            rank[order[e]] = e


@no_refcount
def best_of_order(n: int, tally: Tally) -> float:
    """Return the largest gain ||A||^2 m / (m_L m_R) in the order; ``direction`` becomes the -A of that cut."""
    mass, vectors, order, left = tally.mass, tally.vectors, tally.order, tally.left
    whole, m_left, best = 0.0, 0.0, 0.0
    for c in range(n):
        whole += mass[c]
    for q in range(left.shape[0]):
        left[q] = 0.0
    for e in range(n - 1):
        c = order[e]
        m_left += mass[c]
        for q in range(left.shape[0]):
            left[q] += mass[c] * vectors[c, q]
        if tally.rank[order[e + 1]] == tally.rank[c]:
            continue
        gain = inner(left, left) * whole / (m_left * (whole - m_left))
        if gain > best:
            best = gain
            for q in range(left.shape[0]):
                tally.direction[q] = -left[q]
    return best


class References(NamedTuple):
    """The reference rows of a node, for one candidate; there are at most `REFERENCES`.

    Attributes
    ----------
    place
        The positions of the rows in the node, shape (n_references,).
    category
        The number of each row's category, -1 if its value is missing, shape (n_references,).
    share
        The weight of each, 0 if its value is missing, shape (n_references,).
    apart
        The mean distance a_cr of category c to reference row r, shape (c, n_references).
    known
        The weight of the rows of category c whose distance to reference row r is observed, shape (c, n_references).
    """

    place: Ints
    category: Ints
    share: Floats
    apart: Floats
    known: Floats


@kernel
def rank_by_distances(
    starts: Ints,
    where: Where,
    weights: Int32s,
    n_codes: int,
    is_categorical: NDArray[np.bool_],
    values: Floats,
) -> None:
    """Replace codes by ranks as `rank_by_sums` does, for distances z_ij.

    Let a_cr be the mean distance of category c to the reference row r. If z_ij = |x_i - x_j|^2, a_cr less its mean over
    r is linear in the mean of the category's x, and so is its score in every order here. The first order is along the
    first principal direction of these numbers. For two sides L and R, the next order is by the difference of the mean
    of a_cr over r in L and that over r in R: a category is nearer to L or to R. None of this needs x, so it is defined
    for any distance. The value of a cut is ``- sum_{c in L} m_c mean_{r in L} a_cr - sum_{c in R} m_c mean_{r in R}
    a_cr``, which is the gain up to a constant if all rows are references. If some distances are unobserved (NaN), a_cr
    is a mean over the others; see `fill_unobserved`.
    """
    longest = longest_of(starts)
    most = min(longest, REFERENCES)
    tally = tally_for(n_codes, longest, most)
    n_rows = tally.vectors.shape[0]
    apart, known = np.empty((n_rows, most)), np.empty((n_rows, most))
    of_node = References(np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most), apart, known)
    for node in range(starts.shape[0] - 1):
        first, last = starts[node], starts[node + 1]
        size = last - first
        for k in range(values.shape[0]):
            if not is_categorical[k, node]:
                continue
            n = number_categories(values[k, first:last], tally)
            n_references = min(size, REFERENCES)
            for j in range(most):
                place = j * size // n_references if j < n_references else 0
                c = tally.local[place] if j < n_references else -1
                of_node.place[j], of_node.category[j] = place, c
                of_node.share[j] = float(weights[first + place]) if c >= 0 else 0.0
                for c in range(n):
                    known[c, j] = 0.0
            for i in range(size):
                c, w, row = tally.local[i], float(weights[first + i]), where.row_start[first + i]
                if c >= 0:
                    tally.mass[c] += w
                    for j in range(n_references):
                        distance = where.cells[row + where.slot[first + of_node.place[j]]]
                        if not np.isnan(distance):
                            tally.vectors[c, j] += w * distance
                            known[c, j] += w
            fill_unobserved(n, n_references, of_node, tally)
            rank_by_mean_distances(n, of_node, tally)
            write_ranks(tally, values[k, first:last])


@no_refcount
def fill_unobserved(n: int, n_references: int, of_node: References, tally: Tally) -> None:
    """vectors[c, r] = m_c a_cr, with a_cr over observed distances; where none is, that of all n categories, or 0."""
    for j in range(n_references):
        total, weight, mass = 0.0, 0.0, 0.0
        for c in range(n):
            total += tally.vectors[c, j]
            weight += of_node.known[c, j]
            mass += tally.mass[c]
        if weight == mass:
            continue
        of_all = total / weight if weight else 0.0
        for c in range(n):
            known = of_node.known[c, j]
            tally.vectors[c, j] = tally.mass[c] * (tally.vectors[c, j] / known if known else of_all)


@no_refcount
def rank_by_mean_distances(n: int, of_node: References, tally: Tally) -> None:
    """Rank n categories by the sums of their distances to the reference rows in ``vectors``."""
    if not n:
        return
    mass, vectors, share, apart = tally.mass, tally.vectors, of_node.share, of_node.apart
    known = 0.0
    for j in range(share.shape[0]):
        known += share[j]
    for c in range(n):
        mean = 0.0
        for j in range(share.shape[0]):
            apart[c, j] = vectors[c, j] / mass[c]
            if share[j] > 0.0:
                mean += share[j] * apart[c, j] / known
        for j in range(share.shape[0]):
            vectors[c, j] = mass[c] * (apart[c, j] - mean) if share[j] > 0.0 else 0.0
    centre(n, tally)
    first_direction(n, tally)
    rank_along(n, tally)
    value = -np.inf
    for _ in range(ORDERS):
        found = best_by_distances(n, of_node, tally)
        if found == -np.inf or found <= value + ROUNDING * abs(value):
            break
        value = found
        rank_scores(n, tally)


@no_refcount
def best_by_distances(n: int, of_node: References, tally: Tally) -> float:
    """Return the largest value of a cut in the order; ``score`` becomes the difference of means of that cut.

    A side without a reference row has no mean, so such a cut does not count; -inf if none does.
    """
    share, apart, category = of_node.share, of_node.apart, of_node.category
    mass, order, left, total, rank = tally.mass, tally.order, tally.left, tally.direction, tally.rank
    known = 0.0
    for j in range(share.shape[0]):
        known += share[j]
        left[j], total[j] = 0.0, 0.0
        for c in range(n):
            total[j] += mass[c] * apart[c, j]
    best, best_rank = -np.inf, -1.0
    for e in range(n - 1):
        c, shared, inside_left, inside_right = order[e], 0.0, 0.0, 0.0
        for j in range(share.shape[0]):
            left[j] += mass[c] * apart[c, j]
            if share[j] > 0.0 and rank[category[j]] <= rank[c]:
                shared += share[j]
                inside_left += share[j] * left[j]
            else:
                inside_right += share[j] * (total[j] - left[j])
        if rank[order[e + 1]] == rank[c] or shared == 0.0 or shared == known:
            continue
        value = -inside_left / shared - inside_right / (known - shared)
        if value > best:
            best, best_rank = value, rank[c]
    if best_rank < 0.0:
        return best
    for c in range(n):
        near_left, near_right, shared = 0.0, 0.0, 0.0
        for j in range(share.shape[0]):
            if share[j] > 0.0 and rank[category[j]] <= best_rank:
                shared += share[j]
                near_left += share[j] * apart[c, j]
            else:
                near_right += share[j] * apart[c, j]
        tally.score[c] = near_left / shared - near_right / (known - shared)
    return best
