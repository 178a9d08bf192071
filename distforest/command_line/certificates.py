# ruff: noqa: PLC0415
"""The command `certificates`: an authority and certificates for one cluster.

`distforest.command_line.cli` adds it and prints the report that it returns. As there, imports are inside the command.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from distforest.errors import InputError

if TYPE_CHECKING:
    from distforest.command_line.reports import Report


@click.command()
@click.argument("folder", metavar="DIR")
@click.option("--host", "hosts", metavar="NAME", multiple=True, help="Name or IP address of a host; may be repeated.")
@click.option(
    "--days",
    type=click.IntRange(1, 3650),
    default=365,
    show_default=True,
    help="Days for which the certificates are valid.",
)
@click.option(
    "--user", "users", metavar="NAME", multiple=True, help="Person with a certificate of their own; may be repeated."
)
def certificates(folder: str, hosts: tuple[str, ...], days: int, users: tuple[str, ...]) -> Report:
    """Make a certificate authority and certificates for a cluster.

    The new folder DIR then holds certificates for the scheduler, the workers and the clients. With DASK_CONFIG=DIR,
    Dask encrypts all connections and refuses those without such a certificate. The name of a --user is the owner of
    the jobs that are submitted with their certificate, client-NAME.pem.
    """
    try:
        from distforest.service.certificates import make
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.startswith("cryptography"):
            raise
        raise InputError(f"certificates need cryptography, pip install 'distforest[tls]': {error}") from error
    from distforest.command_line.reports import Report

    made = make(folder, hosts, days, users)
    end = made.valid_until.isoformat()
    answer: dict[str, object] = {
        "folder": made.folder,
        "files": list(made.files),
        "hosts": list(made.hosts),
        "valid_until": end,
    }
    lines = [
        ("folder", made.folder),
        ("hosts", ", ".join(made.hosts)),
        ("valid until", end),
        ("use", f"export DASK_CONFIG={made.folder}"),
        ("put away", "ca-key.pem: no process needs it, and whoever has it can make certificates"),
    ]
    return Report(answer, lines)


COMMANDS = (certificates,)
