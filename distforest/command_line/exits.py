"""What a command ends with: the exit code of each kind of error."""

from __future__ import annotations

from distforest.errors import (
    ArtifactError,
    CancelledJobError,
    InputError,
    InterruptedJobError,
    NotDoneError,
    NotFoundError,
    UnreachableError,
    WaitTimeoutError,
)

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

STATE_CODES = {"CANCELLED": 5, "INTERRUPTED": 6}
"""The exit code of the last state of a job that is not done; of all others it is 1."""

MEND_CODE = 1
"""What `doctor` ends with if something is to be mended."""


def exit_code(error: BaseException) -> int:
    """Choose the exit code that an error leads to."""
    code = next((code for kind, code in CODES if isinstance(error, kind)), 1)
    return STATE_CODES.get(error.job["state"], code) if type(error) is NotDoneError else code
