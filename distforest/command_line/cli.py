# ruff: noqa: PLC0415
"""The command line: ``distforest``, and ``dask distforest``.

stdout is data, stderr is progress; ``--json`` prints one JSON object on stdout, of a failure too.

=====  =========================================================================================
exit
=====  =========================================================================================
0      done
1      a job failed, or `doctor` has found something to mend
2      usage, a spec or an input is at fault
3      no scheduler answers
4      there is no such job
5      the job that was waited for was cancelled
6      interrupted; the same command resumes from there, a job of a service when it is resumed
7      a forest is damaged, or is none
124    the job that was waited for has not ended in time
130    ended by Ctrl-C; a job of a service runs on
=====  =========================================================================================

Everything but click is imported inside the commands, here and in the modules of further commands alone:
``--help`` then takes no longer than Python and click.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from distforest.command_line import certificates, doctor, schema, service, trials
from distforest.command_line.commands import JSON, Doors, fail, json_option, print_report
from distforest.errors import (
    ArtifactError,
    DistforestError,
    InputError,
    InterruptedJobError,
    JobError,
    UnreachableError,
)
from distforest.jobs.answers import ANSWERS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from distforest.command_line.reports import Report
    from distforest.forest.feature_shares import FeatureShares
    from distforest.forest.forest import Meaning
    from distforest.jobs.any_spec import AnySpec
    from distforest.jobs.cluster import Cluster
    from distforest.jobs.spec import Run
    from distforest.pictures.plotting import Importances

FORMATS = ("npy", "npz", "csv", "parquet", "libsvm")
"""What `distforest.sources.files.ingest.FORMATS` leads to, here without its imports."""


# --- options that several commands have -------------------------------------------------------------------


WORKERS = click.option(
    "--workers",
    type=click.IntRange(1),
    help="Processes of the embedded cluster.  [default: cores, at most 4]",
)
STRICT = click.option("--strict", is_flag=True, help="Refuse arrays of which chunks are not stored.")
MAX_BYTES = click.option(
    "--max-bytes",
    metavar="SIZE",
    help="The most that an array may announce.  [default: 1 GiB, or 1,000 times what is stored of it]",
)
STOPPING = "stopping; a second signal, such as Ctrl-C, ends it at once"
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


@click.group("distforest", cls=Doors, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(None, "-V", "--version", package_name="distforest")
def main() -> None:
    """Forests that learn a similarity or a distance, trained on Dask.

    Addresses are paths from the current directory, or URLs such as s3://bucket/data.zarr/X.
    """
    sys.path.append(os.getcwd())  # where a module with a similarity function may lie; workers take the path over


@main.result_callback()
@click.pass_context
def print_answer(ctx: click.Context, report: Report | None) -> None:
    """Print what a command returns, if it has not printed it itself."""
    if report is not None:
        print_report(ctx, report)


main.take((*trials.COMMANDS, *schema.COMMANDS))
main.take((*service.COMMANDS, *certificates.COMMANDS, *doctor.COMMANDS), "Jobs of a service")


# --- fit --------------------------------------------------------------------------------------------------


@main.command()
@click.argument("spec", metavar="SPEC")
@WORKERS
@click.option("--threads", "threads_per_worker", type=click.IntRange(1), help="Threads of each process.")
@click.option("--memory-limit", metavar="SIZE", help="Memory of each process, such as 4GiB.")
@SCHEDULER
@click.option("--batch", type=click.IntRange(1), help="Trees in one task.")
@STRICT
@MAX_BYTES
@click.option("--overwrite", is_flag=True, help="Replace the forest at the output.")
@click.option("--set", "sets", multiple=True, metavar="KEY=VALUE", help="Set a key of the spec: params.max_depth=3.")
@json_option
@click.pass_context
def fit(ctx: click.Context, /, spec: str, sets: tuple[str, ...], **run: object) -> None:
    """Train the forest that the TOML file SPEC describes, and seal it at its output.

    A run that was interrupted goes on from its finished trees when the same command is given again.
    """
    from distforest.command_line import reports
    from distforest.command_line.console import interruptible, progress
    from distforest.command_line.spec_files import read_fit, settings, with_absolute_paths
    from distforest.jobs.plan import check_worker_memory
    from distforest.jobs.preview import check_and_stage
    from distforest.jobs.train import Options, kept
    from distforest.jobs.train import fit as train
    from distforest.stores.claims import Claim
    from distforest.stores.folder import Folder
    from distforest.stores.outputs import FOREST_KIND, check_kind

    elsewhere = [name for name in ("workers", "threads_per_worker", "memory_limit") if run["scheduler"] and run[name]]
    if elsewhere:
        raise click.UsageError(f"`{elsewhere[0]}` is for the embedded cluster, --scheduler names another one")
    given = {f"run.{name}": value for name, value in run.items() if value not in (None, False)}
    job = read_fit(spec, {**settings(sets), **given})
    if job.run.scheduler:
        job = with_absolute_paths(job)
    else:
        check_worker_memory(job.run.memory_limit)
    claim = Claim(job.output, f"`distforest fit {spec}`")
    folder = Folder(claim.folder)
    try:
        with interruptible(STOPPING), claim.held(), kept(folder):
            check_kind(job.output, FOREST_KIND)
            inputs = check_and_stage(job, folder.address)
            with _cluster(job.run) as cluster, progress() as watch:
                ways = {name: getattr(job.run, name) for name in ("batch", "retries", "overwrite", "keep_shards")}
                options, limit = Options(**ways, watch=watch, claim=claim), cluster.memory_limit
                fitted = train(inputs, job.output, folder, cluster, options)
            for text in fitted.warnings:
                warnings.warn(text, stacklevel=1)
    except KeyboardInterrupt:
        finished = f"what is finished is kept in {folder.address}; the same command resumes from there"
        nothing = "nothing was finished yet; the same command begins anew"
        raise InterruptedJobError(finished if folder.exists() else nothing) from None
    print_report(ctx, reports.fitted(job, fitted, limit))


# --- score ------------------------------------------------------------------------------------------------


@main.command()
@click.argument("forest")
@click.argument("queries")
@click.argument("output")
@click.option("--answer", type=click.Choice(list(ANSWERS)), default="distance", show_default=True, help="What to ask.")
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
@STRICT
@MAX_BYTES
@click.option("--overwrite", is_flag=True, help="Replace the answers at OUTPUT.")
@json_option
@click.pass_context
def score(ctx: click.Context, /, forest: str, queries: str, output: str, overwrite: bool, **asked: Any) -> None:
    """Ask the sealed FOREST about the rows of the Zarr array QUERIES.

    The answers are written to the new Zarr group OUTPUT, in parallel and in bounded memory; of a group out.zarr,
    zarr.open_array("out.zarr/distance") reads the distances.
    """
    from distforest.command_line import reports
    from distforest.command_line.console import interruptible, progress
    from distforest.command_line.spec_files import bytes_of_option, from_the_root
    from distforest.jobs.cluster import Here
    from distforest.jobs.question import Question
    from distforest.jobs.score import score as run_score
    from distforest.jobs.spec import Run
    from distforest.stores import outputs
    from distforest.stores.claims import Claim
    from distforest.stores.groups import check_name

    check_name(output)
    here, run = asked.pop("threads_here"), Run(workers=asked.pop("workers"), scheduler=asked.pop("scheduler"))
    if (here is not None) + (run.workers is not None) + (run.scheduler is not None) > 1:
        raise click.UsageError("give one of --workers, --threads-here and --scheduler")
    lazily = {name: asked.pop(name) for name in ("similarity", "training", "ledger")}
    if run.scheduler:
        forest, queries, output = map(from_the_root, (forest, queries, output))
        asked |= {name: from_the_root(asked[name]) for name in ("reference", "pairs") if asked[name]}
    asked["max_bytes"] = bytes_of_option("--max-bytes", asked["max_bytes"])
    question = Question(forest, queries, **asked, **_callback(forest, **lazily))
    outputs.check_apart(output, question.addresses())
    with ExitStack() as stack:
        stack.enter_context(interruptible(STOPPING))
        claim = stack.enter_context(Claim(output, f"`distforest score {forest} {queries}`").held())
        outputs.check_kind(output, outputs.ANSWERS_KIND)  # before a cluster is started
        cluster = Here(here) if here else stack.enter_context(_cluster(run))
        watch = stack.enter_context(progress())
        scored = run_score(question, output, cluster, overwrite, watch, claim=claim)
    print_report(ctx, reports.scored(question, scored))


def _callback(forest: str, similarity: str | None, training: str | None, ledger: str | None) -> dict[str, Any]:
    """Read what a question says of the function that similarities are asked of."""
    if similarity is None:
        if training or ledger:
            raise click.UsageError("--training and --ledger go with --similarity")
        return {}
    from distforest.jobs.score_spec import callback_for

    return {"callback": callback_for(forest, similarity, ledger), "training": training}


# --- inspect and verify -----------------------------------------------------------------------------------


@main.command()
@click.argument("forest")
@click.option("--features", metavar="ADDRESS", help="Array with the features' names.  [default: the forest's own]")
@click.option("--plot", metavar="FILE", help="Draw feature weights or importances, or a ranking: a .png, .pdf, .svg.")
@json_option
@click.pass_context
def inspect(ctx: click.Context, forest: str, features: str | None, plot: str | None) -> None:
    """Tell what the sealed FOREST is, by its manifest, tree sizes and feature weights; `verify` reads all of it."""
    from distforest.command_line import reports
    from distforest.forest.feature_shares import read_feature_shares
    from distforest.forest.roots import Roots
    from distforest.forest.sealed.artifact import meaning_of, read_manifest

    manifest = read_manifest(forest)
    drawn = read_feature_shares(forest, manifest, features)
    if features is not None and drawn is None and plot is None:
        warnings.warn(
            "`features` names none, as the forest has no weights of features to tell; give `plot`", stacklevel=2
        )
    if plot is not None:
        _plot(forest, meaning_of(manifest), drawn, features, plot)
    try:
        roots = Roots.of_manifest(forest, manifest)
    except ArtifactError:  # `verify` tells of damage; what the manifest says is told all the same
        roots = None
    print_report(ctx, reports.inspected(forest, manifest, roots, drawn))


def _plot(forest: str, meaning: Meaning, drawn: FeatureShares | None, features: str | None, path: str) -> None:
    """Save a picture of feature weights; without any, of a ranking tree and its curves, or of importances."""
    folder, name = os.path.split(path)
    if not os.path.isdir(folder or ".") or not os.path.splitext(name)[1]:
        asked = "a name such as picture.png was expected, in a folder that is there"
        raise InputError(f"--plot {path}: {asked}")
    from distforest.forest.leaf_kinds import KeepsRanks
    from distforest.sources.row_kinds import Dense, Kernel

    rows = meaning.rows
    if isinstance(rows, (Dense, Kernel)):
        reads = "similarities" if isinstance(rows, Dense) else f"{rows.kind} similarities, each of all features"
        raise InputError(
            f"{forest}: its cuts read {reads}, so there is no feature to plot; `distforest score` asks it for "
            "distances, which distforest.pictures.plotting.class_separation draws"
        )
    try:
        from distforest.pictures import plotting, ranking_plots
    except ImportError as error:
        raise InputError(f"--plot needs matplotlib, pip install 'distforest[plot]': {error}") from error
    figure: Any
    if drawn is not None:
        figure = plotting.feature_weights(plotting.Weights(drawn.shares, drawn.dependence, drawn.names))
    elif isinstance(meaning.leaf, KeepsRanks):
        figure = ranking_plots.sealed_ranking(forest, features)
    else:
        figure = plotting.feature_importances(_importances(forest, features))
    try:
        figure.savefig(path, dpi=130)
    except ValueError as error:  # a suffix that it does not know
        raise InputError(f"--plot {path}: {error}") from error


def _importances(address: str, features: str | None) -> Importances:
    """What each feature has given to a sealed forest whose cuts read features."""
    from distforest import RFD, URerF, load
    from distforest.forest import scoring
    from distforest.forest.feature_shares import read_names
    from distforest.pictures.plotting import Importances

    forest: Any = load(address)
    own = tuple(getattr(forest, "feature_names_in_", ()))
    names = own if features is None else read_names(features, forest.n_features_in_)
    if isinstance(forest, RFD):
        parts = {"differences": forest.relative_importances_, "middles": forest.absolute_importances_}
    else:
        parts = {"importance": scoring.feature_importances(forest.forest_)}
    if not sum(shares.sum() for shares in parts.values()):
        raise InputError(f"{address}: no tree has a cut that gains anything, so no feature has given anything")
    of = "the nodes that were cut, by their rows" if isinstance(forest, URerF) else "the gain of all cuts"
    return Importances(parts, names, of)


@main.command()
@click.argument("forest")
@json_option
@click.pass_context
def verify(ctx: click.Context, forest: str) -> None:
    """Read the whole FOREST against its digests and the rules of a forest; exit code 7 if it is damaged."""
    from distforest.command_line import reports
    from distforest.forest.sealed.artifact import open_forest

    try:
        found = open_forest(forest)
    except ArtifactError as error:
        fail(ctx, error, forest=forest, valid=False)
    print_report(ctx, reports.verified(forest, found))


# --- validate and ingest ----------------------------------------------------------------------------------


@main.command()
@click.argument("spec", metavar="SPEC")
@click.option("--strict", is_flag=True, help="Refuse inputs that are not here, or of which chunks are not stored.")
@json_option
@click.pass_context
def validate(ctx: click.Context, spec: str, strict: bool) -> None:
    """Check the TOML file SPEC, and name all its faults at once.

    The metadata of a fit's inputs are read where they are here: their shapes, and the memory that a worker needs.
    """
    from distforest.command_line.reports import Report
    from distforest.command_line.spec_files import read_spec
    from distforest.jobs.spec import Spec

    try:
        job = read_spec(spec, {})
        answer: dict[str, object] = {"valid": True, "spec": job.to_dict()}
        kind = ("method", job.method) if isinstance(job, Spec) else ("job", "score")
        lines = [("spec", spec), kind, ("output", job.output)]
        absent = _not_here(job) if not strict else []
        if absent:
            answer["not_here"] = absent
            lines.append(("not here", f"{', '.join(absent)}: told by its text alone"))
        elif strict or isinstance(job, Spec):
            seen = _looked_ahead(replace(job, run=replace(job.run, strict=job.run.strict or strict)))
            answer["preview"] = seen.answer
            lines += seen.lines
    except DistforestError as error:
        fail(ctx, error, valid=False)
    print_report(ctx, Report(answer, [*lines, ("valid", "yes")]))


def _not_here(job: AnySpec) -> list[str]:
    """The inputs of a fit that are not here: they may be where it will run."""
    from distforest.jobs.preview import absent_inputs
    from distforest.jobs.spec import Spec

    return absent_inputs(job) if isinstance(job, Spec) else []


def _looked_ahead(job: AnySpec) -> Report:
    """What a job will read and need, by metadata alone; raises MemoryLimitError where it is too large."""
    from distforest.command_line import reports
    from distforest.jobs.outline import outline
    from distforest.jobs.plan import check_memory
    from distforest.jobs.preview import preview
    from distforest.jobs.spec import Spec

    if not isinstance(job, Spec):
        return reports.outlined(outline(job.question()))
    seen = preview(job)
    check_memory(seen.plan.projected_bytes, seen.memory_limit)
    return reports.previewed(seen)


@main.command()
@click.argument("source")
@click.argument("target", metavar="TARGET.zarr")
@click.option("--label", metavar="COLUMN", help="Column of a csv or Parquet file that holds the labels.")
@click.option("--header/--no-header", default=None, help="Whether a csv file's first row names its columns.")
@click.option(
    "--separator", metavar="CHAR", help="What separates the cells of a csv file, such as ';' or tab.  [default: ,]"
)
@click.option("--n-features", type=click.IntRange(1), help="Features of a libsvm file.  [default: its highest index]")
@click.option("--zero-based/--one-based", default=None, help="From where a libsvm file counts its indices.")
@click.option("--name", help="Name of the array of an .npy file.  [default: name of the file]")
@click.option("--format", type=click.Choice(FORMATS), help="Format of SOURCE.  [default: by its suffix]")
@click.option(
    "--max-bytes",
    metavar="SIZE",
    help="What SOURCE may unfold to, such as 8GiB.  [default: 1GiB, or 200 times the file's size]",
)
@click.option("--overwrite", is_flag=True, help="Replace the Zarr group at TARGET.zarr.")
@json_option
@click.pass_context
def ingest(ctx: click.Context, /, source: str, target: str, max_bytes: str | None, **options: Any) -> None:
    """Turn the file SOURCE (.npy, .npz, csv, Parquet, libsvm) into the Zarr group TARGET.zarr.

    An .npz file of scipy.sparse.save_npz becomes a sparse matrix, whose address is TARGET.zarr itself.
    """
    from distforest.command_line import reports
    from distforest.command_line.spec_files import bytes_of_option
    from distforest.sources.files.ingest import ingest as take_in
    from distforest.stores.groups import attributes_of

    written = take_in(source, target, max_bytes=bytes_of_option("--max-bytes", max_bytes), **options)
    told = {name: value for name, value in attributes_of(target).items() if name != "distforest"}
    print_report(ctx, reports.ingested(target, written, told))


# --- quickstart -------------------------------------------------------------------------------------------


@main.command()
@click.argument("folder", metavar="[DIR]", default="quickstart")
@WORKERS
@click.option("--seed", type=click.IntRange(0), default=7, show_default=True, help="Of the splits and the forests.")
@json_option
@click.pass_context
def quickstart(ctx: click.Context, folder: str, workers: int | None, seed: int) -> None:
    """Ingest real data, train two forests, seal, reopen and score them, all in DIR (./quickstart)."""
    from distforest.command_line.quickstart import run_quickstart, show

    found = run_quickstart(folder, workers, seed)
    if ctx.meta.get(JSON):
        click.echo(json.dumps(found, allow_nan=False))
    else:
        show(found, sys.stdout)
