# ruff: noqa: PLC0415
"""Commands on the jobs of a service, which submit, list, follow and stop them, and a command that runs a service.

`distforest.command_line.cli` adds them and prints the reports that they return. As there, imports are inside the
commands.
"""

from __future__ import annotations

import functools
import json
import shlex
import sys
from typing import TYPE_CHECKING, Any

import click

from distforest.command_line.commands import JSON, print_report, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from distforest.command_line.reports import Report
    from distforest.service.calls import IfExists
    from distforest.service.whereabouts import Whereabouts

    Command = Callable[..., object]
    Option = Callable[[Command], Command]

STATES = (
    *("QUEUED", "WAITING_FOR_WORKERS", "RUNNING", "MERGING"),
    *("SUCCEEDED", "FAILED", "CANCELLING", "CANCELLED", "INTERRUPTED", "UNREADABLE"),
)
"""`distforest.service.registry.JOB_STATES`, repeated here to avoid its imports."""

COLOURS = {
    "SUCCEEDED": "green",
    "FAILED": "red",
    "INTERRUPTED": "yellow",
    "UNREADABLE": "red",
    "CANCELLED": "dim",
    "RUNNING": "cyan",
}


# --- the address of the service ---------------------------------------------------------------------------

_SCHEDULER = (
    click.option(
        "--scheduler", metavar="ADDRESS", help="Address of the service's scheduler.  [env: DASK_SCHEDULER_ADDRESS]"
    ),
    click.option("--scheduler-file", metavar="FILE", help="File with that address.  [env: DISTFOREST_SCHEDULER_FILE]"),
    click.option(
        "--tls-ca-file", metavar="FILE", help="Certificate of the authority that has signed the scheduler's one."
    ),
    click.option("--tls-cert", metavar="FILE", help="Certificate to present to the scheduler."),
    click.option(
        "--tls-key", metavar="FILE", help="Private key of that certificate.  [default: in the file of --tls-cert]"
    ),
)
_JOB_ROOT = click.option(
    "--job-root", metavar="URL", help="Read the job root directly, without a scheduler.  [env: DISTFOREST_JOB_ROOT]"
)


_OWNER = click.option(
    "--owner",
    envvar="USER",
    help="Your name as an owner; a certificate's name takes precedence.  [env: USER]",
)
_SETS = click.option(
    "--set",
    "sets",
    multiple=True,
    metavar="KEY=VALUE",
    help="Set a key of the spec, such as params.max_depth=3; may be repeated.",
)


def _with_whereabouts(*options: Option) -> Option:
    """Add options to a command, which gets their values as one argument ``where``, a `Whereabouts`."""

    def decorated(command: Command) -> Command:
        @functools.wraps(command)
        def called(*arguments: object, **given: Any) -> object:
            import dataclasses

            from distforest.service.whereabouts import Whereabouts

            names = [field.name for field in dataclasses.fields(Whereabouts) if field.name in given]
            where = Whereabouts(**{name: given.pop(name) for name in names})
            return command(*arguments, where=where, **given)

        with_options: Command = called
        for option in reversed(options):
            with_options = option(with_options)
        return with_options

    return decorated


asks_service = _with_whereabouts(*_SCHEDULER)
reads_jobs = _with_whereabouts(*_SCHEDULER, _JOB_ROOT)


def printer_of_notes() -> Callable[[str], None]:
    """Return a function that prints notes to stderr, each text only once."""
    return functools.cache(lambda text: click.echo(f"note: {printable(text)}", err=True))


def _wants_json() -> bool:
    return bool(click.get_current_context().meta.get(JSON))


# --- submit and wait --------------------------------------------------------------------------------------


@click.command()
@click.argument("spec", metavar="SPEC")
@asks_service
@click.option("--id", "name", metavar="ID", help="Name of the job.  [default: method, time and a random part]")
@click.option(
    "--if-exists",
    type=click.Choice(("fail", "ok", "new")),
    default="fail",
    show_default=True,
    help="If a job with this --id exists: fail with exit code 8; ok: report that job, or wait for it, and exit by its "
    "state; new: submit under the id with the time added.",
)
@_SETS
@click.option(
    "--priority", type=int, help="Start before waiting jobs of a lower priority, as run.priority.  [default: 0]"
)
@click.option("--queue", help="Queue of the job, as run.queue.")
@_OWNER
@click.option("--wait", "waits", is_flag=True, help="Wait until the job has ended, like `wait`.")
def submit(
    spec: str,
    *,
    name: str | None,
    if_exists: IfExists,
    sets: tuple[str, ...],
    priority: int | None,
    queue: str | None,
    owner: str | None,
    waits: bool,
    where: Whereabouts,
) -> Report:
    """Submit the job that the TOML file SPEC describes.

    The job runs in the service, independently of this command. Local paths are made absolute, and must lead to the same
    files on the hosts of the scheduler and the workers.
    """
    from distforest.command_line.reports import Report
    from distforest.command_line.spec_files import read_spec, settings
    from distforest.jobs.any_spec import with_absolute_paths
    from distforest.service.calls import existing
    from distforest.service.following import check_succeeded
    from distforest.service.registry import ENDS

    given = {"run.priority": priority, "run.queue": queue}
    changes = settings(sets) | {name: value for name, value in given.items() if value is not None}
    text = with_absolute_paths(read_spec(spec, changes)).to_json()
    submitted = where.service().submit(text, name, if_exists, owner)
    job, created = submitted["job"], bool(submitted["created"])
    job_id = str(job["id"])
    if waits or not created:
        click.echo(f"{job_id} is submitted" if created else f"note: {existing(job)}", err=True)
    if waits:
        report = _awaited(where, job_id, None)
        return Report({**report.answer, "created": created}, report.lines)
    if job["state"] in ENDS:
        check_succeeded(job)
    lines = [("id", job_id), ("state", str(job["state"])), ("follow", _waiting(where, job_id))]
    return Report({"id": job_id, "state": job["state"], "created": created}, lines)


@click.command()
@click.argument("name", metavar="ID")
@reads_jobs
@click.option(
    "--timeout", type=click.FloatRange(0.0), metavar="SECONDS", help="Stop waiting after this time, with exit code 124."
)
def wait(name: str, timeout: float | None, where: Whereabouts) -> Report:
    """Wait until job ID has ended.

    The exit code is 0 if the job has succeeded, 1 if it has failed, 5 if it was cancelled, 6 if it was interrupted, and
    124 after --timeout. A scheduler that restarts meanwhile has a minute to answer again. Ctrl-C ends the waiting; the
    job continues.
    """
    return _awaited(where, name, timeout)


def _waiting(where: Whereabouts, name: str) -> str:
    """Return the command that waits for a job at the same scheduler."""
    return shlex.join(["distforest", "wait", name, *where.options])


def _awaited(where: Whereabouts, name: str, seconds: float | None) -> Report:
    """Show the progress of a job on stderr until it has ended; report it, or raise NotDoneError if it has failed."""
    from distforest.command_line.job_reports import reported
    from distforest.jobs.progress import shown_progress
    from distforest.service.following import check_succeeded, shown_to_its_end

    try:
        with shown_progress() as watch:
            job = shown_to_its_end(where.jobs(printer_of_notes()), name, seconds, (watch, _print_note))
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"{name} continues; `{_waiting(where, name)}` waits again, `cancel` stops it") from None
    check_succeeded(job)
    return reported(job)


def _print_note(text: str) -> None:
    click.echo(printable(text), err=True)


# --- reports on jobs --------------------------------------------------------------------------------------


@click.command("list")
@reads_jobs
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice(STATES, case_sensitive=False),
    help="List only jobs in this state; may be repeated.",
)
@click.option(
    "--limit", type=click.IntRange(1), default=100, show_default=True, help="Largest number of jobs that are listed."
)
@click.option("--skip", type=click.IntRange(0), default=0, help="Number of the newest jobs to leave out.  [default: 0]")
def list_jobs(states: tuple[str, ...], limit: int, skip: int, where: Whereabouts) -> Report | None:
    """List the jobs of a service, newest first."""
    from distforest.command_line.reports import Report
    from distforest.service.messages import JobFilter

    found = where.jobs(printer_of_notes()).listed(JobFilter(states, skip, limit))
    jobs = found["jobs"]
    if (older := found.get("total", 0) - skip - len(jobs)) > 0:
        click.echo(f"note: {older:,} older jobs are not listed; --skip {skip + len(jobs)} lists the next", err=True)
    for job in jobs:
        if job["state"] == "UNREADABLE" and (error := job["error"]):
            click.echo(f"note: {printable(error['message'])}", err=True)
    if _wants_json():
        return Report(dict(found), [])
    if jobs:
        _print_table(jobs)
    else:
        click.echo("there are no jobs" + (f" in state {' or '.join(states)}" if states else ""), err=True)
    return None


def _print_table(jobs: Sequence[Mapping[str, Any]]) -> None:
    """Print a table of jobs: in colour on a terminal, otherwise as plain columns."""
    import time

    from distforest.command_line.job_reports import HEADINGS, rows
    from distforest.command_line.reports import in_columns

    cells = [tuple(map(printable, row)) for row in rows(jobs, time.time())]
    if not sys.stdout.isatty():
        click.echo("\n".join(in_columns([HEADINGS, *cells])))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(*HEADINGS, box=None, pad_edge=False)
    for row in cells:
        table.add_row(*(Text(cell, COLOURS.get(cell, "") if place == 1 else "") for place, cell in enumerate(row)))
    Console().print(table)


@click.command()
@click.argument("name", metavar="ID")
@reads_jobs
def status(name: str, where: Whereabouts) -> Report:
    """Report the state, progress and result or error of job ID."""
    from distforest.command_line.job_reports import reported

    return reported(where.jobs(printer_of_notes()).job(name))


@click.command()
@click.argument("name", metavar="ID")
@reads_jobs
@click.option("-f", "--follow", "follows", is_flag=True, help="Keep printing new events until the job has ended.")
def logs(name: str, follows: bool, where: Whereabouts) -> None:
    """Print the events of job ID, one per line.

    With --json each line is a JSON object.
    """
    from distforest.command_line.job_reports import event_line
    from distforest.service.following import events_after, follow_events

    jobs, as_json = where.jobs(printer_of_notes()), _wants_json()
    try:
        for event in follow_events(jobs, name) if follows else events_after(jobs, name, 0):
            click.echo(json.dumps(event) if as_json else printable(event_line(event)))
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"{name} continues") from None


# --- changes to jobs -------------------------------------------------------------------------------------


@click.command()
@click.argument("name", metavar="ID")
@asks_service
@_OWNER
def cancel(name: str, owner: str | None, where: Whereabouts) -> Report:
    """Stop job ID and discard its unfinished work."""
    from distforest.command_line.job_reports import reported

    return reported(where.service().cancel(name, owner))


@click.command()
@click.argument("name", metavar="ID")
@asks_service
@_SETS
@_OWNER
def resume(name: str, sets: tuple[str, ...], owner: str | None, where: Whereabouts) -> Report:
    """Resume the failed job ID from its finished tasks.

    A cancelled job starts again from the beginning, as does a failed one if the changed keys lead to other trees.
    Addresses in --set are absolute paths or URLs.
    """
    from distforest.command_line.job_reports import reported
    from distforest.command_line.spec_files import settings

    return reported(where.service().resume(name, settings(sets), owner))


@click.command()
@click.argument("names", nargs=-1, metavar="[ID]...")
@asks_service
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice(("SUCCEEDED", "FAILED", "CANCELLED"), case_sensitive=False),
    help="Remove all jobs that ended in this state; may be repeated.",
)
@click.option("--older-than", metavar="AGE", help="Remove all jobs that ended at least this long ago, such as 30d.")
@_OWNER
def rm(
    names: tuple[str, ...], states: tuple[str, ...], older_than: str | None, owner: str | None, where: Whereabouts
) -> Report:
    """Remove jobs that have ended from the service: by ID, or by state or age.

    With both --state and --older-than, a job must satisfy both. Spec, events and unfinished work are deleted; the
    output is kept.
    """
    import contextlib
    import time

    from distforest.command_line.reports import Report
    from distforest.command_line.spec_files import seconds_of_option
    from distforest.errors import NotFoundError
    from distforest.service.messages import JobFilter
    from distforest.service.registry import ENDS

    chooses = bool(states) or older_than is not None
    if chooses == bool(names):
        raise click.UsageError("either IDs, or --state or --older-than, were expected")
    latest, service = time.time() - (seconds_of_option("--older-than", older_than) or 0.0), where.service()
    removed = [service.remove(name, owner) for name in names]
    if chooses:
        for job in service.listed(JobFilter(states or ENDS))["jobs"]:
            if (job.get("ended") or 0.0) <= latest:
                with contextlib.suppress(NotFoundError):  # it was removed meanwhile
                    removed.append(service.remove(job["id"], owner))
    lines = [("removed", name) for name in removed] or [("removed", "none")]
    return Report({"removed": removed}, lines)


# --- a service on this machine ----------------------------------------------------------------------------


@click.command()
@click.option(
    "--job-root",
    required=True,
    envvar="DISTFOREST_JOB_ROOT",
    metavar="DIR",
    help="Folder or URL with the state of all jobs.",
)
@click.option("--workers", type=click.IntRange(1), help="Number of worker processes.  [default: cores, at most 4]")
@click.option(
    "--threads", type=click.IntRange(1), default=1, show_default=True, help="Number of threads of each process."
)
@click.option("--memory-limit", metavar="SIZE", help="Memory limit of each process, such as 4GiB.")
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Address to listen on; without TLS, anyone who can connect controls the service.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8786,
    show_default=True,
    help="Port of the scheduler; 0 for any free one.",
)
@click.option(
    "--dashboard-port",
    type=click.IntRange(0, 65535),
    default=8787,
    show_default=True,
    help="Port of the web page; 0 for any free one.",
)
@click.option(
    "--queue",
    "queues",
    multiple=True,
    metavar="NAME:max-running=N",
    help="A queue, and how many of its jobs may run at once; may be repeated.",
)
@click.option(
    "--cancel", type=click.Choice(("owner", "anyone")), help="Who may cancel, resume or remove.  [default: anyone]"
)
@click.option("--operator", "operators", multiple=True, metavar="NAME", help="Who may change all jobs, besides owners.")
@click.option("--json-logs", is_flag=True, help="Log one JSON object per line to stderr.")
@click.pass_context
def serve(
    ctx: click.Context,
    /,
    job_root: str,
    memory_limit: str | None,
    queues: tuple[str, ...],
    cancel: str | None,
    operators: tuple[str, ...],
    json_logs: bool,
    **machine: Any,
) -> None:
    """Run a service on this machine until Ctrl-C or SIGTERM.

    Unfinished jobs resume when a service is started again on the same job root.
    """
    from distforest.command_line.reports import Report
    from distforest.command_line.spec_files import bytes_of_option
    from distforest.jobs.any_spec import from_the_root
    from distforest.service.serving import serve as run

    root = from_the_root(job_root)

    def ready(address: str, page: str) -> None:
        lines = [("scheduler", address), ("page", page), ("job root", root)]
        lines.append(("submit", f"distforest submit SPEC --scheduler {address}"))
        print_report(ctx, Report({"address": address, "page": page, "job_root": root}, lines))
        sys.stdout.flush()

    options = ["--json-logs"] if json_logs else []
    options += ["--cancel", cancel] if cancel else []
    options += [part for name in queues for part in ("--queue", name)]
    options += [part for name in operators for part in ("--operator", name)]
    limit = bytes_of_option("--memory-limit", memory_limit)
    run(root, ready, memory_limit=limit, options=options, **machine)
    click.echo("stopped; unfinished jobs resume when a service is started on this job root", err=True)


COMMANDS = (submit, list_jobs, status, logs, wait, cancel, resume, rm, serve)
