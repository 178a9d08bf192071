"""Which exit code an error leads to."""

import json

import pytest
from click.testing import CliRunner

from distforest.command_line.cli import main
from distforest.command_line.commands import exit_code
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


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (["fit"], "'SPEC'"),
        (["fit", "job.toml", "--nope"], "--nope"),
        (["score", "f", "q", "o", "--answer", "nothing"], "'nothing'"),
        (["nothing"], "'nothing'"),
    ],
)
def test_a_wrong_call_is_told_as_json_too(command, told):
    done = CliRunner().invoke(main, [*command, "--json"])
    assert done.exit_code == 2
    answer = json.loads(done.stdout)
    assert (answer["error"]["kind"], answer["exit_code"]) == ("UsageError", 2)
    assert told in answer["error"]["message"]
    assert told in done.stderr
    assert CliRunner().invoke(main, command).stdout == ""
