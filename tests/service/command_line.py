"""Commands in this process, which find only the services that a test names."""

import json

import pytest
from click.testing import CliRunner

from distforest.command_line import cli
from distforest.service import following

NOBODY = "bad://nobody"
"""An address at which nobody can be, which is found out at once."""


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Nothing from outside says where a service is, and looks follow one another at once."""
    for name in ("DASK_SCHEDULER_ADDRESS", "DISTFOREST_SCHEDULER_FILE", "DISTFOREST_JOB_ROOT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(following, "POLL_SECONDS", 0.01)


def run(*arguments):
    """A command in this process: its exit code, stdout and stderr."""
    done = CliRunner().invoke(cli.main, [str(argument) for argument in arguments])
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.stdout, done.stderr


def run_json(*arguments):
    """The exit code and the object that a command prints under --json."""
    code, out, _ = run(*arguments, "--json")
    return code, json.loads(out)


def lines_of(text):
    """Names and values of a report that is printed for a person."""
    return {line.split("  ", 1)[0]: line.split("  ", 1)[-1].strip() for line in text.splitlines()}
