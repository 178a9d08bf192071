"""Criteria: the best cut of each open node. All of them lower the mean pairwise distance (SMERF, Eq. 1).

For a set S of rows with weights w, let m = sum w and P(S) = sum over ordered pairs of w_i w_j z_ij, self pairs
included. A cut into L and R gains ``P(S)/m - P(L)/m_L - P(R)/m_R``, which is n I(S) - n_L I(S_L) - n_R I(S_R).
A row whose value is missing is put on the right side of a cut, then on the left one, as in scikit-learn's trees; a
further cut has the observed on the left and the missing on the right. If a criterion leaves the missing out, they are
not in S: they do not count in the gain.
The criteria differ in how P is computed. Here it is computed in closed form, from labels (Gini) or from vectors
(variance); from a matrix, in `distforest.growth.cuts.mean_distance`.
Every P is an exact integer (fixed point), so a cut does not depend on the order of the rows.

The largest gain wins, then the candidate drawn first, then the missing on the right, then the lowest threshold, of
which `ALL_OBSERVED` is the highest. Gains that differ by rounding are equal. The sums of the two sides are added first,
so that a cut and its mirror image gain the same.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from distforest.errors import InputError
from distforest.forest.frontier import LEFT, RIGHT, STAY, Frontier, Nodes, longest_of
from distforest.forest.missing import ALL_OBSERVED
from distforest.growth.cuts.category_orders import rank_by_classes, rank_by_vectors
from distforest.growth.cuts.ordering import order_values
from distforest.growth.rng import Keys
from distforest.jit import borrowing, kernel
from distforest.sources.source import Floats, Int32s, Ints

GAIN_ROUNDING = 1e-12
"""A gain below this share of its terms is rounding, and counts as 0; so does a difference of two gains."""

NO_CUT = -1.0
"""Less than any gain. A cut that gains 0 is a cut, as in CART, since cuts below it may gain."""


class Cuts(NamedTuple):
    """The cut of each node.

    Attributes
    ----------
    candidate
        The chosen candidate, -1 for none, shape (n_nodes,).
    threshold, gain
        Its threshold, and its gain in fixed-point units (or `NO_CUT`), shape (n_nodes,).
    missing
        The side of the rows that lack its value, shape (n_nodes,); ``STAY`` if they were left out, or there are none.
    """

    candidate: Int32s
    threshold: Floats
    gain: Floats
    missing: NDArray[np.int8]

    @classmethod
    def none(cls, n_nodes: int) -> Cuts:
        """No cut for any node."""
        sides = np.full(n_nodes, STAY, np.int8)
        return cls(np.full(n_nodes, -1, np.int32), np.zeros(n_nodes), np.full(n_nodes, NO_CUT), sides)


class Turn(NamedTuple):
    """Some candidates of each node: those from number ``first`` on, of ``width``."""

    first: int
    width: int


class Criterion(Protocol):
    """A criterion, by which cuts are judged."""

    @property
    def is_plain(self) -> bool:
        """Whether its class alone determines how it cuts, so that a fused search for the class may be used."""

    @property
    def unit(self) -> float:
        """The distance that a gain of 1 in `Cuts` stands for."""

    def at(self, frontier: Frontier) -> Criterion:
        """The criterion for the level of ``frontier`` and those below it: itself, or one that holds less data."""

    def attempted(self, keys: Keys, attempt: int) -> Criterion:
        """The criterion for one attempt of the nodes with these streams: itself, or one that has drawn where to cut."""

    def judged_on(self, frontier: Frontier) -> Frontier:
        """The nodes with the rows that judge cuts if no side can be too light: the frontier itself, or fewer rows."""

    def impure(self, frontier: Frontier) -> NDArray[np.bool_]:
        """Whether a cut of each node could gain anything, shape (n_nodes,)."""

    def cut(self, frontier: Frontier, values: Floats, min_leaf: int) -> Cuts:
        """The best cut of each node over the candidates' ``values``, shape (width, n_rows)."""


@runtime_checkable
class JudgesInTurn(Protocol):
    """A criterion that can judge the candidates of nodes one after another, and then chooses as if it had seen all."""

    def judge(self, frontier: Frontier, values: Floats, min_leaf: int, turn: Turn, found: Any) -> Any:
        """What is known after the candidates of ``turn``, whose ``values`` are given, shape (n_candidates, n_rows).

        ``found`` is what was known before them, None of the first ones.
        """

    def chosen(self, frontier: Frontier, found: Any) -> Cuts:
        """The cut of each node, after all its candidates were judged."""


class Steady:
    """The base of most criteria: the same at every level and in every attempt, and judged on all rows."""

    @property
    def is_plain(self) -> bool:
        """Whether its class alone determines how it cuts: always."""
        return True

    def at(self, frontier: Frontier) -> Self:  # noqa: ARG002  (the same at every level)
        """Itself."""
        return self

    def attempted(self, keys: Keys, attempt: int) -> Self:  # noqa: ARG002  (nothing is drawn)
        """Itself."""
        return self

    def judged_on(self, frontier: Frontier) -> Frontier:
        """The frontier itself."""
        return frontier


class BestSoFar(Steady):
    """The base of criteria that know no more of the candidates they have judged than the best cut of each node."""

    def improve(self, frontier: Frontier, values: Floats, min_leaf: int, cuts: Cuts) -> None:
        """Let candidates, counted from 0, take the place of cuts that gain less, or of none."""
        raise NotImplementedError

    def cut(self, frontier: Frontier, values: Floats, min_leaf: int) -> Cuts:
        """The best cut of each node."""
        cuts = Cuts.none(frontier.n_nodes)
        self.improve(frontier, values, min_leaf, cuts)
        return cuts

    def judge(self, frontier: Frontier, values: Floats, min_leaf: int, turn: Turn, found: Cuts | None) -> Cuts:
        """The best cut of each node after the candidates of a turn."""
        if found is None:
            return self.cut(frontier, values, min_leaf)
        cuts = Cuts(found.candidate.copy(), found.threshold.copy(), found.gain.copy(), found.missing.copy())
        self.improve(frontier, values, min_leaf, cuts)
        cuts.candidate[cuts.gain > found.gain] += turn.first
        return cuts

    def chosen(self, frontier: Frontier, found: Cuts) -> Cuts:  # noqa: ARG002  (the best cuts so far are the best)
        """The cuts that were found."""
        return found


@dataclass(frozen=True)
class Gini(BestSoFar):
    """z_ij = 1[y_i != y_j], so P(S) = m^2 - sum_k m_k^2: the Gini impurity (SMERF, Proposition 1).

    With ``class_weights``, integers c_k, shape (n_classes,), a row of weight w counts as w c_k in all sums of a
    gain, and as w where a side must not be too light. ``places_missing`` says whether a cut tries its missing rows on
    either side; if not, it leaves them out.
    """

    codes: Int32s
    n_classes: int
    unit: float = 1.0
    class_weights: Ints | None = None
    places_missing: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether all classes weigh the same."""
        return self.class_weights is None

    def impure(self, frontier: Frontier) -> NDArray[np.bool_]:
        """Whether a node holds two classes."""
        return _differs(frontier, self.codes)

    def improve(self, frontier: Frontier, values: Floats, min_leaf: int, cuts: Cuts) -> None:
        """See `cut_gini`."""
        cut_gini(frontier.nodes, values, self.codes, self.weights, min_leaf, self.places_missing, cuts)

    def rank_categories(self, frontier: Frontier, which: NDArray[np.bool_], n_codes: int, values: Floats) -> None:
        """Replace codes by ranks: see `rank_by_classes`."""
        rank_by_classes(frontier.nodes, self.codes, self.weights, n_codes, which, values)

    @property
    def weights(self) -> Ints:
        """The weight of each class, shape (n_classes,)."""
        return np.ones(self.n_classes, np.int64) if self.class_weights is None else self.class_weights


@dataclass(frozen=True)
class Variance(BestSoFar):
    """z_ij = f ||Y_i - Y_j||^2, so P(S) = 2 f (m sum w ||Y||^2 - ||sum w Y||^2) (SMERF, Proposition 2, f = 1/2).

    ``places_missing`` is as in `Gini`.
    """

    fixed: Ints
    unit: float
    places_missing: bool = False

    @classmethod
    def of(cls, vectors: Floats, factor: float, name: str = "targets", heaviest: int | None = None) -> Variance:
        """Convert ``vectors``, shape (n_rows, n_dimensions), less their middle, to integers whose sums fit 63 bits.

        ``heaviest`` is the largest weight of a tree; None: the number of rows.

        Raises
        ------
        InputError
            The vectors, called ``name`` in the message, differ by less than 1e-150 or by more than 1e150: their squares
            are not float64 numbers.
        """
        centred = vectors - (vectors.min(axis=0) / 2.0 + vectors.max(axis=0) / 2.0)
        largest = float(np.abs(centred).max(initial=0.0))
        if largest and not 1e-150 < largest < 1e150:
            where = f", with {furthest_of(vectors, median_of(vectors))}" if largest > 1.0 else ""
            found = f"found a range of {2.0 * largest:g}{where}"
            raise InputError(f"values of the {name} must differ by 1e-150 to 1e150, {found}; correct or scale them")
        bits = bits_of(heaviest or len(vectors))
        scale = power_of_two(largest, bits)
        return cls(np.rint(centred * scale).astype(np.int64), 2.0 * factor * scale**-2.0)

    def impure(self, frontier: Frontier) -> NDArray[np.bool_]:
        """Whether a node holds two different vectors."""
        differs = np.zeros(frontier.n_nodes, np.bool_)
        for dimension in self.fixed.T:
            differs |= _differs(frontier, dimension)
        return differs

    def improve(self, frontier: Frontier, values: Floats, min_leaf: int, cuts: Cuts) -> None:
        """See `cut_variance`."""
        cut_variance(frontier.nodes, values, self.fixed, min_leaf, self.places_missing, cuts)

    def rank_categories(self, frontier: Frontier, which: NDArray[np.bool_], n_codes: int, values: Floats) -> None:
        """Replace codes by ranks: see `rank_by_vectors`."""
        rank_by_vectors(frontier.nodes, self.fixed, n_codes, which, values)


def judging(criterion: Criterion, truth: np.ndarray) -> Gini | Variance:
    """The criterion over rows with this truth."""
    if isinstance(criterion, Gini):
        return replace(criterion, codes=truth)
    assert isinstance(criterion, Variance)  # noqa: S101  (`distforest.growth.row_blocks` has asked)
    return replace(criterion, fixed=truth)


def bits_of(n_rows: int) -> int:
    """The bits of the integers that stand for vectors: a sum of one for each row has 60 bits at most."""
    return min(50, 60 - int(np.ceil(np.log2(max(2, n_rows)))))


def median_of(vectors: Floats) -> Floats:
    """The median of each dimension, the upper one of two, shape (n_dimensions,)."""
    middle = len(vectors) // 2
    median: Floats = np.partition(vectors, middle, axis=0)[middle]
    return median


def furthest_of(vectors: Floats, place: Floats) -> str:
    """The value that is furthest from a place, shape (n_dimensions,), and its row, in words."""
    deviations = np.abs(vectors / 2.0 - place / 2.0)  # halves do not overflow
    row, dimension = np.unravel_index(int(np.argmax(deviations)), deviations.shape)
    return f"{vectors[row, dimension]:.9g} in row {row}"


def power_of_two(largest: float, bits: int) -> float:
    """The power of two that scales ``largest`` into [2^(bits-1), 2^bits]; scaling by a power of two is exact."""
    if largest == 0.0:
        return 1.0
    return float(2.0 ** (bits - np.ceil(np.log2(largest))))


def _differs(frontier: Frontier, values: NDArray[np.int32] | Ints) -> NDArray[np.bool_]:
    """Whether two rows of a node differ in ``values``."""
    differs = np.empty(frontier.n_nodes, np.bool_)
    compare_rows(frontier.starts, frontier.rows, values, differs)
    return differs


@kernel
def compare_rows(starts: Ints, rows: Int32s, values: NDArray[np.int32] | Ints, differs: NDArray[np.bool_]) -> None:
    """differs[node] = whether a row of the node has another value than its first row; no row after that is read."""
    for node in range(starts.shape[0] - 1):
        first = values[rows[starts[node]]]
        differs[node] = False
        for r in range(starts[node] + 1, starts[node + 1]):
            if values[rows[r]] != first:
                differs[node] = True
                break


@borrowing
def keep_best(
    node: int,
    candidate: int,
    below: float,
    above: float,
    gain: float,
    cuts: Cuts,
) -> None:
    """Let the cut between the values ``below`` < ``above`` be the node's cut if its gain is the largest so far.

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


@borrowing
def note_missing(node: int, before: float, side: int, cuts: Cuts) -> None:
    """Note where a node's cut has its missing rows, if a scan has raised its gain from ``before``."""
    if cuts.gain[node] > before:
        cuts.missing[node] = side


class Start(NamedTuple):
    """Where a scan starts: all observed rows are on the right.

    Attributes
    ----------
    weight, on_left
        Weight of all rows that take part, and of those that are on the left, the missing ones.
    """

    weight: np.int64
    on_left: np.int64


@borrowing
def start_with(missing: int, weights: Ints, sums: Ints) -> Start:
    """The start with the missing rows on the side ``missing``; ``STAY`` if they are left out, or there are none.

    ``weights`` and ``sums[:2]`` are those of all rows and of the missing ones, shapes (2,) and (4, n_sums); the rest of
    ``sums`` is room for the sides.
    """
    left, right = sums[2], sums[3]
    for q in range(sums.shape[1]):
        left[q] = sums[1, q] if missing == LEFT else 0
        right[q] = sums[0, q] - (0 if missing == RIGHT else sums[1, q])
    left_out = weights[1] if missing == STAY else np.int64(0)
    return Start(weights[0] - left_out, weights[1] if missing == LEFT else np.int64(0))


class LabelledRows(NamedTuple):
    """The rows of a node, as a scan takes them.

    Attributes
    ----------
    weights
        Multiplicity of each row, which is compared with ``min_leaf``, shape (n,).
    class_weighted
        The same times the weight of the row's class, of which the sums of a gain are made, shape (n,) or longer.
    codes
        Class of each row, shape (n,) or longer.
    total, sums
        As `start_with` takes them: plain weights, and class-weighted sums by class.
    """

    weights: Int32s
    class_weighted: Ints | Int32s
    codes: Int32s
    total: Ints
    sums: Ints


@kernel
def cut_gini(
    nodes: Nodes,
    values: Floats,
    codes: Int32s,
    class_weights: Ints,
    min_leaf: int,
    places_missing: bool,
    cuts: Cuts,
) -> None:
    """The largest gain with P(S) = m^2 - sum_k m_k^2, updated as rows move from right to left in a candidate's order.

    m and m_k are sums of a row's weight times that of its class; ``min_leaf`` is compared with sums of plain weights.
    No cut gains more than one that parts all classes, so none is sought after it.
    """
    starts, rows, weights = nodes
    longest, n_classes = longest_of(starts), class_weights.shape[0]
    order, keys, spare = np.empty(longest, np.int64), np.empty(longest, np.uint64), np.empty(longest, np.uint64)
    row_codes, class_weighted = np.empty(longest, np.int32), np.empty(longest, np.int64)
    total, sums = np.empty(2, np.int64), np.empty((4, n_classes), np.int64)
    for node in range(starts.shape[0] - 1):
        first, last = starts[node], starts[node + 1]
        size, of_node = last - first, LabelledRows(weights[first:last], class_weighted, row_codes, total, sums)
        for r in range(first, last):
            c = codes[rows[r]]
            row_codes[r - first], class_weighted[r - first], order[r - first] = (
                c,
                weights[r] * class_weights[c],
                r - first,
            )
        add_classes(order[:size], of_node, 0)
        most = most_gain_of(sums[0])
        for k in range(values.shape[0]):
            of_candidate = values[k, first:last]
            n = order_values(of_candidate, order, keys, spare)
            cut_labels(node, k, of_candidate, order[:size], n, of_node, (min_leaf, places_missing), cuts)
            if cuts.gain[node] == most:
                break


@borrowing
def cut_labels(
    node: int,
    candidate: int,
    values: Floats,
    order: Ints,
    n: int,
    of_node: LabelledRows,
    rules: tuple[int, bool],
    cuts: Cuts,
) -> None:
    """Scan one candidate, of whose rows the first n of ``order`` are observed and the others missing.

    ``rules`` are the least weight of a side, and whether missing rows are placed.
    """
    min_leaf, places_missing = rules
    add_classes(order[n:], of_node, 1)
    are_left_out = n == order.shape[0] or not places_missing
    for turn in range(1 if are_left_out else 2):  # one call, as each call is compiled
        side = STAY if are_left_out else (LEFT if turn else RIGHT)
        if turn == 0 or may_gain_gini(cuts.gain[node], order[:n], of_node, side):
            scan_gini(node, candidate, values, order[:n], of_node, min_leaf, side, cuts)


@borrowing
def add_classes(places: Ints, of_node: LabelledRows, which: int) -> None:
    """total[which], sums[which, c] = plain weight of rows of a node, and class-weighted sum of those of class c."""
    total, sums = np.int64(0), of_node.sums[which]
    for c in range(sums.shape[0]):
        sums[c] = 0
    for place in places:
        total += of_node.weights[place]
        sums[of_node.codes[place]] += of_node.class_weighted[place]
    of_node.total[which] = total


@borrowing
def gini_gain(whole: float, m_left: int, squares_left: int, m_right: int, squares_right: int) -> float:
    """P(S)/m - (P(L)/m_L + P(R)/m_R) with P = m^2 - squares; 0 where it is rounding."""
    inside = (m_left * m_left - squares_left) / m_left + (m_right * m_right - squares_right) / m_right
    gain = whole - inside
    return gain if gain > GAIN_ROUNDING * (whole + inside) else 0.0


@borrowing
def most_gain_of(sums: Ints) -> float:
    """P(S)/m, the most that a cut can gain, from sums by class."""
    m, squares = np.int64(0), np.int64(0)
    for c in range(sums.shape[0]):
        m += sums[c]
        squares += sums[c] * sums[c]
    return (m * m - squares) / m


class Squares(NamedTuple):
    """m and sum_k m_k^2 of all rows that take part, and of the two sides."""

    m: np.int64
    squares: np.int64
    m_left: np.int64
    squares_left: np.int64
    m_right: np.int64
    squares_right: np.int64


@borrowing
def squares_of(left: Ints, right: Ints) -> Squares:
    """The squares of sums by class."""
    zero = np.int64(0)
    m_left, m_right, squares, squares_left, squares_right = zero, zero, zero, zero, zero
    for c in range(left.shape[0]):
        m_left += left[c]
        m_right += right[c]
        squares += (left[c] + right[c]) * (left[c] + right[c])
        squares_left += left[c] * left[c]
        squares_right += right[c] * right[c]
    return Squares(m_left + m_right, squares, m_left, squares_left, m_right, squares_right)


@borrowing
def may_gain_gini(least: float, order: Ints, of_node: LabelledRows, missing: int) -> bool:
    """Whether `scan_gini` may find a gain above ``least``; where this says no, it does not.

    whole - (P(L)/m_L + P(R)/m_R) > least where (whole - least) m_L m_R > P(L) m_R + P(R) m_L, which takes no division.
    What is added on the left is more than all rounding.
    """
    start_with(missing, of_node.total, of_node.sums)
    left, right = of_node.sums[2], of_node.sums[3]
    m, squares, m_left, squares_left, m_right, squares_right = squares_of(left, right)
    whole = (m * m - squares) / m
    room = whole - least + 1e-12 * whole
    if least >= whole:
        return False
    for place in order:
        c, w = of_node.codes[place], np.int64(of_node.class_weighted[place])
        squares_left += w * (2 * left[c] + w)
        squares_right -= w * (2 * right[c] - w)
        left[c] += w
        right[c] -= w
        m_left += w
        m_right -= w
        on_left, on_right = np.float64(m_left), np.float64(m_right)
        inside = (
            np.float64(m_left * m_left - squares_left) * on_right
            + np.float64(m_right * m_right - squares_right) * on_left
        )
        if room * (on_left * on_right) > inside:
            return True
    return False


@borrowing
def scan_gini(
    node: int,
    candidate: int,
    values: Floats,
    order: Ints,
    of_node: LabelledRows,
    min_leaf: int,
    missing: int,
    cuts: Cuts,
) -> None:
    """Move the observed rows of a node from right to left in one candidate's order, with the missing ones on a side.

    If they are on the right, the last cut parts them from all others. Its mirror image gains the same, so it is left
    out.
    """
    weight, n_left = start_with(missing, of_node.total, of_node.sums)
    left, right = of_node.sums[2], of_node.sums[3]
    weights, class_weighted, codes, _, _ = of_node
    m, squares, m_left, squares_left, m_right, squares_right = squares_of(left, right)
    if m == 0:
        return
    whole, most_left = (m * m - squares) / m, weight - min_leaf
    least, before, at_start = cuts.gain[node], np.nan, cuts.gain[node]
    for place in order:
        value = values[place]
        if value > before and n_left >= min_leaf and n_left <= most_left:
            gain = gini_gain(whole, m_left, squares_left, m_right, squares_right)
            if gain > least:
                keep_best(node, candidate, before, value, gain, cuts)
                least = cuts.gain[node]
        before = value
        n_left += weights[place]
        c, w = codes[place], np.int64(class_weighted[place])
        squares_left += w * (2 * left[c] + w)
        squares_right -= w * (2 * right[c] - w)
        left[c] += w
        right[c] -= w
        m_left += w
        m_right -= w
    if missing == RIGHT and n_left >= min_leaf and n_left <= most_left:
        gain = gini_gain(whole, m_left, squares_left, m_right, squares_right)
        if gain > least:
            keep_best(node, candidate, before, np.inf, gain, cuts)
    note_missing(node, at_start, missing, cuts)


class VectorRows(NamedTuple):
    """The rows of a node, as a scan takes them.

    Attributes
    ----------
    rows, weights
        Row numbers and their multiplicities, shape (n,).
    fixed
        The vectors of all rows in fixed point, shape (n_rows, n_dimensions).
    total, sums
        As `start_with` takes them: weights, and weighted sums of vectors.
    """

    rows: Int32s
    weights: Int32s
    fixed: Ints
    total: Ints
    sums: Ints


@kernel
def cut_variance(
    nodes: Nodes,
    values: Floats,
    fixed: Ints,
    min_leaf: int,
    places_missing: bool,
    cuts: Cuts,
) -> None:
    """P(S)/m - P(L)/m_L - P(R)/m_R = m_L m_R / m ||mean_L - mean_R||^2, as sum w ||Y||^2 cancels."""
    starts, rows, weights = nodes
    longest = longest_of(starts)
    order, keys, spare = np.empty(longest, np.int64), np.empty(longest, np.uint64), np.empty(longest, np.uint64)
    total, sums = np.empty(2, np.int64), np.empty((4, fixed.shape[1]), np.int64)
    for node in range(starts.shape[0] - 1):
        first, last = starts[node], starts[node + 1]
        of_node = VectorRows(rows[first:last], weights[first:last], fixed, total, sums)
        add_all_vectors(of_node)
        for k in range(values.shape[0]):
            n = order_values(values[k, first:last], order, keys, spare)
            of_candidate = order[: last - first]
            cut_vectors(node, k, values[k, first:last], of_candidate, n, of_node, (min_leaf, places_missing), cuts)


@borrowing
def add_all_vectors(of_node: VectorRows) -> None:
    """total[0], sums[0] = weight of the rows of a node, and weighted sum of their vectors."""
    rows, weights, fixed, total, sums = of_node
    total[0] = 0
    for q in range(fixed.shape[1]):
        sums[0, q] = 0
    for place in range(rows.shape[0]):
        total[0] += weights[place]
        for q in range(fixed.shape[1]):
            sums[0, q] += weights[place] * fixed[rows[place], q]


@borrowing
def cut_vectors(
    node: int,
    candidate: int,
    values: Floats,
    order: Ints,
    n: int,
    of_node: VectorRows,
    rules: tuple[int, bool],
    cuts: Cuts,
) -> None:
    """Scan one candidate as `cut_labels` does."""
    rows, weights, fixed, total, sums = of_node
    min_leaf, places_missing = rules
    total[1] = 0
    for q in range(fixed.shape[1]):
        sums[1, q] = 0
    for place in order[n:]:
        total[1] += weights[place]
        for q in range(fixed.shape[1]):
            sums[1, q] += weights[place] * fixed[rows[place], q]
    are_left_out = n == order.shape[0] or not places_missing
    for turn in range(1 if are_left_out else 2):  # one call, as each call is compiled
        side = STAY if are_left_out else (LEFT if turn else RIGHT)
        if turn == 0 or may_gain_variance(cuts.gain[node], order[:n], of_node, side):
            scan_variance(node, candidate, values, order[:n], of_node, min_leaf, side, cuts)


@borrowing
def variance_gain(m_left: int, left: Ints, m_right: int, right: Ints) -> float:
    """m_L m_R / m ||mean_L - mean_R||^2 from the sums of the two sides; 0 where it is rounding.

    Rounding is a difference of two fixed-point units, or of the last bits of the means.
    """
    squared_distance, rounding = 0.0, 0.0
    for q in range(left.shape[0]):
        mean_left, mean_right = left[q] / m_left, right[q] / m_right
        squared_distance += (mean_left - mean_right) ** 2
        rounding += (2.0 + 1e-15 * (abs(mean_left) + abs(mean_right))) ** 2
    return squared_distance * (m_left * m_right / (m_left + m_right)) if squared_distance > rounding else 0.0


@borrowing
def may_gain_variance(least: float, order: Ints, of_node: VectorRows, missing: int) -> bool:
    """Whether `scan_variance` may find a gain above ``least``; where this says no, it does not.

    It is above where ||m_R L - m_L R||^2 > least m m_L m_R for the sums L and R of the two sides, which takes no
    division. What is added on the left is more than all rounding.
    """
    rows, weights, fixed, total, sums = of_node
    weight, m_left = start_with(missing, total, sums)
    left, right = sums[2], sums[3]
    for place in order:
        w = np.int64(weights[place])
        m_left += w
        on_left, on_right, reach = np.float64(m_left), np.float64(weight - m_left), 0.0
        for q in range(fixed.shape[1]):
            moved = w * fixed[rows[place], q]
            left[q] += moved
            right[q] -= moved
            one, other = on_right * np.float64(left[q]), on_left * np.float64(right[q])
            apart = abs(one - other) + 1e-14 * (abs(one) + abs(other))
            reach += apart * apart
        if reach * (1.0 + 1e-9) > least * np.float64(weight) * (on_left * on_right) and m_left < weight:
            return True
    return False


@borrowing
def scan_variance(
    node: int,
    candidate: int,
    values: Floats,
    order: Ints,
    of_node: VectorRows,
    min_leaf: int,
    missing: int,
    cuts: Cuts,
) -> None:
    """Move the observed rows of a node from right to left in one candidate's order: as `scan_gini`."""
    rows, weights, fixed, total, sums = of_node
    weight, m_left = start_with(missing, total, sums)
    left, right = sums[2], sums[3]
    m_right = weight - m_left
    least, before, at_start = cuts.gain[node], np.nan, cuts.gain[node]
    for place in order:
        value = values[place]
        if value > before and m_left >= min_leaf and m_right >= min_leaf:
            gain = variance_gain(m_left, left, m_right, right)
            if gain > least:
                keep_best(node, candidate, before, value, gain, cuts)
                least = cuts.gain[node]
        before = value
        w = np.int64(weights[place])
        for q in range(fixed.shape[1]):
            moved = w * fixed[rows[place], q]
            left[q] += moved
            right[q] -= moved
        m_left += w
        m_right -= w
    if missing == RIGHT and m_left >= min_leaf and m_right >= min_leaf:
        gain = variance_gain(m_left, left, m_right, right)
        if gain > least:
            keep_best(node, candidate, before, np.inf, gain, cuts)
    note_missing(node, at_start, missing, cuts)
