"""Which exit code an error leads to."""

import pytest

from distforest.command_line.exits import exit_code
from distforest.errors import (
    ArtifactError,
    CancelledJobError,
    ConflictError,
    InputError,
    InterruptedJobError,
    JobError,
    MemoryLimitError,
    NotDoneError,
    NotFoundError,
    SpecError,
    UnreachableError,
    WaitTimeoutError,
)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (JobError("x"), 1),
        (MemoryLimitError("x"), 1),
        (OSError("x"), 1),
        (InputError("x"), 2),
        (ConflictError("x"), 2),
        (SpecError(["x"]), 2),
        (UnreachableError("x"), 3),
        (NotFoundError("x"), 4),
        (CancelledJobError("x"), 5),
        (InterruptedJobError("x"), 6),
        (ArtifactError("x"), 7),
        (NotDoneError("x", {"state": "FAILED"}), 1),
        (NotDoneError("x", {"state": "CANCELLED"}), 5),
        (NotDoneError("x", {"state": "INTERRUPTED"}), 6),
        (WaitTimeoutError("x", {"state": "RUNNING"}), 124),
        (WaitTimeoutError("x", {"state": "INTERRUPTED"}), 124),
        (KeyboardInterrupt(), 130),
    ],
)
def test_exit_codes(error, code):
    assert exit_code(error) == code
