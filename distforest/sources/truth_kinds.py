"""The kinds of ground truth."""

from __future__ import annotations

from enum import StrEnum


class TruthKind(StrEnum):
    """The kind of truth that a forest learns; a word in messages and fingerprints."""

    LABELS = "labels"
    TARGETS = "targets"
    EMBEDDING = "embedding"
    DISTANCES = "distances"
    LINKS = "links"
    NOTHING = "nothing"

    @property
    def is_of_vectors(self) -> bool:
        """Whether it is numbers of which leaves keep the mean."""
        return self in {TruthKind.TARGETS, TruthKind.EMBEDDING}
