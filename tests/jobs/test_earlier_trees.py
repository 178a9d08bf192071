"""A job that wants more trees than a sealed forest has grows those that are missing."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from distforest.command_line.cli import main
from distforest.errors import InputError
from distforest.jobs.cluster import Threads
from distforest.jobs.spec import Spec
from distforest.jobs.train import Fitted
from tests.jobs.iris_jobs import N_TREES, run, spec_in
from tests.messages import naming


def with_trees(spec: Spec, n_trees: int, **params: object) -> Spec:
    return replace(spec, params={**spec.params, "n_estimators": n_trees, **params})


def grow_on(spec: Spec) -> Fitted:
    return run(spec, Threads(1), earlier=spec.output)


@pytest.fixture
def at_once(tmp_path: Path) -> Fitted:
    return run(spec_in(tmp_path / "at_once"), Threads(1))


def manifest_of(spec: Spec) -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = json.loads(Path(spec.output, "manifest.json").read_text())
    return found


@pytest.mark.slow
def test_only_the_missing_trees_grow_and_the_digest_is_that_of_all_at_once(spec: Spec, at_once: Fitted) -> None:
    run(with_trees(spec, 3), Threads(1))
    done = grow_on(spec)
    assert (done.digest, done.n_trees, done.n_grown) == (at_once.digest, N_TREES, N_TREES - 3)
    assert grow_on(spec).n_grown == 0
    assert not Path(f"{spec.output}.job").exists()


@pytest.mark.slow
def test_where_no_forest_is_all_trees_grow(spec: Spec, at_once: Fitted) -> None:
    done = grow_on(spec)
    assert (done.digest, done.n_grown) == (at_once.digest, N_TREES)


@pytest.mark.slow
def test_the_provenance_says_which_versions_grew_the_earlier_trees(spec: Spec) -> None:
    run(with_trees(spec, 3), Threads(1))
    path = Path(spec.output, "manifest.json")
    manifest = json.loads(path.read_text())
    manifest["provenance"]["grown_by"] = [{"trees": 3, "distforest": "0.0.1", "numpy": "1.0", "numba": "0.5"}]
    path.write_text(json.dumps(manifest))
    done = grow_on(spec)
    grown_by = manifest_of(spec)["provenance"]["grown_by"]
    assert {"trees": 3, "distforest": "0.0.1", "numpy": "1.0", "numba": "0.5"} in grown_by  # type: ignore[operator]
    assert any("numba 0.5" in told for told in done.warnings)


@pytest.mark.slow
def test_a_run_that_fails_at_the_seal_leaves_the_smaller_forest(spec: Spec, at_once: Fitted) -> None:
    smaller = run(with_trees(spec, 3), Threads(1))

    def fail(*_: object) -> None:
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        run(spec, Threads(1), earlier=spec.output, on_answer=fail)
    assert manifest_of(spec)["digest"] == smaller.digest
    assert grow_on(spec).digest == at_once.digest


def test_fewer_trees_are_refused(spec: Spec) -> None:
    done = run(spec, Threads(1))
    with pytest.raises(InputError, match=naming(spec.output, f"{N_TREES} trees", " 2 ")):
        grow_on(with_trees(spec, 2))
    assert manifest_of(spec)["digest"] == done.digest


@pytest.mark.parametrize("changes", [{"max_depth": 2}, {"min_samples_leaf": 3}])
def test_a_forest_of_another_job_is_kept(spec: Spec, changes: dict[str, object]) -> None:
    done = run(with_trees(spec, 3, **changes), Threads(1))
    with pytest.raises(InputError, match=naming(spec.output, "another job")):
        grow_on(spec)
    assert manifest_of(spec)["digest"] == done.digest


def test_without_the_wish_a_forest_of_fewer_trees_is_kept(spec: Spec) -> None:
    run(with_trees(spec, 3), Threads(1))
    with pytest.raises(InputError, match=naming(spec.output, "3 trees", "`run.grow_on`", f"--trees {N_TREES}")):
        run(spec, Threads(1))


@pytest.mark.slow
@pytest.mark.cluster
def test_the_command_line_adds_trees(tmp_path: Path, at_once: Fitted) -> None:
    spec = spec_in(tmp_path)
    toml = tmp_path / "job.toml"
    toml.write_text(
        f'format = 1\nmethod = "smerf"\nseed = 3\noutput = "{spec.output}"\n[input]\n'
        f'features = "{tmp_path}/iris.zarr/X"\ndistances = "{tmp_path}/iris.zarr/Z"\n[params]\n'
        'n_estimators = 3\nmax_features = "sqrt"\n'
        f'[run]\nworkers = 1\nscratch = "{tmp_path}/scratch"\n'
    )
    for wanted in (["fit", str(toml)], ["fit", str(toml), "--trees", str(N_TREES), "--json"]):
        answer = CliRunner().invoke(main, wanted, catch_exceptions=False)
        assert answer.exit_code == 0
    assert json.loads(answer.stdout)["digest"] == at_once.digest
