"""What compiles the kernels of jobs beforehand: the parts run what they name; workers share the first job."""

import numpy as np
import pytest
import zarr

from distforest.growth.cuts import mean_distance
from distforest.jobs.cluster import Here
from distforest.jobs.compilation import CompileTask, compile_kernels, compile_part, grow_stump, grow_tree, search_root
from distforest.jobs.inputs import Inputs
from distforest.jobs.spec import Spec
from distforest.jobs.staging import stage_inputs


@pytest.fixture
def inputs(tmp_path) -> Inputs:
    X = np.random.default_rng(0).random((12, 3))
    zarr.save_array(f"{tmp_path}/X.zarr", X)
    zarr.save_array(f"{tmp_path}/Z.zarr", np.abs(X[:, None, 0] - X[None, :, 0]))
    (tmp_path / "job.toml").write_text(f"""
format = 1
method = "smerf"
seed = 1
output = "{tmp_path}/forest.zarr"
[input]
features = "{tmp_path}/X.zarr"
distances = {{ kind = "dense", matrix = "{tmp_path}/Z.zarr" }}
""")
    return stage_inputs(Spec.from_toml(tmp_path / "job.toml"), str(tmp_path / "job"))


class Noted(Here):
    """Runs tasks here and notes them."""

    rounds: list[list[str]]

    def each(self, function, tasks, work):
        self.rounds.append([f"{task.part.__name__} {task.inputs.seed}" for task in tasks])
        return super().each(function, tasks, work)


def test_the_search_of_the_first_job_is_a_part_of_its_own(inputs, monkeypatch):
    rounds: list[list[str]] = []
    monkeypatch.setattr(Noted, "rounds", rounds, raising=False)
    compile_kernels(inputs, inputs, cluster=Noted())
    assert rounds == [["search_root 1", "grow_tree 1"], ["grow_tree 1", "grow_stump 1"]]


@pytest.mark.parametrize(("part", "said"), [(search_root, "search_root of smerf"), (grow_tree, "grow_tree of smerf")])
def test_a_part_is_named(inputs, part, said):
    assert str(CompileTask(part, inputs)) == said


def test_the_parts_call_the_kernels_of_a_tree_with_the_same_types(inputs, monkeypatch):
    """A part that called a kernel with other types would compile what no tree calls."""
    seen = []
    monkeypatch.setattr(mean_distance, "cut_distances", lambda *arrays: seen.append([_type_of(a) for a in arrays]))
    compile_part(CompileTask(search_root, inputs))
    compile_part(CompileTask(grow_tree, inputs))
    assert len(seen) >= 2
    assert all(types == seen[0] for types in seen)


def test_a_stump_is_no_cut(inputs, monkeypatch):
    searched = []
    monkeypatch.setattr(mean_distance, "cut_distances", lambda *arrays: searched.append(arrays))
    compile_part(CompileTask(grow_stump, inputs))
    assert searched == []


def _type_of(value):
    if isinstance(value, tuple):
        return tuple(map(_type_of, value))
    array = np.asarray(value)
    flags = (array.flags.c_contiguous, array.flags.writeable) if isinstance(value, np.ndarray) else ()
    return type(value).__name__, str(array.dtype), array.ndim, *flags
