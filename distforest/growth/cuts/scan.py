"""The scan: groups of rows move from the right side of a cut to the left one, in the order of their keys.

::

    keys     1    2    5     nan      a row by its value, a bin by its code, all zeros of a sparse column by 0,
    groups   g3   g0   g1    g2       a category by its rank; without a key: the group of missing values
    sides    L | R   ->   gain        between two different keys

A *group* has a weight and adds to a *tally*, which is all that a side of a cut keeps of its rows: the weight of each
class, or the sum of the vectors. Tallies are exact integers, so neither the order of equal keys nor the size of the
groups matters. An *impurity* computes the gain from the tallies of the two sides. Kinds of groups and of impurities are
types, for which kernels are compiled (`distforest.jit.dispatched`), so that every impurity works on every layout of the
data: rows, bins, sparse columns, categories, and sums that were added up elsewhere.

The largest gain wins, then the candidate drawn first, then missing values on the right, then the lowest threshold, of
which `ALL_OBSERVED` is the highest. Gains that differ by rounding are equal.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from distforest.forest.frontier import LEFT, RIGHT, STAY, Nodes, longest_of
from distforest.forest.missing import ALL_OBSERVED
from distforest.growth.cuts.ordering import order_values
from distforest.jit import dispatched, dispatched_maker, inlined, kernel, no_refcount
from distforest.sources.source import Floats, Int32s, Ints


class Impurity(Protocol):
    """A score of the two sides of a cut: a NamedTuple, whose type selects the computation."""

    @property
    def n_sums(self) -> int:
        """Number of sums of a tally."""


GAIN_ROUNDING = 1e-12
"""A gain below this share of its terms is rounding, and counts as 0; so does a difference of two gains."""

NO_CUT = -1.0
"""Less than any gain. A cut that gains 0 is a cut, as in CART, since cuts below it may gain."""

ALL_ROWS, MISSING, ON_LEFT, ON_RIGHT = 0, 1, 2, 3
"""The rows of `Tallies`."""


class Cuts(NamedTuple):
    """The cut of each node.

    Attributes
    ----------
    candidate
        The chosen candidate, -1 for none, shape (n_nodes,).
    threshold, gain
        Its threshold, and its gain in fixed-point units (or `NO_CUT`), shape (n_nodes,).
    missing
        The side of the rows that lack its value, shape (n_nodes,); ``STAY`` if they were omitted, or there are none.
    """

    candidate: Int32s
    threshold: Floats
    gain: Floats
    missing: NDArray[np.int8]

    @classmethod
    def none(cls, n_nodes: int) -> Cuts:
        """Return no cut for any node."""
        sides = np.full(n_nodes, STAY, np.int8)
        return cls(np.full(n_nodes, -1, np.int32), np.zeros(n_nodes), np.full(n_nodes, NO_CUT), sides)


@no_refcount
def keep_best(node: int, candidate: int, below: float, above: float, gain: float, cuts: Cuts) -> None:
    """Make the cut between the values ``below`` < ``above`` the node's cut if its gain is the largest so far.

    If ``above`` is infinite it stands for missing values, and the threshold is `ALL_OBSERVED`.
    """
    if cuts.candidate[node] >= 0 and gain <= cuts.gain[node] * (1.0 + GAIN_ROUNDING):
        return
    middle = below + (above - below) / 2.0
    cuts.candidate[node] = candidate
    cuts.gain[node] = gain
    cuts.threshold[node] = middle if middle < above else below  # rounding must not send the right side left
    if above == np.inf:
        cuts.threshold[node] = ALL_OBSERVED


@no_refcount
def note_missing(node: int, before: float, side: int, cuts: Cuts) -> None:
    """Record the side of a cut's missing rows if a scan has raised its gain from ``before``."""
    if cuts.gain[node] > before:
        cuts.missing[node] = side


# --- groups, and their sums of a side -------------------------------------------------------------------------------


class ClassGroups(NamedTuple):
    """Groups of one class each: rows, or rows of one class and one value.

    Attributes
    ----------
    weights
        The weight of each group, which is compared with the least weight of a side, shape (n,).
    masses
        The weight times that of the group's class, from which gains are computed, shape (n,).
    codes
        The class of each group, shape (n,).
    """

    weights: Int32s
    masses: Ints
    codes: Int32s


class ClassSums(NamedTuple):
    """Groups of any classes, which all have the same weight.

    Attributes
    ----------
    weights
        The weight of each group, shape (n,).
    sums
        The weight of each class in each group, shape (n, n_classes).
    """

    weights: Ints
    sums: Int32s


class VectorSums(NamedTuple):
    """Groups of rows with vectors.

    Attributes
    ----------
    weights
        The weight of each group, shape (n,).
    sums
        The weighted sum of the vectors of each group in fixed point, shape (n, n_dimensions).
    """

    weights: Ints
    sums: Ints


SummedGroups = ClassSums | VectorSums
"""Groups to which rows are added."""
RowGroups = ClassGroups | SummedGroups
"""Groups of one kind."""


class Tallies(NamedTuple):
    """Tallies of all rows of a node, of those without a key, and of the two sides: `ALL_ROWS` to `ON_RIGHT`.

    Attributes
    ----------
    weights
        Their weight, shape (4,).
    sums
        The mass of each class, or the sum of their vectors, shape (4, n_sums).
    """

    weights: Ints
    sums: Ints


class Sides(NamedTuple):
    """Weights of the two sides of a cut, and for classes m and sum_k m_k^2 of either side, which are 0 for vectors.

    For `distforest.growth.cuts.two_classes.TwoSums`, m is the weight of the second class.
    """

    n_left: np.int64
    n_right: np.int64
    m_left: np.int64
    squares_left: np.int64
    m_right: np.int64
    squares_right: np.int64


@kernel
def tallies_for(n_sums: int) -> Tallies:
    """Allocate tallies of ``n_sums`` sums."""
    return Tallies(np.zeros(4, np.int64), np.zeros((4, n_sums), np.int64))


@dispatched
def add_group(groups: RowGroups, place: int | np.int64, sums: Ints) -> np.int64:
    """Add one group to the sums of a tally; return its weight."""
    raise NotImplementedError


@dispatched
def sides_of(groups: RowGroups, n_left: np.int64, n_right: np.int64, left: Ints, right: Ints) -> Sides:
    """Return the sides whose sums are ``left`` and ``right``."""
    raise NotImplementedError


@dispatched
def move_left(groups: RowGroups, place: int | np.int64, left: Ints, right: Ints, sides: Sides) -> Sides:
    """Move one group from the right side to the left one."""
    raise NotImplementedError


@add_group.register(ClassGroups)
def _(groups: ClassGroups, place: int | np.int64, sums: Ints) -> np.int64:
    sums[groups.codes[place]] += groups.masses[place]
    return np.int64(groups.weights[place])


@move_left.register(ClassGroups)
def _(groups: ClassGroups, place: int | np.int64, left: Ints, right: Ints, sides: Sides) -> Sides:
    c, w, n = groups.codes[place], np.int64(groups.masses[place]), np.int64(groups.weights[place])
    squares_left = sides.squares_left + w * (2 * left[c] + w)
    squares_right = sides.squares_right - w * (2 * right[c] - w)
    left[c] += w
    right[c] -= w
    return Sides(sides.n_left + n, sides.n_right - n, sides.m_left + w, squares_left, sides.m_right - w, squares_right)


@add_group.register(ClassSums)
def _(groups: ClassSums, place: int | np.int64, sums: Ints) -> np.int64:
    for c in range(sums.shape[0]):
        sums[c] += groups.sums[place, c]
    return np.int64(groups.weights[place])


@move_left.register(ClassSums)
def _(groups: ClassSums, place: int | np.int64, left: Ints, right: Ints, sides: Sides) -> Sides:
    n = np.int64(groups.weights[place])
    squares_left, squares_right = sides.squares_left, sides.squares_right
    for c in range(left.shape[0]):
        w = np.int64(groups.sums[place, c])
        squares_left += w * (2 * left[c] + w)
        squares_right -= w * (2 * right[c] - w)
        left[c] += w
        right[c] -= w
    return Sides(sides.n_left + n, sides.n_right - n, sides.m_left + n, squares_left, sides.m_right - n, squares_right)


@sides_of.register(ClassGroups)
@sides_of.register(ClassSums)
def _(groups: ClassGroups | ClassSums, n_left: np.int64, n_right: np.int64, left: Ints, right: Ints) -> Sides:  # noqa: ARG001
    m_left, m_right, squares_left, squares_right = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    for c in range(left.shape[0]):
        m_left += left[c]
        m_right += right[c]
        squares_left += left[c] * left[c]
        squares_right += right[c] * right[c]
    return Sides(n_left, n_right, m_left, squares_left, m_right, squares_right)


@add_group.register(VectorSums)
def _(groups: VectorSums, place: int | np.int64, sums: Ints) -> np.int64:
    for q in range(sums.shape[0]):
        sums[q] += groups.sums[place, q]
    return np.int64(groups.weights[place])


@move_left.register(VectorSums)
def _(groups: VectorSums, place: int | np.int64, left: Ints, right: Ints, sides: Sides) -> Sides:
    n = np.int64(groups.weights[place])
    for q in range(left.shape[0]):
        left[q] += groups.sums[place, q]
        right[q] -= groups.sums[place, q]
    return Sides(sides.n_left + n, sides.n_right - n, np.int64(0), np.int64(0), np.int64(0), np.int64(0))


@sides_of.register(VectorSums)
def _(groups: VectorSums, n_left: np.int64, n_right: np.int64, left: Ints, right: Ints) -> Sides:  # noqa: ARG001
    return Sides(n_left, n_right, np.int64(0), np.int64(0), np.int64(0), np.int64(0))


@dispatched
def take_group(groups: RowGroups, place: int | np.int64, to: RowGroups, at: int | np.int64, sums: Ints) -> None:
    """Copy a group to position ``at`` of other groups, and subtract it from the sums of a tally."""


@take_group.register(ClassGroups)
def _(groups: ClassGroups, place: int | np.int64, to: ClassGroups, at: int | np.int64, sums: Ints) -> None:
    c, w = groups.codes[place], groups.masses[place]
    to.weights[at], to.masses[at], to.codes[at] = groups.weights[place], w, c
    sums[c] -= w


@take_group.register(VectorSums)
def _(groups: VectorSums, place: int | np.int64, to: VectorSums, at: int | np.int64, sums: Ints) -> None:
    to.weights[at] = groups.weights[place]
    for q in range(sums.shape[0]):
        to.sums[at, q] = groups.sums[place, q]
        sums[q] -= groups.sums[place, q]


@dispatched
def write_groups(groups: RowGroups, place: int | np.int64, weight: int, sums: Ints) -> int:
    """Write rows of this weight and these sums as groups from ``place`` on; return the number of groups."""
    raise NotImplementedError


@write_groups.register(ClassGroups)
def _(groups: ClassGroups, place: int | np.int64, weight: int, sums: Ints) -> int:  # noqa: ARG001
    n = 0
    for c in range(sums.shape[0]):
        if sums[c] > 0:
            groups.weights[place + n], groups.masses[place + n], groups.codes[place + n] = sums[c], sums[c], c
            n += 1
    return n


@write_groups.register(VectorSums)
def _(groups: VectorSums, place: int | np.int64, weight: int, sums: Ints) -> int:
    groups.weights[place] = weight
    for q in range(sums.shape[0]):
        groups.sums[place, q] = sums[q]
    return 1


@dispatched
def add_row(bins: RowGroups, place: int | np.int64, groups: RowGroups, r: int) -> None:
    """Add group r of ``groups``, a row, to a bin."""


@add_row.register(ClassSums)
def _(bins: ClassSums, place: int | np.int64, groups: ClassGroups, r: int) -> None:
    bins.weights[place] += groups.weights[r]
    bins.sums[place, groups.codes[r]] += groups.weights[r]


@add_row.register(VectorSums)
def _(bins: VectorSums, place: int | np.int64, groups: VectorSums, r: int) -> None:
    bins.weights[place] += groups.weights[r]
    for q in range(bins.sums.shape[1]):
        bins.sums[place, q] += groups.sums[r, q]


@dispatched
def clear_group(bins: RowGroups, place: int | np.int64) -> None:
    """Clear a bin."""


@clear_group.register(ClassSums)
@clear_group.register(VectorSums)
def _(bins: ClassSums | VectorSums, place: int | np.int64) -> None:
    bins.weights[place] = 0
    for c in range(bins.sums.shape[1]):
        bins.sums[place, c] = 0


# --- impurities of two sides -----------------------------------------------------------------------


@dispatched
def largest_gain(impurity: Impurity, sides: Sides, left: Ints, right: Ints) -> float:
    """Return the largest possible gain of a cut of the rows on both sides; inf if their tallies do not bound it."""
    raise NotImplementedError


@dispatched
def may_gain(impurity: Impurity, most: float, least: float, sides: Sides, left: Ints, right: Ints) -> bool:
    """Return whether `gain_of` may be above ``least``; if this is False, it is not. This takes no division."""
    raise NotImplementedError


@dispatched
def gain_of(impurity: Impurity, most: float, sides: Sides, left: Ints, right: Ints) -> float:
    """Return the gain of a cut into two sides, 0 if it is within rounding; ``most`` is that of `largest_gain`."""
    raise NotImplementedError


@dispatched_maker
def groups_for(impurity: Impurity, n: int) -> RowGroups:
    """Allocate the groups of up to n rows."""
    raise NotImplementedError


@dispatched_maker
def bins_for(impurity: Impurity, n: int) -> SummedGroups:
    """Allocate n groups of any rows."""
    raise NotImplementedError


@dispatched
def rows_as_groups(impurity: Impurity, rows: Int32s, weights: Int32s, truth: Int32s | Ints, groups: RowGroups) -> None:
    """Make each row of a node a group, from its number, its weight, and the ground truth of all rows."""


@dispatched
def load_vectors(impurity: Impurity, bins: SummedGroups, places: Ints, mass: Floats, vectors: Floats) -> None:
    """Write the mass of the groups at some positions, shape (n,), and the sums by which categories are ordered.

    These are the sums of the vectors of the rows, shape (n, n_dimensions). For labels, the vectors are the unit vectors
    of the classes; for two classes only the second is written, as its share determines that of the first.
    """


def read_alike(impurity: type, other: type) -> None:
    """Declare that the impurity ``other`` is computed from the same groups as ``impurity``."""
    for function in (groups_for, bins_for, rows_as_groups, load_vectors):
        function.share(impurity, other)


# --- the scan ---------------------------------------------------------------------------------------------------


@inlined
def tally_up(groups: RowGroups, places: Ints, which: int, tallies: Tallies) -> None:
    """Tally some groups as ``which``."""
    tallies.weights[which] = 0
    for c in range(tallies.sums.shape[1]):
        tallies.sums[which, c] = 0
    for place in places:
        tallies.weights[which] += add_group(groups, place, tallies.sums[which])


@inlined
def start_with(missing: int, groups: RowGroups, tallies: Tallies) -> Sides:
    """Put all groups on the right, but those without a key on the side ``missing``; ``STAY`` omits them."""
    weights, sums = tallies
    left, right = sums[ON_LEFT], sums[ON_RIGHT]
    for c in range(left.shape[0]):
        left[c] = sums[MISSING, c] if missing == LEFT else 0
        right[c] = sums[ALL_ROWS, c] - (0 if missing == RIGHT else sums[MISSING, c])
    n_left = weights[MISSING] if missing == LEFT else np.int64(0)
    n_right = weights[ALL_ROWS] - (np.int64(0) if missing == RIGHT else weights[MISSING])
    return sides_of(groups, n_left, n_right, left, right)


@inlined
def scan(
    node: int,
    candidate: int,
    keys: Floats,
    order: Ints,
    groups: RowGroups,
    impurity: Impurity,
    tallies: Tallies,
    min_leaf: int,
    missing: int,
    cuts: Cuts,
) -> None:
    """Move the groups of ``order`` from right to left, with those that lack a key on the side ``missing``.

    If these are on the right, the last cut separates them from all others. Its mirror image has the same gain, and is
    omitted.
    """
    left, right, sides = tallies.sums[ON_LEFT], tallies.sums[ON_RIGHT], start_with(missing, groups, tallies)
    if sides.n_left + sides.n_right == 0:
        return
    most, at_start = largest_gain(impurity, sides, left, right), cuts.gain[node]
    least, before = at_start, np.nan
    if least >= most:
        return
    for place in order:
        key = keys[place]
        if (
            key > before
            and sides.n_left >= min_leaf
            and sides.n_right >= min_leaf
            and may_gain(impurity, most, least, sides, left, right)
        ):
            gain = gain_of(impurity, most, sides, left, right)
            if gain > least:
                keep_best(node, candidate, before, key, gain, cuts)
                least = cuts.gain[node]
        before = key
        sides = move_left(groups, place, left, right, sides)
    if missing == RIGHT and sides.n_left >= min_leaf and sides.n_right >= min_leaf:
        gain = gain_of(impurity, most, sides, left, right)
        if gain > least:
            keep_best(node, candidate, before, np.inf, gain, cuts)
    note_missing(node, at_start, missing, cuts)


@inlined
def scan_keys(
    node: int,
    candidate: int,
    keys: Floats,
    order: Ints,
    n: int,
    groups: RowGroups,
    impurity: Impurity,
    tallies: Tallies,
    rules: tuple[int, bool],
    cuts: Cuts,
) -> None:
    """Scan one candidate: the first n groups of ``order`` have ascending keys, and the others have none.

    ``rules`` are the least weight of a side, and whether groups without a key are put on the right side of a cut, then
    on the left one; otherwise they are omitted. All groups of the node are tallied as `ALL_ROWS`.
    """
    min_leaf, places_missing = rules
    tally_up(groups, order[n:], MISSING, tallies)
    are_placed = tallies.weights[MISSING] > 0 and places_missing
    for turn in range(2 if are_placed else 1):  # one call, as each call is compiled
        side = (LEFT if turn else RIGHT) if are_placed else STAY
        scan(node, candidate, keys, order[:n], groups, impurity, tallies, min_leaf, side, cuts)


@no_refcount
def weigh_node(
    impurity: Impurity,
    rows: Int32s,
    weights: Int32s,
    truth: Int32s | Ints,
    groups: RowGroups,
    order: Ints,
    tallies: Tallies,
) -> float:
    """Read the rows of a node, which become groups, and tally them; return the largest possible gain of a cut."""
    rows_as_groups(impurity, rows, weights, truth, groups)
    for r in range(rows.shape[0]):
        order[r] = r
    tally_up(groups, order[: rows.shape[0]], ALL_ROWS, tallies)
    sides = start_with(RIGHT, groups, tallies)
    return largest_gain(impurity, sides, tallies.sums[ON_LEFT], tallies.sums[ON_RIGHT])


@kernel
def cut_rows(
    nodes: Nodes,
    values: Floats,
    truth: Int32s | Ints,
    impurity: Impurity,
    rules: tuple[int, bool],
    cuts: Cuts,
) -> None:
    """Find the best cut of each node over the candidates' ``values``, shape (width, n_rows), by a scan of its rows.

    No cut gains more than `largest_gain`, so the search stops after it.
    """
    starts, rows, weights = nodes
    longest = longest_of(starts)
    order, keys, spare = np.empty(longest, np.int64), np.empty(longest, np.uint64), np.empty(longest, np.uint64)
    groups, tallies = groups_for(impurity, longest), tallies_for(impurity.n_sums)
    for node in range(starts.shape[0] - 1):
        first, last = starts[node], starts[node + 1]
        most = weigh_node(impurity, rows[first:last], weights[first:last], truth, groups, order, tallies)
        for k in range(values.shape[0]):
            of_candidate = values[k, first:last]
            n = order_values(of_candidate, order, keys, spare)
            scan_keys(node, k, of_candidate, order[: last - first], n, groups, impurity, tallies, rules, cuts)
            if cuts.gain[node] == most:
                break
