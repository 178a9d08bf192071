# ruff: noqa: PLC0415
"""The command line: ``distforest``, and ``dask distforest``.

stdout is data, stderr is progress; ``--json`` prints one JSON object on stdout, of a failure too.

=====  =========================================================================================
exit
=====  =========================================================================================
0      done
1      a job failed
2      usage, a spec or an input is at fault
3      no scheduler answers
6      interrupted; the same command goes on from there
7      a forest is damaged, or is none
130    ended by Ctrl-C
=====  =========================================================================================

Everything but click is imported inside the commands, here and in `distforest.trial_commands` alone:
``--help`` then takes no longer than Python and click.
"""

from __future__ import annotations

import errno
import json
import os
import sys
import tomllib
import warnings
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

import click

from distforest.errors import ArtifactError, DistforestError, InputError, JobError, SpecError
from distforest.trial_commands import COMMANDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import TextIO

    from distforest.forest.feature_shares import FeatureShares
    from distforest.jobs.cluster import Cluster
    from distforest.jobs.spec import Relation, Run, Spec
    from distforest.reports import Report

    Command = Callable[..., None]

JSON = "distforest.json"
"""Where a command's context keeps whether ``--json`` was given."""

ANSWERS = ("distance", "proximity", "pairs", "neighbors", "predict", "proba", "apply")
"""`distforest.jobs.score.ANSWERS`, here without its imports."""

FORMATS = ("npy", "npz", "csv", "parquet", "libsvm")
"""What `distforest.sources.ingest.FORMATS` leads to, here without its imports."""


class UnreachableError(JobError):
    """No scheduler answers."""


class InterruptedJobError(JobError):
    """A job was interrupted and can go on."""


CODES = (
    (InputError, 2),
    (UnreachableError, 3),
    (InterruptedJobError, 6),
    (ArtifactError, 7),
    (KeyboardInterrupt, 130),
)
"""The exit code of each kind of error; of all others it is 1."""


def exit_code(error: BaseException) -> int:
    """Choose the exit code that an error leads to."""
    return next((code for kind, code in CODES if isinstance(error, kind)), 1)


class Doors(click.Group):
    """A group whose commands end with a line on stderr and an exit code where the error is a known one."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command."""
        try:
            with _plain_warnings():
                return super().invoke(ctx)
        except (DistforestError, KeyboardInterrupt) as error:
            _fail(ctx, error)
        except OSError as error:
            if error.errno == errno.EPIPE:  # the reader of stdout has gone: click ends quietly
                raise
            _fail(ctx, error)


def _fail(ctx: click.Context, error: BaseException, **more: object) -> NoReturn:
    """Say what went wrong on stderr, under --json on stdout too, and end with the code for it."""
    interrupted = isinstance(error, (KeyboardInterrupt, InterruptedJobError))
    faults = list(error.faults) if isinstance(error, SpecError) else [str(error) or "ended by Ctrl-C"]
    for fault in faults:
        click.echo(f"{'interrupted' if interrupted else 'error'}: {_printable(fault)}", err=True)
    code = exit_code(error)
    if ctx.meta.get(JSON):
        told = {"kind": type(error).__name__, "message": "\n".join(faults), "faults": faults}
        click.echo(json.dumps({**more, "error": told, "exit_code": code}))
    ctx.exit(code)


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Warnings as one line each, without the line of code that they come from."""

    def show(
        message: Warning | str,
        category: type[Warning],  # noqa: ARG001  (the five that Python hands over)
        filename: str,  # noqa: ARG001
        lineno: int,  # noqa: ARG001
        file: TextIO | None = None,  # noqa: ARG001
        line: str | None = None,  # noqa: ARG001
    ) -> None:
        click.echo(f"warning: {_printable(str(message))}", err=True)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


def _printable(text: str) -> str:
    """Replace control characters: a name in a stranger's forest shall not steer the terminal."""
    return "".join(c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in text)


def _print(ctx: click.Context, report: Report) -> None:
    """Print an answer: as JSON if that was asked for, else as lines of a name and a value."""
    if ctx.meta.get(JSON):
        click.echo(json.dumps(report.answer, allow_nan=False))
        return
    width = max(len(name) for name, _ in report.lines)
    for name, value in report.lines:
        click.echo(_printable(f"{name:<{width}}  {value}").rstrip())


# --- options that several commands have -------------------------------------------------------------------


def _keep_json(ctx: click.Context, _parameter: click.Parameter, value: bool) -> bool:
    ctx.meta[JSON] = value
    return value


def _json_option(command: Command) -> Command:
    """``--json``."""
    return click.option(
        "--json",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_keep_json,
        help="Print one JSON object on stdout.",
    )(command)


WORKERS = click.option(
    "--workers",
    type=click.IntRange(1),
    help="Processes of the embedded cluster.  [default: cores, at most 4]",
)
SCHEDULER = click.option("--scheduler", metavar="ADDRESS", help="Run on this Dask scheduler instead.")


@contextmanager
def _cluster(run: Run) -> Iterator[Cluster]:
    """Start or join the cluster that a job asks for: of processes here, or a scheduler elsewhere."""
    from distforest.jobs.on_dask import connected, local_cluster

    with ExitStack() as stack:
        if not run.scheduler:
            yield stack.enter_context(local_cluster(run.workers, run.threads_per_worker, run.memory_limit))
            return
        try:
            cluster = stack.enter_context(connected(run.scheduler))
        except JobError as error:
            raise UnreachableError(str(error)) from error
        yield cluster


def _absolute(address: str) -> str:
    """Write a local path from the root, for a worker that runs in another folder."""
    return address if "://" in address else os.path.abspath(address)


@click.group("distforest", cls=Doors, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(None, "-V", "--version", package_name="distforest")
def main() -> None:
    """Forests that learn a similarity or a distance, trained on Dask.

    Addresses are paths from the current directory, or URLs such as s3://bucket/data.zarr/X.
    """
    sys.path.append(os.getcwd())  # where a module with a similarity function may lie; workers take the path over


@main.result_callback()
@click.pass_context
def answer(ctx: click.Context, report: Report | None) -> None:
    """Print what a command returns, if it has not printed it itself."""
    if report is not None:
        _print(ctx, report)


for _command in COMMANDS:
    _json_option(_command)
    main.add_command(_command)


# --- fit --------------------------------------------------------------------------------------------------


@main.command()
@click.argument("spec", metavar="SPEC")
@WORKERS
@click.option("--threads", "threads_per_worker", type=click.IntRange(1), help="Threads of each process.")
@click.option("--memory-limit", metavar="SIZE", help="Memory of each process, such as 4GiB.")
@SCHEDULER
@click.option("--batch", type=click.IntRange(1), help="Trees in one task.")
@click.option("--overwrite", is_flag=True, help="Replace what is at the output.")
@click.option("--set", "sets", multiple=True, metavar="KEY=VALUE", help="Set a key of the spec: params.max_depth=3.")
@_json_option
@click.pass_context
def fit(ctx: click.Context, /, spec: str, sets: tuple[str, ...], **run: object) -> None:
    """Train the forest that the TOML file SPEC describes, and seal it at its output.

    A run that was interrupted goes on from its finished trees when the same command is given again.
    """
    from distforest import reports
    from distforest.console import interruptible, progress
    from distforest.jobs.folder import Folder
    from distforest.jobs.inputs import stage_inputs
    from distforest.jobs.train import Options
    from distforest.jobs.train import fit as train

    given = {f"run.{name}": value for name, value in run.items() if value not in (None, False)}
    job = _read_spec(spec, {**dict(map(_setting, sets)), **given})
    if job.run.scheduler:
        job = _with_absolute_paths(job)
    folder = Folder(f"{job.output}.job")
    try:
        with interruptible("stopping; Ctrl-C again ends it at once"):
            inputs = stage_inputs(job, folder.address)
            with _cluster(job.run) as cluster, progress() as watch:
                ways = {name: getattr(job.run, name) for name in ("batch", "retries", "overwrite", "keep_shards")}
                options, limit = Options(**ways, watch=watch), cluster.memory_limit
                fitted = train(inputs, job.output, folder, cluster, options)
    except KeyboardInterrupt:
        raise InterruptedJobError(
            f"what is finished is kept in {folder.address}; the same command goes on from there"
        ) from None
    _print(ctx, reports.fitted(job, fitted, limit))


def _setting(text: str) -> tuple[str, object]:
    """Key and value of ``--set``: the value as TOML has it, or else as the string that it is."""
    key, equals, value = text.partition("=")
    if not equals or not all(key.split(".")):
        raise click.BadParameter(f"KEY=VALUE was expected, found {text!r}", param_hint="--set")
    try:
        return key, tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return key, value


def _read_spec(path: str, settings: Mapping[str, object]) -> Spec:
    """Read the spec in a file, with settings of the command line over its own."""
    from pathlib import Path

    from distforest.jobs.reader import read_toml
    from distforest.jobs.spec import Spec

    if not settings:
        return Spec.from_toml(Path(path))
    table, _ = read_toml(Path(path))
    for key, value in settings.items():
        _put(table, key.split("."), value)
    try:
        return Spec.from_dict(table)
    except SpecError:
        Spec.from_toml(Path(path))  # a fault of the file is told with its line
        raise


def _put(table: dict[str, Any], key: list[str], value: object) -> None:
    """Set a dotted key of a table, making the tables around it."""
    for name in key[:-1]:
        table = table.setdefault(name, {})
        if not isinstance(table, dict):
            raise InputError(f"--set {'.'.join(key)}: {name} is not a table")
    table[key[-1]] = value


def _with_absolute_paths(spec: Spec) -> Spec:
    addresses = {name: _absolute(address) for name, address in spec.input.addresses.items()}
    relations = {name: _with_absolute_address(relation) for name, relation in spec.input.relations.items()}
    found = replace(spec.input, addresses=addresses, relations=relations)
    return replace(spec, output=_absolute(spec.output), input=found)


def _with_absolute_address(relation: Relation) -> Relation:
    if relation.kind != "lazy":
        return replace(relation, address=_absolute(relation.address))
    paths = {name: _absolute(str(relation.options[name])) for name in ("objects", "ledger") if relation.options[name]}
    return replace(relation, options={**relation.options, **paths})


# --- score ------------------------------------------------------------------------------------------------


@main.command()
@click.argument("forest")
@click.argument("queries")
@click.argument("output")
@click.option("--answer", type=click.Choice(ANSWERS), default="distance", show_default=True, help="What to ask.")
@click.option("--reference", metavar="ADDRESS", help="Rows that answers are taken to.  [default: training rows]")
@click.option("--pairs", metavar="ADDRESS", help="Row numbers of the pairs, two columns, for --answer pairs.")
@click.option("--n-neighbors", type=click.IntRange(1), default=10, show_default=True, help="For --answer neighbors.")
@click.option("--without-self", is_flag=True, help="QUERIES are the training rows; none is its own neighbour.")
@click.option("--similarity", metavar="NAME", help="Ask module:function, or an entry point; QUERIES are objects then.")
@click.option("--training", metavar="ADDRESS", help="With --similarity, the training objects.  [default: 0, 1, 2, ...]")
@click.option("--ledger", metavar="PATH", help="With --similarity, the file that remembers what it returned.")
@WORKERS
@click.option("--threads-here", type=click.IntRange(1), help="Run in threads of this process, no cluster.")
@SCHEDULER
@click.option("--overwrite", is_flag=True, help="Replace what is at OUTPUT.")
@_json_option
@click.pass_context
def score(ctx: click.Context, /, forest: str, queries: str, output: str, overwrite: bool, **asked: Any) -> None:
    """Ask the sealed FOREST about the rows of the Zarr array QUERIES.

    The answers are written to the new Zarr group OUTPUT, in parallel and in bounded memory.
    """
    from distforest import reports
    from distforest.console import progress
    from distforest.jobs.cluster import Here
    from distforest.jobs.score import Question
    from distforest.jobs.score import score as run_score
    from distforest.jobs.spec import Run

    here, run = asked.pop("threads_here"), Run(workers=asked.pop("workers"), scheduler=asked.pop("scheduler"))
    if (here is not None) + (run.workers is not None) + (run.scheduler is not None) > 1:
        raise click.UsageError("give one of --workers, --threads-here and --scheduler")
    lazily = {name: asked.pop(name) for name in ("similarity", "training", "ledger")}
    if run.scheduler:
        forest, queries, output = map(_absolute, (forest, queries, output))
        asked |= {name: _absolute(asked[name]) for name in ("reference", "pairs") if asked[name]}
    question = Question(forest, queries, **asked, **_callback(forest, **lazily))
    with ExitStack() as stack:
        cluster = Here(here) if here else stack.enter_context(_cluster(run))
        scored = run_score(question, output, cluster, overwrite, stack.enter_context(progress()))
    _print(ctx, reports.scored(question, scored))


def _callback(forest: str, similarity: str | None, training: str | None, ledger: str | None) -> dict[str, Any]:
    """Read what a question says of the function that similarities are asked of."""
    if similarity is None:
        if training or ledger:
            raise click.UsageError("--training and --ledger go with --similarity")
        return {}
    from distforest.forest.artifact import read_manifest
    from distforest.jobs.callback import Callback

    manifest = read_manifest(forest)
    origin, measure = manifest["provenance"].get("similarity", {}), manifest["meaning"]["rows"].get("measure")
    options = {"kind": measure or "similarity", "symmetric": origin.get("symmetric", True), "ledger": ledger}
    return {"callback": Callback.of(similarity, options), "training": training}


# --- inspect and verify -----------------------------------------------------------------------------------


@main.command()
@click.argument("forest")
@click.option("--features", metavar="ADDRESS", help="Array of features whose names, if it has any, are to be told.")
@click.option("--plot", metavar="FILE", help="Draw feature weights, or a ranking tree and ROC: a .png, .pdf, .svg.")
@_json_option
@click.pass_context
def inspect(ctx: click.Context, forest: str, features: str | None, plot: str | None) -> None:
    """Tell what the sealed FOREST is, by its manifest and feature weights alone; `verify` reads all of it."""
    from distforest import reports
    from distforest.forest.artifact import read_manifest
    from distforest.forest.feature_shares import read_feature_shares

    manifest = read_manifest(forest)
    drawn = read_feature_shares(forest, manifest, features)
    if plot is not None:
        if drawn is None and manifest["meaning"]["leaf"]["kind"] != "ranks":
            raise InputError(f"{forest} drew its features alike, or reads none; there are no weights to plot")
        _plot(forest, drawn, features, plot)
    _print(ctx, reports.inspected(forest, manifest, drawn))


def _plot(forest: str, drawn: FeatureShares | None, features: str | None, path: str) -> None:
    """Save a picture of feature weights; without any, of a ranking tree and its curves."""
    try:
        from distforest import plotting, ranking_plots
    except ImportError as error:
        raise InputError(f"--plot needs matplotlib, pip install 'distforest[plot]': {error}") from error
    if drawn is None:
        figure = ranking_plots.sealed_ranking(forest, features)
    else:
        figure = plotting.feature_weights(plotting.Weights(drawn.shares, drawn.dependence, drawn.names))
    try:
        figure.savefig(path, dpi=130)
    except ValueError as error:  # a suffix that it does not know
        raise InputError(f"--plot {path}: {error}") from error


@main.command()
@click.argument("forest")
@_json_option
@click.pass_context
def verify(ctx: click.Context, forest: str) -> None:
    """Read the whole FOREST against its digests and the rules of a forest; exit code 7 if it is damaged."""
    from distforest import reports
    from distforest.forest.artifact import open_forest

    try:
        found = open_forest(forest)
    except ArtifactError as error:
        _fail(ctx, error, forest=forest, valid=False)
    _print(ctx, reports.verified(forest, found))


# --- validate and ingest ----------------------------------------------------------------------------------


@main.command()
@click.argument("spec", metavar="SPEC")
@click.option("--strict", is_flag=True, help="Open the inputs' metadata, and project the memory of a worker.")
@_json_option
@click.pass_context
def validate(ctx: click.Context, spec: str, strict: bool) -> None:
    """Check the TOML file SPEC, and name all its faults at once."""
    from distforest import reports
    from distforest.jobs.plan import refuse_if_too_large
    from distforest.jobs.preview import preview

    try:
        job = _read_spec(spec, {})
        answer: dict[str, object] = {"valid": True, "spec": job.to_dict()}
        lines = [("spec", spec), ("method", job.method), ("output", job.output)]
        if strict:
            seen = preview(job)
            report = reports.previewed(seen)
            answer["preview"] = report.answer
            lines += report.lines
            refuse_if_too_large(seen.plan, seen.memory_limit)
    except DistforestError as error:
        _fail(ctx, error, valid=False)
    _print(ctx, reports.Report(answer, [*lines, ("valid", "yes")]))


@main.command()
@click.argument("source")
@click.argument("target", metavar="TARGET.zarr")
@click.option("--label", metavar="COLUMN", help="Column of a csv or Parquet file that holds the labels.")
@click.option("--name", help="Name of the array of an .npy file.  [default: name of the file]")
@click.option("--format", type=click.Choice(FORMATS), help="Format of SOURCE.  [default: by its suffix]")
@click.option("--overwrite", is_flag=True, help="Replace the Zarr group at TARGET.zarr.")
@_json_option
@click.pass_context
def ingest(ctx: click.Context, /, source: str, target: str, **options: Any) -> None:
    """Turn the file SOURCE (.npy, .npz, csv, Parquet, libsvm) into the Zarr group TARGET.zarr."""
    from distforest import reports
    from distforest.sources.ingest import ingest as take_in

    _print(ctx, reports.ingested(target, take_in(source, target, **options)))


# --- quickstart -------------------------------------------------------------------------------------------


@main.command()
@click.argument("folder", metavar="[DIR]", default="quickstart")
@WORKERS
@click.option("--seed", type=click.IntRange(0), default=7, show_default=True, help="Of the splits and the forests.")
@_json_option
@click.pass_context
def quickstart(ctx: click.Context, folder: str, workers: int | None, seed: int) -> None:
    """Ingest real data, train two forests, seal, reopen and score them, all in DIR (./quickstart)."""
    from distforest.quickstart import run, show

    found = run(folder, workers, seed)
    if ctx.meta.get(JSON):
        click.echo(json.dumps(found, allow_nan=False))
    else:
        show(found, sys.stdout)
