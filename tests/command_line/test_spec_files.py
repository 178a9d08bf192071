"""Specs from files: settings over them, and paths from the root."""

import textwrap

import pytest

from distforest.command_line.spec_files import read_fit, read_spec, read_tune, settings
from distforest.errors import InputError, SpecError
from distforest.jobs.any_spec import from_the_root, with_absolute_paths
from distforest.jobs.score_spec import ScoreSpec
from distforest.jobs.spec import Spec
from tests.messages import naming
from tests.service.command_line import run

SPEC = """\
format = 1
method = "smerf"
seed = 3
output = "forest.zarr"
input = { features = "data.zarr/X", distances = "s3://bucket/Z" }
"""
SCORING = """\
format = 1
job = "score"
output = "near.zarr"
input = { forest = "forest.zarr", queries = "data.zarr/X" }
"""


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "spec.toml"
    path.write_text(SPEC)
    return path


@pytest.mark.parametrize(
    ("setting", "held"),
    [
        ("params.max_depth=3", ("params.max_depth", 3)),
        ("output=a.zarr", ("output", "a.zarr")),
        ('output="a.zarr"', ("output", "a.zarr")),
        ("run.overwrite=true", ("run.overwrite", True)),
        ("params.max_samples=0.5", ("params.max_samples", 0.5)),
        ("input.labels=s3://b/c=d", ("input.labels", "s3://b/c=d")),
    ],
)
def test_settings(setting, held):
    assert settings([setting]) == dict([held])


@pytest.mark.parametrize("setting", ["seed", "=3", "params.=3"])
def test_a_setting_without_key_or_value_is_refused(setting):
    with pytest.raises(InputError, match=naming("--set", "KEY=VALUE")):
        settings([setting])


def test_settings_take_the_place_of_what_the_file_says(path):
    spec = read_fit(str(path), {"seed": 4, "params.n_estimators": 7, "run.retries": 0})
    assert (spec.seed, spec.params["n_estimators"], spec.run.retries) == (4, 7, 0)
    assert read_fit(str(path), {}) == Spec.from_toml(path)


def test_a_setting_within_what_is_no_table_is_refused(path):
    with pytest.raises(InputError, match=naming("--set seed.x", "table")):
        read_spec(str(path), {"seed.x": 1})


def test_faults_of_the_file_have_lines_and_those_of_settings_their_keys(path):
    with pytest.raises(SpecError, match=r"^seed: "):
        read_spec(str(path), {"seed": -1})
    path.write_text(SPEC.replace("seed = 3", "seed = -3"))
    with pytest.raises(SpecError, match=r"^seed \(line 3\)"):
        read_spec(str(path), {"params.n_estimators": 7})


def test_a_scoring_job_is_a_spec_but_no_fit(path):
    path.write_text(SCORING)
    assert isinstance(read_spec(str(path), {}), ScoreSpec)
    assert read_spec(str(path), {"params.answer": "apply"}).params["answer"] == "apply"
    with pytest.raises(InputError, match=naming(path, "scoring")):
        read_fit(str(path), {})


def test_paths_are_made_absolute_and_urls_left_alone(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    spec = with_absolute_paths(read_spec(str(path), {"run.scratch": "scratch"}))
    assert (spec.output, spec.run.scratch) == (f"{tmp_path}/forest.zarr", f"{tmp_path}/scratch")
    assert spec.input.addresses == {"features": f"{tmp_path}/data.zarr/X"}
    assert spec.input.relations["distances"].address == "s3://bucket/Z"
    assert with_absolute_paths(spec) == spec
    path.write_text(SCORING)
    spec = with_absolute_paths(read_spec(str(path), {}))
    assert (spec.output, spec.input["forest"]) == (f"{tmp_path}/near.zarr", f"{tmp_path}/forest.zarr")
    assert spec.input["similarity"] is None
    assert from_the_root("s3://bucket/x.zarr") == "s3://bucket/x.zarr"


@pytest.mark.parametrize("read", [read_spec, read_fit, read_tune])
@pytest.mark.parametrize("name", ["my plants.csv", "plants.parquet", "plants.zarr", "plants.forest.zip"])
def test_data_in_the_place_of_a_spec_are_refused(read, name):
    with pytest.raises(InputError, match=naming(name, "TOML", "`distforest ingest`")):
        read(name, {})


def test_the_example_of_the_help_is_a_spec():
    text = run("fit", "--help")[1]
    example = text.partition("has written:\n")[2].partition("\n\n")[0]
    assert Spec.from_toml(textwrap.dedent(example)).input.addresses == {"features": "table.zarr/X"}
