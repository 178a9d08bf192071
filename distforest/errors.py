"""What can go wrong, as one small tree; and a warning that names the line of the caller.

::

    DistforestError
    ├── InputError (ValueError)      data or a parameter that cannot be used, found before work starts
    │   ├── SpecError                a job spec with faults: all of them at once
    │   └── ConflictError            what is asked does not go with what is there
    ├── NotFoundError                there is no such job
    ├── ArtifactError                a forest that is damaged, unknown or not what it says
    └── JobError                     a job that was started and could not be finished
        ├── MemoryLimitError         a job that cannot fit into the memory of its workers
        ├── DamageError              an input that was damaged on a host while the job read it, nobody knows when
        ├── CancelledJobError        a job that was told to stop
        ├── InterruptedJobError      a job that was interrupted and can go on
        ├── UnreachableError         no scheduler answers
        │   └── AwayError            a scheduler answers, and its job service does not yet, or not any more
        └── NotDoneError             a job of a service that was waited for and is not done
            └── WaitTimeoutError     the same, as the time for it is over
"""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import FrameType


class DistforestError(Exception):
    """Any error that distforest raises on purpose."""


class InputError(DistforestError, ValueError):
    """Data or a parameter cannot be used: the message says what was asked, what was found, what to do."""


class SpecError(InputError):
    """A job spec has faults; ``faults`` lists every one of them, in the order of the file."""

    def __init__(self, faults: Sequence[str]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(self.faults))

    def __reduce__(self) -> tuple[type[SpecError], tuple[tuple[str, ...]]]:
        return type(self), (self.faults,)


class ConflictError(InputError):
    """What is asked does not go with what is there: another job has the id, or the job is in the wrong state."""


class NotFoundError(DistforestError):
    """There is no job with this id."""


class ArtifactError(DistforestError):
    """A forest file is damaged, of an unknown format, or not a forest; the message names the array and place."""


class JobError(DistforestError):
    """A job could not be finished; what was committed is kept and the next run goes on from it."""


class MemoryLimitError(JobError):
    """A job would need more memory than its workers have; nothing was started."""


class DamageError(JobError):
    """An input was damaged on a host while a job read it, and nobody knows when; no tree of the job is kept."""


class CancelledJobError(JobError):
    """A job was told to stop; what its running trees had grown is not kept."""


class UnreachableError(JobError):
    """No scheduler answers."""


class AwayError(UnreachableError):
    """A scheduler answers whose job service is not at work yet, or not any more."""


class InterruptedJobError(JobError):
    """A job was interrupted and can go on."""


class NotDoneError(JobError):
    """A job of a service was waited for, and is not done; ``job`` is what is known of it."""

    def __init__(self, message: str, job: Mapping[str, Any]) -> None:
        super().__init__(message)
        self.job = job


class WaitTimeoutError(NotDoneError):
    """A job of a service was waited for, and has not ended in time."""


def warn_caller(text: str) -> None:
    """Warn at the line outside this package by which it was called, however deep in it the warning is.

    What calls this package for scikit-learn, such as a search, is not that line.
    """
    level, frame = 1, sys._getframe()
    while _is_ours(frame) and frame.f_back is not None:
        level, frame = level + 1, frame.f_back
    warnings.warn(text, stacklevel=level)


def _is_ours(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] in {"distforest", "sklearn", "joblib"}
