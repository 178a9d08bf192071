# ruff: noqa: PLC0415
"""Commands about the jobs of a service: they are handed in, listed, followed, stopped; and a service on this machine.

Registered by `distforest.command_line.cli`, which prints what they return; their imports stand inside them for the same
reason.
"""

from __future__ import annotations

import functools
import json
import sys
from typing import TYPE_CHECKING, Any

import click

from distforest.command_line.commands import JSON, print_report, printable
from distforest.errors import NotDoneError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from distforest.command_line.reports import Report
    from distforest.jobs.cluster import Watch
    from distforest.service.messages import JobState
    from distforest.service.whereabouts import Jobs, Whereabouts

STATES = (
    *("QUEUED", "WAITING_FOR_WORKERS", "RUNNING", "MERGING"),
    *("SUCCEEDED", "FAILED", "CANCELLING", "CANCELLED", "INTERRUPTED", "UNREADABLE"),
)
"""`distforest.service.registry.JOB_STATES`, here without its imports."""

COLOURS = {
    "SUCCEEDED": "green",
    "FAILED": "red",
    "INTERRUPTED": "yellow",
    "UNREADABLE": "red",
    "CANCELLED": "dim",
    "RUNNING": "cyan",
}


# --- where the service is ---------------------------------------------------------------------------------

_SCHEDULER = (
    click.option("--scheduler", metavar="ADDRESS", help="Scheduler of the service.  [env: DASK_SCHEDULER_ADDRESS]"),
    click.option("--scheduler-file", metavar="FILE", help="File with its address.  [env: DISTFOREST_SCHEDULER_FILE]"),
    click.option("--tls-ca-file", metavar="FILE", help="Certificate of the authority behind the scheduler's."),
    click.option("--tls-cert", metavar="FILE", help="Certificate to show to the scheduler."),
    click.option("--tls-key", metavar="FILE", help="Key of that certificate.  [default: in the file of --tls-cert]"),
)
_JOB_ROOT = click.option(
    "--job-root", metavar="URL", help="Read the job root, without a scheduler.  [env: DISTFOREST_JOB_ROOT]"
)


def _with_whereabouts(
    *options: Callable[[Callable[..., Any]], Callable[..., Any]],
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command some options, of which it is told as one `Whereabouts`."""

    def decorated(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def told(*arguments: Any, **given: Any) -> Any:
            import dataclasses

            from distforest.service.whereabouts import Whereabouts

            names = [field.name for field in dataclasses.fields(Whereabouts) if field.name in given]
            where = Whereabouts(**{name: given.pop(name) for name in names})
            return command(*arguments, where=where, **given)

        return functools.reduce(lambda inner, option: option(inner), reversed(options), told)

    return decorated


asks_service = _with_whereabouts(*_SCHEDULER)
reads_jobs = _with_whereabouts(*_SCHEDULER, _JOB_ROOT)


def teller() -> Callable[[str], None]:
    """A function that says something on stderr, once."""
    return functools.cache(lambda text: click.echo(f"note: {printable(text)}", err=True))


def _wants_json() -> bool:
    return bool(click.get_current_context().meta.get(JSON))


# --- submit and wait --------------------------------------------------------------------------------------


@click.command()
@click.argument("spec", metavar="SPEC")
@asks_service
@click.option("--id", "name", metavar="ID", help="Name of the job.  [default: method, time and chance]")
@click.option("--set", "sets", multiple=True, metavar="KEY=VALUE", help="Set a key of the spec: params.max_depth=3.")
@click.option("--wait", "waits", is_flag=True, help="Wait until the job has ended, as `wait` does.")
def submit(spec: str, name: str | None, sets: tuple[str, ...], waits: bool, where: Whereabouts) -> Report:
    """Hand in the job that the TOML file SPEC describes; it runs on without this command.

    Local paths are made absolute, and must lead to the same files on the hosts of scheduler and workers.
    """
    from distforest.command_line.reports import Report
    from distforest.command_line.spec_files import read_spec, settings, with_absolute_paths

    text = with_absolute_paths(read_spec(spec, settings(sets))).to_json()
    found = where.service().submit(text, name)
    job, created = found["job"], bool(found["created"])
    own = str(job["id"])
    if waits:
        click.echo(f"{own} is handed in", err=True)
        report = _awaited(where.jobs(teller()), own, None)
        return Report({**report.answer, "created": created}, report.lines)
    lines = [("id", own), ("state", str(job["state"])), ("follow", f"distforest wait {own}")]
    if not created:
        lines.append(("note", "this very job was handed in before; it is the same one"))
    return Report({"id": own, "state": job["state"], "created": created}, lines)


@click.command()
@click.argument("name", metavar="ID")
@reads_jobs
@click.option("--timeout", type=click.FloatRange(0.0), metavar="SECONDS", help="Wait no longer; exit code 124 then.")
def wait(name: str, timeout: float | None, where: Whereabouts) -> Report:
    """Wait until job ID has ended: exit code 0 succeeded, 1 failed, 5 cancelled, 6 interrupted, 124 too late.

    A scheduler that is restarted meanwhile has a minute to come back. The job does not know who waits: Ctrl-C ends the
    waiting alone.
    """
    return _awaited(where.jobs(teller()), name, timeout)


def _awaited(jobs: Jobs, name: str, seconds: float | None) -> Report:
    """Report a job when it has ended, with its progress on stderr; raises NotDoneError if it has no result."""
    from distforest.command_line.console import progress
    from distforest.command_line.job_reports import reported
    from distforest.service.following import follow

    job: JobState = {"id": name}
    try:
        with progress() as watch:
            shown: tuple[object, ...] = ()
            for job in follow(jobs, name, seconds):
                shown = _show(job, shown, watch)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"{name} runs on; `distforest wait {name}` waits again, `cancel` stops it") from None
    if job["state"] != "SUCCEEDED":
        raise NotDoneError(_in_words(job), job)
    return reported(job)


def _show(job: JobState, shown: tuple[object, ...], watch: Watch) -> tuple[object, ...]:
    """Show how far a job is on stderr, if that is not what was shown last; returns what is shown now."""
    from distforest.service.following import progress_of, waiting_for

    now = (job["state"], waiting_for(job), *(job.get(name) for name in ("phase", "done", "total")))
    if now == shown:
        return shown
    if now[:2] != shown[:2]:
        click.echo(printable(": ".join(filter(None, (f"{job['id']} is {job['state']}", waiting_for(job))))), err=True)
    if (found := progress_of(job)) is not None:
        watch(found)
    return now


def _in_words(job: JobState) -> str:
    """How a job has ended, and what to do."""
    name, state, error = job["id"], job["state"], job.get("error")
    if state == "CANCELLED":
        return f"{name} was cancelled; `distforest resume {name}` begins it anew"
    if state == "UNREADABLE":
        return str(error["message"] if error else None)
    if state == "INTERRUPTED":
        return f"{name} is interrupted: its service was stopped or is not heard any more; the next one goes on with it"
    told = f"{error['kind']}: {error['message']}" if error else "JobError: no reason is known"
    return f"{name} failed: {told}; `distforest resume {name}` goes on from what is finished"


# --- what is known of jobs --------------------------------------------------------------------------------


@click.command("list")
@reads_jobs
@click.option(
    "--state", "states", multiple=True, type=click.Choice(STATES, case_sensitive=False), help="Only these; several."
)
def list_jobs(states: tuple[str, ...], where: Whereabouts) -> Report | None:
    """List the jobs of a service, newest first."""
    from distforest.command_line.reports import Report

    found = where.jobs(teller()).listed()
    jobs = [job for job in found["jobs"] if not states or job["state"] in states]
    for job in jobs:
        if job["state"] == "UNREADABLE" and (error := job["error"]):
            click.echo(f"note: {printable(error['message'])}", err=True)
    if _wants_json():
        return Report({"jobs": jobs, "service": found["service"]}, [])
    if jobs:
        _print_table(jobs)
    else:
        click.echo("there are no jobs" + (f" that are {' or '.join(states)}" if states else ""), err=True)
    return None


def _print_table(jobs: Sequence[Mapping[str, Any]]) -> None:
    """Print a table of jobs: with colours on a terminal, else as plain columns."""
    import time

    from distforest.command_line.job_reports import HEADINGS, in_columns, rows

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
    """Tell what is known of job ID: its state, how far it is, what it has made, what went wrong."""
    from distforest.command_line.job_reports import reported

    return reported(where.jobs(teller()).job(name))


@click.command()
@click.argument("name", metavar="ID")
@reads_jobs
@click.option("-f", "--follow", "follows", is_flag=True, help="Go on until the job has ended.")
def logs(name: str, follows: bool, where: Whereabouts) -> None:
    """Print what happened to job ID, a line for each event; with --json an object in each line."""
    from distforest.command_line.job_reports import event_line
    from distforest.service.following import events_after, follow_events

    jobs, as_json = where.jobs(teller()), _wants_json()
    try:
        for event in follow_events(jobs, name) if follows else events_after(jobs, name, 0):
            click.echo(json.dumps(event) if as_json else printable(event_line(event)))
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"{name} runs on") from None


# --- what is done to jobs ---------------------------------------------------------------------------------


@click.command()
@click.argument("name", metavar="ID")
@asks_service
def cancel(name: str, where: Whereabouts) -> Report:
    """Stop job ID; of what it has grown nothing is kept."""
    from distforest.command_line.job_reports import reported

    return reported(where.service().cancel(name))


@click.command()
@click.argument("name", metavar="ID")
@asks_service
def resume(name: str, where: Whereabouts) -> Report:
    """Let job ID go on that has failed, from what it has finished; begin one anew that was cancelled."""
    from distforest.command_line.job_reports import reported

    return reported(where.service().resume(name))


@click.command()
@click.argument("name", metavar="ID")
@asks_service
def rm(name: str, where: Whereabouts) -> Report:
    """Forget job ID, which has ended: its spec, events and unfinished work, not its output."""
    from distforest.command_line.reports import Report

    removed = where.service().remove(name)
    return Report({"id": removed, "removed": True}, [("removed", removed)])


# --- a service on this machine ----------------------------------------------------------------------------


@click.command()
@click.option(
    "--job-root", required=True, envvar="DISTFOREST_JOB_ROOT", metavar="DIR", help="Folder (or URL) of all jobs."
)
@click.option("--workers", type=click.IntRange(1), help="Worker processes.  [default: cores, at most 4]")
@click.option("--threads", type=click.IntRange(1), default=1, show_default=True, help="Threads of each process.")
@click.option("--memory-limit", metavar="SIZE", help="Memory of each process, such as 4GiB.")
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="Listen here; who reaches it without TLS rules it."
)
@click.option("--port", type=click.IntRange(0, 65535), default=8786, show_default=True, help="0: any free one.")
@click.option("--dashboard-port", type=click.IntRange(0, 65535), default=8787, show_default=True, help="Of the page.")
@click.pass_context
def serve(ctx: click.Context, /, job_root: str, memory_limit: str | None, **taken: Any) -> None:
    """Run a service on this machine, until Ctrl-C or SIGTERM; its jobs go on when it is started again."""
    from distforest.command_line.reports import Report
    from distforest.command_line.spec_files import bytes_of_option, from_the_root
    from distforest.service.serving import Machine, ServiceAddresses
    from distforest.service.serving import serve as run

    root = from_the_root(job_root)

    def ready(place: ServiceAddresses) -> None:
        lines = [("scheduler", place.address), ("page", place.page), ("job root", root)]
        print_report(ctx, Report({"address": place.address, "page": place.page, "job_root": root}, lines))
        sys.stdout.flush()

    run(root, Machine(memory_limit=bytes_of_option("--memory-limit", memory_limit), **taken), ready)
    click.echo("stopped; unfinished jobs resume when a service is started on this job root", err=True)


COMMANDS = (submit, list_jobs, status, logs, wait, cancel, resume, rm, serve)
