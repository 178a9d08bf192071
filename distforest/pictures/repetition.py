"""How a sealed forest is grown, checked and told of once more: lines of Python, and commands."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import numpy as np

from distforest.amounts import counted
from distforest.sources.truth import TruthKind

if TYPE_CHECKING:
    from distforest.forest.forest import Forest

TAUGHT = {
    TruthKind.LABELS: ("y", "labels"),
    TruthKind.TARGETS: ("y", "targets"),
    TruthKind.EMBEDDING: ("Z", "an embedding"),
    TruthKind.DISTANCES: ("Z", "distances"),
}
"""The name of each kind of truth in these lines, and what it is."""


def repetition(estimator: Any, address: str, made_by: str) -> str:
    """Write how a forest is grown again with the same digest, checked, and reported on.

    Parameters
    ----------
    estimator
        The forest, as `load` opens it.
    address
        Where it is sealed.
    made_by
        The command that makes the report; empty: none is told.

    Returns
    -------
    str
        Lines of Python, then commands. Data that were not given by an address are told by their shape.
    """
    forest: Forest = estimator.forest_
    commands = [f"distforest verify {shlex.quote(address)}", *([made_by] if made_by else [])]
    return "\n".join([*_in_python(estimator, forest), "", *(f"$ {line}" for line in commands)])


def _in_python(estimator: Any, forest: Forest) -> list[str]:
    """Lines that grow the forest again."""
    kind = type(estimator).__name__
    lines = [f"from distforest import {kind}", "", _datum("X", forest, "matrix", _shape(forest))]
    learned = forest.meaning.leaf.learned
    if learned is TruthKind.LINKS:
        lines.append("y = ...  # labels; pairs that are similar or not go into fit_pairs(X, pairs, similar)")
        names = "X, y"
    elif learned in TAUGHT:
        name, what = TAUGHT[learned]
        lines.append(_datum(name, forest, str(learned), what))
        names = f"X, {name}"
    else:
        names = "X"
    return [
        *lines,
        f"forest = {kind}({_arguments(estimator)}).fit({names})",
        f'assert forest.digest_ == "{forest.digest}"',
    ]


def _shape(forest: Forest) -> str:
    """The shape of the training data in words."""
    return f"{counted(forest.n_training, 'row')}, {counted(forest.n_features, 'column')}"


def _datum(name: str, forest: Forest, entry: str, what: str) -> str:
    """A line that names data: by the address and the digest that the forest keeps, or else by what they are."""
    inputs = forest.provenance.get("inputs")
    known = inputs.get(entry) if isinstance(inputs, dict) else None
    if not isinstance(known, dict) or not isinstance(known.get("address"), str):
        return f"{name} = ...  # {what}"
    return f"{name} = {known['address']!r}  # {what}, sha256 {known.get('sha256')}"


def _arguments(estimator: Any) -> str:
    """The arguments of an estimator that are not its defaults."""
    default = type(estimator)().get_params()
    changed = {name: value for name, value in estimator.get_params().items() if not _same(value, default[name])}
    return ", ".join(
        f"{name}={'...' if isinstance(value, np.ndarray) else repr(value)}" for name, value in changed.items()
    )


def _same(one: object, other: object) -> bool:
    return not isinstance(one, np.ndarray) and one == other
