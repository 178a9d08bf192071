# ruff: noqa: PLC0415
"""Commands on known data: `simulate` makes them, `evaluate` measures how good an answer is; `split` parts a table.

`distforest.command_line.cli` adds them and prints the reports that they return. As there, imports are inside the
commands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from distforest.command_line.commands import HEADED, form_options, text_options

if TYPE_CHECKING:
    from distforest.command_line.reports import Report

SETTINGS = ("line", "helix", "sphere", "mixture", "smerf_regression", "smerf_bilinear", "smerf_radial")
"""The settings of `distforest.evaluation.trials`, repeated here to avoid its imports."""

NOISES = ("normal", "lognormal", "t", "correlated")
"""The kinds of `distforest.evaluation.manifolds.Noise`, repeated here to avoid its imports."""


@click.command()
@click.argument("setting", metavar="SETTING", type=click.Choice(SETTINGS))
@click.option("--output", required=True, metavar="GROUP.zarr", help="The new Zarr group.")
@click.option("--n", type=click.IntRange(1), default=1000, show_default=True, help="Number of points.")
@click.option(
    "--seed", "random_state", type=click.IntRange(0), default=0, show_default=True, help="Seed of all random numbers."
)
@click.option(
    "--noise-dimensions", type=click.IntRange(0), help="Number of noise features added to a manifold.  [default: 0]"
)
@click.option("--noise", type=click.Choice(NOISES), help="Distribution of the noise.  [default: normal]")
@click.option("--noise-variance", type=float, help="Variance of the noise.  [default: 70]")
@click.option("--rescale/--no-rescale", default=None, help="Scale the features of a manifold to 0..1.  [default: no]")
@click.option(
    "--shuffle/--no-shuffle", default=None, help="Put the rows of a manifold into random order.  [default: yes]"
)
@click.option(
    "--columns", "p", type=click.IntRange(2), help="Number of features, for a setting of SMERF.  [default: 20]"
)
@click.option("--overwrite", is_flag=True, help="Replace an existing Zarr group at the output.")
def simulate(setting: str, output: str, overwrite: bool, **options: object) -> Report:
    """Write simulated points with a known truth as a Zarr group.

    SETTING is a manifold in noise (line, helix, sphere, mixture: arrays X, latent and labels) or one of SMERF's
    (smerf_regression, smerf_bilinear, smerf_radial: arrays X, Z and y).
    """
    from distforest.command_line import reports
    from distforest.evaluation import trials

    chosen = {name: value for name, value in options.items() if value is not None}
    return reports.simulated(trials.simulate(setting, output, chosen, overwrite))


@click.command()
@click.argument("answer")
@click.argument("truth", required=False)
@click.option("--label", metavar="COLUMN", help="Column of TRUTH with the labels, of predictions.")
@click.option("--target", metavar="COLUMN", help="Column of TRUTH with the numbers that were predicted.")
@click.option(
    "--pairs",
    multiple=True,
    metavar="NAMES",
    help="Two columns of TRUTH that say of which pair --target is the distance.  [default: as in ANSWER]",
)
@text_options
@click.option(
    "--resamples",
    type=click.IntRange(0),
    default=200,
    show_default=True,
    help="Number of resamples behind the intervals, of predictions.",
)
@click.option(
    "-k",
    "--k",
    "ks",
    type=click.IntRange(1),
    multiple=True,
    help="Number of retrieved points; may be repeated.  [default: 50]",
)
@click.option(
    "--queries", "n_queries", type=click.IntRange(1), help="Number of points to judge, drawn at random.  [default: all]"
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed for drawing points or rows.")
def evaluate(
    answer: str,
    truth: str | None,
    ks: tuple[int, ...],
    n_queries: int | None,
    seed: int,
    resamples: int,
    label: str | None,
    target: str | None,
    pairs: tuple[str, ...],
    **text: Any,
) -> Report:
    """Measure how good ANSWER is, by what is true.

    Of predictions, class shares, or distances of pairs that `score` has written, it reports accuracy, log-loss, ROC
    AUC, R2 and RMSE, with intervals by bootstrap. TRUTH is a table with the column --label or --target, by default the
    table ANSWER itself, or an array.

    Of distances, proximities or neighbours of points among themselves, or of a sealed forest, which then scores the
    array X beside the truth, it reports geodesic precision and recall at each k. TRUTH is a group of `simulate`, an
    array of distances or an array of labels.
    """
    from distforest.command_line import reports
    from distforest.evaluation import predictions, trials
    from distforest.sources.files.text_options import TextOptions

    if predictions.are_predictions(answer):
        if ks or n_queries is not None:
            raise click.UsageError("-k and --queries are for distances and neighbours of points")
        own = TextOptions(**{name: None if value == () else value for name, value in text.items()})
        return reports.judged(predictions.judge(answer, truth, label, target, resamples, seed, own, pairs))
    columns = {"label": label, "target": target, "pairs": pairs, **text}
    if given := next((name.replace("_", "-") for name, value in columns.items() if value not in (None, ())), None):
        _refuse_forest(answer, truth, f"--{given}")
        raise click.UsageError(f"--{given} is for predictions, and for distances of pairs in a table")
    if truth is None:
        raise click.UsageError("Missing argument 'TRUTH'.")
    return reports.evaluated(trials.evaluate(answer, truth, ks or (50,), n_queries, seed))


def _refuse_forest(address: str, table: str | None, option: str) -> None:
    """Refuse a forest in the place of its predictions, and name the command that makes them."""
    from shlex import join

    from distforest.stores.outputs import FOREST_KIND, look

    found = look(address)
    if found and found.kind == FOREST_KIND:
        score = join(["distforest", "score", address, table or "TABLE", "found.csv", "--answer", "predict"])
        raise click.UsageError(f"{address} is a forest, and {option} is for predictions: `{score}` makes them")


@click.command()
@click.argument("source", metavar="TABLE")
@click.argument("train", metavar="TRAIN")
@click.argument("test", metavar="TEST")
@click.option("--test", "share", type=float, default=0.25, show_default=True, help="Share of the rows in TEST.")
@click.option("--stratify", metavar="COLUMN", help="Keep the shares of each value of this column in both parts.")
@click.option("--group", metavar="COLUMN", help="Keep rows with the same value of this column in one part.")
@click.option("--random-state", type=click.IntRange(0), default=0, show_default=True, help="Seed of the draw.")
@HEADED
@form_options
@click.option("--overwrite", is_flag=True, help="Replace what is at TRAIN and TEST.")
def split(source: str, train: str, test: str, share: float, overwrite: bool, **options: Any) -> Report:
    """Split the rows of TABLE into TRAIN and TEST, at random.

    TABLE is a csv, Parquet or Arrow file, or a Zarr group of `ingest`, where COLUMN is an array such as y. The parts
    are files, by their suffix, or groups. Rows keep their order, all their columns and their names.
    """
    from distforest.command_line import reports
    from distforest.evaluation import splits
    from distforest.sources.files.text_options import TextOptions

    by = {name: options.pop(name) for name in ("stratify", "group", "random_state")}
    division = splits.Division(share, **by)
    return reports.divided(splits.split(source, division, train, test, TextOptions(**options), overwrite))


COMMANDS = (simulate, evaluate, split)
