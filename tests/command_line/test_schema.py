"""The command `schema`: what it prints is the schema, for a person and for a program."""

from __future__ import annotations

from distforest.jobs.json_schema import job_schema
from tests.service.command_line import run, run_json


def test_the_schema_is_printed() -> None:
    assert run_json("schema") == (0, job_schema())
    code, out, err = run("schema")
    assert (code, err) == (0, "")
    assert out.startswith('{\n  "$schema": ')
