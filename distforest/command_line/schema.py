# ruff: noqa: PLC0415
"""The command `schema`: the spec of a job as JSON Schema.

Registered by `distforest.command_line.cli`; its imports stand inside it for the same reason.
"""

from __future__ import annotations

import json

import click

from distforest.command_line.commands import JSON


@click.command(short_help="Print the JSON Schema of a job's TOML file, for editors.")
@click.pass_context
def schema(ctx: click.Context) -> None:
    """Print the JSON Schema of a job's TOML file, with which an editor completes and checks its keys.

    `distforest schema > job.schema.json`, and the first line of a job's file: #:schema ./job.schema.json
    """
    from distforest.jobs.schema import job_schema

    click.echo(json.dumps(job_schema(), indent=None if ctx.meta.get(JSON) else 2, allow_nan=False))


COMMANDS = (schema,)
