"""How a sealed forest is grown, checked and told of once more: lines of Python, and commands."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import numpy as np

from distforest.amounts import counted
from distforest.estimators.smerf import SMERF
from distforest.forest.tree_spans import merged_in_words
from distforest.sources.truth import TruthKind
from distforest.sources.weights import OF_PAIRS

if TYPE_CHECKING:
    from distforest.forest.forest import Forest

TAUGHT = {
    TruthKind.LABELS: ("y", "labels", "Labels(y)"),
    TruthKind.TARGETS: ("y", "targets", "Targets(y)"),
    TruthKind.DIFFERENCES: ("y", "targets", "Targets(y, metric='absolute')"),
    TruthKind.EMBEDDING: ("Z", "an embedding", "Embedding(Z)"),
    TruthKind.DIRECTIONS: ("Z", "an embedding", "Embedding(Z, metric='cosine')"),
    TruthKind.DISTANCES: ("Z", "distances, or the Graph from which they follow", "Distances(Z)"),
}
"""The name of each kind of truth in these lines, what it is, and how SMERF is told that it is this."""


def repetition(estimator: Any, address: str, made_by: str) -> tuple[str, str]:
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
    tuple of str
        Lines of Python, and lines of commands. Data that were not given by an address are told by their shape.
    """
    forest: Forest = estimator.forest_
    commands = [f"distforest verify {shlex.quote(address)}", *([made_by] if made_by else [])]
    return "\n".join(_in_python(estimator, forest)), "\n".join(f"$ {line}" for line in commands)


def _in_python(estimator: Any, forest: Forest) -> list[str]:
    """Lines that grow the forest again."""
    kind, learned = type(estimator).__name__, forest.meaning.leaf.learned
    imported, data, names = [kind], [_datum("X", forest, "matrix", _shape(forest))], ["X"]
    if learned in TAUGHT:
        name, what, relation = TAUGHT[learned]
        data.append(_datum(name, forest, str(learned), what))
        is_told = isinstance(estimator, SMERF)
        imported += [relation.partition("(")[0]] if is_told else []
        names.append(relation if is_told else name)
    elif learned is TruthKind.LINKS:
        data.append(_datum("y", forest, "labels", "labels; known pairs go into fit_pairs(X, pairs, similar)"))
        names.append("y")
    if told := merged_in_words(forest.provenance):
        data.append(f"# {told}: one fit for each seed, and distforest.merge of them all")
    if OF_PAIRS.key in forest.provenance:
        data.append("# the given pairs had weights: fit_pairs(..., pair_weight=w) gives them again")
    if forest.sample_weight is not None:
        data.append("# training rows had weights: sample_weight=w gives them again")
    if "similarity" in forest.provenance:
        data.append("# similarities were asked of a function: similarity=Lazy(...) gives it again")
    grown = f"forest = {kind}({_arguments(estimator)}).fit({', '.join(names)})"
    check = f'assert forest.digest_ == "{forest.digest}"'
    return [f"from distforest import {', '.join(imported)}", "", *data, grown, check]


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
