"""Rows of several inputs are paired by their places: names beside them in another order are told."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import zarr

from distforest import RFD, SMERF, Distances, Embedding, Labels, ObservedDistances, SimForestClassifier, Targets
from distforest.errors import DistforestWarning
from distforest.jobs.input_staging import stage_inputs
from distforest.jobs.spec import Spec
from distforest.sources.files.ids import warning_about_named_order, warning_about_pair_order, warning_about_square_order
from distforest.sources.files.ingest import ingest
from tests.messages import naming

N = 40
RNG = np.random.default_rng(0)
VALUES = RNG.normal(size=(N, 3))
TURNED = RNG.permutation(N)
TEXTS, NUMBERS = [f"plant {k}" for k in range(N)], list(range(1000, 1000 + N))


def table(names: Sequence[Any]) -> pd.DataFrame:
    known = {"kind": np.where(VALUES[:, 0] > 0, "fern", "moss"), "weight": np.arange(N) + 1}
    return pd.DataFrame({"name": names, **{f"x{k}": VALUES[:, k] for k in range(3)}, **known})


def ingested(name: str, frame: pd.DataFrame, id: str | None = "name") -> str:  # noqa: A002 - as in `ingest`
    frame.to_csv(f"{name}.csv", index=False)
    ingest(f"{name}.csv", f"{name}.zarr", id=id, label="kind", weight="weight", header=True)
    return f"{name}.zarr"


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("names", [TEXTS, NUMBERS], ids=["texts", "numbers"])
def test_the_same_names_in_another_order_are_reported(names: Sequence[Any]) -> None:
    one, other = (ingested(name, rows) for name, rows in (("a", table(names)), ("b", table(names).iloc[TURNED])))
    place = int(np.argmax(np.arange(N) != TURNED))
    told = warning_about_named_order([f"{one}/X", f"{one}/y", f"{other}/weights"])
    row = rf"row {place} .*a\.zarr/X .*'{names[place]}' .*b\.zarr/weights .*'{names[TURNED[place]]}'"
    assert re.match(row, told)


@pytest.mark.slow
def test_names_that_do_not_contradict_are_no_matter() -> None:
    one = ingested("a", table(TEXTS))
    others = {
        "same": table(TEXTS),
        "fewer": table(TEXTS).iloc[:-1],
        "of others": table([f"tree {k}" for k in range(N)]),
        "numbers": table(NUMBERS),
        "some": table([*TEXTS[:-1], "tree"]).iloc[TURNED],
    }
    for name, rows in others.items():
        other = ingested(name, rows)
        assert warning_about_named_order([f"{one}/X", f"{other}/y"]) == "", name
    without = ingested("without", table(TEXTS).drop(columns="name").iloc[TURNED], id=None)
    assert warning_about_named_order([f"{one}/X", f"{without}/y", "nothing.zarr/y", "a.zarr/ids"]) == ""


def job(features: str, truth: str, kind: str = "labels", weights: str | None = None) -> Spec:
    distances = {"kind": kind, "matrix" if kind == "dense" else "values": truth}
    inputs: dict[str, Any] = {"features": features, "distances": distances}
    own = {} if weights is None else {"sample_weight": weights}
    known = {"format": 1, "method": "smerf", "output": "forest.zarr", "params": {"n_estimators": 2}}
    return Spec.from_dict({**known, "input": inputs | own, "run": {"scratch": str(Path("scratch").absolute())}})


def warnings_in(work: Callable[[], object]) -> list[str]:
    """What is said of addresses."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        work()
    return [str(one.message) for one in found if ".zarr" in str(one.message)]


def warnings_of(spec: Spec) -> list[str]:
    return warnings_in(lambda: stage_inputs(spec, str(Path("job").absolute())))


def test_a_job_tells_of_labels_and_weights_in_another_order() -> None:
    one, other = ingested("a", table(TEXTS)), ingested("b", table(TEXTS).iloc[TURNED])
    assert warnings_of(job(f"{one}/X", f"{one}/y", weights=f"{one}/weights")) == []
    assert len(warnings_of(job(f"{one}/X", f"{other}/y"))) == 1
    [told] = warnings_of(job(f"{one}/X", f"{one}/y", weights=f"{other}/weights"))
    assert "b.zarr/weights" in told


@pytest.mark.slow
def test_columns_of_distances_in_another_order_than_their_rows_are_reported() -> None:
    distances = pd.DataFrame(np.abs(VALUES[:, None, 0] - VALUES[:, 0]), index=TEXTS, columns=TEXTS)
    others = distances.set_axis([f"d{k}" for k in range(N)], axis=1)
    told = {}
    for name, frame in (("ordered", distances), ("turned", distances.iloc[:, TURNED]), ("others", others)):
        frame.to_csv(f"{name}.csv", index_label="name")
        ingest(f"{name}.csv", f"{name}.zarr", id="name")
        told[name] = warning_about_square_order(f"{name}.zarr/X")
    place = int(np.argmax(np.arange(N) != TURNED))
    assert (told["ordered"], told["others"]) == ("", "")
    row, column = f"row {place} .*{TEXTS[place]!r}", f"column {place} .*{TEXTS[TURNED[place]]!r}"
    assert re.match(rf"{row} .*{column}", told["turned"])
    assert "turned.zarr/X" in told["turned"]
    features = ingested("a", table(TEXTS))
    assert warnings_of(job(f"{features}/X", "turned.zarr/X", "dense")) == [f"DF005 {told['turned']}"]
    smerf, simforest = SMERF(n_estimators=2), SimForestClassifier(n_estimators=2, kind="distance")
    for given in ("turned.zarr/X", Distances("turned.zarr/X")):
        assert warnings_in(partial(smerf.fit, f"{features}/X", given)) == [f"DF005 {told['turned']}"]
    assert warnings_in(partial(simforest.fit, "turned.zarr/X", np.arange(N) % 2)) == [f"DF005 {told['turned']}"]


def test_a_fit_to_addresses_tells_it_too() -> None:
    one, other = ingested("a", table(TEXTS)), ingested("b", table(TEXTS).iloc[TURNED])
    few = {"n_estimators": 2, "random_state": 0}
    with pytest.warns(DistforestWarning, match=naming("a.zarr/X", "b.zarr/y")):
        SMERF(**few).fit(f"{one}/X", f"{other}/y")
    with pytest.warns(DistforestWarning, match=naming("a.zarr/X", "b.zarr/weights")):
        RFD(**few).fit(f"{one}/X", np.arange(N) % 2, f"{other}/weights")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SMERF(**few).fit(f"{one}/X", f"{one}/y", f"{one}/weights")


def test_a_fit_tells_it_of_opened_arrays_and_of_named_truths() -> None:
    one, other = ingested("a", table(TEXTS)), ingested("b", table(TEXTS).iloc[TURNED])
    for truth in (Labels(f"{other}/y"), zarr.open_array(f"{other}/y"), Labels(zarr.open_array(f"{other}/y"))):
        with pytest.warns(DistforestWarning, match=naming("a.zarr/X", "b.zarr/y")):
            SMERF(n_estimators=2).fit(zarr.open_array(f"{one}/X"), truth)
    for truth in (Targets(f"{other}/weights"), Embedding(f"{other}/X")):
        with pytest.warns(DistforestWarning, match=naming("a.zarr/X", truth.address)):
            SMERF(n_estimators=2).fit(f"{one}/X", truth)
    assert Labels(f"{other}/y")[1:].address is None


@pytest.mark.parametrize("names", [TEXTS, NUMBERS], ids=["texts", "numbers"])
def test_pairs_that_number_the_rows_of_a_table_in_another_order_are_reported(names: Sequence[Any]) -> None:
    one, other = (ingested(name, rows) for name, rows in (("a", table(names)), ("b", table(names).iloc[TURNED])))
    fewer = ingested("c", table(names).iloc[:-1])
    i, j = np.triu_indices(N, 1)
    apart = np.abs(VALUES[i, 0] - VALUES[j, 0])
    frame = pd.DataFrame({"i": np.array(names)[i], "j": np.array(names)[j], "apart": apart, "alike": apart < 1})
    frame.to_csv("pairs.csv", index=False)
    ingest("pairs.csv", "links.zarr", pairs=["i", "j"], rows=one, label="alike", drop=["apart"])
    ingest("pairs.csv", "apart.zarr", pairs=["i", "j"], rows=one, value="apart", drop=["alike"])
    links, few = ("links.zarr/pairs", "links.zarr/y"), {"n_estimators": 2, "random_state": 0}
    observed = {"kind": "observed", "matrix": "apart.zarr"}
    in_jobs = {"rfd": dict(zip(("pairs", "similar"), links, strict=True)), "smerf": {"distances": observed}}
    for features, is_warned in ((one, False), (other, True)):
        X = f"{features}/X"
        works: dict[str, list[Callable[[], object]]] = {
            "links.zarr/pairs": [partial(RFD(**few).fit_pairs, X, *links)],
            "apart.zarr": [partial(SMERF(**few).fit, X, ObservedDistances("apart.zarr"))],
        }
        for own, (method, given) in zip(works.values(), in_jobs.items(), strict=True):
            spec = {"format": 1, "method": method, "output": "f.zarr", "input": {"features": X, **given}}
            own.append(partial(stage_inputs, Spec.from_dict(spec), "job"))
        for address, each in works.items():
            for work in each:
                found = [one for one in warnings_in(work) if one.startswith("DF005")]
                assert len(found) == is_warned
                assert all(address in one and X in one for one in found)
    assert warning_about_pair_order("links.zarr/pairs", f"{fewer}/X") == ""


def test_what_a_table_calls_address_is_no_address() -> None:
    targets = pd.Series(VALUES[:, 0], ["address", *TEXTS[1:]])
    pairs = pd.DataFrame({"address": range(4), "other": range(4, 8)})
    assert warnings_in(partial(SMERF(n_estimators=2).fit, VALUES, targets)) == []
    assert warnings_in(partial(RFD(n_estimators=2).fit_pairs, VALUES, pairs, [0, 1, 0, 1])) == []
