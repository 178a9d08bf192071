# ruff: noqa: PLC0415
"""Commands on sealed forests, on predictions and tables, and on the schema of a job.

`distforest.command_line.cli` registers them and prints the reports that they return. As there, imports are inside the
commands.
"""

from __future__ import annotations

import json
import warnings
from typing import TYPE_CHECKING, Any

import click

from distforest.command_line.commands import (
    HEADED,
    JSON,
    STOPPING,
    check_plot,
    fail,
    form_options,
    save_figure,
    text_options,
)
from distforest.command_line.service import printer_of_notes, reads_jobs
from distforest.errors import ArtifactError, DistforestError, DistforestWarning, InputError, NotDoneError

if TYPE_CHECKING:
    from distforest.command_line.reports import Report
    from distforest.service.messages import JobState
    from distforest.service.whereabouts import Whereabouts

SHOWN_ELSEWHERE = ("forest", "digest", "output", "evaluations")
"""Lines on a job that the page shows elsewhere."""


@click.command()
@click.argument("forest")
@click.option(
    "--features", metavar="ADDRESS", help="Array with the names of the features.  [default: those in the forest]"
)
@click.option(
    "--plot", metavar="FILE", help="Draw the forest: features, a ranking, or objects by cluster; .png, .pdf, .svg."
)
def inspect(forest: str, features: str | None, plot: str | None) -> Report:
    """Report the contents of a sealed FOREST and how it was grown.

    The command reads the manifest, the tree sizes, the feature weights and the number of unobserved pairs of leaves.
    `verify` reads everything.
    """
    from distforest.command_line import reports
    from distforest.forest.feature_shares import read_feature_shares
    from distforest.forest.roots import Roots, unobserved_of_manifest
    from distforest.forest.sealed.artifact import read_manifest

    manifest = read_manifest(forest)
    drawn = read_feature_shares(forest, manifest, features)
    if features is not None and drawn is None and plot is None:
        text = "`features` is not used, as the forest has no feature weights to report; give `plot` too"
        warnings.warn(text, DistforestWarning, stacklevel=2)
    if plot is not None:
        check_plot(plot)
        from distforest.pictures.sealed import sealed_picture

        save_figure(sealed_picture(forest, features), plot)
    try:
        roots, unobserved = Roots.from_manifest(forest, manifest), unobserved_of_manifest(forest, manifest)
    except ArtifactError:  # `verify` reports the damage; here the manifest is still reported
        roots, unobserved = None, None
    return reports.inspected(forest, manifest, roots, drawn, unobserved)


@click.command()
@click.argument("forest")
@click.pass_context
def verify(ctx: click.Context, forest: str) -> Report:
    """Read a sealed FOREST completely and check that it is intact.

    Its arrays must match their digests and form a valid forest; otherwise the exit code is 7.
    """
    from distforest.command_line import reports
    from distforest.forest.sealed.artifact import open_forest

    try:
        opened = open_forest(forest)
    except ArtifactError as error:
        fail(ctx, error, forest=forest, valid=False)
    return reports.verified(forest, opened)


@click.command(short_help="Write FOREST as .zip, .zarr or .onnx, by the suffix of OUT.")
@click.argument("forest")
@click.argument("output", metavar="OUT")
def export(forest: str, output: str) -> Report:
    """Write a sealed FOREST in another form: .zip, .zarr or .onnx, by the suffix of OUT.

    .zip is the sealed forest in one file, which all commands open like a folder, and .zarr is the folder again. Both
    have the same digest. .onnx is a model that predicts without distforest; it needs a forest whose splits compare
    single features. FOREST is verified first. OUT must be new, and appears as a whole or not at all.
    """
    from distforest.command_line import reports
    from distforest.command_line.console import interruptible
    from distforest.forest.exports import check_export, export_forest
    from distforest.forest.sealed.artifact import open_forest
    from distforest.stores.outputs import check_apart

    check_apart(output, {"forest": forest})  # before the forest is read
    check_export(output)
    with interruptible(STOPPING):
        opened = open_forest(forest)
        form = export_forest(opened, output)
    return reports.exported(forest, opened, output, form)


@click.command(short_help="Merge sealed FORESTs that differ only in their seeds.")
@click.argument("forests", nargs=-1, required=True, metavar="FOREST...")
@click.argument("output")
@click.pass_context
def merge(ctx: click.Context, forests: tuple[str, ...], output: str) -> Report:
    """Merge sealed FORESTs of the same data and parameters, but of other seeds, into a new one at OUTPUT.

    OUTPUT ends in .zarr, or in .zip for one file. It must be new, and appears as a whole or not at all. It contains the
    trees of all forests, ordered by seed. Forests that share a tree, or differ in data or parameters, are refused.
    """
    from distforest.command_line import reports
    from distforest.command_line.console import interruptible
    from distforest.forest.exports import SEALED, check_export
    from distforest.forest.merged_trees import merged
    from distforest.forest.sealed.artifact import open_forest, save
    from distforest.stores.outputs import check_apart

    try:
        for forest in forests:
            check_apart(output, {"forest": forest})  # before the forests are read
        check_export(output, SEALED)
        with interruptible(STOPPING):
            found = merged([open_forest(forest) for forest in forests])
            save(found, output)
    except DistforestError as error:
        fail(ctx, error, forests=list(forests), output=output)
    return reports.merged_forests(output, forests, found)


@click.command(short_help="Write a report on a sealed forest as one page of HTML.")
@click.argument("forest", metavar="FOREST|JOB")
@click.argument("output", metavar="OUTPUT.html")
@click.option("--truth", metavar="ADDRESS", help="Ground truth of the training rows, or labels, to draw the errors.")
@click.option("--overwrite", is_flag=True, help="Replace the page at OUTPUT.html.")
@reads_jobs
def report(forest: str, output: str, truth: str | None, overwrite: bool, where: Whereabouts) -> Report:
    """Write a report on a sealed forest as one page of HTML that needs no network.

    FOREST is an address; anything else without a slash is the ID of a job, whose run is then reported too. The page
    shows data, parameters, errors, importances, the shapes of trees, proximities by cluster, and how to repeat the run.
    """
    import shlex

    from distforest.command_line.reports import Report
    from distforest.pictures.report import report_page
    from distforest.stores.addresses import names_in, put_file, store_of

    if not output.endswith((".html", ".htm")):
        raise InputError(f"{output}: a name that ends in .html was expected")
    store, path = store_of(output)
    if store.exists(path) and (store.isdir(path) or not overwrite):
        raise InputError(f"{output} exists already; choose another output, or allow it (`overwrite`)")
    is_job = "/" not in forest and not forest.endswith((".zarr", ".zip")) and not names_in(forest)
    address, run = forest, list[tuple[str, str]]()
    if is_job:
        try:
            job = where.jobs(printer_of_notes()).job(forest)
        except InputError as error:
            raise InputError(f"{forest} is neither the address of a forest nor the ID of a job: {error}") from error
        address, run = _forest_of_job(job)
    options = [*(["--truth", truth] if truth else []), *(where.options if is_job else [])]
    parts = ["distforest", "report", forest, output, *options]
    page, found = report_page(address, truth=truth, run=run, made_by=shlex.join(parts))
    content = page.encode()
    put_file(output, content)
    answer: dict[str, object] = {"output": output, "forest": address, "digest": found.digest, "n_bytes": len(content)}
    return Report(answer, [("output", output), ("forest", address), ("digest", found.digest)])


def _forest_of_job(job: JobState) -> tuple[str, list[tuple[str, str]]]:
    """Return the address of the forest that a job has sealed, and the report on its run."""
    from distforest.command_line.job_reports import reported

    name, address = str(job["id"]), (job.get("result") or {}).get("forest")
    if job.get("kind") == "score":
        raise InputError(f"{name} is a scoring job, which makes no forest; give the address of the forest that it used")
    if not address:
        raise NotDoneError(
            f"{name} is {job['state']} and has no forest yet; `distforest wait {name}` waits for it", job
        )
    lines = [(title.capitalize(), value) for title, value in reported(job).lines if title not in SHOWN_ELSEWHERE]
    return address, lines


@click.command(short_help="Write the clusters of the training rows of FOREST as a table.")
@click.argument("forest")
@click.argument("output")
@click.option("--n-clusters", type=click.IntRange(1), required=True, help="Number of clusters.")
@click.option("--coordinates", type=click.IntRange(1), metavar="D", help="Add D principal coordinates, for a map.")
@click.option("--training-ids", metavar="ADDRESS", help="Training rows with names by ingest --id, to name the rows.")
@click.option("--overwrite", is_flag=True, help="Replace the file at OUTPUT.")
def clusters(
    forest: str, output: str, n_clusters: int, coordinates: int | None, training_ids: str | None, overwrite: bool
) -> Report:
    """Find clusters of the training rows of a sealed FOREST, by average linkage of all their distances.

    OUTPUT is a csv, Parquet or Arrow file with one line per training row: its number or name, its cluster and, with
    --coordinates, its principal coordinates. Rows at equal distances stay together, so there may be fewer clusters than
    requested. A forest of more than 5,000 training rows is refused.
    """
    import os
    from pathlib import Path

    from distforest.command_line import reports
    from distforest.command_line.console import interruptible
    from distforest.forest.sealed.artifact import open_forest
    from distforest.jobs.question import Question
    from distforest.jobs.score_table import ROW_NUMBER, training_names
    from distforest.pictures.closeness import clusters_of_training
    from distforest.sources.files.table_writer import table_writer, written_suffix
    from distforest.stores.building import working_folder
    from distforest.stores.claims import Claim
    from distforest.stores.outputs import check_apart, check_new_file

    question = Question(forest, training_ids or forest, "neighbors", training_ids=training_ids)
    check_apart(output, question.addresses())
    if not written_suffix(output):
        raise InputError(f"{output}: a name of a csv, Parquet or Arrow file was expected, such as clusters.csv")
    check_new_file(output, overwrite)
    claim = Claim(output, f"`distforest clusters {forest}`")
    with interruptible(STOPPING), claim.held(), working_folder(output) as folder:
        opened = open_forest(forest)
        names = training_names(question, opened)
        found, places = clusters_of_training(opened, n_clusters, coordinates)
        columns = {ROW_NUMBER: range(len(found.codes))} if names is None else {"id": names}
        columns |= {"cluster": found.codes} | {
            f"coordinate_{k}": own for k, own in enumerate(() if places is None else places.places.T, start=1)
        }
        table = str(Path(folder.address, f"clusters{written_suffix(output)}"))
        with table_writer(table) as write:
            write(columns)
        check_new_file(output, overwrite)
        os.replace(table, output)
    return reports.labelled(output, forest, opened, found, places)


@click.command()
@click.argument("answer")
@click.argument("truth", required=False)
@click.option("--label", metavar="COLUMN", help="Column of TRUTH with the labels.")
@click.option("--target", metavar="COLUMN", help="Column of TRUTH with the numbers that were predicted.")
@click.option(
    "--pairs",
    multiple=True,
    metavar="NAMES",
    help="Two columns of TRUTH with the pair whose distance is --target, or whose similarity (yes or no) is --label.",
)
@text_options
@click.option(
    "--resamples", type=click.IntRange(0), default=200, show_default=True, help="Number of resamples of the intervals."
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of the resamples.")
@click.option(
    "--fpr",
    type=click.FloatRange(0.0, 1.0),
    multiple=True,
    metavar="RATE",
    help="Report the largest distance threshold with at most this rate of false alarms; may be repeated.",
)
def evaluate(
    answer: str,
    truth: str | None,
    seed: int,
    resamples: int,
    label: str | None,
    target: str | None,
    pairs: tuple[str, ...],
    fpr: tuple[float, ...],
    **text: Any,
) -> Report:
    """Measure how well ANSWER agrees with the truth.

    ANSWER is an output of `score`: predictions, class shares, or distances of pairs. The command reports accuracy,
    log-loss, ROC AUC, R2 and RMSE, with bootstrap intervals. TRUTH is an array, or a table with the column --label or
    --target. By default it is the table ANSWER itself.
    """
    from shlex import join

    from distforest.command_line import reports
    from distforest.evaluation.predictions import score_predictions
    from distforest.sources.files.text_options import TextOptions
    from distforest.stores.outputs import FOREST_KIND, look

    if (found := look(answer)) and found.kind == FOREST_KIND:
        score = join(["distforest", "score", answer, truth or "TABLE", "found.csv", "--answer", "predict"])
        raise click.UsageError(f"predictions were expected, found the forest {answer}; `{score}` makes them")
    own = TextOptions(**{name: None if value == () else value for name, value in text.items()})
    return reports.prediction_scores(score_predictions(answer, truth, label, target, resamples, seed, own, pairs, fpr))


@click.command()
@click.argument("source", metavar="TABLE")
@click.argument("train", metavar="TRAIN")
@click.argument("test", metavar="TEST")
@click.option("--test", "share", type=float, default=0.25, show_default=True, help="Share of the rows in TEST.")
@click.option("--stratify", metavar="COLUMN", help="Keep the share of each value of this column in both parts.")
@click.option("--group", metavar="COLUMN", help="Keep rows with the same value of this column in one part.")
@click.option("--random-state", type=click.IntRange(0), default=0, show_default=True, help="Seed of the random split.")
@HEADED
@form_options
@click.option("--overwrite", is_flag=True, help="Replace what is at TRAIN and TEST.")
def split(source: str, train: str, test: str, share: float, overwrite: bool, **options: Any) -> Report:
    """Split the rows of TABLE into TRAIN and TEST, at random.

    TABLE is a csv, Parquet or Arrow file, or a Zarr group written by `ingest`, where COLUMN is an array such as y.
    TRAIN and TEST are files, by their suffix, or groups. Rows keep their order, all their columns and their names.
    """
    from distforest.command_line import reports
    from distforest.evaluation import splits
    from distforest.sources.files.text_options import TextOptions

    by = {name: options.pop(name) for name in ("stratify", "group", "random_state")}
    division = splits.Division(share, **by)
    return reports.divided(splits.split(source, division, train, test, TextOptions(**options), overwrite))


@click.command(short_help="Print the JSON Schema of a job's TOML file, for editors.")
@click.pass_context
def schema(ctx: click.Context) -> None:
    """Print the JSON Schema of a job's TOML file, which lets an editor complete and check its keys.

    Run `distforest schema > job.schema.json`, and begin a job's file with the line: #:schema ./job.schema.json
    """
    from distforest.jobs.json_schema import job_schema

    click.echo(json.dumps(job_schema(), indent=None if ctx.meta.get(JSON) else 2, allow_nan=False))


COMMANDS = (inspect, verify, export, merge, clusters, evaluate, split, report, schema)
