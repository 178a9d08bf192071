"""The kinds of leaf tables, with one type for each; the arrays belong to the table itself.

A forest's manifest has a kind as a `LeafEntry`; everywhere else it is one of these types.
"""

from __future__ import annotations

from dataclasses import MISSING, Field, dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Required, Self, TypedDict, cast

from distforest.forest.graph_leaves import GRAPH_ARRAYS, GraphMembers, KeptLinks
from distforest.forest.leaves import COSTS, ClassCounts, Means
from distforest.forest.members import LeafDistances, Members
from distforest.forest.observed_leaves import ObservedLeafDistances, ObservedMembers
from distforest.forest.pairs.pair_leaves import Ranks, Votes
from distforest.forest.path_lengths import PathLengths, SameLeaf
from distforest.forest.target_leaves import TAUGHT_TARGETS, TargetMembers
from distforest.sources.factors import COSINE
from distforest.sources.truth import FACTORS, TruthKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

    from distforest.forest.node_table import NodeTable

    Arrays = Mapping[str, np.ndarray]

SHARE, NEAREST = "share", "nearest"
"""The vote of a tree for a row: the shares or means of its leaf, or the class or target of the most similar training
object there."""

UNOBSERVED = "unobserved"
"""Array with the number of pairs of leaves without an observed distance; forests of complete distances have none."""

UNTAUGHT = {"same_leaf": SameLeaf, "path_lengths": PathLengths}
"""Leaf tables of forests without a ground truth, which follow from the node table."""


class LeafEntry(TypedDict, total=False):
    """A kind of leaf table as JSON: its name, and those of the attributes that this kind has."""

    kind: Required[str]
    class_weights: list[int]
    factor: float
    metric: str
    offset: float
    scale: float
    absent: float
    voting: str
    aggregation: str
    unit: int


class Keeps:
    """The contents of leaves; the fields of each kind are its attributes in a manifest, except those with defaults.

    ``nearest`` is whether the most similar training object votes instead of the leaf; a manifest has it as ``voting``.
    """

    kind: ClassVar[str]
    nearest: ClassVar[bool] = False
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def to_dict(self) -> LeafEntry:
        """Return the kind as an entry of a manifest."""
        entry: dict[str, Any] = {"kind": self.kind}
        for field in fields(self):
            value = getattr(self, field.name)
            if field.default is MISSING or value != field.default:
                entry[field.name] = list(value) if isinstance(value, tuple) else value
        if entry.pop("nearest", False):
            entry["voting"] = NEAREST
        return cast("LeafEntry", entry)

    @classmethod
    def from_dict(cls, entry: Mapping[str, Any]) -> Self:
        """Read the kind from a manifest; raise KeyError if an attribute is missing."""
        found = {"nearest": "voting" in entry, **entry}
        known = {
            field.name: found[field.name] for field in fields(cls) if field.name in found or field.default is MISSING
        }
        return cls(**{name: tuple(value) if isinstance(value, list) else value for name, value in known.items()})


@dataclass(frozen=True)
class KeepsCounts(Keeps):
    """The in-bag weight of each class in each node; and the array `COSTS` if not all classes are equally far apart.

    Attributes
    ----------
    class_weights
        Weight of a row of each class, an integer; None: equal weights.
    """

    class_weights: tuple[int, ...] | None = None
    nearest: bool = False  # type: ignore[misc]  # a class variable in other kinds
    kind: ClassVar[str] = "class_counts"
    learned: ClassVar[TruthKind] = TruthKind.LABELS

    def table(self, table: NodeTable, arrays: Arrays) -> ClassCounts:
        """Return the leaf table of these arrays; raise KeyError if one is missing."""
        return ClassCounts(table, arrays["class_counts"], self.class_weights, arrays.get(COSTS))


@dataclass(frozen=True)
class KeepsMeans(Keeps):
    """Mean and spread of the targets, or of the embedding, of the rows that reached a node.

    Attributes
    ----------
    factor
        Factor of squared distances: 1/2 for targets and directions, 1 for an embedding.
    metric
        ``"cosine"`` if the vectors are directions, of length 1; None: any vectors.
    """

    factor: float
    nearest: bool = False  # type: ignore[misc]  # a class variable in other kinds
    metric: str | None = None
    kind: ClassVar[str] = "means"

    @classmethod
    def from_kind(cls, learned: TruthKind, nearest: bool) -> KeepsMeans:
        """Return the kind for vectors of this kind of ground truth."""
        return cls(FACTORS[learned], nearest, COSINE if learned == TruthKind.DIRECTIONS else None)

    @property
    def learned(self) -> TruthKind:
        """The kind of ground truth of the training."""
        if self.metric is not None:
            return TruthKind.DIRECTIONS
        return TruthKind.TARGETS if self.factor == 0.5 else TruthKind.EMBEDDING

    def table(self, table: NodeTable, arrays: Arrays) -> Means:
        """Return the leaf table of these arrays; raise KeyError if one is missing."""
        return Means(table, arrays["means"], arrays["spreads"], float(self.factor))


@dataclass(frozen=True)
class KeepsTargets(Keeps):
    """The training targets, stored once; absolute differences and medians of leaves are computed from them."""

    kind: ClassVar[str] = TAUGHT_TARGETS
    learned: ClassVar[TruthKind] = TruthKind.DIFFERENCES

    def table(self, table: NodeTable, arrays: Arrays) -> TargetMembers:
        """Return the leaf table of these arrays; raise KeyError if one is missing."""
        of_rows = (arrays["leaves"], arrays["in_bag"], arrays[TAUGHT_TARGETS], arrays.get("sample_weight"))
        return TargetMembers(table, *of_rows)


@dataclass(frozen=True)
class KeepsMembers(Keeps):
    """The training distances, stored once; those of leaves are computed from them.

    Some are unobserved if the forest has the array `UNOBSERVED`.

    Attributes
    ----------
    offset
        A constant that was subtracted from all distances; None: 0.
    scale
        Scale of an older forest, which reads distances in fixed point; None: they are read unchanged.
    """

    offset: float | None = None
    scale: float | None = None
    kind: ClassVar[str] = "members"
    learned: ClassVar[TruthKind] = TruthKind.DISTANCES

    def table(self, table: NodeTable, arrays: Arrays) -> Members:
        """Return the leaf table of these arrays; raise KeyError if one is missing."""
        offset, scale = float(self.offset or 0.0), float(self.scale or 0.0)
        of_rows = (arrays["leaves"], arrays["in_bag"], arrays["distances"], offset, scale, arrays.get("sample_weight"))
        if UNOBSERVED in arrays:
            return ObservedMembers(table, *of_rows, unobserved=arrays[UNOBSERVED])
        return Members(table, *of_rows)


@dataclass(frozen=True)
class KeepsLeafDistances(Keeps):
    """The distances of all pairs of leaves of a tree; some are of ancestors if there is the array `UNOBSERVED`."""

    kind: ClassVar[str] = "leaf_distances"
    learned: ClassVar[TruthKind] = TruthKind.DISTANCES

    def table(self, table: NodeTable, arrays: Arrays) -> LeafDistances:
        """Return the leaf table of these arrays; raise KeyError if one is missing."""
        if UNOBSERVED in arrays:
            return ObservedLeafDistances(table, arrays["leaf_distances"], unobserved=arrays[UNOBSERVED])
        return LeafDistances(table, arrays["leaf_distances"])


@dataclass(frozen=True)
class KeepsGraph(Keeps):
    """The links of a graph, stored once; distances of leaves are computed from them.

    Attributes
    ----------
    absent
        The distance of two rows without a link.
    offset
        A constant that was subtracted from all distances, including ``absent``; None: 0.
    """

    absent: float
    offset: float | None = None
    kind: ClassVar[str] = "graph"
    learned: ClassVar[TruthKind] = TruthKind.DISTANCES

    def table(self, table: NodeTable, arrays: Arrays) -> GraphMembers:
        """Return the leaf table of these arrays; raise KeyError if one is missing."""
        kept = KeptLinks(*(arrays[name] for name in GRAPH_ARRAYS))
        of_rows = (arrays["leaves"], arrays["in_bag"], kept, float(self.absent), float(self.offset or 0.0))
        return GraphMembers(table, *of_rows, arrays.get("sample_weight"))


@dataclass(frozen=True)
class KeepsNothing(Keeps):
    """No arrays besides the node table; ``kind`` is a key of `UNTAUGHT`.

    ``unit`` is the in-bag weight that counts as one row in a path length.
    """

    kind: str  # type: ignore[misc]  # a class variable in other kinds
    unit: int = 1
    learned: ClassVar[TruthKind] = TruthKind.NOTHING

    def table(self, table: NodeTable, _arrays: Arrays) -> SameLeaf | PathLengths:
        """Return the leaf table."""
        return UNTAUGHT[self.kind](table) if self.unit == 1 else PathLengths(table, unit=self.unit)


@dataclass(frozen=True)
class KeepsVotes(Keeps):
    """The weight of similar and of dissimilar pairs in each node; ``voting`` is one of `pair_leaves.VOTINGS`."""

    voting: str
    kind: ClassVar[str] = "votes"
    learned: ClassVar[TruthKind] = TruthKind.LINKS

    def table(self, table: NodeTable, arrays: Arrays) -> Votes:
        """Return the leaf table of these arrays; raise KeyError if one is missing."""
        return Votes(table, arrays["class_counts"], self.voting)


@dataclass(frozen=True)
class KeepsRanks(Keeps):
    """The weights of pairs, and the score of each cell; ``aggregation`` is one of `pair_leaves.AGGREGATIONS`."""

    aggregation: str
    kind: ClassVar[str] = "ranks"
    learned: ClassVar[TruthKind] = TruthKind.LINKS

    def table(self, table: NodeTable, arrays: Arrays) -> Ranks:
        """Return the leaf table of these arrays; raise KeyError if one is missing."""
        return Ranks(table, arrays["class_counts"], arrays["scores"], self.aggregation)


KeepsOfPairs = KeepsVotes | KeepsRanks
KeepsOfRows = KeepsCounts | KeepsMeans | KeepsTargets | KeepsMembers | KeepsLeafDistances | KeepsGraph
LeafKind = KeepsOfRows | KeepsNothing | KeepsOfPairs
LEAF_KINDS: dict[str, type[LeafKind]] = {
    **{kind.kind: kind for kind in (KeepsCounts, KeepsMeans, KeepsTargets)},
    **{kind.kind: kind for kind in (KeepsMembers, KeepsLeafDistances, KeepsGraph)},
    **dict.fromkeys(UNTAUGHT, KeepsNothing),
    **{kind.kind: kind for kind in (KeepsVotes, KeepsRanks)},
}
"""Kinds by their names in manifests."""

VOICES = {KeepsCounts.kind: "codes", KeepsMeans.kind: "targets"}
"""Arrays of training objects' votes, by the kind of leaf table that these votes may replace."""


def leaf_kind(entry: LeafEntry) -> LeafKind:
    """Read the kind that `to_dict` has written; raise KeyError for an unknown kind and for a missing key.

    Examples
    --------
    >>> leaf_kind({"kind": "means", "factor": 0.5})
    KeepsMeans(factor=0.5, nearest=False, metric=None)
    """
    return LEAF_KINDS[entry["kind"]].from_dict(entry)
