"""The errors and the warning of distforest, and how a warning names the line of the caller.

::

    DistforestError
    ├── InputError (ValueError)      data or a parameter that cannot be used, noticed before work starts
    │   ├── FaultsError              several faults of one input: all of them at once
    │   │   └── SpecError            a job spec with faults
    │   └── ConflictError            a request that conflicts with the jobs that exist
    │       └── ExistsError          a job was submitted under the id of a job that exists
    ├── NotFoundError                there is no such job
    ├── ArtifactError                a forest that is damaged, of an unknown format, or no forest
    └── JobError                     a job that was started and could not be finished
        ├── MemoryLimitError         a job that needs more memory than its workers have
        ├── DamageError              an input that was damaged on a host while the job read it, at an unknown time
        ├── CancelledJobError        a job that was cancelled
        ├── InterruptedJobError      a job that was interrupted and can be resumed
        ├── UnreachableError         no scheduler answers
        │   └── AwayError            a scheduler answers, but its job service is starting, has ended or cannot write
        └── NotDoneError             a job of a service that was waited for and is not done
            └── WaitTimeoutError     the same, because the time for it is over

    DistforestWarning (UserWarning)  something is legal, but may not be what was meant; work goes on
"""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import FrameType


class DistforestError(Exception):
    """The base of all errors that distforest raises on purpose."""


class DistforestWarning(UserWarning):
    """Something is legal, but may not be what was meant; the message says what was found and what to do."""


class InputError(DistforestError, ValueError):
    """Data or a parameter cannot be used; the message says what was expected, what was found, and what to do."""


class FaultsError(InputError):
    """One input has several faults, such as the columns of a table; ``faults`` lists them in the order of the input."""

    def __init__(self, faults: Sequence[str]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(self.faults))

    def __reduce__(self) -> tuple[type[FaultsError], tuple[tuple[str, ...]]]:
        return type(self), (self.faults,)


class SpecError(FaultsError):
    """A job spec has faults; ``faults`` lists all of them, in the order of the file."""


class ConflictError(InputError):
    """A request conflicts with the jobs that exist: another job has the id, or the job is in the wrong state."""


class ExistsError(ConflictError):
    """A job was submitted under the id of a job that exists; ``job`` is its state, as far as it is known."""

    def __init__(self, message: str, job: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.job = job or {}


class NotFoundError(DistforestError):
    """There is no job with this id."""


class ArtifactError(DistforestError):
    """A forest is damaged, of an unknown format, or no forest; the message names the array and the place."""


class JobError(DistforestError):
    """A job could not be finished; committed trees are kept, and the next run continues with the others."""


class MemoryLimitError(JobError):
    """A job needs more memory than its workers have; nothing was started."""


class DamageError(JobError):
    """An input was damaged on a host while a job read it, at an unknown time; no tree of the job is kept."""


class CancelledJobError(JobError):
    """A job was cancelled; unfinished trees are not kept."""


class UnreachableError(JobError):
    """No scheduler answers."""


class AwayError(UnreachableError):
    """A scheduler answers, but its job service has not started, has ended, or cannot write to its job root just now."""


class InterruptedJobError(JobError):
    """A job was interrupted and can be resumed."""


class NotDoneError(JobError):
    """A job of a service was waited for and is not done; ``job`` is its last known state."""

    def __init__(self, message: str, job: Mapping[str, Any]) -> None:
        super().__init__(message)
        self.job = job


class WaitTimeoutError(NotDoneError):
    """A job of a service was waited for and has not ended in time."""


def warn_caller(text: str) -> None:
    """Warn at the line outside this package that called it, from any depth of calls.

    Lines of scikit-learn and joblib are skipped too, for example those of a parameter search.
    """
    level, frame = 1, sys._getframe()
    while _is_ours(frame) and frame.f_back is not None:
        level, frame = level + 1, frame.f_back
    warnings.warn(text, DistforestWarning, stacklevel=level)


def _is_ours(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] in {"distforest", "sklearn", "joblib"}
