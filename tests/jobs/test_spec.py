"""A job spec is read whole or refused with all its faults."""

from __future__ import annotations

import json
import pickle
from datetime import date
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from distforest.errors import InputError, SpecError
from distforest.growth.parameters import SIMFOREST_PARAMETERS, SMERF_PARAMETERS
from distforest.jobs.reader import SPEC_BYTES
from distforest.jobs.spec import Input, Relation, Run, Spec

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
    }


@pytest.mark.parametrize(
    ("base", "name", "value", "expected"),
    [
        (SMERF, "distances", "Z", Relation("dense", "Z")),
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
        (SIMFOREST, "similarity", {"kind": "cosine", "features": "X"}, Relation("cosine", "X")),
        (SIMFOREST, "similarity", {"kind": "manhattan", "features": "X"}, Relation("manhattan", "X")),
        (SIMFOREST, "similarity", {"kind": "rbf", "features": "X"}, Relation("rbf", "X", {"gamma": None})),
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


def test_targets_stand_for_labels() -> None:
    spec = Spec.from_dict({**SIMFOREST, "input": {"similarity": "S", "targets": "t"}})
    assert spec.input.addresses == {"targets": "t"}


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


def test_identity_is_what_decides_the_forest() -> None:
    spec = Spec.from_toml(LAZEGA)
    same = Spec.from_dict({**spec.to_dict(), "output": "other.zarr", "run": {"retries": 0}})
    other = Spec.from_dict({**spec.to_dict(), "seed": 8})
    assert same.identity() == spec.identity() != other.identity()
    assert list(spec.identity()) == ["method", "seed", "input", "params"]


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

KINDS = "'dense', 'labels', 'targets', 'embedding', 'graph', 'observed', 'lazy'"
WHOLE = "must be an integer from 1 to 2^63 - 1, found"
SIZE = "must be a size such as '4GiB', or a number of bytes from 1"
OF_SMERF = "'features', 'feature_weights', 'sample_weight', 'distances'"
ARRAY = "must be the address (path or URL) of an array, found"


@pytest.mark.parametrize(
    ("table", "fault"),
    [
        ({**SMERF, "format": "1"}, "format: must be the number 1, found '1'"),
        ({**SMERF, "format": True}, "format: must be the number 1, found True"),
        ({**SMERF, "format": 2}, "format: format 2 is not known to this version, which reads format 1"),
        (
            {**SMERF, "method": "smref"},
            "method: must be 'smerf' or 'simforest' or 'urerf' or 'rfd' or 'treerank', found 'smref'",
        ),
        (
            {**SMERF, "method": ["smerf"]},
            "method: must be 'smerf' or 'simforest' or 'urerf' or 'rfd' or 'treerank', found ['smerf']",
        ),
        ({**SMERF, "seed": -1}, "seed: must be an integer from 0 to 2^63 - 1, found -1"),
        ({**SMERF, "seed": 2**63}, "seed: must be an integer from 0 to 2^63 - 1, found 9223372036854775808"),
        ({**SMERF, "seed": True}, "seed: must be an integer from 0 to 2^63 - 1, found True"),
        ({**SMERF, "seed": 1.0}, "seed: must be an integer from 0 to 2^63 - 1, found 1.0"),
        (
            {**SMERF, "output": "forest"},
            "output: must be an address (path or URL) that ends in .zarr, found 'forest'",
        ),
        (
            {**SMERF, "output": None},
            "output: must be an address (path or URL) that ends in .zarr, found None",
        ),
        (
            {**SMERF, "output": "./d.zarr"},
            "output: must not be, hold or lie in an input, found './d.zarr' and 'd.zarr/X', 'd.zarr/Z'",
        ),
        (
            {**with_input(SMERF, features="a/../d.zarr/"), "output": "d.zarr"},
            "output: must not be, hold or lie in an input, found 'd.zarr' and 'a/../d.zarr/', 'd.zarr/Z'",
        ),
        ({**SMERF, "outputs": "f.zarr"}, "outputs: unknown key 'outputs'; did you mean 'output'?"),
        (
            {**SMERF, "run": {"zz": 1}},
            "run.zz: unknown key 'zz'; known here are 'workers', 'threads_per_worker', ",
        ),
        ({**SMERF, 7: 1}, "7: unknown key 7; known here are 'format', 'method', 'seed', 'output', 'input', "),
        (
            {**SMERF, "input": "X"},
            f"input: must be a table of {OF_SMERF}, found 'X'",
        ),
        ({**SMERF, "params": 3}, "params: must be a table of parameters, found 3"),
        ({**SMERF, "run": []}, "run: must be a table of 'workers', "),
        (with_input(SMERF, features=""), f"input.features: {ARRAY} ''"),
        (with_input(SMERF, features=" \t"), f"input.features: {ARRAY} ' \\t'"),
        (with_input(SMERF, features="a\x00b"), f"input.features: {ARRAY} 'a\\x00b'"),
        (with_input(SMERF, features="\ud800"), f"input.features: {ARRAY} '\\ud800'"),
        (with_input(SMERF, features=["X"]), f"input.features: {ARRAY} ['X']"),
        (with_input(SMERF, feature="X"), "input.feature: unknown key 'feature'; did you mean 'features'?"),
        (
            with_input(SMERF, labels="y"),
            "input.labels: unknown key 'labels'; give distances = { kind = 'labels', values = ADDRESS }",
        ),
        (with_input(SMERF, distances=""), f"input.distances.matrix: {ARRAY} ''"),
        (
            with_input(SMERF, distances=4),
            f"input.distances: must be an address, or a table with a kind of {KINDS}, found 4",
        ),
        (
            with_input(SMERF, distances={}),
            f"input.distances.kind: is missing; it must be {KINDS.replace(', ', ' or ')}",
        ),
        (
            with_input(SMERF, distances={"kind": "label", "values": "y"}),
            f"input.distances.kind: must be {KINDS.replace(', ', ' or ')}, found 'label'",
        ),
        (
            with_input(SMERF, distances={"kind": "lazy", "function": "m:f", "budget": -9}),
            "input.distances.budget: must be an integer from 0 to 2^63 - 1, found -9",
        ),
        (
            with_input(SIMFOREST, similarity={"kind": "lazy"}),
            "input.similarity.function: is missing; it must be 'module:function', or the name of an entry point",
        ),
        (
            with_input(SIMFOREST, similarity={"kind": "lazy", "function": "m:f", "share": "some"}),
            "input.similarity.share: must be 'all' or 'worker', found 'some'",
        ),
        (
            with_input(SIMFOREST, similarity={"kind": "lazy", "function": "m:f", "budget": -1}),
            "input.similarity.budget: must be an integer from 0 to 2^63 - 1, found -1",
        ),
        (
            with_input(SMERF, distances={"kind": "graph"}),
            "input.distances.adjacency: is missing; it must be the address (path or URL) of an array",
        ),
        (
            with_input(SMERF, distances={"kind": "dense", "matrix": "Z", "matrices": 1}),
            "input.distances.matrices: unknown key 'matrices'; did you mean 'matrix'?",
        ),
        (
            with_input(SIMFOREST, similarity={"kind": "dense", "matrix": "S", "measure": "score"}),
            "input.similarity.measure: must be 'similarity' or 'distance', found 'score'",
        ),
        *(
            (
                with_input(SIMFOREST, similarity={"kind": "rbf", "features": "X", "gamma": gamma}),
                f"input.similarity.gamma: must be a finite real number > 0, found {gamma!r}",
            )
            for gamma in (0, -1.5, float("inf"), float("nan"), True, "1")
        ),
        (
            with_input(SIMFOREST, targets="t"),
            "input: must have exactly one of 'labels', 'targets', found 'labels' and 'targets'",
        ),
        (
            {**SIMFOREST, "input": {"similarity": "S"}},
            "input: must have exactly one of 'labels', 'targets', found none",
        ),
        (
            {**SMERF, "params": {"max_dept": 3}},
            "params.max_dept: unknown parameter 'max_dept'; did you mean 'max_depth'?",
        ),
        (
            {**SMERF, "params": {"random_state": 0}},
            "params.random_state: unknown parameter 'random_state'; give seed = INTEGER before the tables",
        ),
        ({**SMERF, "params": {"n_pairs": 3}}, "params.n_pairs: unknown parameter 'n_pairs'"),
        (
            {**SMERF, "params": {"n_estimators": True}},
            "params.n_estimators: must be an integer in [1, 1000000], found True",
        ),
        (
            {**SMERF, "params": {"n_estimators": [5]}},
            "params.n_estimators: must be an integer in [1, 1000000], found [5]",
        ),
        (
            {**SMERF, "params": {"bootstrap": date(2020, 1, 2)}},
            "params.bootstrap: must be true or false, found datetime.date(2020, 1, 2)",
        ),
        ({**SMERF, "params": {3: 1}}, "params.3: unknown parameter '3'"),
        (
            {**SMERF, "params": {"max_depth": 2**70}},
            "params.max_depth: must be an integer >= 1 or 'none', found an integer of 71 bits",
        ),
        ({**SMERF, "run": {"workers": 0}}, f"run.workers: {WHOLE} 0"),
        ({**SMERF, "run": {"workers": True}}, f"run.workers: {WHOLE} True"),
        ({**SMERF, "run": {"threads_per_worker": None}}, f"run.threads_per_worker: {WHOLE} None"),
        ({**SMERF, "run": {"batch": "all"}}, f"run.batch: {WHOLE} 'all'"),
        ({**SMERF, "run": {"retries": -1}}, "run.retries: must be an integer from 0 to 2^63 - 1, found -1"),
        ({**SMERF, "run": {"overwrite": 1}}, "run.overwrite: must be true or false, found 1"),
        ({**SMERF, "run": {"scratch": ""}}, "run.scratch: must be the path of a directory, found ''"),
        (
            {**SMERF, "run": {"scheduler": 8786}},
            "run.scheduler: must be the address of a Dask scheduler such as ",
        ),
        *(
            (
                {**SMERF, "run": {"memory_limit": size}},
                f"run.memory_limit: {SIZE}, found {size!r}",
            )
            for size in ("", "GiB", "4 giraffes", "-4GiB", "0", "1e999", "nan", 0, True, 4.5)
        ),
    ],
)
def test_one_fault_is_told_and_only_that_one(table: dict[str, Any], fault: str) -> None:
    faults = refusal(table)
    assert len(faults) == 1
    assert faults[0].startswith(fault)


@pytest.mark.parametrize("table", [None, 3, "smerf", [SMERF]])
def test_a_spec_is_a_table(table: object) -> None:
    (fault,) = refusal(table)
    assert fault.startswith("spec: must be a table of 'format', 'method', ")


def test_all_that_is_missing_is_told_at_once() -> None:
    where = [fault.split(":")[0] for fault in refusal({})]
    assert where == ["format", "method", "output", "input"]
    where = [fault.split(":")[0] for fault in refusal({**SMERF, "input": {}})]
    assert where == ["input.features", "input.distances"]


def test_an_unknown_method_does_not_hide_the_rest() -> None:
    where = [fault.split(":")[0] for fault in refusal({"format": 1, "method": "x", "params": 1, "run": 2})]
    assert where == ["method", "output", "input", "params", "run"]
    wrong = {"input": {"feature": "a"}, "params": {"n_estimator": 3, "max_depth": 2}, "run": {}, "output": "f.zarr"}
    for method, more in (("SMURF", ["input.features", "input.distances"]), ("knn", []), (["smerf"], [])):
        where = [fault.split(":")[0] for fault in refusal({"format": 1, "method": method, **wrong})]
        assert sorted(where) == sorted(["method", *more, "input.feature", "params.n_estimator"])


def test_all_faults_are_told_at_once_in_the_order_of_the_file() -> None:
    assert toml_refusal(
        """\
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
    ) == (
        "output: is missing; it must be an address (path or URL) that ends in .zarr",
        "outputs (line 3): unknown key 'outputs'; did you mean 'output'?",
        f"run.workers (line 4): {WHOLE} True",
        "params.max_dept (line 7): unknown parameter 'max_dept'; did you mean 'max_depth'?",
        "params.min_samples_leaf (line 8): must be an integer >= 1, found 0",
        "params.max_samples (line 9): must be an integer >= 1 or a real number in (0, 1] or 'none', found [1]",
        "input.features (line 13): is missing; it must be the address (path or URL) of an array",
        f"input.note (line 14): unknown key 'note'; known here are {OF_SMERF}",
        f"input.distances.values (line 17): {ARRAY} ''",
    )


def test_a_key_in_another_table_is_told_where_it_belongs() -> None:
    text = """
format = 1
method = "smerf"
output = "forest.zarr"
n_estimators = 3
[input]
features = "a.zarr/X"
distances = "b.zarr/Z"
similarity = "c.zarr/S"
[params]
seed = 3
workers = 2
n_pairs = 4
[run]
max_depth = 3
"""
    assert toml_refusal(text) == (
        "n_estimators (line 5): unknown key 'n_estimators'; it belongs in [params]",
        f"input.similarity (line 9): unknown key 'similarity'; known here are {OF_SMERF}",
        "params.seed (line 11): unknown parameter 'seed'; it stands before the tables",
        "params.workers (line 12): unknown parameter 'workers'; it belongs in [run]",
        "params.n_pairs (line 13): unknown parameter 'n_pairs'",
        "run.max_depth (line 15): unknown key 'max_depth'; it belongs in [params]",
    )


def test_a_home_folder_is_not_taken_for_a_folder_of_that_name() -> None:
    text = """format = 1
method = "smerf"
output = "~/a.zarr"
[input]
features = "~/a.zarr/X"
distances = "b.zarr/Z"
"""
    only = "only a shell reads ~ as the home folder, so write that out"
    assert toml_refusal(text) == (
        f"output (line 3): must be an address (path or URL) that ends in .zarr, found '~/a.zarr'; {only}",
        f"input.features (line 5): {ARRAY} '~/a.zarr/X'; {only}",
    )


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (
            "format = 1\nmethod smerf\n",
            "spec (line 2): is not TOML: Expected '=' after a key in a key/value pair (colu",
        ),
        ("format = 1\nformat = 1\n", "spec (line 2): is not TOML: Cannot overwrite a value"),
        (
            "format = 1\n[params]\nmax_depth = None\n",
            "spec (line 3): is not TOML: Invalid value (column 13); TOML has no None: leave the key out, or write",
        ),
        ("format = 1\n\nmethod = 'sme", 'spec (line 3): is not TOML: Expected "\'" (at end of document)'),
        ("format = 1\nx = " + "[" * 100_000, "spec: is not TOML that can be read: maximum recursion"),
        ("format = 1\n\n" + "a." * 500_000, "spec (line 3): has a key of more than 8 parts"),
        ("a = " + "{a = " * 9, "spec (line 1): has a key of more than 8 parts"),
        (
            "one two three four five six seven eight nine",
            "spec (line 1): is not TOML: Expected '=' after a key",
        ),
        ("#" * (SPEC_BYTES + 1), "spec: must be a text of at most 1048576 bytes (1 MiB), found more"),
        ("#" + "é" * (SPEC_BYTES // 2), "spec: must be a text of at most 1048576 bytes (1 MiB), found more"),
        ("# a\n# \ud800", "spec (line 2): must be UTF-8, found byte 0xed"),
        (
            "format = 9\nmethod = 3",
            "format (line 1): format 9 is not known to this version, which reads format 1",
        ),
    ],
)
def test_a_text_that_cannot_be_read(text: str, fault: str) -> None:
    faults = toml_refusal(text)
    assert len(faults) == 1
    assert faults[0].startswith(fault)


@pytest.mark.parametrize("digits", ["0x" + "f" * 5000, "9" * 5000])
def test_an_endless_integer_is_refused(digits: str) -> None:
    assert len(toml_refusal(f"{LAZEGA}retries = {digits}\n")) == 1
    assert len(toml_refusal(LAZEGA.replace("= 500", f"= {digits}"))) == 1
    assert len(toml_refusal(LAZEGA.replace("= 500", f"= [{digits}]"))) == 1
    assert len(toml_refusal(LAZEGA.replace("format = 1", f"format = {digits}"))) == 1


def test_a_crowd_of_unknown_keys_is_one_fault() -> None:
    crowd = {f"max_depth_{i}": 1 for i in range(101)}
    assert refusal({**SMERF, "params": crowd}) == ("params: must be a table of parameters, found one of 101 keys",)
    (fault,) = refusal({**SMERF, "run": crowd})
    assert fault.endswith("found one of 101 keys")


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
    (fault,) = toml_refusal(tmp_path / "absent.toml")
    assert fault.startswith("spec: file ")
    assert "No such file" in fault
    big = tmp_path / "big.toml"
    big.write_bytes(b"#" * (SPEC_BYTES + 1))
    assert toml_refusal(big) == ("spec: must be a text of at most 1048576 bytes (1 MiB), found more",)


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
