"""What the tasks of a scoring job know of the ground truth, if training rows' own distances may count."""

from __future__ import annotations

import hashlib
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from distforest.forest.forest import canonical
from distforest.forest.scoring import with_costs_learned
from distforest.jobs.last_opened import LastOpened
from distforest.sources.array_files import Mapped, untouched

if TYPE_CHECKING:
    from collections.abc import Iterator

    from distforest.evaluation.sides import ScoredSides
    from distforest.forest.forest import Forest
    from distforest.sources.scratch import ScratchFolder
    from distforest.sources.staged_arrays import StagedTruth
    from distforest.sources.truth import Truth


@dataclass(frozen=True)
class OwnDistances:
    """What a scoring job knows of the ground truth; small enough to travel with every task.

    Attributes
    ----------
    truth, scratch
        The staged ground truth, and the folder for staged files, of which each host has its own.
    sides
        Which distance is taken, ``"two"`` or ``"one"``.
    scored
        What both score out of bag, if that has decided; else None.
    """

    truth: StagedTruth
    scratch: ScratchFolder
    sides: str
    scored: ScoredSides | None = None

    @property
    def sha256(self) -> str:
        """The digest of the ground truth, and of which distance is taken."""
        truth = self.truth
        content = (truth.graph or truth.staged).sha256
        costs = None if truth.costs is None else truth.costs.sha256
        told = [self.sides, truth.kind, content, truth.classes, truth.offset, costs]
        return hashlib.sha256(canonical(told)).hexdigest()

    @contextmanager
    def watched(self, forest: Forest) -> Iterator[Truth]:
        """The ground truth as the forest has learned it, opened on this host for a block and cached for the next one.

        Raises
        ------
        JobError, OSError
            A staged file of it was written to during the block; see `untouched`.
        """
        opened = LAST_TRUTHS.of(_Key(self))
        with untouched(opened.files):
            yield with_costs_learned(forest, opened.truth)

    @property
    def told(self) -> str:
        """Which distance is taken, and what has decided, in words."""
        if self.scored is None:
            return self.sides
        scores = {sides: own[self.scored.scoring] for sides, own in self.scored.scores.items()}
        found = " and ".join(f"{sides!r} {score:.4g}" for sides, score in scores.items())
        return f"{self.sides}, chosen by {self.scored.scoring} out of bag: {found}"


@dataclass(frozen=True)
class _Key:
    """The cache key of an opened ground truth."""

    own: OwnDistances

    def __hash__(self) -> int:
        return hash(self.own.sha256)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and (other.own.sha256, other.own.scratch) == (self.own.sha256, self.own.scratch)


class _Opened(NamedTuple):
    """An opened ground truth, and the files that hold it."""

    truth: Truth
    files: tuple[Mapped, ...]


def _opened(key: _Key) -> _Opened:
    files = list[Mapped]()
    return _Opened(key.own.truth.open(key.own.scratch, files), tuple(files))


LAST_TRUTHS = LastOpened(2, _opened)
"""The ground truths of the last jobs of this process."""


def forget_truths(_job: str) -> None:
    """Let go of the ground truths that this process has opened, so that their staged files may go.

    Another job that reads one opens it again.
    """
    LAST_TRUTHS.forget()
