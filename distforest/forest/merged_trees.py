"""Merging of forests of the same data and parameters, but of other seeds, into one forest with all trees.

::

    seed 0, trees 0 .. 99   seed 1, trees 0 .. 99        spans of trees, by which a tree that occurs twice is found
    [ arrays of a forest ]  [ arrays of a forest ]  ->   arrays of all trees, one forest after another

Lengths are stored, not offsets, so merging is concatenation. The order is that of seeds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from distforest.amounts import counted
from distforest.errors import InputError
from distforest.forest.estimates import ESTIMATES
from distforest.forest.forest import FURTHER_ARRAYS, Forest
from distforest.forest.graph_leaves import GRAPH_ARRAYS
from distforest.forest.leaf_kinds import KeepsLeafDistances
from distforest.forest.leaves import COSTS
from distforest.forest.target_leaves import TAUGHT_TARGETS
from distforest.sources.row_kinds import input_in_words

if TYPE_CHECKING:
    from distforest.forest.forest import Meaning

MERGED = "merged"
"""Key of a merged forest's provenance for the spans of its trees and the identity of its data."""

REPEATED = (*FURTHER_ARRAYS, *GRAPH_ARRAYS, "distances", COSTS, TAUGHT_TARGETS)
"""Arrays of a forest that repeat its inputs."""

OF_ALL_TREES = "leaf_distances"
"""Array that is dropped if one of the forests keeps the distances of its training rows instead."""

DROPPED = ("data_sha256", "fingerprint", "chosen_cut", "grown_by", ESTIMATES)
"""Entries of the provenance that hold for a single fit."""

MERGEABLE = "forests of the same data and parameters are merged"


@dataclass(frozen=True, order=True)
class TreeSpan:
    """Trees first to last of a seed."""

    seed: int
    first: int
    last: int

    def __str__(self) -> str:
        return f"trees {self.first} to {self.last} of seed {self.seed}"

    def overlaps(self, other: TreeSpan) -> bool:
        """Return whether the spans have a tree in common."""
        return self.seed == other.seed and self.first <= other.last and other.first <= self.last

    @property
    def entry(self) -> dict[str, int]:
        """The span as an entry of the provenance."""
        return {"seed": self.seed, "first": self.first, "last": self.last}


def merged_in_words(provenance: Mapping[str, Any]) -> str:
    """Return a text of the merged forests; empty if none were merged.

    Examples
    --------
    >>> trees = [{"seed": 0, "first": 0, "last": 9}, {"seed": 4, "first": 0, "last": 99}]
    >>> merged_in_words({"merged": {"trees": trees}})
    '2 forests: trees 0 to 9 of seed 0, trees 0 to 99 of seed 4'
    """
    entry = provenance.get(MERGED)
    found = entry.get("trees") if isinstance(entry, dict) else None
    if not isinstance(found, list):
        return ""
    parts = [
        f"trees {own.get('first')} to {own.get('last')} of seed {own.get('seed')}"
        for own in found
        if isinstance(own, dict)
    ]
    return f"{counted(len(parts), 'forest')}: {', '.join(parts)}"


def merged(forests: Sequence[Forest]) -> Forest:
    """Merge forests of the same data and parameters.

    Parameters
    ----------
    forests
        Two or more forests, in any order; each may be a merged one.

    Returns
    -------
    Forest
        The merged forest, with the trees of the smallest seed first. Its seed is the smallest; its provenance names all
        seeds. Its columns have names if those of one of the forests have. Estimates of the fits are dropped, as they
        are for fewer trees.

    Raises
    ------
    InputError
        A tree is in two of the forests; or the forests differ in method, parameters, kind of rows, version of the
        growth or data; or it cannot be determined whether their data differ. The message names the difference.
    """
    if len(forests) < 2:
        raise InputError(f"{MERGEABLE}: two or more were expected, found {len(forests)}")
    spans = [spans_of(forest) for forest in forests]
    order = sorted(range(len(forests)), key=lambda place: spans[place])
    forests, spans = [forests[place] for place in order], [spans[place] for place in order]
    for other in forests[1:]:
        _check_meaning(forests[0].meaning, other.meaning)
        _check_data(forests[0], other)
        _check_columns(forests[0], other)
    for span, another in combinations([span for own in spans for span in own], 2):
        if span.overlaps(another):
            both = TreeSpan(span.seed, max(span.first, another.first), min(span.last, another.last))
            cure = "they would count twice; grow one of the forests with another seed, or grow on (`warm_start`)"
            raise InputError(f"{MERGEABLE}: {both} are in two of them; {cure}")
    arrays, meaning = _arrays(forests), _meaning(forests)
    named = next((one.schema for one in forests if one.schema is not None and one.schema.is_named), forests[0].schema)
    return Forest.from_arrays(meaning, arrays, _provenance(forests, spans)).with_schema(named)


def spans_of(forest: Forest) -> list[TreeSpan]:
    """Return the spans of a forest's trees, by seed; raise InputError if a merged forest does not record them."""
    entry = forest.provenance.get(MERGED)
    if entry is None:
        return [TreeSpan(forest.meaning.seed, 0, forest.n_trees - 1)]
    try:
        found = [TreeSpan(int(own["seed"]), int(own["first"]), int(own["last"])) for own in entry["trees"]]
    except (KeyError, TypeError, ValueError):
        found = []
    if sum(span.last - span.first + 1 for span in found) != forest.n_trees:
        raise InputError(f"{MERGEABLE}: the provenance of a merged forest does not record its {forest.n_trees} trees")
    return found


def _check_meaning(one: Meaning, other: Meaning) -> None:
    """Refuse forests of another method, other parameters, or another kind of rows or classes; raise InputError."""
    if one.method != other.method:
        raise InputError(f"{MERGEABLE}, found {one.method} beside {other.method}")
    for name in sorted({*one.params, *other.params} - {"n_estimators"}):
        if one.params.get(name) != other.params.get(name):
            found = f"{name}={one.params.get(name)!r} beside {name}={other.params.get(name)!r}"
            raise InputError(f"{MERGEABLE}, found {found}; grow both with one value")
    if one.rows != other.rows:
        raise InputError(f"{MERGEABLE}, found rows of another kind: {one.rows.to_dict()} beside {other.rows.to_dict()}")
    if one.classes != other.classes:
        raise InputError(f"{MERGEABLE}, found classes {one.classes} beside {other.classes}")
    leaves = [leaf for leaf in (one.leaf, other.leaf) if not isinstance(leaf, KeepsLeafDistances)]
    if len(leaves) == 2 and leaves[0] != leaves[1]:
        raise InputError(
            f"{MERGEABLE}, found leaves of another kind: {leaves[0].to_dict()} beside {leaves[1].to_dict()}"
        )


def _check_data(one: Forest, other: Forest) -> None:
    """Refuse forests of other data, other sample weights or another version of the growth; raise InputError."""
    weights, others = one.sample_weight, other.sample_weight
    if weights is not others and (weights is None or others is None or not np.array_equal(weights, others)):
        raise InputError(f"{MERGEABLE}, found other sample weights in them; fit both with the same weights")
    growths = [own.provenance.get("versions", {}).get("growth") for own in (one, other)]
    if growths[0] != growths[1]:
        raise InputError(f"{MERGEABLE}, found version {growths[0]} of the growth beside {growths[1]}; grow both by one")
    known, found = recorded_data(one.provenance), recorded_data(other.provenance)
    both = known.keys() & found.keys() - {"similarity"}
    if not both:
        cure = "fit both in Python, to arrays, or both by jobs"
        raise InputError(f"{MERGEABLE}, but nothing records whether they were grown on the same data; {cure}")
    for name in sorted(both | ({"similarity"} & (known.keys() | found.keys()))):
        if known.get(name) != found.get(name):
            difference = _difference(name, known.get(name), found.get(name), one)
            raise InputError(f"{MERGEABLE}, found other data: {difference}")


def _check_columns(one: Forest, other: Forest) -> None:
    """Refuse forests whose columns have other names or categories, if both record them; raise InputError."""
    if one.schema is None or other.schema is None:
        return
    if one.schema.is_named and other.schema.is_named and one.schema.names != other.schema.names:
        differing = [names for names in zip(one.schema.names, other.schema.names, strict=True) if names[0] != names[1]]
        raise InputError(f"{MERGEABLE}, found column {differing[0][0]!r} beside {differing[0][1]!r}")
    if one.schema.encodings != other.schema.encodings:
        raise InputError(f"{MERGEABLE}, found columns with other categories, or dates counted otherwise")


def _difference(name: str, one: object, other: object, forest: Forest) -> str:
    """Describe the difference between two entries of `recorded_data`; ``forest`` has the first."""
    if not isinstance(one, dict) or not isinstance(other, dict):
        return f"{name} {one} beside {other}"
    differing = sorted(key for key in one.keys() | other.keys() if one.get(key) != other.get(key))
    rows, is_asked = forest.meaning.rows.to_dict(), "similarity" in forest.provenance
    return "; ".join(
        f"{input_in_words(key, rows, is_asked=is_asked)} of sha256 {one.get(key)} beside {other.get(key)}"
        for key in differing
    )


def recorded_data(provenance: Mapping[str, Any]) -> dict[str, object]:
    """Return the recorded identity of a forest's data: the digest of all data, or of each input; and the function."""
    if isinstance(entry := provenance.get(MERGED), dict):
        return dict(entry.get("data", {}))
    found: dict[str, object] = {}
    if "data_sha256" in provenance:
        found["data_sha256"] = provenance["data_sha256"]
    inputs = provenance.get("inputs")
    if isinstance(inputs, dict) and ("links" not in inputs or "pairs" in inputs):  # older forests do not record pairs
        found["inputs"] = {name: one.get("sha256") for name, one in inputs.items() if isinstance(one, dict)}
    similarity = provenance.get("similarity")
    if isinstance(similarity, dict):
        measures = similarity.get("measures", [similarity])
        keys = ("function", "sha256", "symmetric", "objects")
        found["similarity"] = [one and {key: one.get(key) for key in keys} for one in measures]
    return found


def _arrays(forests: Sequence[Forest]) -> dict[str, np.ndarray]:
    """Return the arrays of all trees, and those that repeat inputs once; raise InputError if these differ."""
    parts = [forest.arrays() for forest in forests]
    keeps_rows = any(not isinstance(forest.meaning.leaf, KeepsLeafDistances) for forest in forests)
    names = [
        {name for name in part if name not in REPEATED} - ({OF_ALL_TREES} if keeps_rows else set()) for part in parts
    ]
    for own in names:
        if own != names[0]:
            raise InputError(
                f"{MERGEABLE}, found arrays that only one of them has: {', '.join(sorted(own ^ names[0]))}"
            )
    arrays = {name: np.concatenate([part[name] for part in parts]) for name in parts[0] if name in names[0]}
    for name in REPEATED:
        found = [part[name] for part in parts if name in part]
        if any(not np.array_equal(one, found[0], equal_nan=one.dtype.kind == "f") for one in found[1:]):
            cure = "give both the same weights" if name in {"feature_weights", "dependence"} else "grow both on one"
            raise InputError(f"{MERGEABLE}, found other {name} in them; {cure}")
        if found:
            arrays[name] = found[0]
    return arrays


def _meaning(forests: Sequence[Forest]) -> Meaning:
    """Return the meaning of the first forest, with the number of all trees, and a leaf kind that all forests allow."""
    first, n_trees = forests[0].meaning, sum(forest.n_trees for forest in forests)
    leaves = [forest.meaning.leaf for forest in forests]
    leaf = next((own for own in leaves if not isinstance(own, KeepsLeafDistances)), leaves[0])
    return replace(first, params={**first.params, "n_estimators": n_trees}, leaf=leaf)


def _provenance(forests: Sequence[Forest], spans: Sequence[Sequence[TreeSpan]]) -> dict[str, Any]:
    """Return the provenance of the first forest, without entries of a single fit, with all spans and the data."""
    kept = {name: entry for name, entry in forests[0].provenance.items() if name not in DROPPED}
    trees = [span.entry for own in spans for span in own]
    data, grown_by = recorded_data(forests[0].provenance), list[dict[str, Any]]()
    for forest in forests:
        found = forest.provenance.get("grown_by")
        versions = forest.provenance.get("versions", {})
        one = {"trees": forest.n_trees, **{name: versions.get(name) for name in ("distforest", "numpy", "numba")}}
        grown_by += found if isinstance(found, list) else [one]
        common = recorded_data(forest.provenance)
        data = {name: entry for name, entry in data.items() if name in common}
    if isinstance(similarity := kept.get("similarity"), dict):
        origins = [forest.provenance.get("similarity", {}) for forest in forests]
        costs = {name: sum(int(of.get(name, 0)) for of in origins) for name in ("evaluations", "closed")}
        kept["similarity"] = {**similarity, **costs}
    return {**kept, "grown_by": grown_by, MERGED: {"trees": trees, "data": data}}
