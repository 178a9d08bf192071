"""The exit codes of commands, by kind of error."""

from __future__ import annotations

from distforest.errors import (
    ArtifactError,
    CancelledJobError,
    ExistsError,
    InputError,
    InterruptedJobError,
    NotDoneError,
    NotFoundError,
    UnreachableError,
    WaitTimeoutError,
)

CODES = (
    (ExistsError, 8),
    (InputError, 2),
    (UnreachableError, 3),
    (NotFoundError, 4),
    (CancelledJobError, 5),
    (InterruptedJobError, 6),
    (ArtifactError, 7),
    (WaitTimeoutError, 124),
    (KeyboardInterrupt, 130),
)
"""The exit code of each kind of error; for all others it is 1."""

STATE_CODES = {"CANCELLED": 5, "INTERRUPTED": 6}
"""The exit code for a job that ended in this state without a result; for all other states it is 1."""

MEND_CODE = 1
"""What `doctor` ends with if something is to be mended."""


def exit_code(error: BaseException) -> int:
    """The exit code for an error."""
    code = next((code for kind, code in CODES if isinstance(error, kind)), 1)
    return STATE_CODES.get(error.job["state"], code) if type(error) is NotDoneError else code
