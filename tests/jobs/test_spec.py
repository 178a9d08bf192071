"""A job spec is read whole or refused with all its faults."""

from __future__ import annotations

import json
import pickle
import re
from datetime import date
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from distforest.errors import InputError, SpecError
from distforest.growth.parameters import SIMFOREST_PARAMETERS, SMERF_PARAMETERS
from distforest.jobs.reader import SPEC_BYTES
from distforest.jobs.spec import Input, Relation, Spec
from distforest.jobs.spec_models import Run
from tests.messages import naming

if TYPE_CHECKING:
    from pathlib import Path

GRAPH: dict[str, Any] = {"absent": 1.0, "diagonal": None, "directed": None}
LAZEGA = """\
format = 1
method = "smerf"
seed = 7
output = "lazega.forest.zarr"
[input]
features = "lazega.zarr/X"
distances = { kind = "graph", adjacency = "lazega.zarr/A" }
[params]
n_estimators = 500
min_samples_split = 4
[run]
workers = 2
memory_limit = "4GiB"
"""
SMERF: dict[str, Any] = {
    "format": 1,
    "method": "smerf",
    "output": "f.zarr",
    "input": {"features": "d.zarr/X", "distances": "d.zarr/Z"},
}
SIMFOREST: dict[str, Any] = {
    "format": 1,
    "method": "simforest",
    "output": "f.zarr",
    "input": {"similarity": "d.zarr/S", "labels": "d.zarr/y"},
}


def refusal(table: object) -> tuple[str, ...]:
    with pytest.raises(SpecError) as error:
        Spec.from_dict(table)  # type: ignore[arg-type]
    return error.value.faults


def toml_refusal(text: str | Path) -> tuple[str, ...]:
    with pytest.raises(SpecError) as error:
        Spec.from_toml(text)
    return error.value.faults


def with_input(base: dict[str, Any], **changes: object) -> dict[str, Any]:
    return {**base, "input": {**base["input"], **changes}}


# --- what is read -----------------------------------------------------------------------------------------


def test_the_example_of_the_design() -> None:
    spec = Spec.from_toml(LAZEGA)
    assert (spec.method, spec.seed, spec.output) == ("smerf", 7, "lazega.forest.zarr")
    assert spec.input == Input({"features": "lazega.zarr/X"}, {"distances": Relation("graph", "lazega.zarr/A", GRAPH)})
    given = {"n_estimators": 500, "min_samples_split": 4}
    assert spec.params == {row.name: given.get(row.name, row.default) for row in SMERF_PARAMETERS}
    assert spec.run == Run(workers=2, memory_limit=4 * 2**30)


def test_a_spec_that_says_the_least_has_the_defaults() -> None:
    spec = Spec.from_dict(SIMFOREST)
    assert spec.seed == 0
    assert spec.params == {row.name: row.default for row in SIMFOREST_PARAMETERS}
    assert spec.to_dict()["run"] == {
        "workers": None,
        "threads_per_worker": 1,
        "memory_limit": None,
        "scheduler": None,
        "batch": None,
        "parts": None,
        "scratch": None,
        "scratch_limit": None,
        "retries": 3,
        "overwrite": False,
        "keep_shards": False,
        "grow_on": False,
        "strict": False,
        "max_bytes": None,
        "priority": 0,
        "resources": None,
        "queue": None,
    }


@pytest.mark.parametrize(
    ("base", "name", "value", "expected"),
    [
        (SMERF, "distances", {"kind": "dense", "matrix": "Z"}, Relation("dense", "Z")),
        (SMERF, "distances", {"kind": "labels", "values": "y"}, Relation("labels", "y", {"costs": None})),
        (SMERF, "distances", {"kind": "targets", "values": "y"}, Relation("targets", "y", {"metric": "squared"})),
        (
            *(SMERF, "distances", {"kind": "embedding", "values": "Y"}),
            Relation("embedding", "Y", {"metric": "sqeuclidean"}),
        ),
        (SMERF, "distances", {"kind": "graph", "adjacency": "A"}, Relation("graph", "A", GRAPH)),
        (SIMFOREST, "similarity", "S", Relation("dense", "S", {"measure": "similarity"})),
        (
            SIMFOREST,
            "similarity",
            {"kind": "dense", "matrix": "D", "measure": "distance"},
            Relation("dense", "D", {"measure": "distance"}),
        ),
        (SIMFOREST, "similarity", {"kind": "linear", "features": "X"}, Relation("linear", "X")),
        (
            SIMFOREST,
            "similarity",
            {"kind": "rbf", "features": "X", "gamma": 2},
            Relation("rbf", "X", {"gamma": 2.0}),
        ),
    ],
)
def test_each_kind(base: dict[str, Any], name: str, value: object, expected: Relation) -> None:
    spec = Spec.from_dict(with_input(base, **{name: value}))
    assert spec.input.relations == {name: expected}
    assert Spec.from_dict(spec.to_dict()) == spec


@pytest.mark.parametrize(
    ("given", "expected"),
    [("4GiB", 4 * 2**30), ("500 MB", 500_000_000), ("1.5kB", 1500), (1, 1), ("2e3", 2000)],
)
def test_a_memory_limit_is_bytes(given: object, expected: int) -> None:
    assert Spec.from_dict({**SMERF, "run": {"memory_limit": given}}).run.memory_limit == expected


def test_a_spec_is_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "job.toml"
    file.write_bytes(b"\xef\xbb\xbf" + LAZEGA.replace("\n", "\r\n").encode())
    assert Spec.from_toml(file) == Spec.from_toml(LAZEGA)


def test_canonical_json_does_not_depend_on_the_order_of_keys() -> None:
    spec = Spec.from_toml(LAZEGA)
    turned = {
        name: dict(reversed(value.items())) if isinstance(value, dict) else value
        for name, value in reversed(spec.to_dict().items())
    }
    assert Spec.from_dict(turned).to_json() == spec.to_json()
    assert json.loads(spec.to_json()) == spec.to_dict()


def test_numbers_of_numpy_become_plain() -> None:
    params = {"n_estimators": np.int64(9), "max_features": np.float32(0.5)}
    spec = Spec.from_dict({**SMERF, "params": params, "run": {"workers": np.int32(2)}})
    assert Spec.from_json(spec.to_json()) == spec
    assert (spec.params["n_estimators"], spec.params["max_features"], spec.run.workers) == (9, 0.5, 2)


def test_a_spec_can_be_sent_to_a_worker() -> None:
    spec = Spec.from_toml(LAZEGA)
    assert pickle.loads(pickle.dumps(spec)) == spec


def test_an_output_may_lie_beside_inputs_whose_names_begin_like_it() -> None:
    spec = Spec.from_dict({**with_input(SMERF, features="f.zarr.old/X", distances="f.zarrs"), "output": "f.zarr"})
    assert spec.input.addresses["features"] == "f.zarr.old/X"


# --- what is refused --------------------------------------------------------------------------------------

METHODS = ("'smerf'", "'simforest'", "'urerf'", "'rfd'", "'treerank'")
KINDS = ("'dense'", "'labels'", "'targets'", "'embedding'", "'graph'", "'observed'", "'lazy'")
OF_SMERF = "'features', 'feature_weights', 'sample_weight', 'distances'"


def check_faults(faults: tuple[str, ...], *expected: tuple[object, ...]) -> None:
    """Each fault begins with its place, in the order of the file, and names what is wrong there."""
    assert [fault.split(": ")[0] for fault in faults] == [place for place, *_ in expected]
    for fault, (_, *named) in zip(faults, expected, strict=True):
        assert re.search(naming(*named), fault.partition(": ")[2])


@pytest.mark.parametrize(
    ("table", "named"),
    [
        ({**SMERF, "format": "1"}, ("format", "'1'")),
        ({**SMERF, "format": 2}, ("format", "format 2", "format 1")),
        ({**SMERF, "method": "smref"}, ("method", *METHODS, "'smref'")),
        ({**SMERF, "method": ["smerf"]}, ("method", *METHODS, ["smerf"])),
        ({**SMERF, "seed": -1}, ("seed", -1)),
        ({**SMERF, "seed": True}, ("seed", True)),
        ({**SMERF, "seed": 1.0}, ("seed", 1.0)),
        ({**SMERF, "output": "forest"}, ("output", ".zarr", "'forest'")),
        ({**SMERF, "output": "./d.zarr"}, ("output", "'./d.zarr'", "'d.zarr/X', 'd.zarr/Z'")),
        (
            {**with_input(SMERF, features="a/../d.zarr/"), "output": "d.zarr"},
            ("output", "'d.zarr'", "'a/../d.zarr/', 'd.zarr/Z'"),
        ),
        ({**SMERF, "outputs": "f.zarr"}, ("outputs", "'output'")),
        ({**SMERF, "run": {"zz": 1}}, ("run.zz", "'workers', 'threads_per_worker', ")),
        ({**SMERF, 7: 1}, ("7", "'format', 'method', 'seed', 'output', 'input', ")),
        ({**SMERF, "input": "X"}, ("input", OF_SMERF, "'X'")),
        ({**SMERF, "params": 3}, ("params", 3)),
        ({**SMERF, "run": []}, ("run", "'workers', ", [])),
        (with_input(SMERF, features=""), ("input.features", "''")),
        (with_input(SMERF, features="a\x00b"), ("input.features", r"'a\x00b'")),
        (with_input(SMERF, features="\ud800"), ("input.features", r"'\ud800'")),
        (with_input(SMERF, features=["X"]), ("input.features", ["X"])),
        (with_input(SMERF, feature="X"), ("input.feature", "'features'")),
        (with_input(SMERF, labels="y"), ("input.labels", OF_SMERF)),
        (with_input(SMERF, distances=""), ("input.distances.matrix", "''")),
        (with_input(SMERF, distances=4), ("input.distances", *KINDS, 4)),
        (with_input(SMERF, distances={}), ("input.distances.kind", *KINDS)),
        (
            with_input(SMERF, distances={"kind": "label", "values": "y"}),
            ("input.distances.kind", *KINDS, "'label'"),
        ),
        (
            with_input(SMERF, distances={"kind": "lazy", "function": "m:f", "budget": -9}),
            ("input.distances.budget", -9),
        ),
        (with_input(SIMFOREST, similarity={"kind": "lazy"}), ("input.similarity.function", "'module:function'")),
        (
            with_input(SIMFOREST, similarity={"kind": "lazy", "function": "m:f", "share": "some"}),
            ("input.similarity.share", "'all'", "'worker'", "'some'"),
        ),
        (with_input(SMERF, distances={"kind": "graph"}), ("input.distances.adjacency", "missing")),
        (
            with_input(SMERF, distances={"kind": "dense", "matrix": "Z", "matrices": 1}),
            ("input.distances.matrices", "'matrix'"),
        ),
        (
            with_input(SIMFOREST, similarity={"kind": "dense", "matrix": "S", "measure": "score"}),
            ("input.similarity.measure", "'similarity'", "'distance'", "'score'"),
        ),
        *(
            (
                with_input(SIMFOREST, similarity={"kind": "rbf", "features": "X", "gamma": gamma}),
                ("input.similarity.gamma", repr(gamma)),
            )
            for gamma in (0, float("nan"), True, "1")
        ),
        (with_input(SIMFOREST, targets="t"), ("input", "'labels', 'targets'", "'labels' and 'targets'")),
        ({**SIMFOREST, "input": {"similarity": "S"}}, ("input", "'labels', 'targets'", "none")),
        ({**SMERF, "params": {"max_dept": 3}}, ("params.max_dept", "'max_depth'")),
        ({**SMERF, "params": {"random_state": 0}}, ("params.random_state", "'random_state'")),
        ({**SMERF, "params": {"n_pairs": 3}}, ("params.n_pairs", "'n_pairs'")),
        ({**SMERF, "params": {"n_estimators": True}}, ("params.n_estimators", "[1, 1000000]", True)),
        ({**SMERF, "params": {"bootstrap": date(2020, 1, 2)}}, ("params.bootstrap", "datetime.date(2020, 1, 2)")),
        ({**SMERF, "params": {3: 1}}, ("params.3", 3)),
        ({**SMERF, "params": {"max_depth": 2**70}}, ("params.max_depth", ">= 1", "'none'", "71 bits")),
        ({**SMERF, "run": {"workers": 0}}, ("run.workers", " 0")),
        ({**SMERF, "run": {"threads_per_worker": None}}, ("run.threads_per_worker", None)),
        ({**SMERF, "run": {"batch": "all"}}, ("run.batch", "'all'")),
        ({**SMERF, "run": {"overwrite": 1}}, ("run.overwrite", 1)),
        ({**SMERF, "run": {"scheduler": 8786}}, ("run.scheduler", "'tcp://", " 8786")),
        *(
            ({**SMERF, "run": {"memory_limit": size}}, ("run.memory_limit", "'4GiB'", f" {size!r}"))
            for size in ("", "GiB", "4 giraffes", "1e999", 0, True)
        ),
    ],
)
def test_one_fault_is_reported_and_only_that_one(table: dict[str, Any], named: tuple[object, ...]) -> None:
    check_faults(refusal(table), named)


@pytest.mark.parametrize("table", [None, 3, "smerf", [SMERF]])
def test_a_spec_is_a_table(table: object) -> None:
    check_faults(refusal(table), ("spec", "'format', 'method', "))


def test_all_that_is_missing_is_reported_at_once() -> None:
    where = [fault.split(":")[0] for fault in refusal({})]
    assert where == ["format", "method", "output", "input"]
    where = [fault.split(":")[0] for fault in refusal({**SMERF, "input": {}})]
    assert where == ["input.features", "input.distances"]


def test_an_unknown_method_does_not_hide_the_rest() -> None:
    where = [fault.split(":")[0] for fault in refusal({"format": 1, "method": "x", "params": 1, "run": 2})]
    assert where == ["method", "output", "input", "params", "run"]
    wrong = {"input": {"feature": "a"}, "params": {"n_estimator": 3, "max_depth": 2}, "run": {}, "output": "f.zarr"}
    for method in ("SMURF", ["smerf"]):
        where = [fault.split(":")[0] for fault in refusal({"format": 1, "method": method, **wrong})]
        assert sorted(where) == ["input.feature", "method", "params.n_estimator"]


def test_all_faults_are_reported_at_once_in_the_order_of_the_file() -> None:
    text = """\
format = 1
method = 'smerf'
"outputs" = "f.zarr"
run.workers = true

[params]
max_dept = 3   # a comment
"min_samples_leaf" = 0
max_samples = [
  1,
]

[input]
note = '''
distances = 5
'''
distances = { kind = "labels", values = "" }
"""
    check_faults(
        toml_refusal(text),
        ("output", ".zarr"),
        ("outputs (line 3)", "'output'"),
        ("run.workers (line 4)", True),
        ("params.max_dept (line 7)", "'max_depth'"),
        ("params.min_samples_leaf (line 8)", ">= 1", " 0"),
        ("params.max_samples (line 9)", ">= 1", "(0, 1]", "'none'", [1]),
        ("input.features (line 13)", "missing"),
        ("input.note (line 14)", OF_SMERF),
        ("input.distances.values (line 17)", "''"),
    )


def test_a_home_folder_is_not_taken_for_a_folder_of_that_name() -> None:
    text = """format = 1
method = "smerf"
output = "~/a.zarr"
[input]
features = "~/a.zarr/X"
distances = "b.zarr/Z"
"""
    check_faults(
        toml_refusal(text),
        ("output (line 3)", "'~/a.zarr'", "shell"),
        ("input.features (line 5)", "'~/a.zarr/X'", "shell"),
    )


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("format = 1\nmethod smerf\n", ("spec (line 2)", "TOML", "'='")),
        ("format = 1\nformat = 1\n", ("spec (line 2)", "TOML", "column 11")),
        ("format = 1\n[params]\nmax_depth = None\n", ("spec (line 3)", "TOML", "None")),
        ("format = 1\n\nmethod = 'sme", ("spec (line 3)", "TOML", "end of document")),
        ("format = 1\nx = " + "[" * 100_000, ("spec", "TOML", "recursion")),
        ("one two three four five six seven eight nine", ("spec (line 1)", "TOML", "'='")),
        ("#" * (SPEC_BYTES + 1), ("spec", SPEC_BYTES)),
        ("#" + "é" * (SPEC_BYTES // 2), ("spec", SPEC_BYTES)),
        ("# a\n# \ud800", ("spec (line 2)", "UTF-8", "0xed")),
        ("format = 9\nmethod = 3", ("format (line 1)", "format 9", "format 1")),
    ],
)
def test_a_text_that_cannot_be_read(text: str, named: tuple[object, ...]) -> None:
    check_faults(toml_refusal(text), named)


@pytest.mark.parametrize("digits", ["0x" + "f" * 5000, "9" * 5000])
def test_an_endless_integer_is_refused(digits: str) -> None:
    assert len(toml_refusal(f"{LAZEGA}retries = {digits}\n")) == 1
    assert len(toml_refusal(LAZEGA.replace("= 500", f"= {digits}"))) == 1
    assert len(toml_refusal(LAZEGA.replace("= 500", f"= [{digits}]"))) == 1
    assert len(toml_refusal(LAZEGA.replace("format = 1", f"format = {digits}"))) == 1


def test_a_crowd_of_unknown_keys_is_one_fault() -> None:
    crowd = {f"max_depth_{i}": 1 for i in range(101)}
    check_faults(refusal({**SMERF, "params": crowd}), ("params", "101 keys"))
    check_faults(refusal({**SMERF, "run": crowd}), ("run", "101 keys"))


def test_a_fault_is_never_long() -> None:
    long = "x" * 100_000
    for table in (
        {**SMERF, long: 1},
        {**SMERF, "params": {"max_features": long}},
        {**SMERF, "run": {long: 1}},
    ):
        (fault,) = refusal(table)
        assert len(fault) < 700


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    check_faults(toml_refusal(tmp_path / "absent.toml"), ("spec", tmp_path / "absent.toml", "Errno 2"))
    big = tmp_path / "big.toml"
    big.write_bytes(b"#" * (SPEC_BYTES + 1))
    check_faults(toml_refusal(big), ("spec", SPEC_BYTES))


@pytest.mark.parametrize(
    "text", ["", "{", "[" * 100_000, '{"seed": ' + "9" * 5000 + "}", "\ud800", "#" * (SPEC_BYTES + 1)]
)
def test_json_that_cannot_be_read(text: str) -> None:
    with pytest.raises(SpecError, match=r"^spec"):
        Spec.from_json(text)


def test_a_spec_error_is_an_input_error_and_survives_pickling() -> None:
    error = SpecError(refusal({}))
    assert isinstance(error, InputError)
    assert pickle.loads(pickle.dumps(error)).faults == error.faults
