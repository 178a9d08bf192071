"""What a command ends with: its exit codes, and the errors that only the command line has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from distforest.errors import ArtifactError, CancelledJobError, InputError, JobError, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Mapping


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


CODES = (
    (InputError, 2),
    (UnreachableError, 3),
    (NotFoundError, 4),
    (CancelledJobError, 5),
    (InterruptedJobError, 6),
    (ArtifactError, 7),
    (WaitTimeoutError, 124),
    (KeyboardInterrupt, 130),
)
"""The exit code of each kind of error; of all others it is 1."""

STATES = {"CANCELLED": 5, "INTERRUPTED": 6}
"""The exit code of the last state of a job that is not done; of all others it is 1."""


def exit_code(error: BaseException) -> int:
    """Choose the exit code that an error leads to."""
    code = next((code for kind, code in CODES if isinstance(error, kind)), 1)
    return STATES.get(error.job["state"], code) if type(error) is NotDoneError else code
