"""What the leaves of a forest keep, as a type for each kind of leaf table; its arrays are the table's.

A forest's manifest has it as a dict, everything else as one of these types.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Required, TypedDict

from distforest.forest.leaves import ClassCounts, LeafDistances, Means, Members
from distforest.forest.pairs.pair_leaves import Ranks, Votes
from distforest.forest.path_lengths import PathLengths
from distforest.forest.same_leaf import SameLeaf
from distforest.sources.truth import TruthKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

    from distforest.forest.table import NodeTable

    Arrays = Mapping[str, np.ndarray]

SHARE, NEAREST = "share", "nearest"
"""What a tree says of a row: what its leaf keeps; or the class or target of the most similar training object there."""

UNTAUGHT = {"same_leaf": SameLeaf, "path_lengths": PathLengths}
"""Leaf tables that follow from the node table alone."""


class LeafEntry(TypedDict, total=False):
    """A kind of leaf table as JSON: its name, and the attributes that this kind has."""

    kind: Required[str]
    class_weights: list[int]
    factor: float
    offset: float
    scale: float
    voting: str
    aggregation: str


@dataclass(frozen=True)
class KeepsCounts:
    """How many rows of each class reached a node.

    Attributes
    ----------
    class_weights
        What a row of each class counts, whole numbers; None: alike.
    nearest
        Whether the most similar training object votes in place of the counts.
    """

    class_weights: tuple[int, ...] | None = None
    nearest: bool = False
    kind: ClassVar[str] = "class_counts"
    learned: ClassVar[TruthKind] = TruthKind.LABELS

    def table(self, table: NodeTable, arrays: Arrays) -> ClassCounts:
        """The leaf table of these arrays; raises KeyError where one is missing."""
        return ClassCounts(table, arrays["class_counts"], self.class_weights)

    def to_dict(self) -> LeafEntry:
        """As a forest's manifest has it."""
        entry: LeafEntry = {"kind": self.kind}
        if self.class_weights is not None:
            entry["class_weights"] = list(self.class_weights)
        return _with_voting(entry, self.nearest)

    @classmethod
    def from_dict(cls, entry: LeafEntry) -> KeepsCounts:
        """From a forest's manifest."""
        weights = entry.get("class_weights")
        return cls(None if weights is None else tuple(weights), "voting" in entry)


@dataclass(frozen=True)
class KeepsMeans:
    """Mean and spread of the targets, or places, of the rows that reached a node.

    Attributes
    ----------
    factor
        By which squared distances are multiplied: 1/2 for targets, 1 for an embedding.
    nearest
        Whether the most similar training object votes in place of the mean.
    """

    factor: float
    nearest: bool = False
    kind: ClassVar[str] = "means"

    @property
    def learned(self) -> TruthKind:
        """What the forest has learned."""
        return TruthKind.TARGETS if self.factor == 0.5 else TruthKind.EMBEDDING

    def table(self, table: NodeTable, arrays: Arrays) -> Means:
        """The leaf table of these arrays; raises KeyError where one is missing."""
        return Means(table, arrays["means"], arrays["spreads"], float(self.factor))

    def to_dict(self) -> LeafEntry:
        """As a forest's manifest has it."""
        return _with_voting({"kind": self.kind, "factor": self.factor}, self.nearest)

    @classmethod
    def from_dict(cls, entry: LeafEntry) -> KeepsMeans:
        """From a forest's manifest."""
        return cls(entry["factor"], "voting" in entry)


@dataclass(frozen=True)
class KeepsMembers:
    """The training distances once, from which those of leaves are worked out.

    Attributes
    ----------
    offset
        What was taken off all distances; None: nothing.
    scale
        Of an older forest in fixed point; None: none.
    """

    offset: float | None = None
    scale: float | None = None
    kind: ClassVar[str] = "members"
    nearest: ClassVar[bool] = False
    learned: ClassVar[TruthKind] = TruthKind.DISTANCES

    def table(self, table: NodeTable, arrays: Arrays) -> Members:
        """The leaf table of these arrays; raises KeyError where one is missing."""
        how = (float(self.offset or 0.0), float(self.scale or 0.0))
        return Members(table, arrays["leaves"], arrays["in_bag"], arrays["distances"], *how)

    def to_dict(self) -> LeafEntry:
        """As a forest's manifest has it."""
        entry: LeafEntry = {"kind": self.kind}
        if self.offset is not None:
            entry["offset"] = self.offset
        if self.scale is not None:
            entry["scale"] = self.scale
        return entry

    @classmethod
    def from_dict(cls, entry: LeafEntry) -> KeepsMembers:
        """From a forest's manifest."""
        return cls(entry.get("offset"), entry.get("scale"))


@dataclass(frozen=True)
class KeepsLeafDistances:
    """The distances of all pairs of leaves of a tree."""

    kind: ClassVar[str] = "leaf_distances"
    nearest: ClassVar[bool] = False
    learned: ClassVar[TruthKind] = TruthKind.DISTANCES

    def table(self, table: NodeTable, arrays: Arrays) -> LeafDistances:
        """The leaf table of these arrays; raises KeyError where one is missing."""
        return LeafDistances(table, arrays["leaf_distances"])

    def to_dict(self) -> LeafEntry:
        """As a forest's manifest has it."""
        return {"kind": self.kind}

    @classmethod
    def from_dict(cls, _entry: LeafEntry) -> KeepsLeafDistances:
        """From a forest's manifest."""
        return cls()


@dataclass(frozen=True)
class KeepsNothing:
    """Nothing of its own: all is in the node table, and ``kind``, a key of `UNTAUGHT`, says how it is read."""

    kind: str
    nearest: ClassVar[bool] = False
    learned: ClassVar[TruthKind] = TruthKind.NOTHING

    def table(self, table: NodeTable, _arrays: Arrays) -> SameLeaf | PathLengths:
        """The leaf table."""
        return UNTAUGHT[self.kind](table)

    def to_dict(self) -> LeafEntry:
        """As a forest's manifest has it."""
        return {"kind": self.kind}

    @classmethod
    def from_dict(cls, entry: LeafEntry) -> KeepsNothing:
        """From a forest's manifest."""
        return cls(entry["kind"])


@dataclass(frozen=True)
class KeepsVotes:
    """The pairs alike and unlike that ended in a node; ``voting`` is one of `pair_leaves.VOTINGS`."""

    voting: str
    kind: ClassVar[str] = "votes"
    nearest: ClassVar[bool] = False
    learned: ClassVar[TruthKind] = TruthKind.LINKS

    def table(self, table: NodeTable, arrays: Arrays) -> Votes:
        """The leaf table of these arrays; raises KeyError where one is missing."""
        return Votes(table, arrays["class_counts"], self.voting)

    def to_dict(self) -> LeafEntry:
        """As a forest's manifest has it."""
        return {"kind": self.kind, "voting": self.voting}

    @classmethod
    def from_dict(cls, entry: LeafEntry) -> KeepsVotes:
        """From a forest's manifest."""
        return cls(entry["voting"])


@dataclass(frozen=True)
class KeepsRanks:
    """Those pairs, and the score of each cell; ``aggregation`` is one of `pair_leaves.AGGREGATIONS`."""

    aggregation: str
    kind: ClassVar[str] = "ranks"
    nearest: ClassVar[bool] = False
    learned: ClassVar[TruthKind] = TruthKind.LINKS

    def table(self, table: NodeTable, arrays: Arrays) -> Ranks:
        """The leaf table of these arrays; raises KeyError where one is missing."""
        return Ranks(table, arrays["class_counts"], arrays["scores"], self.aggregation)

    def to_dict(self) -> LeafEntry:
        """As a forest's manifest has it."""
        return {"kind": self.kind, "aggregation": self.aggregation}

    @classmethod
    def from_dict(cls, entry: LeafEntry) -> KeepsRanks:
        """From a forest's manifest."""
        return cls(entry["aggregation"])


KeepsOfPairs = KeepsVotes | KeepsRanks
LeafKind = KeepsCounts | KeepsMeans | KeepsMembers | KeepsLeafDistances | KeepsNothing | KeepsOfPairs
LEAF_KINDS: dict[str, type[LeafKind]] = {
    **{kind.kind: kind for kind in (KeepsCounts, KeepsMeans, KeepsMembers, KeepsLeafDistances)},
    **dict.fromkeys(UNTAUGHT, KeepsNothing),
    **{kind.kind: kind for kind in (KeepsVotes, KeepsRanks)},
}
"""The kinds by the names that manifests give them."""

VOICES = {KeepsCounts.kind: "codes", KeepsMeans.kind: "targets"}
"""The array by which training objects vote, beside each leaf table that they may vote in the place of."""


def leaf_kind(entry: LeafEntry) -> LeafKind:
    """Read what `to_dict` has written; raises KeyError for an unknown kind, and where a key is missing.

    Examples
    --------
    >>> leaf_kind({"kind": "means", "factor": 0.5})
    KeepsMeans(factor=0.5, nearest=False)
    """
    return LEAF_KINDS[entry["kind"]].from_dict(entry)


def _with_voting(entry: LeafEntry, nearest: bool) -> LeafEntry:
    return {**entry, "voting": NEAREST} if nearest else entry
