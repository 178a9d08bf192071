"""The keys of ``[input]`` in a fit's spec, which follow from the method's row, and the kinds of a matrix."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from distforest.growth.methods import METHODS
from distforest.jobs.reader import FLAG, NOT_NEGATIVE, POSITIVE, Key, Rule, integer, text, word
from distforest.sources.factors import METRICS, TARGET_METRICS
from distforest.sources.readings import DIRECTIONS

if TYPE_CHECKING:
    from distforest.growth.methods import Method

ADDRESS = text("the address (path or URL) of an array")


@dataclass(frozen=True)
class Kind:
    """One kind of distance or similarity: the key that holds its address (or function), and its further keys."""

    name: str
    address: str
    options: tuple[Key, ...] = ()
    rule: Rule = ADDRESS


FUNCTION = text("'module:function', or the name of an entry point")
LAZY = (
    Key("objects", ADDRESS, None),
    Key("symmetric", FLAG, True),
    Key("batch_size", integer(1), 1000),
    Key("concurrency", integer(1), 1),
    Key("retries", integer(0), 2),
    Key("timeout", POSITIVE, None),
    Key("budget", integer(0), None),
    Key("ledger", text("the path of a file"), None),
)
"""The keys of a function that is asked for pairs."""

DISTANCE_KINDS = (
    Kind("dense", "matrix"),
    Kind("labels", "values", (Key("costs", ADDRESS, None),)),
    Kind("targets", "values", (Key("metric", word(TARGET_METRICS), TARGET_METRICS[0]),)),
    Kind("embedding", "values", (Key("metric", word(METRICS), METRICS[0]),)),
    Kind(
        "graph",
        "adjacency",
        (Key("absent", POSITIVE, 1.0), Key("diagonal", NOT_NEGATIVE, None), Key("directed", word(DIRECTIONS), None)),
    ),
    Kind("observed", "matrix"),
    Kind("lazy", "function", tuple(key for key in LAZY if key.name != "symmetric"), FUNCTION),
)
TAUGHT_KINDS = tuple(kind for kind in DISTANCE_KINDS if kind.name != "lazy")
"""The kinds of ground truth that a scoring job may name: all that are there already."""

MEASURE = Key("measure", word(("similarity", "distance")), "similarity")
SIMILARITY_KINDS = (
    Kind("dense", "matrix", (MEASURE,)),
    Kind("linear", "features"),
    Kind("cosine", "features"),
    Kind("rbf", "features", (Key("gamma", POSITIVE, None),)),
    Kind("manhattan", "features"),
    Kind("feature_subsets", "features"),
    Kind("lazy", "function", (MEASURE, *LAZY, Key("share", word(("all", "worker")), "all")), FUNCTION),
)
LISTED = {
    **dict.fromkeys(("dense", "lazy"), "matrices and functions"),
    **dict.fromkeys(("linear", "cosine", "rbf", "manhattan"), "similarities of features"),
}
"""The kinds of similarity that a list of several may hold, with what the others of the list then are."""

WEIGHT = Key("weight", POSITIVE, 1.0)
"""How often a candidate draws one of several similarities."""

TRUTH_KEYS = {"labels": "labels", "targets": "targets", "links": "similar"}
"""The key of each kind of truth."""


FURTHER_ADDRESSES = ("objects", "ledger", "costs")
"""Options of a kind that hold an address."""


@dataclass(frozen=True)
class InputKeys:
    """The keys of ``[input]``.

    Attributes
    ----------
    addresses
        Groups of keys that hold an address; a spec has exactly one key of each group.
    relations
        Keys with several kinds; a bare address stands for the first kind.
    optional
        Keys that hold an address and may be omitted.
    """

    addresses: tuple[tuple[str, ...], ...]
    relations: Mapping[str, tuple[Kind, ...]]
    optional: tuple[str, ...]

    @classmethod
    def of(cls, method: Method) -> InputKeys:
        """The keys of a method: for what it reads, for its truth, and for what belongs to these.

        Examples
        --------
        >>> InputKeys.of(METHODS["rfd"]).addresses
        (('features',), ('labels', 'similar'))
        """
        addresses: list[tuple[str, ...]] = []
        relations: dict[str, tuple[Kind, ...]] = {}
        if method.reads == "similarity":
            relations["similarity"] = SIMILARITY_KINDS
        else:
            addresses.append(("features",))
        if "distances" in method.truth_kinds:  # labels, targets and embeddings are kinds of these
            relations["distances"] = DISTANCE_KINDS
        elif taught := tuple(TRUTH_KEYS[truth_kind] for truth_kind in method.truth_kinds if truth_kind in TRUTH_KEYS):
            addresses.append(taught)
        of_pairs = ("pairs", "pair_weight") if "links" in method.truth_kinds else ()
        weights = tuple(row.name for row in method.parameters if row.name == "feature_weights")
        of_rows = ("sample_weight",) if method.weighs_rows else ()
        return cls(tuple(addresses), relations, (*weights, *of_rows, *of_pairs))

    @property
    def names(self) -> list[str]:
        """All keys."""
        return [*(name for group in self.addresses for name in group), *self.optional, *self.relations]

    @property
    def cures(self) -> dict[str, str]:
        """What to write for the keys of other methods: a truth that is a kind of distance here."""
        kinds = [kind.name for kind in self.relations.get("distances", ()) if kind.address == "values"]
        return {name: f"give distances = {{ kind = {name!r}, values = ADDRESS }}" for name in kinds}


INPUTS = {method.name: InputKeys.of(method) for method in METHODS.values() if method.in_specs}
"""The keys of each method that a spec may name."""
