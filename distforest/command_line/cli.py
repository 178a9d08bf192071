# ruff: noqa: PLC0415
"""The command line: ``distforest``, and ``dask distforest``.

Commands write data to stdout and progress to stderr. ``--json`` prints one JSON object to stdout, even after an error.

====  ==========================================================================================
code  meaning
====  ==========================================================================================
0     success
1     a job failed, or `doctor` has found a problem
2     the usage is wrong, or a spec or an input cannot be used
3     no scheduler answers
4     there is no such job
5     the awaited job was cancelled
6     interrupted; the same command resumes, and ``resume`` resumes a job of a service
7     the forest is missing or damaged
8     a job was submitted under the id of a job that exists
124   the awaited job has not ended in time
130   ended by Ctrl-C; a job of a service continues
====  ==========================================================================================

The modules of commands import everything but click inside the commands, so that ``--help`` takes no longer than Python
and click.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from contextlib import ExitStack, contextmanager
from dataclasses import fields, replace
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, TypeVar

import click

from distforest.command_line import doctor, sealed_forests, service
from distforest.command_line.commands import (
    HEADED,
    JSON,
    STOPPING,
    CommandGroup,
    F,
    check_plot,
    fail,
    json_option,
    print_report,
    save_figure,
    text_options,
)
from distforest.distance_sides import SIDED
from distforest.errors import (
    DistforestError,
    DistforestWarning,
    InputError,
    InterruptedJobError,
    JobError,
    UnreachableError,
)
from distforest.jobs.answers import ANSWERS
from distforest.process_end import end_sooner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from distforest.command_line.reports import Report
    from distforest.jobs.any_spec import AnySpec
    from distforest.jobs.on_dask import OnDask
    from distforest.jobs.scratch_room import HostWorkers
    from distforest.jobs.spec import Spec
    from distforest.jobs.spec_models import Run
    from distforest.jobs.train import Options
    from distforest.sources.files.queries import QueryOptions
    from distforest.stores.claims import Claim
    from distforest.stores.folder import Folder

GrowingJob = TypeVar("GrowingJob", bound="Spec")
StagedOf = TypeVar("StagedOf")

FORMATS = ("npy", "npz", "csv", "parquet", "arrow", "libsvm")
"""The values of `distforest.sources.files.formats.FORMATS`, repeated here to avoid its imports."""


# --- options that several commands have -------------------------------------------------------------------


WORKERS = click.option(
    "--workers",
    type=click.IntRange(1),
    help="Number of processes of the embedded cluster.  [default: cores, at most 4]",
)
STRICT = click.option("--strict", is_flag=True, help="Refuse arrays with chunks that are not stored.")
MAX_BYTES = click.option(
    "--max-bytes",
    metavar="SIZE",
    help="Refuse arrays whose metadata give a larger size.  [default: 1 GiB, or 1,000 times the stored size]",
)
SCHEDULER = click.option(
    "--scheduler", metavar="ADDRESS", help="Run on this Dask scheduler instead of an embedded cluster."
)


SETS = click.option(
    "--set",
    "sets",
    multiple=True,
    metavar="KEY=VALUE",
    help="Set a key of the spec, such as params.max_depth=3; may be repeated.",
)
GROWING = (
    WORKERS,
    click.option("--threads", "threads_per_worker", type=click.IntRange(1), help="Number of threads of each process."),
    click.option("--memory-limit", metavar="SIZE", help="Memory limit of each process, such as 4GiB."),
    SCHEDULER,
    click.option("--batch", type=click.IntRange(1), help="Number of trees in one task."),
    STRICT,
    MAX_BYTES,
    click.option("--overwrite", is_flag=True, help="Replace an existing forest at the output."),
    SETS,
)
"""Options of the commands that grow trees."""


def _growing(command: F) -> F:
    """Add the options of commands that grow trees."""
    return reduce(lambda own, option: option(own), reversed(GROWING), command)


ZERO_BASED = click.option(
    "--zero-based/--one-based", default=None, help="Whether a libsvm file counts its indices from 0 or from 1."
)


@contextmanager
def _cluster(run: Run) -> Iterator[OnDask]:
    """Start an embedded cluster of processes, or connect to the scheduler that a run names."""
    from distforest.jobs.on_dask import connected, local_cluster

    with ExitStack() as stack:
        if not run.scheduler:
            workers = run.workers if isinstance(run.workers, int) else None
            size = (workers, run.threads_per_worker, run.memory_limit)
            yield stack.enter_context(local_cluster(*size, tell=partial(click.echo, err=True)))
            return
        try:
            cluster = stack.enter_context(connected(run.scheduler))
        except JobError as error:
            raise UnreachableError(str(error)) from error
        yield replace(cluster, placement=run.placement)


@click.group("distforest", cls=CommandGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(None, "-V", "--version", package_name="distforest")
def main() -> None:
    """Forests that learn a similarity or a distance, trained on Dask.

    New here? `distforest quickstart` shows every step on real data. With a table of your own, run ingest, fit, score,
    evaluate and report, in this order.

    An address is a path from the current directory, or a URL such as s3://bucket/data.zarr/X.
    """
    end_sooner()
    sys.path.append(os.getcwd())  # may contain a module with a similarity function; workers get the same path


@main.result_callback()
@click.pass_context
def print_answer(ctx: click.Context, report: Report | None) -> None:
    """Print the report that a command returns; a command that prints its report itself returns None."""
    if report is not None:
        print_report(ctx, report)


main.add_section(sealed_forests.COMMANDS)
main.add_section((*service.COMMANDS, *doctor.COMMANDS), "Jobs of a service")


# --- fit --------------------------------------------------------------------------------------------------


@main.command()
@click.argument("spec", metavar="SPEC")
@_growing
@click.option(
    "--trees",
    type=click.IntRange(1),
    help="Number of trees. A forest of the same job at the output with fewer trees gets only those that it lacks.",
)
@json_option
@click.pass_context
def fit(ctx: click.Context, /, spec: str, trees: int | None, sets: tuple[str, ...], **run: object) -> None:
    """Train the forest that the TOML file SPEC describes.

    The forest is sealed at the output that SPEC names. After an interruption, the same command resumes from the
    finished trees.

    \b
    An example of SPEC, for arrays that `distforest ingest table.csv table.zarr --label COLUMN` has written:
      format = 1
      method = "smerf"
      output = "table.forest.zarr"
      [input]
      features = "table.zarr/X"
      distances = { kind = "labels", values = "table.zarr/y" }
    """  # noqa: D301  (click needs a literal backspace escape)
    from distforest.command_line import reports
    from distforest.command_line.spec_files import read_fit
    from distforest.jobs.preview import check_and_stage
    from distforest.jobs.train import fit as train

    more = {} if trees is None else {"params.n_estimators": trees, "run.grow_on": True}
    job = _placed(read_fit(spec, {**_changes(sets, run), **more}))
    with _resumable(job, f"`distforest fit {spec}`") as (claim, folder):
        with _staged(job, claim, partial(check_and_stage, job, folder.address)) as (inputs, cluster, options):
            limit = cluster.memory_limit
            fitted = train(inputs, job.output, folder, cluster, options)
        for text in fitted.warnings:
            warnings.warn(text, DistforestWarning, stacklevel=1)
    print_report(ctx, reports.fitted(job, fitted, limit))


@main.command(short_help="Choose parameters by a grid, and train the best forest.")
@click.argument("spec", metavar="SPEC")
@click.option("--table", metavar="FILE", help="Write the scores of all cells; .csv or .json.")
@click.option("--plot", metavar="FILE", help="Draw the scores of all cells; .png, .pdf, .svg.")
@_growing
@json_option
@click.pass_context
def tune(
    ctx: click.Context, /, spec: str, table: str | None, plot: str | None, sets: tuple[str, ...], **run: object
) -> None:
    """Choose parameters by the grid of the TOML file SPEC, and train the forest with the best.

    Each cell of the grid is scored by the out-of-bag distances of pairs. The best forest is sealed at the output that
    SPEC names, with the scores of all cells. After an interruption, the same command resumes from the finished trees.
    """
    from distforest.command_line import reports
    from distforest.command_line.spec_files import read_tune
    from distforest.evaluation.grids import check_table_path
    from distforest.jobs.tune import stage_grid
    from distforest.jobs.tune import tune as run_tune
    from distforest.stores.outputs import check_new_file

    job = _placed(read_tune(spec, _changes(sets, run)))
    if table:
        check_table_path(table)
        check_new_file(table, job.run.overwrite)
    if plot:
        check_plot(plot)
    with _resumable(job, f"`distforest tune {spec}`") as (claim, folder):
        with _staged(job, claim, partial(stage_grid, job, folder.address)) as (groups, cluster, options):
            limit = cluster.memory_limit
            tuned = run_tune(job, groups, folder, cluster, options)
        for text in tuned.warnings:
            warnings.warn(text, DistforestWarning, stacklevel=1)
    if table:
        tuned.grid.save(table)
    if plot:
        from distforest.pictures.displays import TuningDisplay

        save_figure(TuningDisplay(tuned.grid).plot().figure_, plot)
    print_report(ctx, reports.tuned(job, tuned, limit))


def _changes(sets: tuple[str, ...], run: dict[str, object]) -> dict[str, object]:
    """Return the keys of a spec that the options of a command override."""
    from distforest.command_line.spec_files import settings

    elsewhere = [name for name in ("workers", "threads_per_worker", "memory_limit") if run["scheduler"] and run[name]]
    if elsewhere:
        raise click.UsageError(f"`{elsewhere[0]}` is for the embedded cluster; omit it or --scheduler")
    return {**settings(sets), **{f"run.{name}": value for name, value in run.items() if value not in (None, False)}}


def _placed(job: GrowingJob) -> GrowingJob:
    """Return the job with absolute addresses if it runs on a Dask cluster.

    Raises
    ------
    UsageError
        The job restricts its tasks to some workers of a Dask cluster, but names no scheduler.
    MemoryLimitError
        The workers are too small.
    """
    from distforest.jobs.any_spec import with_absolute_paths
    from distforest.jobs.plan import check_worker_memory

    if job.run.scheduler:
        return with_absolute_paths(job)
    if job.run.placement:
        raise click.UsageError(f"run.{next(iter(job.run.placement))} is for a Dask cluster: name its run.scheduler")
    check_worker_memory(job.run.memory_limit)
    return job


@contextmanager
def _resumable(job: Spec, command: str) -> Iterator[tuple[Claim, Folder]]:
    """Claim the output of a job for a block, and yield the claim and the job's folder.

    An interruption raises InterruptedJobError, which states whether finished trees are kept.
    """
    from distforest.command_line.console import interruptible
    from distforest.jobs.train import kept
    from distforest.stores.claims import Claim
    from distforest.stores.folder import Folder
    from distforest.stores.outputs import FOREST_KIND, check_kind

    claim = Claim(job.output, command)
    folder = Folder(claim.folder)
    try:
        with interruptible(STOPPING), claim.held(), kept(folder):
            check_kind(claim.output, FOREST_KIND)
            yield claim, folder
    except KeyboardInterrupt:
        finished = f"finished trees are kept in {folder.address}; the same command resumes from there"
        nothing = "no tree was finished yet; the same command starts again"
        raise InterruptedJobError(finished if folder.exists() else nothing) from None


@contextmanager
def _staged(
    job: Spec, claim: Claim, stage: Callable[[int | None, Mapping[str, HostWorkers] | None], StagedOf]
) -> Iterator[tuple[StagedOf, OnDask, Options]]:
    """Yield the inputs of a job, staged for the memory and hosts of its workers, with its cluster and options.

    Bad input is refused before an embedded cluster starts; a running cluster is asked for its memory and hosts first.
    """
    from distforest.jobs.progress import shown_progress
    from distforest.jobs.train import Options

    staged = None if job.run.scheduler else stage(None, None)
    with _cluster(job.run) as cluster, shown_progress() as watch:
        if staged is None:
            staged = stage(cluster.memory_limit, cluster.hosts)
        ways = {name: getattr(job.run, name) for name in ("batch", "retries", "overwrite", "keep_shards")}
        earlier = job.output if job.run.grow_on else None
        yield staged, cluster, Options(**ways, watch=watch, claim=claim, earlier=earlier)


# --- score ------------------------------------------------------------------------------------------------


@main.command()
@click.argument("forest")
@click.argument("queries")
@click.argument("output")
@click.option(
    "--answer", type=click.Choice(list(ANSWERS)), default="distance", show_default=True, help="What to compute."
)
@click.option("--reference", metavar="ADDRESS", help="Rows with which QUERIES are compared.  [default: training rows]")
@click.option("--pairs", metavar="ADDRESS", help="Pairs of rows: two columns of row numbers, or of names by --id.")
@click.option(
    "--n-neighbors",
    type=click.IntRange(1),
    default=10,
    show_default=True,
    help="Number of neighbours, for --answer neighbors or graph.",
)
@click.option("--without-self", is_flag=True, help="QUERIES are the training rows; a row is not its own neighbour.")
@click.option(
    "--share",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    help="Share of similar pairs in use, for --answer probability.  [default: as calibrated]",
)
@click.option(
    "--training-ids",
    metavar="ADDRESS",
    help="Training rows with names by ingest --id; a table of neighbours then has these names, not row numbers.",
)
@click.option(
    "--similarity",
    metavar="NAME",
    help="Similarity function, as module:function or an entry point; QUERIES are objects.",
)
@click.option("--training", metavar="ADDRESS", help="Training objects, with --similarity.  [default: 0, 1, 2, ...]")
@click.option("--ledger", metavar="PATH", help="File that keeps the evaluated similarities, with --similarity.")
@click.option("--sides", type=click.Choice(SIDED), help="Which distance to a training row; with --distances.")
@click.option(
    "--distances",
    metavar="ADDRESS",
    help="Ground truth of the training rows, as in the fit's spec: an address, or { kind = ... }; with --sides.",
)
@click.option("--id", metavar="COLUMN", help="Column of a file that names its rows; it is written beside the answers.")
@click.option("--object", metavar="COLUMN", help="Column of a file that contains the objects, with --similarity.")
@click.option("--keep", multiple=True, metavar="NAMES", help="Columns of a file to write beside the answers.")
@click.option(
    "--drop", multiple=True, metavar="NAMES", help="Columns that are not features, if the forest has no feature names."
)
@HEADED
@text_options
@ZERO_BASED
@click.option("--format", type=click.Choice(FORMATS), help="Format of the file QUERIES.  [default: by its suffix]")
@WORKERS
@click.option(
    "--threads-here",
    type=click.IntRange(1),
    help="Number of threads of this process; no cluster.  [default: all cores, for files and small arrays]",
)
@SCHEDULER
@STRICT
@MAX_BYTES
@click.option("--overwrite", is_flag=True, help="Replace existing answers at OUTPUT.")
@json_option
@click.pass_context
def score(ctx: click.Context, /, forest: str, queries: str, output: str, overwrite: bool, **options: Any) -> None:
    """Compute answers of a sealed FOREST for the rows of QUERIES.

    QUERIES is a Zarr array, or a csv, Parquet, Arrow or libsvm file, or a folder of such files, whose columns are found
    by name. OUTPUT is a new Zarr group or, by its suffix, a csv, Parquet or Arrow file. It is written in parallel and
    in bounded memory. If OUTPUT is out.zarr, zarr.open_array("out.zarr/distance") opens the distances.
    """
    from distforest.command_line import reports
    from distforest.command_line.console import interruptible
    from distforest.command_line.spec_files import bytes_of_option, distances_of_option
    from distforest.jobs.any_spec import from_the_root
    from distforest.jobs.cluster import Threads
    from distforest.jobs.outline import is_small
    from distforest.jobs.progress import shown_progress
    from distforest.jobs.question import Question
    from distforest.jobs.score import score as run_score
    from distforest.jobs.score_spec import callback_for
    from distforest.jobs.score_table import ScoredTable, check_output, score_table
    from distforest.jobs.spec_models import Run
    from distforest.sources.files.formats import is_file_of_rows
    from distforest.sources.files.table_writer import written_suffix
    from distforest.stores import outputs
    from distforest.stores.claims import Claim
    from distforest.stores.groups import check_name

    to_table = bool(written_suffix(output))
    if not to_table:
        check_name(output)
    file = _file_options(queries, options)
    here, run = options.pop("threads_here"), Run(workers=options.pop("workers"), scheduler=options.pop("scheduler"))
    if (here is not None) + (run.workers is not None) + (run.scheduler is not None) > 1:
        raise click.UsageError("give only one of --workers, --threads-here and --scheduler")
    similarity, training, ledger = (options.pop(name) for name in ("similarity", "training", "ledger"))
    if run.scheduler:
        forest, queries, output = map(from_the_root, (forest, queries, output))
        options |= {
            name: from_the_root(options[name]) for name in ("reference", "pairs", "training_ids") if options[name]
        }
    options["max_bytes"] = bytes_of_option("--max-bytes", options["max_bytes"])
    options["distances"] = distances_of_option(options["distances"], from_the_root if run.scheduler else str)
    file = file and replace(file, max_bytes=options["max_bytes"])
    if similarity is None and (training or ledger):
        raise click.UsageError("--training and --ledger need --similarity")
    callback = callback_for(forest, similarity, ledger) if similarity else None
    question = Question(forest, queries, callback=callback, training=training, **options)
    outputs.check_apart(output, question.addresses())
    with ExitStack() as stack:
        stack.enter_context(interruptible(STOPPING))
        claim = stack.enter_context(Claim(output, f"`distforest score {forest} {queries}`").held())
        by_files = file or to_table or question.training_ids or (question.pairs and is_file_of_rows(question.pairs))
        if by_files:  # before a cluster is started
            check_output(question, output, file, overwrite)
        else:
            outputs.check_kind(output, outputs.ANSWERS_KIND)
        if not (here or run.workers or run.scheduler) and (file or is_small(question)):
            here = os.cpu_count() or 1
        cluster = Threads(here) if here else stack.enter_context(_cluster(run))
        watch = stack.enter_context(shown_progress())
        scored = (
            score_table(question, output, cluster, file, overwrite, watch, claim)
            if by_files
            else run_score(question, output, cluster, overwrite, watch, claim=claim)
        )
    if isinstance(scored, ScoredTable):
        print_report(ctx, reports.scored_table(question, scored))
    else:
        print_report(ctx, reports.scored(question, scored))


def _file_options(queries: str, options: dict[str, Any]) -> QueryOptions | None:
    """Remove the options of files from those of a command, and return them; None if the queries are not a file."""
    from distforest.sources.files.formats import is_file_of_rows
    from distforest.sources.files.queries import QueryOptions
    from distforest.sources.files.text_options import TextOptions

    own = {name: options.pop(name) for name in ("id", "keep", "object", "drop", "zero_based", "format")}
    text = {field.name: None if (value := options.pop(field.name)) == () else value for field in fields(TextOptions)}
    if own["format"] or is_file_of_rows(queries):
        return QueryOptions(**own, text=TextOptions(**text))
    given = next((name for name, value in {**own, **text}.items() if value not in (None, ())), None)
    if given:
        raise InputError(f"`{given}` is for a file, but {queries} is an address; omit it")
    return None


# --- validate and ingest ----------------------------------------------------------------------------------


@main.command()
@click.argument("spec", metavar="SPEC")
@click.option("--strict", is_flag=True, help="Refuse inputs that are missing here, or have chunks that are not stored.")
@json_option
@click.pass_context
def validate(ctx: click.Context, spec: str, strict: bool) -> None:
    """Check the TOML file SPEC and report all its faults at once.

    If the inputs of a fit are present here, the command reads their metadata and reports their shapes, the memory that
    a worker needs and the space that staged files take. It reads inputs of at most 256 MiB as a fit does, and reports
    what the checks find in them.
    """
    from distforest.command_line.reports import Report
    from distforest.command_line.spec_files import read_spec
    from distforest.jobs.preview import absent_inputs
    from distforest.jobs.spec import Spec
    from distforest.jobs.tune_spec import TuneSpec

    try:
        job = read_spec(spec, {})
        answer: dict[str, object] = {"valid": True, "spec": job.to_dict()}
        kind = ("method", job.method) if isinstance(job, Spec) else ("job", "score")
        lines = [("spec", spec), kind, ("output", job.output)]
        if isinstance(job, TuneSpec):
            lines.append(("grid", f"{len(job.cells):,} cells, the best by {job.scoring}"))
        absent = absent_inputs(job) if not strict else []
        if absent:
            answer["not_here"] = absent
            lines.append(("not here", f"{', '.join(absent)}: only the text of the spec was checked"))
        elif strict or isinstance(job, Spec):
            seen = _previewed(replace(job, run=job.run.model_copy(update={"strict": job.run.strict or strict})))
            answer["preview"] = seen.answer
            lines += seen.lines
    except DistforestError as error:
        fail(ctx, error, valid=False)
    print_report(ctx, Report(answer, [*lines, ("valid", "yes")]))


def _previewed(job: AnySpec) -> Report:
    """Report what a job will read and need; raise JobError if memory or scratch is too small."""
    from distforest.command_line import reports
    from distforest.jobs.outline import outline
    from distforest.jobs.plan import check_memory
    from distforest.jobs.preview import preview, warnings_about_values
    from distforest.jobs.spec import Spec
    from distforest.stores.outputs import FOREST_KIND, warnings_about_output

    if not isinstance(job, Spec):
        return reports.outlined(outline(job.question()))
    seen = preview(job)
    check_memory(seen.plan.projected_bytes, seen.memory_limit, seen.cure)
    seen.scratch.check(job.run.scratch_folder)
    warnings = *seen.warnings, *warnings_about_output(job.output, FOREST_KIND), *warnings_about_values(job, seen)
    return reports.previewed(replace(seen, warnings=warnings), job.run.scratch_folder)


@main.command(short_help="Convert the file SOURCE, such as a csv, to arrays in Zarr.")
@click.argument("source")
@click.argument("group", metavar="GROUP.zarr")
@click.option(
    "--columns", multiple=True, metavar="NAMES", help="Features, separated by commas.  [default: all other columns]"
)
@click.option("--drop", multiple=True, metavar="NAMES", help="Columns to leave out, separated by commas.")
@click.option(
    "--categorical", multiple=True, metavar="NAMES", help="Features to read as categories, even if they are numbers."
)
@click.option("--label", metavar="COLUMN", help="Column with the labels.")
@click.option("--target", metavar="COLUMN", help="Column with the numbers to predict.")
@click.option("--weight", metavar="COLUMN", help="Column with the weights of the rows.")
@click.option("--id", metavar="COLUMN", help="Column that names the rows; becomes the array ids.")
@click.option(
    "--pairs", multiple=True, metavar="NAMES", help="Two columns with the rows of each pair; become the array pairs."
)
@click.option(
    "--rows",
    metavar="ADDRESS",
    help="Rows to which --pairs refer, by name if they have names.  [default: numbers from 0]",
)
@click.option(
    "--value",
    metavar="COLUMN",
    help="Measured distance or similarity of each of --pairs; becomes a sparse matrix over --rows.",
)
@click.option("--object", metavar="COLUMN", help="Texts for a similarity function; become the array objects.")
@click.option("--schema", metavar="FILE", help="Features and their kinds, as --dry-run prints them.")
@HEADED
@text_options
@click.option(
    "--n-features", type=click.IntRange(1), help="Number of features of a libsvm file.  [default: its highest index]"
)
@ZERO_BASED
@click.option("--name", help="Name of the array of an .npy file.  [default: name of the file]")
@click.option("--format", type=click.Choice(FORMATS), help="Format of SOURCE.  [default: by its suffix]")
@click.option(
    "--max-bytes",
    metavar="SIZE",
    help="Largest decompressed size of SOURCE, such as 8GiB.  [default: 1GiB, or 200 times the file's size]",
)
@click.option("--overwrite", is_flag=True, help="Replace an existing Zarr group at GROUP.zarr.")
@click.option("--dry-run", is_flag=True, help="Write nothing, and print the features and their kinds, for --schema.")
@json_option
@click.pass_context
def ingest(ctx: click.Context, /, source: str, group: str, max_bytes: str | None, **options: Any) -> None:
    """Convert the file SOURCE to the Zarr group GROUP.zarr, and report what its columns contain.

    SOURCE is a .npy, .npz, csv, Parquet, Arrow (Feather) or libsvm file, or a folder of Parquet or Arrow files. Text
    becomes categories, dates become numbers, and a missing value becomes NaN. An .npz file of scipy.sparse.save_npz
    becomes a sparse matrix, whose address is GROUP.zarr itself.
    """
    from distforest.command_line import reports
    from distforest.command_line.spec_files import bytes_of_option
    from distforest.sources.files.ingest import ingest as ingest_tables
    from distforest.sources.files.roles import schema_text
    from distforest.stores.groups import attributes_of

    chosen = {name: value for name, value in options.items() if value != ()}
    written = ingest_tables(source, group, max_bytes=bytes_of_option("--max-bytes", max_bytes), **chosen)
    if options["dry_run"]:
        kinds = {column.name: column.kind for column in (written["X"].columns if "X" in written else ())}
        click.echo(json.dumps({"columns": kinds}) if ctx.meta.get(JSON) else schema_text(kinds).rstrip())
        return
    attributes = {name: value for name, value in attributes_of(group).items() if name != "distforest"}
    print_report(ctx, reports.ingested(group, written, attributes))


# --- quickstart -------------------------------------------------------------------------------------------


@main.command()
@click.argument("folder", metavar="[DIR]", default="quickstart")
@WORKERS
@click.option(
    "--seed", type=click.IntRange(0), default=7, show_default=True, help="Seed of the data splits and the forests."
)
@json_option
@click.pass_context
def quickstart(ctx: click.Context, folder: str, workers: int | None, seed: int) -> None:
    """Train and score two forests on real data, in the folder DIR.

    The command ingests data that ship with the package, and trains, seals, reopens and scores the forests. DIR is
    ./quickstart by default.
    """
    from distforest.command_line.quickstart import run_quickstart, show

    results = run_quickstart(folder, workers, seed)
    if ctx.meta.get(JSON):
        click.echo(json.dumps(results, allow_nan=False))
    else:
        show(results, sys.stdout)
