"""Criteria: scores for the best cut of each open node. All of them lower the mean pairwise distance (SMERF, Eq. 1).

For a set S of rows with weights w, let m = sum w and P(S) = sum over ordered pairs of w_i w_j z_ij, self pairs
included. A cut into L and R gains ``P(S)/m - P(L)/m_L - P(R)/m_R``, which is n I(S) - n_L I(S_L) - n_R I(S_R).
A row whose value is missing is put on the right side of a cut, then on the left one, as in scikit-learn's trees; a
further cut has the observed on the left and the missing on the right. If a criterion leaves the missing out, they are
not in S: they do not count in the gain.
The criteria differ in how P is computed. Here it is computed in closed form, from labels (Gini) or from vectors
(variance); from a matrix, in `distforest.growth.cuts.mean_distance`.
Every P is an exact integer (fixed point), so a cut does not depend on the order of the rows. The sums of the two sides
are added first, so that a cut and its mirror image gain the same. `distforest.growth.cuts.scan` finds the cuts, and
defines which one of equal gain it takes.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from distforest.errors import InputError
from distforest.forest.frontier import Frontier
from distforest.growth.cuts.category_orders import rank_by_sums
from distforest.growth.cuts.scan import (
    GAIN_ROUNDING,
    ClassGroups,
    ClassSums,
    Cuts,
    Impurity,
    Sides,
    VectorSums,
    bins_for,
    cut_rows,
    gain_of,
    groups_for,
    largest_gain,
    load_vectors,
    may_gain,
    rows_as_groups,
)
from distforest.growth.rng import Keys
from distforest.jit import kernel, no_refcount
from distforest.sources.source import Floats, Int32s, Ints

if TYPE_CHECKING:
    from distforest.sources.mapped_rows import MappedRows


class Turn(NamedTuple):
    """Some candidates of each node: those from number ``first`` on, of ``width``."""

    first: int
    width: int


class Criterion(Protocol):
    """A criterion by which cuts are scored."""

    @property
    def is_plain(self) -> bool:
        """Whether the class determines the cuts, so that a fused search for the class may be used."""

    @property
    def unit(self) -> float:
        """The distance for which a gain of 1 in `Cuts` stands."""

    def truth_of(self, n_rows: int) -> Int32s | Ints:
        """Return the class of each row, or its vector in fixed point, that score cuts; no columns without these."""

    def over(self, truth: np.ndarray, features: np.ndarray, stored: MappedRows | None = None) -> Criterion:
        """Return the criterion over other rows, with their truth and features; ``stored`` reads mapped features."""

    def at(self, frontier: Frontier) -> Criterion:
        """Return the criterion for the level of ``frontier`` and below: itself, or a criterion with less data."""

    def attempted(self, keys: Keys, attempt: int) -> Criterion:
        """Return the criterion for one attempt of the nodes with these streams: itself, or one with thresholds."""

    def scored_on(self, frontier: Frontier) -> Frontier:
        """Return the nodes with the rows that score cuts if no side can be too light: all rows, or fewer."""

    def impure(self, frontier: Frontier) -> NDArray[np.bool_]:
        """Return whether a cut of each node could gain anything, shape (n_nodes,)."""

    def cut(self, frontier: Frontier, values: Floats, min_leaf: int) -> Cuts:
        """Return the best cut of each node over the candidates' ``values``, shape (width, n_rows)."""


@runtime_checkable
class ScoresInTurn(Protocol):
    """A criterion that can score the candidates of nodes one after another, and then chooses among all."""

    def score_candidates(self, frontier: Frontier, values: Floats, min_leaf: int, turn: Turn, found: Any) -> Any:
        """Return the result after the candidates of ``turn``, whose ``values`` have shape (n_candidates, n_rows).

        ``found`` is the result before them, None for the first ones.
        """

    def chosen(self, frontier: Frontier, found: Any) -> Cuts:
        """Return the cut of each node, after all its candidates were scored."""


class Steady:
    """Base of most criteria, which are the same at every level and in every attempt, and are scored on all rows."""

    @property
    def is_plain(self) -> bool:
        """Whether the class determines the cuts: always."""
        return True

    def truth_of(self, n_rows: int) -> Int32s | Ints:
        """Return no columns."""
        return np.empty((n_rows, 0), np.int32)

    def over(
        self,
        truth: np.ndarray,  # noqa: ARG002  (no rows)
        features: np.ndarray,  # noqa: ARG002
        stored: MappedRows | None = None,  # noqa: ARG002
    ) -> Self:
        """Itself."""
        return self

    def at(self, frontier: Frontier) -> Self:  # noqa: ARG002  (the same at every level)
        """Itself."""
        return self

    def attempted(self, keys: Keys, attempt: int) -> Self:  # noqa: ARG002  (nothing is drawn)
        """Itself."""
        return self

    def scored_on(self, frontier: Frontier) -> Frontier:
        """Return the frontier itself."""
        return frontier


class BestSoFar(Steady):
    """Base of criteria that keep only the best cut of each node among the candidates that they have scored."""

    def improve(self, frontier: Frontier, values: Floats, min_leaf: int, cuts: Cuts) -> None:
        """Replace cuts that gain less, or missing ones, by those of candidates, counted from 0."""
        raise NotImplementedError

    def cut(self, frontier: Frontier, values: Floats, min_leaf: int) -> Cuts:
        """Return the best cut of each node."""
        cuts = Cuts.none(frontier.n_nodes)
        self.improve(frontier, values, min_leaf, cuts)
        return cuts

    def score_candidates(
        self, frontier: Frontier, values: Floats, min_leaf: int, turn: Turn, found: Cuts | None
    ) -> Cuts:
        """Return the best cut of each node after the candidates of a turn."""
        if found is None:
            return self.cut(frontier, values, min_leaf)
        cuts = Cuts(found.candidate.copy(), found.threshold.copy(), found.gain.copy(), found.missing.copy())
        self.improve(frontier, values, min_leaf, cuts)
        cuts.candidate[cuts.gain > found.gain] += turn.first
        return cuts

    def chosen(self, frontier: Frontier, found: Cuts) -> Cuts:  # noqa: ARG002  (the best cuts so far are the best)
        """Return the cuts that were found."""
        return found


class GiniImpurity(NamedTuple):
    """P(S) = m^2 - sum_k m_k^2 of the masses m_k of ``n_sums`` classes, and the weight of each class."""

    n_sums: int
    class_weights: Ints


@largest_gain.register(GiniImpurity)
def _(impurity: GiniImpurity, sides: Sides, left: Ints, right: Ints) -> float:  # noqa: ARG001
    m, squares = sides.m_left + sides.m_right, np.int64(0)
    for c in range(left.shape[0]):
        squares += (left[c] + right[c]) * (left[c] + right[c])
    return (m * m - squares) / m


@may_gain.register(GiniImpurity)
def _(impurity: GiniImpurity, most: float, least: float, sides: Sides, left: Ints, right: Ints) -> bool:  # noqa: ARG001
    """(most - least) m_L m_R > P(L) m_R + P(R) m_L; the term added on the left exceeds all rounding."""
    m_left, m_right = np.float64(sides.m_left), np.float64(sides.m_right)
    inside = (
        np.float64(sides.m_left * sides.m_left - sides.squares_left) * m_right
        + np.float64(sides.m_right * sides.m_right - sides.squares_right) * m_left
    )
    return bool((most - least + 1e-12 * most) * (m_left * m_right) > inside)


@gain_of.register(GiniImpurity)
def _(impurity: GiniImpurity, most: float, sides: Sides, left: Ints, right: Ints) -> float:  # noqa: ARG001
    return gini_gain(most, sides.m_left, sides.squares_left, sides.m_right, sides.squares_right)


@no_refcount
def gini_gain(whole: float, m_left: int, squares_left: int, m_right: int, squares_right: int) -> float:
    """P(S)/m - (P(L)/m_L + P(R)/m_R) with P = m^2 - squares; 0 if it is within rounding."""
    inside = (m_left * m_left - squares_left) / m_left + (m_right * m_right - squares_right) / m_right
    gain = whole - inside
    return gain if gain > GAIN_ROUNDING * (whole + inside) else 0.0


@groups_for.register(GiniImpurity)
def _(impurity: GiniImpurity, n: int) -> ClassGroups:  # noqa: ARG001
    return ClassGroups(np.empty(n, np.int32), np.empty(n, np.int64), np.empty(n, np.int32))


@bins_for.register(GiniImpurity)
def _(impurity: GiniImpurity, n: int) -> ClassSums:
    return ClassSums(np.zeros(n, np.int64), np.zeros((n, impurity.n_sums), np.int32))


@rows_as_groups.register(GiniImpurity)
def _(impurity: GiniImpurity, rows: Int32s, weights: Int32s, truth: Int32s, groups: ClassGroups) -> None:
    for r in range(rows.shape[0]):
        c = truth[rows[r]]
        groups.weights[r], groups.codes[r] = weights[r], c
        groups.masses[r] = weights[r] * impurity.class_weights[c]


@load_vectors.register(GiniImpurity)
def _(impurity: GiniImpurity, bins: ClassSums, places: Ints, mass: Floats, vectors: Floats) -> None:
    is_of_two = vectors.shape[1] == 1
    for c in range(places.shape[0]):
        mass[c] = 0.0
        for label in range(bins.sums.shape[1]):
            of_class = np.float64(bins.sums[places[c], label] * impurity.class_weights[label])
            mass[c] += of_class
            if not is_of_two:
                vectors[c, label] = of_class
            elif label == 1:
                vectors[c, 0] = of_class


class SquaredDistance(NamedTuple):
    """P(S) = 2 (m sum w ||Y||^2 - ||sum w Y||^2), of vectors in ``n_sums`` dimensions."""

    n_sums: int


@largest_gain.register(SquaredDistance)
def _(impurity: SquaredDistance, sides: Sides, left: Ints, right: Ints) -> float:  # noqa: ARG001
    return np.inf


@may_gain.register(SquaredDistance)
def _(impurity: SquaredDistance, most: float, least: float, sides: Sides, left: Ints, right: Ints) -> bool:  # noqa: ARG001
    """||m_R L - m_L R||^2 > least m m_L m_R for the sums L and R; the term added on the left exceeds all rounding."""
    m_left, m_right, reach = np.float64(sides.n_left), np.float64(sides.n_right), 0.0
    for q in range(left.shape[0]):
        one, other = m_right * np.float64(left[q]), m_left * np.float64(right[q])
        apart = abs(one - other) + 1e-14 * (abs(one) + abs(other))
        reach += apart * apart
    return bool(reach * (1.0 + 1e-9) > least * (m_left + m_right) * (m_left * m_right))


@gain_of.register(SquaredDistance)
def _(impurity: SquaredDistance, most: float, sides: Sides, left: Ints, right: Ints) -> float:  # noqa: ARG001
    """m_L m_R / m ||mean_L - mean_R||^2, as sum w ||Y||^2 cancels.

    A difference of two fixed-point units, or of the last bits of the means, is rounding.
    """
    m_left, m_right, squared_distance, rounding = sides.n_left, sides.n_right, 0.0, 0.0
    for q in range(left.shape[0]):
        mean_left, mean_right = left[q] / m_left, right[q] / m_right
        squared_distance += (mean_left - mean_right) ** 2
        rounding += (2.0 + 1e-15 * (abs(mean_left) + abs(mean_right))) ** 2
    return squared_distance * (m_left * m_right / (m_left + m_right)) if squared_distance > rounding else 0.0


@groups_for.register(SquaredDistance)
@bins_for.register(SquaredDistance)
def _(impurity: SquaredDistance, n: int) -> VectorSums:
    return VectorSums(np.zeros(n, np.int64), np.zeros((n, impurity.n_sums), np.int64))


@rows_as_groups.register(SquaredDistance)
def _(impurity: SquaredDistance, rows: Int32s, weights: Int32s, truth: Ints, groups: VectorSums) -> None:  # noqa: ARG001
    for r in range(rows.shape[0]):
        groups.weights[r] = weights[r]
        for q in range(truth.shape[1]):
            groups.sums[r, q] = weights[r] * truth[rows[r], q]


@load_vectors.register(SquaredDistance)
def _(impurity: SquaredDistance, bins: VectorSums, places: Ints, mass: Floats, vectors: Floats) -> None:  # noqa: ARG001
    for c in range(places.shape[0]):
        mass[c] = np.float64(bins.weights[places[c]])
        for q in range(bins.sums.shape[1]):
            vectors[c, q] = np.float64(bins.sums[places[c], q])


@dataclass(frozen=True)
class OfRows(BestSoFar):
    """Base of criteria that score cuts by a class or vector of each row.

    Attributes
    ----------
    truth
        The class of each row, shape (n_rows,), int32; or its vector in fixed point, shape (n_rows, q), int64.
    places_missing
        Whether a cut tries its missing rows on either side; if not, it omits them.
    """

    truth: Int32s | Ints
    places_missing: bool = field(default=False, kw_only=True)

    def truth_of(self, n_rows: int) -> Int32s | Ints:  # noqa: ARG002  (all rows)
        """Return the truth."""
        return self.truth

    def over(self, truth: np.ndarray, features: np.ndarray, stored: MappedRows | None = None) -> Self:  # noqa: ARG002
        """Return the criterion with the truth of other rows."""
        return replace(self, truth=truth)


@dataclass(frozen=True)
class Tallied(OfRows):
    """Base of criteria that the common scan computes, from an impurity and the tallies of rows."""

    @property
    def impurity(self) -> Impurity:
        """The impurity."""
        raise NotImplementedError

    @property
    def is_gini(self) -> bool:
        """Whether the search for Gini impurity over bins may be used: see `distforest.growth.cuts.class_histograms`."""
        return isinstance(self.impurity, GiniImpurity)

    @property
    def n_dimensions(self) -> int:
        """Number of dimensions in which categories are ordered."""
        raise NotImplementedError

    def rank_categories(self, frontier: Frontier, which: NDArray[np.bool_], n_codes: int, values: Floats) -> None:
        """Replace codes by ranks: see `rank_by_sums`."""
        rank_by_sums(frontier.nodes, self.truth, self.impurity, self.n_dimensions, n_codes, which, values)

    def impure(self, frontier: Frontier) -> NDArray[np.bool_]:
        """Return whether a node contains two rows of different truth."""
        differs = np.zeros(frontier.n_nodes, np.bool_)
        for dimension in np.atleast_2d(self.truth.T):
            differs |= _differs(frontier, dimension)
        return differs

    def improve(self, frontier: Frontier, values: Floats, min_leaf: int, cuts: Cuts) -> None:
        """See `cut_rows`."""
        cut_rows(frontier.nodes, values, self.truth, self.impurity, (min_leaf, self.places_missing), cuts)


@dataclass(frozen=True)
class Gini(Tallied):
    """z_ij = 1[y_i != y_j], so P(S) = m^2 - sum_k m_k^2: the Gini impurity (SMERF, Proposition 1).

    With ``class_weights``, integers c_k, shape (n_classes,), a row of weight w counts as w c_k in all sums of a
    gain, and as w where a side must not be too light.
    """

    n_classes: int
    unit: float = 1.0
    class_weights: Ints | None = None

    @property
    def is_plain(self) -> bool:
        """Whether all classes weigh the same."""
        return self.class_weights is None

    @property
    def weights(self) -> Ints:
        """The weight of each class, shape (n_classes,)."""
        return np.ones(self.n_classes, np.int64) if self.class_weights is None else self.class_weights

    @property
    def impurity(self) -> GiniImpurity:
        """The impurity."""
        return GiniImpurity(self.n_classes, self.weights)

    @property
    def n_dimensions(self) -> int:
        """Number of dimensions in which categories are ordered; for two classes, the second one suffices."""
        return 1 if self.n_classes == 2 else self.n_classes


@dataclass(frozen=True)
class Variance(Tallied):
    """z_ij = f ||Y_i - Y_j||^2, so P(S) = 2 f (m sum w ||Y||^2 - ||sum w Y||^2) (SMERF, Proposition 2, f = 1/2)."""

    unit: float

    @classmethod
    def from_vectors(
        cls, vectors: Floats, factor: float, name: str = "targets", heaviest: int | None = None
    ) -> Variance:
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

    @property
    def impurity(self) -> SquaredDistance:
        """The impurity."""
        return SquaredDistance(self.n_dimensions)

    @property
    def n_dimensions(self) -> int:
        """The number of dimensions of the vectors, in which categories are ordered."""
        return int(self.truth.shape[1])


def bits_of(n_rows: int) -> int:
    """Return the number of bits of the integers for vectors; a sum over one per row has at most 60 bits."""
    return min(50, 60 - int(np.ceil(np.log2(max(2, n_rows)))))


def median_of(vectors: Floats) -> Floats:
    """Return the median of each dimension, the upper one of two, shape (n_dimensions,)."""
    middle = len(vectors) // 2
    median: Floats = np.partition(vectors, middle, axis=0)[middle]
    return median


def furthest_of(vectors: Floats, place: Floats) -> str:
    """Return a text of the value that is furthest from ``place``, shape (n_dimensions,), and its row."""
    deviations = np.abs(vectors / 2.0 - place / 2.0)  # halves do not overflow
    row, dimension = np.unravel_index(int(np.argmax(deviations)), deviations.shape)
    return f"{vectors[row, dimension]:.9g} in row {row}"


def power_of_two(largest: float, bits: int) -> float:
    """Return the power of two that scales ``largest`` into [2^(bits-1), 2^bits]; scaling by a power of two is exact."""
    if largest == 0.0:
        return 1.0
    return float(2.0 ** (bits - np.ceil(np.log2(largest))))


def _differs(frontier: Frontier, values: NDArray[np.int32] | Ints) -> NDArray[np.bool_]:
    """Return whether two rows of a node differ in ``values``."""
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
