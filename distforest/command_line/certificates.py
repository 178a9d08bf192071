# ruff: noqa: PLC0415
"""The command `certificates`: an authority and certificates for one cluster.

Registered by `distforest.command_line.cli`, which prints what it returns; its imports stand inside it for the same
reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from distforest.errors import InputError

if TYPE_CHECKING:
    from distforest.command_line.reports import Report


@click.command()
@click.argument("folder", metavar="DIR")
@click.option(
    "--host", "hosts", metavar="NAME", multiple=True, help="Name or IP address of a scheduler or worker host."
)
@click.option("--days", type=click.IntRange(1, 3650), default=365, show_default=True, help="How long they are valid.")
def certificates(folder: str, hosts: tuple[str, ...], days: int) -> Report:
    """Make a certificate authority and certificates for scheduler, workers and clients, in the new folder DIR.

    DASK_CONFIG=DIR then encrypts all that Dask sends, and lets in nobody without one of them.
    """
    try:
        from distforest.service.certificates import make
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.startswith("cryptography"):
            raise
        raise InputError(f"certificates need cryptography, pip install 'distforest[tls]': {error}") from error
    from distforest.command_line.reports import Report

    made = make(folder, hosts, days)
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
        ("put away", "ca-key.pem: no process needs it, and who has it can make certificates"),
    ]
    return Report(answer, lines)


COMMANDS = (certificates,)
