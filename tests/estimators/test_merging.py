"""Forests of the same data that are merged: their trees, answers, digests and scores, and what is refused."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from distforest import (
    RFD,
    SMERF,
    Embedding,
    Labels,
    Lazy,
    SimForestClassifier,
    SimForestRegressor,
    Targets,
    TreeRank,
    URerF,
    load,
    merge,
    pairwise,
)
from distforest.command_line.cli import main
from distforest.errors import ArtifactError, InputError
from distforest.forest.sealed import artifact
from tests.estimators.jobs import run_job, spec_of, write_arrays
from tests.estimators.rows import CITY
from tests.estimators.rows import THIRD as X
from tests.estimators.rows import THIRD_Y as Y
from tests.messages import naming


def seeded(seed: int, n: int = 4, truth: Any = Y, rows: Any = X, **params: Any) -> SMERF:
    return SMERF(n, random_state=seed, **params).fit(rows, truth)


EVEN = np.arange(len(Y)) % 2 + 1


def weighted(seed: int, weights: Any) -> SMERF:
    return SMERF(4, random_state=seed).fit(X, Y, weights)


FORESTS = {
    "labels": seeded,
    "targets": lambda seed, n=4: seeded(seed, n, X[:, 0] + 0.5),
    "distances": lambda seed, n=4: seeded(seed, n, CITY),
    "urerf": lambda seed, n=4: URerF(n, feature_weights=None, min_samples_split=10, random_state=seed).fit(X),
    "simforest": lambda seed, n=4: SimForestClassifier("rbf", n_estimators=n, random_state=seed).fit(X, Y),
    "rfd": lambda seed, n=4: RFD(n, random_state=seed).fit(X, Y),
    "treerank": lambda seed, n=4: TreeRank(n, random_state=seed).fit(X, Y),
}


@pytest.mark.parametrize("kind", list(FORESTS))
def test_a_distance_is_the_mean_over_the_trees_of_both(kind: str, tmp_path: Path) -> None:
    one, other = FORESTS[kind](0, 4), FORESTS[kind](1, 8)
    both = merge([one, other])
    assert both.forest_.n_trees == 12
    expected = (4 * one.distance(X[:9], X) + 8 * other.distance(X[:9], X)) / 12
    np.testing.assert_allclose(both.distance(X[:9], X), expected, atol=1e-12)
    assert merge([other, one]).digest_ == both.digest_ != one.digest_
    assert both.save(tmp_path / "both.zarr") == both.digest_
    np.testing.assert_array_equal(load(tmp_path / "both.zarr").distance(X[:9], X), both.distance(X[:9], X))


@pytest.mark.slow
def test_three_at_once_are_two_and_one(tmp_path: Path) -> None:
    forests = [seeded(seed) for seed in (5, 1, 3)]
    at_once = merge(forests)
    assert merge([merge(forests[1:]), forests[0]]).digest_ == at_once.digest_
    for place, own in enumerate(forests):
        own.save(tmp_path / f"{place}.zarr")
    names = [str(tmp_path / f"{place}.zarr") for place in range(3)]
    assert merge([names[0], forests[1], names[2]]).digest_ == at_once.digest_
    done = CliRunner().invoke(main, ["merge", *names, str(tmp_path / "out.zarr")])
    assert done.exit_code == 0, done.output
    assert at_once.digest_ in done.output
    assert load(tmp_path / "out.zarr").digest_ == at_once.digest_
    told = " ".join(CliRunner().invoke(main, ["inspect", str(tmp_path / "out.zarr")]).output.split())
    assert "3 forests: trees 0 to 3 of seed 1, trees 0 to 3 of seed 3, trees 0 to 3 of seed 5" in told
    taken = CliRunner().invoke(main, ["merge", *names])
    assert taken.exit_code != 0
    assert load(names[2]).digest_ == forests[2].digest_


def test_scores_out_of_bag_are_those_of_all_trees() -> None:
    forests = [SimForestClassifier("rbf", n_estimators=30, random_state=seed).fit(X, Y) for seed in (0, 1)]
    both = merge(forests, Y)
    shares, count = np.zeros((len(Y), 3)), np.zeros(len(Y))
    for own in forests:
        forest = own.forest_
        for tree in range(forest.n_trees):
            out = forest.in_bag[tree] == 0
            nodes = forest.training_nodes[tree, out].astype(np.int64)
            shares[out] += forest.leaf_table.outputs(tree, nodes)
            count += out
    assert both.oob_score_ == np.mean(np.argmax(shares / count[:, None], axis=1) == Y)
    np.testing.assert_allclose(both.oob_decision_function_, shares / count[:, None])
    assert not hasattr(merge(forests), "oob_score_")
    taught = merge([seeded(seed, 60) for seed in (0, 1)], Y)
    left, right = np.triu_indices(len(Y), 1)
    off = (Y[left] != Y[right]) - taught.oob_distance(left, right)
    assert taught.oob_rmse_ == pytest.approx(np.sqrt(np.mean(off**2)))
    weights = np.arange(len(Y)) % 3
    own = [SimForestRegressor("rbf", random_state=seed).fit(X, X[:, 0], weights) for seed in (0, 1)]
    found = merge(own, X[:, 0])
    known, target = weights > 0, X[:, 0]
    mean = np.average(target[known], weights=weights[known])
    squares = [np.average((a - target)[known] ** 2, weights=weights[known]) for a in (found.oob_prediction_, mean)]
    assert found.oob_score_ == pytest.approx(1 - squares[0] / squares[1])


@pytest.mark.parametrize(
    ("forests", "named"),
    [
        (lambda: [seeded(0)], ("two", 1)),
        (lambda: [seeded(0), SMERF()], ("forests[1]:", "fit")),
        (lambda: [seeded(0), seeded(0, 9)], ("trees 0 to 3", "seed 0")),
        (lambda: [merge([seeded(0), seeded(1)]), seeded(1, 2)], ("trees 0 to 1", "seed 1")),
        (lambda: [seeded(0), seeded(1, max_depth=3)], ("max_depth=None", "max_depth=3")),
        (lambda: [seeded(0), FORESTS["urerf"](1)], ("smerf", "urerf")),
        (lambda: [seeded(0), seeded(1, rows=X + 1)], ("data_sha256",)),
        (lambda: [seeded(0), seeded(1, truth=Y[::-1])], ("data_sha256",)),
        (lambda: [seeded(0), seeded(1, rows=X[:, :3])], ("'n_columns': 4", "'n_columns': 3")),
        (lambda: [seeded(0), weighted(1, EVEN)], ("sample weights",)),
        (lambda: [weighted(0, EVEN), weighted(1, EVEN + 1)], ("other sample weights",)),
        (lambda: [seeded(0), seeded(1, truth=Y + 1)], ("classes", [0, 1, 2], [1, 2, 3])),
    ],
)
def test_forests_of_other_trees_are_refused(forests: Any, named: tuple[object, ...]) -> None:
    with pytest.raises(InputError, match=naming(*named)):
        merge(forests())


def test_what_nothing_tells_is_refused() -> None:
    lazy = Lazy(pairwise(lambda a, b: float(np.abs(a - b).sum())), kind="distance")
    asked = [SimForestClassifier(lazy, n_estimators=3, random_state=seed).fit(X, Y) for seed in (0, 1)]
    with pytest.raises(InputError, match="nothing"):
        merge(asked)
    with pytest.raises(InputError, match=naming("y:", 50, 9)):
        merge([seeded(0), seeded(1)], Y[:9])
    with pytest.raises(InputError, match=naming("y:", 50, 9)):
        merge([FORESTS["simforest"](0), FORESTS["simforest"](1)], Y[:9])
    with pytest.raises(InputError, match=naming("y:", 50, 60)):
        merge([seeded(0), seeded(1)], Labels(np.arange(60) % 3))
    absolute, cosine = Targets(X[:, 0], metric="absolute"), Embedding(X, metric="cosine")
    with pytest.raises(InputError, match=naming("y:", "something else")):
        merge([seeded(0, 20, absolute), seeded(1, 20, absolute)], X[:, 1])
    with pytest.raises(InputError, match=naming("y:", "directions", 50, "embedding")):
        merge([seeded(0, 20, cosine), seeded(1, 20, cosine)], Embedding(X))
    both = merge([seeded(0, 60, absolute), seeded(1, 60, absolute)], X[:, 0])
    assert both.oob_rmse_ == merge([seeded(0, 60, absolute), seeded(1, 60, absolute)], absolute).oob_rmse_
    with pytest.raises(InputError, match=naming("y:", "RFD")):
        merge([FORESTS["rfd"](0), FORESTS["rfd"](1)], Y)
    weighted = [seeded(seed, feature_weights=weights) for seed, weights in ((0, [1, 1, 1, 2]), (1, [1, 1, 1, 3]))]
    with pytest.raises(InputError, match="data_sha256"):
        merge(weighted)
    grown = merge([seeded(0), seeded(1)]).set_params(warm_start=True, n_estimators=9)
    with pytest.raises(InputError, match=naming("warm_start=True", "same data")):
        grown.fit(X, Y)


@pytest.mark.parametrize("seeds", [(0, 1), (1, 0)])
def test_names_of_one_of_the_forests_are_kept_whatever_the_seeds(seeds: tuple[int, int]) -> None:
    frame = pd.DataFrame(X, columns=[f"column {place}" for place in range(X.shape[1])])
    found = merge([seeded(seeds[0], rows=frame), seeded(seeds[1])])
    assert list(found.feature_names_in_) == list(frame.columns)
    assert found.digest_ == merge([seeded(0), seeded(1)]).digest_
    with pytest.raises(ValueError, match="same order"):
        found.distance(frame.iloc[:, ::-1])


def test_columns_of_other_names_or_categories_are_refused() -> None:
    frame = pd.DataFrame({"a": X[:, 0], "b": np.where(X[:, 1] > 3, "wide", "narrow")})
    one, named = seeded(0, rows=frame), seeded(1, rows=frame.rename(columns={"a": "c"}))
    with pytest.raises(InputError, match=naming("column 'a'", "'c'")):
        merge([one, named])
    with pytest.raises(InputError, match="categories"):
        merge([one, seeded(1, rows=frame.assign(b=frame["b"].replace("wide", "woad")))])
    assert merge([one, seeded(1, rows=frame)]).forest_.n_trees == 8


def test_the_output_of_a_merge_is_checked_before_forests_are_read(tmp_path: Path) -> None:
    (tmp_path / "mine.zarr").mkdir()
    for output, named in (
        (tmp_path / "mine.zarr", ("exists",)),
        (tmp_path / "no" / "out.zarr", ("folder",)),
        (tmp_path / "out.csv", (".zip", ".zarr")),
        (tmp_path / "out.onnx", (".zip", ".zarr")),
        (tmp_path / "nothing.zarr" / "out.zarr", ("output:", f"'{tmp_path / 'nothing.zarr'}'")),
    ):
        done = CliRunner().invoke(main, ["merge", str(tmp_path / "nothing.zarr"), "other.zarr", str(output)])
        assert done.exit_code != 0
        assert re.search(naming(output, *named), " ".join(done.output.split()))
    assert not (tmp_path / "no").exists()
    assert list((tmp_path / "mine.zarr").iterdir()) == []


@pytest.mark.slow
def test_a_merge_that_is_interrupted_can_be_repeated(tmp_path: Path) -> None:
    names = [str(tmp_path / f"{seed}.zarr") for seed in (0, 1)]
    for seed, name in enumerate(names):
        seeded(seed).save(name)
    command = ["merge", *names, str(tmp_path / "both.zarr")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(artifact, "write_rows", lambda *_: os.kill(os.getpid(), signal.SIGINT))
        stopped = CliRunner().invoke(main, command)
    assert stopped.exit_code == 130, stopped.output
    assert sorted(own.name for own in tmp_path.iterdir()) == ["0.zarr", "1.zarr"]
    assert CliRunner().invoke(main, command).exit_code == 0
    assert load(tmp_path / "both.zarr").digest_ == merge([seeded(0), seeded(1)]).digest_


@pytest.mark.slow
def test_forests_of_jobs_merge_by_their_inputs(tmp_path: Path) -> None:
    at = write_arrays(f"{tmp_path}/data.zarr", {"X": X, "y": Y, "other": Y[::-1].copy()})

    def job(name: str, seed: int, labels: str = "y") -> str:
        inputs = {"features": at["X"], "distances": {"kind": "labels", "values": at[labels]}}
        return run_job(spec_of(tmp_path, "smerf", inputs, name, seed, n_estimators=4)).address

    names = [job("zero", 0), job("one", 1), job("two", 2, "other")]
    assert merge(names[:2]).digest_ == merge([seeded(0), seeded(1)]).digest_
    with pytest.raises(InputError, match=naming("labels", "sha256")):
        merge([names[0], names[2]])
    with pytest.raises(InputError, match="nothing"):
        merge([names[0], seeded(1)])
    with pytest.raises(ArtifactError):
        merge([names[0], str(tmp_path / "nothing.zarr")])


def test_rows_that_join_are_neighbours_without_growth() -> None:
    forest = seeded(0, 20, CITY)
    near, own = forest.kneighbors(X[:5], 4, added=X[40:45] + 0.1)
    distances = forest.distance(X[:5], np.concatenate([X, X[40:45] + 0.1]))
    order = np.lexsort((np.broadcast_to(np.arange(55), distances.shape), distances))[:, :4]
    np.testing.assert_array_equal(own, order)
    np.testing.assert_array_equal(near, np.take_along_axis(distances, order, axis=1))
    twin = forest.kneighbors(X[7:8], 55, return_distance=False, added=X[7:12])
    assert sorted(twin[0].tolist()) == list(range(55))
    mine = forest.kneighbors(n_neighbors=54, return_distance=False, added=X[7:12])
    assert all(row not in found for row, found in enumerate(mine.tolist()))
    shared = URerF(8, feature_weights=None, min_samples_split=10, random_state=0).fit(X)
    assert (shared.kneighbors(X[:3], 1, added=X[:3], return_distance=False)[:, 0] >= 0).all()
