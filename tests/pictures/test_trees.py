"""Pictures of ranking forests: their words send the pairs that they count, and their curves are the forest's."""

import json

import numpy as np
import pytest
from click.testing import CliRunner
from matplotlib.figure import Figure

from distforest import RFD, TreeRank
from distforest.command_line import cli
from distforest.errors import DistforestWarning, InputError
from distforest.estimators.pair_columns import Cosine
from distforest.evaluation.roc import ROC
from distforest.pictures import ROCDisplay, TreeDisplay
from distforest.pictures.trees import drawn_tree
from distforest.sources.arrays import write_array
from tests.messages import naming
from tests.pictures.test_charts import drawn_on, overlapping

NAMES = ["a rather long name of height", "a rather long name of width", "$x^2$\n\x1b"]
SHORT = ["height", "width", "depth"]


@pytest.fixture(scope="module")
def points():
    """Points with whole numbers, so that thresholds are told exactly."""
    return np.random.default_rng(0).integers(0, 40, (30, 3))


@pytest.fixture(scope="module")
def links(points):
    """Pairs, and whether they are alike: those that are near in the first feature, with some noise."""
    pairs = np.stack(np.triu_indices(len(points), 1), axis=1)
    apart = np.abs(points[pairs[:, 0], 0] - points[pairs[:, 1], 0])
    return pairs, apart + np.random.default_rng(1).normal(0, 4, len(pairs)) < 8


def fitted(points, links, **params):
    own = {"n_estimators": 2, "max_bins": None, "leafrank_depth": 1, "max_features": 2, "random_state": 3, **params}
    return TreeRank(**own).fit_pairs(points, *links)


@pytest.fixture(scope="module")
def forests(points, links):
    return {region: fitted(points, links, region=region) for region in ("diagonal", "square")}


def pairs_go_left(cut, left, right):
    """Whether pairs go left by what the words say, read as a person would."""
    words = cut.split()
    value = {name: (left[:, k], right[:, k]) for k, name in enumerate(SHORT)}
    if "both" in words or "separates" in words:
        a, b = value[words[0]]
        place = float(words[-1] if "both" in words else words[1])
        return ((a <= place) == (b <= place)) == ("both" in words)
    name = words[-3].strip("|)").removeprefix("mean(")
    a, b = value[name]
    column = np.abs(a - b) if words[0] == "|d" else (a + b) / 2
    return column <= float(words[-1]) if words[-2] == "≤" else column > float(words[-1])


@pytest.mark.parametrize("region", ["diagonal", "square"])
def test_the_words_of_a_cell_send_the_pairs_that_its_parts_count(points, links, region):
    pairs, similar = links
    left, right = points[pairs[:, 0]], points[pairs[:, 1]]
    cells = {
        (cell.depth, cell.place): cell
        for cell in drawn_tree(fitted(points, links, region=region, n_estimators=1), 0, 4, SHORT).boxes
    }
    inside = {(0, 0): np.ones(len(pairs), bool)}
    assert len(cells) > 12
    for (depth, place), cell in cells.items():
        own = inside[depth, place]
        assert cell.counts == (int((own & similar).sum()), int((own & ~similar).sum()))
        if cell.cut:
            side = pairs_go_left(cell.cut, left, right)
            inside[depth + 1, 2 * place], inside[depth + 1, 2 * place + 1] = own & side, own & ~side
    words = "".join(cell.cut for cell in cells.values())
    assert ("both on one side of" in words) == ("separates the two" in words) == (region == "square")


def test_the_parts_of_a_cell_share_its_pairs_and_leaves(forests):
    cells = {(cell.depth, cell.place): cell for cell in drawn_tree(forests["diagonal"], depth=6).boxes}
    forest = forests["diagonal"].forest_
    assert cells[0, 0].n_leaves == int(forest.table.is_leaf[: forest.table.tree_size[0]].sum())
    for (depth, place), cell in cells.items():
        parts = [cells.get((depth + 1, 2 * place + k)) for k in (0, 1)]
        if cell.cut and depth < 6:
            assert sum(part.n_leaves for part in parts) == cell.n_leaves
            left, right = parts  # the better part is the left
            assert left.counts[0] * right.counts[1] > right.counts[0] * left.counts[1]
        else:
            assert parts == [None, None]
        assert (cell.n_leaves == 1) == (not cell.cut)


def test_a_small_tree_is_reported_by_its_number_of_nodes(points, links):
    pairs, _ = links
    near = np.abs(points[pairs[:, 0], :2] - points[pairs[:, 1], :2]).max(axis=1) < 12  # two cuts at least
    forest = fitted(points, (pairs, near), leafrank_depth=3, max_depth=1, max_features=None)
    root, *_ = drawn_tree(forest, names=SHORT).boxes
    n_nodes = int(forest.forest_.table.tree_size[0]) - 2  # but for its two cells
    column = int(forest.forest_.table.columns[0])
    assert n_nodes >= 2
    first = [f"|d {name}|" for name in SHORT][column] if column < 3 else f"mean({SHORT[column - 3]})"
    assert root.cut == f"by a tree of {n_nodes} splits,\nthe first of {first}"


def test_a_linear_cut_and_further_columns_are_named(points, links):
    linear = fitted(points, links, leafrank="linear", max_depth=1)
    assert drawn_tree(linear).boxes[0].cut.startswith("a sum of 6 columns")
    constant = np.zeros((4, 2))
    constant[:, 0] = [1, 2, -1, -2]
    forest = TreeRank(1, pair_columns=[Cosine()], leafrank_depth=1, min_samples_leaf=1, max_depth=1, random_state=0)
    cut = drawn_tree(forest.fit(constant, [0, 0, 1, 1])).boxes[0].cut
    assert cut.split(" ≤ ")[0].split(" > ")[0] in {"|d feature 0|", "further column 0"}


def test_a_tree_that_parts_nothing_is_drawn():
    with pytest.warns(DistforestWarning, match="split"):
        forest = TreeRank(1, random_state=0).fit(np.ones((6, 2)), [0, 0, 0, 1, 1, 1])
    (root,) = drawn_tree(forest).boxes
    assert (root.counts, root.cut, root.n_leaves) == ((6, 9), "", 1)
    assert overlapping(TreeDisplay.from_estimator(forest).figure_) == []


@pytest.mark.parametrize("log", [False, True])
def test_the_drawn_curves_are_those_of_the_trees(forests, log):
    curves = forests["diagonal"].tree_rocs_
    axes = ROCDisplay(curves, log=log, title="Pairs").plot().ax_
    *own, mean, chance = axes.lines
    assert len(own) == len(curves)
    for line, curve in zip([*own, mean], [*curves, ROC.mean(curves)], strict=True):
        x, y = line.get_data()
        between = np.linspace(x[0], 1.0, 1000)
        assert np.interp(between, x, y) == pytest.approx(curve.at(between), abs=2e-3)
        assert x[0] == pytest.approx(0.0 if not log else axes.get_xlim()[0])
    assert np.array_equal(*chance.get_data())
    assert min(line.get_linewidth() for line in [mean]) > 2 * max(line.get_linewidth() for line in own)


@pytest.mark.slow
def test_a_tree_and_its_curves_are_drawn_on_given_axes(forests):
    forest, figure = forests["square"], Figure()
    left, right = figure.subplots(1, 2)
    assert TreeDisplay.from_estimator(forest, 1, depth=2, ax=left).ax_ is left
    display = ROCDisplay(forest.tree_rocs_, log=True)
    assert display.plot(right).ax_ is right
    cells, curves = TreeDisplay.from_estimator(forest, 1, depth=2).ax_, display.plot().ax_
    assert [text.get_text() for text in left.texts] == [text.get_text() for text in cells.texts] != []
    assert drawn_on(right)[:4] == drawn_on(curves)[:4]
    assert drawn_on(right)[4] == curves.get_legend_handles_labels()[1]
    assert (figure.legends, figure.axes) == ([], [left, right])  # nothing beside them


def test_a_logarithmic_scale_begins_below_the_least_rate():
    low = ROC([0, 3e-4, 1], [0, 0.5, 1])
    perfect = ROC([0, 0, 1], [0, 1, 1])
    assert ROCDisplay([low, perfect], log=True).plot().ax_.get_xlim() == pytest.approx((1e-4, 1.0))
    axes = ROCDisplay([perfect], log=True).plot().ax_
    assert axes.get_xlim() == pytest.approx((1e-2, 1.0))
    assert set(axes.lines[0].get_ydata()) == {1.0}


def test_of_many_trees_the_first_are_drawn():
    figure = ROCDisplay([ROC([0, 0.5, 1], [0, 0.9, 1])] * 130).plot().figure_
    assert len(figure.axes[0].lines) == 102
    told = [text.get_text() for text in figure.legends[0].get_texts()]
    assert told == ["100 trees", "their mean: area 0.700", "chance"]
    assert overlapping(figure) == []


def test_what_cannot_be_drawn_is_refused(forests):
    forest = forests["diagonal"]
    with pytest.raises(InputError, match=naming("tree:", "0..1", 2)):
        TreeDisplay.from_estimator(forest, 2)
    with pytest.raises(InputError, match=naming("depth:", 6, 7)):
        TreeDisplay.from_estimator(forest, depth=7)
    with pytest.raises(InputError, match=naming("names:", "3 columns", 2)):
        TreeDisplay.from_estimator(forest, names=["a", "b"])
    with pytest.raises(InputError, match="curves"):
        ROCDisplay([])
    with pytest.raises(InputError, match=naming("tree", 0.5)):
        TreeDisplay.from_estimator(forest, 0.5)
    with pytest.raises(InputError, match=naming("depth", "'2'")):
        TreeDisplay.from_estimator(forest, depth="2")
    with pytest.raises(InputError, match=naming("names:", "'abc'")):
        TreeDisplay.from_estimator(forest, names="abc")
    with pytest.raises(InputError, match=naming("ax:", "Figure")):
        TreeDisplay.from_estimator(forest, ax=Figure())


@pytest.mark.slow
@pytest.mark.parametrize("layout", [None, "constrained"])
@pytest.mark.parametrize(("width", "height"), [(12.0, 8.0), (6.4, 4.8), (4.5, 3.5)])
@pytest.mark.parametrize("region", ["diagonal", "square"])
def test_no_text_of_a_tree_lies_on_another_on_given_axes(forests, region, width, height, layout):
    figure = Figure(figsize=(width, height), layout=layout)
    axes = figure.subplots(gridspec_kw=None if layout else {"bottom": 0.25})
    TreeDisplay.from_estimator(forests[region], names=NAMES, ax=axes)
    assert overlapping(figure) == []
    [size] = {text.get_fontsize() for text in axes.texts}
    assert 2.0 < size <= 8.0


@pytest.mark.slow
def test_inspect_draws_a_sealed_ranking_forest(forests, points, tmp_path):
    forests["square"].save(tmp_path / "ranks.zarr")
    attributes = {"feature_names": SHORT}
    write_array(f"{tmp_path}/in.zarr", "X", points.shape, points.dtype, [points], attributes=attributes)
    asked = ["inspect", f"{tmp_path}/ranks.zarr", "--plot", f"{tmp_path}/a.svg", "--json"]
    done = CliRunner().invoke(cli.main, [*asked, "--features", f"{tmp_path}/in.zarr/X"])
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["method"] == "treerank"
    first = drawn_tree(forests["square"], names=SHORT).boxes[0].cut.split("\n")[1]
    assert first in (tmp_path / "a.svg").read_text()


def test_ranks_of_another_forest_are_not_drawn_but_its_importances(points, tmp_path):
    RFD(2, random_state=0).fit(points, points[:, 0] > 20).save(tmp_path / "votes.zarr")
    done = CliRunner().invoke(cli.main, ["inspect", f"{tmp_path}/votes.zarr", "--plot", f"{tmp_path}/a.png"])
    assert done.exit_code == 0, done.stderr
    assert (tmp_path / "a.png").read_bytes()[1:4] == b"PNG"
