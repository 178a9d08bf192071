"""The data of pictures: arrays that belong together, checked when they are put together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from distforest.amounts import counted
from distforest.arguments import check_finite, numbers, whole
from distforest.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from distforest.arguments import Floats

MOST_PARTS = 2
"""Largest number of parts of an importance: each has its own colour."""


@dataclass(frozen=True)
class Links:
    """The known and the predicted links of a graph.

    Attributes
    ----------
    adjacency : ndarray of shape (n, n)
        1 where two nodes are linked.
    distance : ndarray of shape (n, n)
        Predicted distances of all nodes.
    held_out : ndarray of shape (n,)
        Whether each node was held out of training.
    linked, scored : ndarray of shape (n_pairs,)
        Whether each scored pair is linked, and its predicted distance.
    title : str
        Title of the picture.

    Raises
    ------
    InputError
        An array has another shape or a number that is not finite, or all pairs are of one kind.
    """

    adjacency: np.ndarray
    distance: np.ndarray
    held_out: np.ndarray
    linked: np.ndarray
    scored: np.ndarray
    title: str = "Links"

    def __post_init__(self) -> None:
        adjacency, distance = (_square(name, getattr(self, name), 1) for name in ("adjacency", "distance"))
        if adjacency.shape != distance.shape:
            raise InputError(
                f"adjacency and distance must be of one shape, found {adjacency.shape} and {distance.shape}"
            )
        held_out = _row("held_out", self.held_out, len(distance), "node")
        linked = _checked_codes("linked", _row("linked", self.linked), 2)
        scored = _row("scored", self.scored, len(linked), "pair")
        if linked.min() == linked.max():
            raise InputError(f"linked must have pairs that are linked, 1, and others, 0, found {linked[0]:g} alone")
        _set_fields(self, adjacency=adjacency, distance=distance, held_out=held_out != 0, linked=linked, scored=scored)


@dataclass(frozen=True)
class Classes:
    """Distances of rows of known classes.

    Attributes
    ----------
    distance : ndarray of shape (n, n)
        Predicted distances.
    codes : ndarray of shape (n,)
        The class of each row, as a place in ``names``.
    names : sequence of str
        Names of the classes.
    title : str
        Title of the picture.

    Raises
    ------
    InputError
        The distances are not a square matrix of two rows or more, a number is not finite, or a code has no name.
    """

    distance: np.ndarray
    codes: np.ndarray
    names: Sequence[str]
    title: str = "Classes"

    def __post_init__(self) -> None:
        distance, names = _square("distance", self.distance, 2), listed_names(self.names)
        codes = _checked_codes("codes", _row("codes", self.codes, len(distance), "row"), len(names))
        _set_fields(self, distance=distance, codes=codes.astype(np.int64), names=names)


@dataclass(frozen=True)
class RowMap:
    """A map of rows: a place in the plane for each, and what is known of it.

    Attributes
    ----------
    places : ndarray of shape (n, 2)
        Coordinates.
    values : ndarray of shape (n,), or None
        A number of each row; with ``names`` its class, as a place in these. None: nothing is known.
    names : sequence of str
        Names of the classes; empty if ``values`` are amounts.
    title : str
        Title of the picture.

    Raises
    ------
    InputError
        An array has another shape or a number that is not finite, or a code has no name.
    """

    places: np.ndarray
    values: np.ndarray | None = None
    names: Sequence[str] = ()
    title: str = "Map of the rows by their distances"

    def __post_init__(self) -> None:
        places, names = numbers(self.places, "places", 2), listed_names(self.names)
        if places.shape[1] != 2 or not len(places):
            raise InputError(f"places must have two coordinates for each row, found shape {places.shape}")
        check_finite(places, "places")
        _set_fields(self, places=places, names=names)
        if self.values is not None:
            values = _row("values", self.values, len(places), "row")
            codes = _checked_codes("values", values, len(names)).astype(np.int64) if names else values
            _set_fields(self, values=codes)


@dataclass(frozen=True)
class Clusters:
    """Proximities of rows, and the clusters into which the rows fall.

    Attributes
    ----------
    proximity : ndarray of shape (n, n)
        Proximities, in the order of the rows.
    order : ndarray of shape (n,)
        The rows in the order of the picture, those of a cluster next to each other.
    codes : ndarray of shape (n,)
        The cluster of each row, numbered as they come in ``order``.
    title : str
        Title of the picture.

    Raises
    ------
    InputError
        The proximities are no square matrix of finite numbers, ``order`` does not hold each row once, or the clusters
        are not runs of it.
    """

    proximity: np.ndarray
    order: np.ndarray
    codes: np.ndarray
    title: str = "Proximity, rows by cluster"

    def __post_init__(self) -> None:
        proximity = _square("proximity", self.proximity, 1)
        n = len(proximity)
        order = _checked_codes("order", _row("order", self.order, n, "row"), n).astype(np.int64)
        codes = _checked_codes("codes", _row("codes", self.codes, n, "row"), n).astype(np.int64)
        if len(np.unique(order)) != n or (np.diff(codes[order]) < 0).any():
            raise InputError("order must hold each row once, those of a cluster next to each other")
        _set_fields(self, proximity=proximity, order=order, codes=codes)

    @property
    def ordered(self) -> Floats:
        """The proximities in the order of the picture, shape (n, n)."""
        ordered: Floats = self.proximity[np.ix_(self.order, self.order)]
        return ordered

    @property
    def sizes(self) -> np.ndarray:
        """Number of rows in each cluster, shape (n_clusters,)."""
        return np.bincount(self.codes)


@dataclass(frozen=True)
class Budgets:
    """Accuracies of forests that paid for different numbers of similarities.

    Attributes
    ----------
    evaluations, accuracy : ndarray of shape (n_forests,)
        Number of pairs that each forest paid for, and its accuracy, in the order of the evaluations.
    n_pairs : int
        Number of all pairs.
    rival, rival_accuracy : str and float, or "" and None
        Name of a method with which the forests are compared, and its accuracy; none by default.
    title : str
        Title of the picture.

    Raises
    ------
    InputError
        There is no forest, there is not one accuracy for each, or a number is not finite.
    """

    evaluations: np.ndarray
    accuracy: np.ndarray
    n_pairs: int
    rival: str = ""
    rival_accuracy: float | None = None
    title: str = "Accuracy against budget"

    def __post_init__(self) -> None:
        evaluations = _row("evaluations", self.evaluations)
        accuracy = _row("accuracy", self.accuracy, len(evaluations), "forest")
        _set_fields(self, evaluations=evaluations, accuracy=accuracy)
        if self.rival or self.rival_accuracy is not None:
            rival: Any = [self.rival_accuracy]
            _set_fields(self, rival_accuracy=float(_row("rival_accuracy", rival)[0]))
        whole("n_pairs", self.n_pairs, 1)


@dataclass(frozen=True)
class Weights:
    """How likely a forest is to draw each feature.

    Attributes
    ----------
    shares : ndarray of shape (n_features,)
        Share of the draws for each feature.
    dependence : ndarray of shape (n_features,), or None
        By how much each feature depends on another; None if features were not screened.
    names : sequence of str
        Names of the features; if empty, their numbers are shown.
    title : str
        Title of the picture.

    Raises
    ------
    InputError
        A number is negative or not finite, there is not one number for each feature, or there are names but not one for
        each feature.
    """

    shares: np.ndarray
    dependence: np.ndarray | None = None
    names: Sequence[str] = ()
    title: str = "Features by weight"

    def __post_init__(self) -> None:
        shares = _shares("shares", self.shares)
        names = _names_of_features(self.names, len(shares))
        _set_fields(self, shares=shares, names=names)
        if self.dependence is not None:
            _set_fields(self, dependence=_shares("dependence", self.dependence, len(shares)))


@dataclass(frozen=True)
class Importances:
    """The importance of each feature in a forest.

    Attributes
    ----------
    parts : mapping of str to ndarray of shape (n_features,)
        Named shares that add up to a feature's importance: in a forest over pairs those of its differences and of its
        middles.
    names : sequence of str
        Names of the features; if empty, their numbers are shown.
    of : str
        The total that the shares are shares of; or what importances are that are no shares.
    title : str
        Title of the picture.
    errors : ndarray of shape (n_features,), or None
        Standard error of each importance; None: they are not drawn.
    is_share : bool
        Whether the importances are shares of a total. If not, one may be negative, and there is one part.

    Raises
    ------
    InputError
        A share is negative, a number is not finite, there is not one for each feature, or there are too many parts.
    """

    parts: Mapping[str, np.ndarray]
    names: Sequence[str] = ()
    of: str = "the gain of all splits"
    title: str = "Features by importance"
    errors: np.ndarray | None = None
    is_share: bool = True

    def __post_init__(self) -> None:
        most = MOST_PARTS if self.is_share else 1
        if not isinstance(self.parts, Mapping) or not 1 <= len(self.parts) <= most:
            found = f"{len(self.parts)}" if isinstance(self.parts, Mapping) else type(self.parts).__name__
            raise InputError(f"parts must be a dict of 1 to {most} parts of an importance, found {found}")
        read = _shares if self.is_share else _row
        parts = {str(part): read(f"parts[{part!r}]", shares) for part, shares in self.parts.items()}
        lengths = [len(shares) for shares in parts.values()]
        if len(set(lengths)) > 1:
            raise InputError(
                f"parts must have a number for each feature, found {lengths[0]} and {counted(lengths[1], 'number')}"
            )
        _set_fields(self, parts=parts, names=_names_of_features(self.names, lengths[0]))
        if self.errors is not None:
            _set_fields(self, errors=_shares("errors", self.errors, lengths[0]))


@dataclass(frozen=True)
class Contributions:
    """What each feature adds to the distance of two rows, or takes from it.

    Attributes
    ----------
    contributions : ndarray of shape (n_features,)
        By how much each feature raises the distance above the baseline, or lowers it.
    baseline : float
        The mean distance of the training rows; the distance is the baseline and all contributions.
    names : sequence of str
        Names of the features; if empty, their numbers are shown.
    title : str
        Title of the picture.

    Raises
    ------
    InputError
        A number is not finite, or there are names but not one for each feature.
    """

    contributions: np.ndarray
    baseline: float
    names: Sequence[str] = ()
    title: str = "Why this far?"

    def __post_init__(self) -> None:
        contributions = _row("contributions", self.contributions)
        baseline: Any = [self.baseline]
        names = _names_of_features(self.names, len(contributions))
        _set_fields(self, contributions=contributions, baseline=float(_row("baseline", baseline)[0]), names=names)

    @property
    def distance(self) -> float:
        """The distance of the two rows."""
        return self.baseline + float(self.contributions.sum())


def check_drawn(value: object, kind: type) -> None:
    """Refuse data that are not of the type from which a picture is drawn; raises InputError."""
    if not isinstance(value, kind):
        raise InputError(f"a picture is drawn of {kind.__name__}(...), found {type(value).__name__}")


def _set_fields(drawn: object, **values: object) -> None:
    """Replace fields of a frozen dataclass by their checked values."""
    for name, value in values.items():
        object.__setattr__(drawn, name, value)


def listed_names(names: object) -> list[str]:
    """Names as a list of strings; raises InputError for a single string and for anything but a sequence."""
    if isinstance(names, str) or not isinstance(names, (Sequence, np.ndarray)):
        raise InputError(f"names: a list of names was expected, found {names!r}")
    return [*map(str, names)]


def _square(name: str, values: ArrayLike, least: int) -> Floats:
    """Read a square matrix of finite numbers with at least so many rows."""
    matrix = numbers(values, name, 2)
    if matrix.shape[0] != matrix.shape[1] or len(matrix) < least:
        raise InputError(f"{name} must be a square matrix of {counted(least, 'row')} or more, found {matrix.shape}")
    check_finite(matrix, name)
    return matrix


def _row(name: str, values: ArrayLike, length: int | None = None, of: str = "") -> Floats:
    """Read finite numbers: at least one, and one for each of ``length`` things named ``of``."""
    row = numbers(values, name, 1)
    if length is not None and len(row) != length:
        raise InputError(f"{name} must have one number for each of {counted(length, of)}, found {len(row):,}")
    if not len(row):
        raise InputError(f"{name} must have one number or more, found none")
    check_finite(row, name)
    return row


def _shares(name: str, values: ArrayLike, length: int | None = None) -> Floats:
    """Read a number >= 0 for each feature."""
    shares = _row(name, values, length, "feature")
    if shares.min() < 0:
        raise InputError(f"{name} must not be negative, found {shares.min():g}")
    return shares


def _names_of_features(names: object, length: int) -> list[str]:
    """Read no names, or a name for each feature."""
    listed = listed_names(names)
    if listed and len(listed) != length:
        raise InputError(
            f"names: none, or one for each of {counted(length, 'feature')} was expected, found {len(listed)}"
        )
    return listed


def _checked_codes(name: str, values: Floats, n_codes: int) -> Floats:
    """Return ``values`` if they are whole numbers from 0 to ``n_codes - 1``; raises InputError otherwise."""
    strange = values[(values != values.astype(np.int64)) | (values < 0) | (values >= n_codes)]
    if len(strange):
        raise InputError(f"{name} must be whole numbers from 0 to {n_codes - 1}, found {strange[0]:g}")
    return values
