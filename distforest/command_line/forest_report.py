# ruff: noqa: PLC0415
"""The command `report`: a sealed forest, or the forest of a job, as a page of HTML.

Registered by `distforest.command_line.cli`, which prints what it returns; its imports stand inside it for the same
reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from distforest.command_line.service import printer_of_notes, reads_jobs
from distforest.errors import InputError, NotDoneError

if TYPE_CHECKING:
    from distforest.command_line.reports import Report
    from distforest.service.messages import JobState
    from distforest.service.whereabouts import Whereabouts

TOLD_ELSEWHERE = ("forest", "digest", "output", "evaluations")
"""What the page tells of a job by itself."""


@click.command(short_help="Write all that a sealed forest tells as one page of HTML.")
@click.argument("forest", metavar="FOREST|JOB")
@click.argument("output", metavar="OUTPUT.html")
@click.option("--truth", metavar="ADDRESS", help="What the training rows were taught, or labels: draws the errors.")
@click.option("--overwrite", is_flag=True, help="Replace the page at OUTPUT.html.")
@reads_jobs
def report(forest: str, output: str, truth: str | None, overwrite: bool, where: Whereabouts) -> Report:
    """Write all that a sealed forest tells as one page that needs no network: OUTPUT.html.

    FOREST is an address; anything else without a slash is the ID of a job, of whose run the page tells too. The page
    has data, parameters, errors, importances, the shapes of trees, proximities by cluster, and how it is all repeated.
    """
    import shlex

    from distforest.command_line.reports import Report
    from distforest.pictures.report import report_page
    from distforest.stores.addresses import names_in, put_file, store_of

    if not output.endswith((".html", ".htm")):
        raise InputError(f"{output}: a name that ends in .html was expected")
    store, path = store_of(output)
    if store.exists(path) and (store.isdir(path) or not overwrite):
        raise InputError(f"{output} is there already; choose another output, or allow it (`overwrite`)")
    is_job = "/" not in forest and not forest.endswith((".zarr", ".zip")) and not names_in(forest)
    address, run = _forest_of_job(_job_at(where, forest)) if is_job else (forest, [])
    options = [*(["--truth", truth] if truth else []), *(where.options if is_job else [])]
    parts = ["distforest", "report", forest, output, *options]
    page, found = report_page(address, truth=truth, run=run, made_by=shlex.join(parts))
    content = page.encode()
    put_file(output, content)
    answer: dict[str, object] = {"output": output, "forest": address, "digest": found.digest, "n_bytes": len(content)}
    return Report(answer, [("output", output), ("forest", address), ("digest", found.digest)])


def _job_at(where: Whereabouts, name: str) -> JobState:
    """The job of that ID; if nobody says where jobs are, a name that is no address may be a mistyped one."""
    try:
        return where.jobs(printer_of_notes()).job(name)
    except InputError as error:
        raise InputError(f"{name} is no address of a forest, so it is read as the ID of a job: {error}") from error


def _forest_of_job(job: JobState) -> tuple[str, list[tuple[str, str]]]:
    """The address of the forest that a job has sealed, and what is known of its run."""
    from distforest.command_line.job_reports import reported

    name, address = str(job["id"]), (job.get("result") or {}).get("forest")
    if job.get("kind") == "score":
        raise InputError(f"{name} is a scoring job, which makes no forest; give the address of the one it asked")
    if not address:
        raise NotDoneError(
            f"{name} is {job['state']} and has no forest yet; `distforest wait {name}` waits for it", job
        )
    told = [(title.capitalize(), value) for title, value in reported(job).lines if title not in TOLD_ELSEWHERE]
    return address, told


COMMANDS = (report,)
