"""What pictures are drawn of: arrays that belong together, refused as they are put together if nothing can be drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from distforest.amounts import counted
from distforest.arguments import check_finite, numbers, whole
from distforest.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from distforest.arguments import Floats

MOST_PARTS = 2
"""Parts of an importance that have a colour each."""


@dataclass(frozen=True)
class Links:
    """What is known and what was predicted of the links of a graph.

    Attributes
    ----------
    adjacency : ndarray of shape (n, n)
        1 where two nodes are linked.
    distance : ndarray of shape (n, n)
        Predicted distances of all nodes.
    held_out : ndarray of shape (n,)
        Whether a node was held out of training.
    linked, scored : ndarray of shape (n_pairs,)
        Of each scored pair, whether it is linked, and its predicted distance.
    title : str
        What the graph is.

    Raises
    ------
    InputError
        An array is not of its shape or not of finite numbers, or all pairs are of one kind.
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
        linked = _among("linked", _row("linked", self.linked), 2)
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
        The classes.
    title : str
        What the rows are.

    Raises
    ------
    InputError
        The distances are no square of two rows or more, a number is not finite, or a code has no name.
    """

    distance: np.ndarray
    codes: np.ndarray
    names: Sequence[str]
    title: str = "Classes"

    def __post_init__(self) -> None:
        distance, names = _square("distance", self.distance, 2), named_in_short(self.names)
        codes = _among("codes", _row("codes", self.codes, len(distance), "row"), len(names))
        _set_fields(self, distance=distance, codes=codes.astype(np.int64), names=names)


@dataclass(frozen=True)
class Budgets:
    """What forests that paid for different numbers of similarities are worth.

    Attributes
    ----------
    evaluations, accuracy : ndarray of shape (n_forests,)
        Of each forest, the pairs that it has paid for, and its accuracy, in the order of the evaluations.
    n_pairs : int
        All pairs that there were to pay for.
    rival, rival_accuracy : str and float
        What the forests are compared with, and its accuracy.
    title : str
        What was learned.

    Raises
    ------
    InputError
        There is no forest, not one accuracy for each, or a number is not finite.
    """

    evaluations: np.ndarray
    accuracy: np.ndarray
    n_pairs: int
    rival: str
    rival_accuracy: float
    title: str = "Accuracy against budget"

    def __post_init__(self) -> None:
        evaluations = _row("evaluations", self.evaluations)
        accuracy = _row("accuracy", self.accuracy, len(evaluations), "forest")
        rival_accuracy = float(_row("rival_accuracy", [self.rival_accuracy])[0])
        _set_fields(self, evaluations=evaluations, accuracy=accuracy, rival_accuracy=rival_accuracy)
        whole("n_pairs", self.n_pairs, 1)


@dataclass(frozen=True)
class Weights:
    """How likely a forest is to draw each feature.

    Attributes
    ----------
    shares : ndarray of shape (n_features,)
        Of the draws.
    dependence : ndarray of shape (n_features,), or None
        By how much each feature depends on another, if they were screened.
    names : sequence of str
        Of the features; their numbers where it is empty.
    title : str
        What the features are of.

    Raises
    ------
    InputError
        A number is negative or not finite, or there is not one, and no name or one, for each feature.
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
    """What each feature has given to a forest.

    Attributes
    ----------
    parts : mapping of str to ndarray of shape (n_features,)
        Shares that add up to a feature's importance, by what they are of: a forest of pairs knows of each feature's
        differences and of its middles.
    names : sequence of str
        Of the features; their numbers where it is empty.
    of : str
        What the shares are of.
    title : str
        What the features are of.

    Raises
    ------
    InputError
        A number is negative or not finite, there is not one for each feature, or parts have no colour.
    """

    parts: Mapping[str, np.ndarray]
    names: Sequence[str] = ()
    of: str = "the gain of all cuts"
    title: str = "Features by importance"

    def __post_init__(self) -> None:
        if not isinstance(self.parts, Mapping) or not 1 <= len(self.parts) <= MOST_PARTS:
            found = f"{len(self.parts)}" if isinstance(self.parts, Mapping) else type(self.parts).__name__
            raise InputError(f"parts must be a dict of 1 to {MOST_PARTS} parts of an importance, found {found}")
        parts = {str(part): _shares(f"parts[{part!r}]", shares) for part, shares in self.parts.items()}
        lengths = [len(shares) for shares in parts.values()]
        if len(set(lengths)) > 1:
            raise InputError(
                f"parts must have a number for each feature, found {lengths[0]} and {counted(lengths[1], 'number')}"
            )
        _set_fields(self, parts=parts, names=_names_of_features(self.names, lengths[0]))


def as_drawn(value: object, kind: type) -> None:
    """Refuse what is not of the kind that a picture is drawn of; raises InputError."""
    if not isinstance(value, kind):
        raise InputError(f"a picture is drawn of {kind.__name__}(...), found {type(value).__name__}")


def _set_fields(drawn: object, **values: object) -> None:
    """Put what was read in the place of what was given."""
    for name, value in values.items():
        object.__setattr__(drawn, name, value)


def named_in_short(names: object) -> list[str]:
    """Names as a list of strings; raises InputError for one string alone, and for what is no sequence."""
    if isinstance(names, str) or not isinstance(names, (Sequence, np.ndarray)):
        raise InputError(f"names: a list of names was expected, found {names!r}")
    return [*map(str, names)]


def _square(name: str, values: ArrayLike, least: int) -> Floats:
    """A square matrix of finite numbers, of so many rows at least."""
    found = numbers(values, name, 2)
    if found.shape[0] != found.shape[1] or len(found) < least:
        raise InputError(f"{name} must be a square matrix of {counted(least, 'row')} or more, found {found.shape}")
    check_finite(found, name)
    return found


def _row(name: str, values: ArrayLike, length: int | None = None, of: str = "") -> Floats:
    """Finite numbers, one at least, and as many as there are of something."""
    found = numbers(values, name, 1)
    if length is not None and len(found) != length:
        raise InputError(f"{name} must have one number for each of {counted(length, of)}, found {len(found):,}")
    if not len(found):
        raise InputError(f"{name} must have one number or more, found none")
    check_finite(found, name)
    return found


def _shares(name: str, values: ArrayLike, length: int | None = None) -> Floats:
    """A number for each feature, none of them negative."""
    found = _row(name, values, length, "feature")
    if found.min() < 0:
        raise InputError(f"{name} must not be negative, found {found.min():g}")
    return found


def _names_of_features(names: object, length: int) -> list[str]:
    """None, or a name for each feature."""
    found = named_in_short(names)
    if found and len(found) != length:
        raise InputError(
            f"names: none, or one for each of {counted(length, 'feature')} was expected, found {len(found)}"
        )
    return found


def _among(name: str, values: Floats, allowed: int) -> Floats:
    """Numbers of 0, 1, 2 and so on, below a limit."""
    strange = values[(values != values.astype(np.int64)) | (values < 0) | (values >= allowed)]
    if len(strange):
        raise InputError(f"{name} must be whole numbers from 0 to {allowed - 1}, found {strange[0]:g}")
    return values
