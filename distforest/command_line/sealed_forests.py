# ruff: noqa: PLC0415
"""Commands on sealed forests: `inspect`, `verify`, `export` and `merge`.

Registered by `distforest.command_line.cli`, which prints what they return; their imports stand inside them for the same
reason.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import click

from distforest.command_line.commands import STOPPING, fail
from distforest.command_line.plot_files import check_plot, no_plots, save_figure
from distforest.errors import ArtifactError, DistforestError, DistforestWarning

if TYPE_CHECKING:
    from distforest.command_line.reports import Report


@click.command()
@click.argument("forest")
@click.option(
    "--features", metavar="ADDRESS", help="Array with the names of the features.  [default: those in the forest]"
)
@click.option(
    "--plot", metavar="FILE", help="Draw the forest: features, a ranking, or objects by cluster; .png, .pdf, .svg."
)
def inspect(forest: str, features: str | None, plot: str | None) -> Report:
    """Report what a sealed FOREST is and how it was grown.

    It reads the manifest, the tree sizes, the feature weights and how many pairs of leaves are unobserved; `verify`
    reads everything.
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
        _plot(forest, features, plot)
    try:
        roots, unobserved = Roots.of_manifest(forest, manifest), unobserved_of_manifest(forest, manifest)
    except ArtifactError:  # `verify` reports damage; the manifest is reported in any case
        roots, unobserved = None, None
    return reports.inspected(forest, manifest, roots, drawn, unobserved)


def _plot(forest: str, features: str | None, path: str) -> None:
    """Save the picture of a sealed forest."""
    check_plot(path)
    try:
        from distforest.pictures.sealed import sealed_picture
    except ImportError as error:
        raise no_plots(error) from error
    save_figure(sealed_picture(forest, features), path)


@click.command()
@click.argument("forest")
@click.pass_context
def verify(ctx: click.Context, forest: str) -> Report:
    """Read all of a sealed FOREST and check that it is intact.

    Its arrays must match their digests and make a valid forest; otherwise the exit code is 7.
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

    .zip is the sealed forest in one file, which all commands open like a folder; .zarr is the folder again. Both have
    the same digest. .onnx is a model that predicts without distforest, of a forest whose splits compare single
    features. FOREST is verified first; OUT must be new. A file appears as a whole or not at all.
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

    OUTPUT ends in .zarr, or in .zip for one file; it must be new, and appears as a whole or not at all. Its trees are
    those of all forests, those of the smallest seed first. A tree that is in two of them is refused, as are forests of
    other data or parameters.
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


COMMANDS = (inspect, verify, export, merge)
