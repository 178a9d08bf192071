"""Which trees a merged forest holds: spans of their numbers, by their seeds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from distforest.amounts import counted

MERGED = "merged"
"""The entry of a merged forest's provenance: the spans of its trees, and what tells its data."""


@dataclass(frozen=True, order=True)
class TreeSpan:
    """Trees first to last of a seed."""

    seed: int
    first: int
    last: int

    def __str__(self) -> str:
        return f"trees {self.first} to {self.last} of seed {self.seed}"

    def overlaps(self, other: TreeSpan) -> bool:
        """Whether a tree is in both."""
        return self.seed == other.seed and self.first <= other.last and other.first <= self.last

    @property
    def entry(self) -> dict[str, int]:
        """The span as the provenance holds it."""
        return {"seed": self.seed, "first": self.first, "last": self.last}


def merged_in_words(provenance: Mapping[str, Any]) -> str:
    """Which forests were merged, in words; empty if none were.

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
    told = [
        f"trees {own.get('first')} to {own.get('last')} of seed {own.get('seed')}"
        for own in found
        if isinstance(own, dict)
    ]
    return f"{counted(len(told), 'forest')}: {', '.join(told)}"
