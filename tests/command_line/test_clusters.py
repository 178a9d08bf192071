"""The command that writes the clusters of training rows as a table."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.cluster import AgglomerativeClustering
from sklearn.datasets import load_iris
from sklearn.metrics import adjusted_rand_score

from distforest import RFD, SMERF, principal_coordinates
from distforest.pictures import closeness
from distforest.sources.files.ingest import ingest
from tests.service.command_line import run, run_json

X, Y = load_iris(return_X_y=True)
X, Y = X[::2], Y[::2]
NAMES = [f"p{k}" for k in range(len(X))]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("kind", [SMERF, RFD])
def test_clusters_and_places_are_those_of_the_distances(kind: type[SMERF | RFD], home: Path) -> None:
    forest = kind(10, random_state=0).fit(X, Y)
    forest.save(home / "forest.zarr")
    asked = ("clusters", "forest.zarr", "found.csv", "--n-clusters", 3)
    code, answer = run_json(*asked, "--coordinates", 2)
    table = pd.read_csv("found.csv")
    assert (code, answer["digest"], sum(answer["sizes"])) == (0, forest.digest_, len(X))
    assert [*table] == ["row", "cluster", "coordinate_1", "coordinate_2"]
    assert table["row"].tolist() == list(range(len(X)))
    distance = forest.distance()
    other = AgglomerativeClustering(3, metric="precomputed", linkage="average").fit_predict(distance)
    assert adjusted_rand_score(table["cluster"], other) == 1.0
    places = table[["coordinate_1", "coordinate_2"]].to_numpy()
    np.testing.assert_allclose(places, principal_coordinates(distance, 2), atol=1e-9)
    spans = (places**2).sum(axis=0)
    assert answer["variance_shares"] == pytest.approx(spans / spans[0] * answer["variance_shares"][0])


def test_rows_have_the_names_of_the_training(home: Path) -> None:
    pd.DataFrame(X).assign(name=NAMES).to_csv("iris.csv", index=False)
    ingest("iris.csv", "iris.zarr", id="name")
    ingest("iris.csv", "turned.zarr", id="name", drop=["0"])
    SMERF(5, random_state=0).fit("iris.zarr/X", Y).save(home / "forest.zarr")
    asked = ("clusters", "forest.zarr", "found.parquet", "--n-clusters", 2, "--training-ids")
    assert run(*asked, "turned.zarr")[0] != 0
    assert not (home / "found.parquet").exists()
    code, out, _ = run(*asked, "iris.zarr")
    assert (code, "coordinates" in out) == (0, False)
    table = pd.read_parquet("found.parquet")
    assert ([*table], table["id"].tolist()) == (["id", "cluster"], NAMES)


def test_what_cannot_be_clustered_is_refused(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    SMERF(2, random_state=0).fit(X, Y).save(home / "forest.zarr")
    refused = {
        "found.zarr": ("csv", "found.zarr"),
        "found.csv": (len(X), "n_clusters"),
    }
    for output, named in refused.items():
        code, _, err = run("clusters", "forest.zarr", output, "--n-clusters", len(X) + 1)
        assert (code, all(str(name).replace("n_clusters", "--n-clusters") in err for name in named)) == (2, True)
    (home / "there.csv").write_text("mine")
    assert "--overwrite" in run("clusters", "forest.zarr", "there.csv", "--n-clusters", 2)[2]
    assert (home / "there.csv").read_text() == "mine"
    assert run("clusters", "forest.zarr", "there.csv", "--n-clusters", 2, "--overwrite")[0] == 0
    monkeypatch.setattr(closeness, "MOST_CLUSTERED_ALL", len(X) - 1)
    code, _, err = run("clusters", "forest.zarr", "found.csv", "--n-clusters", 2)
    assert (code, str(len(X) - 1) in err, str(len(X)) in err, "kneighbors_graph" in err) == (2, True, True, True)
    assert not (home / "found.csv").exists()
