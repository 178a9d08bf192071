# ruff: noqa: PLC0415
"""Commands on known data: `simulate` makes it, `evaluate` says how much of its truth was found.

Registered by `distforest.command_line.cli`, which prints what they return; their imports stand inside them for the same
reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from distforest.command_line.reports import Report

SETTINGS = ("line", "helix", "sphere", "mixture", "smerf_regression", "smerf_bilinear", "smerf_radial")
"""The settings of `distforest.evaluation.trials`, here without its imports."""

NOISES = ("normal", "lognormal", "t", "correlated")
"""The kinds of `distforest.evaluation.manifolds.Noise`, here without its imports."""


@click.command()
@click.argument("setting", metavar="SETTING", type=click.Choice(SETTINGS))
@click.option("--output", required=True, metavar="GROUP.zarr", help="The new Zarr group.")
@click.option("--n", type=click.IntRange(1), default=1000, show_default=True, help="Points.")
@click.option(
    "--seed", "random_state", type=click.IntRange(0), default=0, show_default=True, help="Of all that is drawn."
)
@click.option("--noise-dimensions", type=click.IntRange(0), help="Features of noise beside a manifold.  [default: 0]")
@click.option("--noise", type=click.Choice(NOISES), help="Their kind.  [default: normal]")
@click.option("--noise-variance", type=float, help="Their variance.  [default: 70]")
@click.option("--rescale/--no-rescale", default=None, help="Features from 0 to 1.  [default: no]")
@click.option("--shuffle/--no-shuffle", default=None, help="Rows in random order.  [default: yes]")
@click.option("--columns", "p", type=click.IntRange(2), help="Features of a setting of SMERF.  [default: 20]")
@click.option("--overwrite", is_flag=True, help="Replace the Zarr group at the output.")
def simulate(setting: str, output: str, overwrite: bool, **options: Any) -> Report:
    """Write simulated points with a known truth as a Zarr group.

    SETTING is a manifold in noise (line, helix, sphere, mixture: arrays X, latent and labels) or one of SMERF's
    (smerf_regression, smerf_bilinear, smerf_radial: arrays X, Z and y).
    """
    from distforest.command_line import reports
    from distforest.evaluation import trials

    given = {name: value for name, value in options.items() if value is not None}
    return reports.simulated(trials.simulate(setting, output, given, overwrite))


@click.command()
@click.argument("answer")
@click.argument("truth")
@click.option(
    "-k", "--k", "ks", type=click.IntRange(1), multiple=True, help="Points retrieved; several.  [default: 50]"
)
@click.option("--queries", "n_queries", type=click.IntRange(1), help="Judge only this many points, drawn at random.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="For drawing them.")
def evaluate(answer: str, truth: str, ks: tuple[int, ...], n_queries: int | None, seed: int) -> Report:
    """Say how much of TRUTH was found by ANSWER: geodesic precision and recall at each k.

    ANSWER is what `score` wrote about the points themselves (distances, proximities or neighbours), or a sealed forest,
    which is asked about X beside the truth. TRUTH is a group of `simulate`, an array of distances, or one of labels.
    """
    from distforest.command_line import reports
    from distforest.evaluation import trials

    return reports.evaluated(trials.evaluate(answer, truth, ks or (50,), n_queries, seed))


COMMANDS = (simulate, evaluate)
