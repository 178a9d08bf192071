"""What compiles the kernels of jobs beforehand: the parts run what they name; workers share the first job."""

import numpy as np
import pytest
import zarr

from distforest.growth.cuts import mean_distance
from distforest.jobs.cluster import Threads
from distforest.jobs.compilation import (
    CompileTask,
    Part,
    compile_kernels,
    compile_parts,
    grow_stump,
    grow_tree,
    search_root,
)
from distforest.jobs.input_staging import stage_inputs
from distforest.jobs.inputs import Inputs
from distforest.jobs.spec import Spec


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


class Noted(Threads):
    """Runs tasks here and notes them."""

    noted: list[str]

    def each(self, function, tasks, work):
        self.noted.extend(map(str, tasks))
        return super().each(function, tasks, work)


def test_the_search_of_the_first_job_is_compiled_beside_all_others(inputs, monkeypatch):
    noted: list[str] = []
    monkeypatch.setattr(Noted, "noted", noted, raising=False)
    compile_kernels(inputs, inputs, cluster=Noted())
    assert noted == ["search_root of smerf, grow_tree of smerf", "grow_stump of smerf, grow_tree of smerf"]


def test_the_parts_call_the_kernels_of_a_tree_with_the_same_types(inputs, monkeypatch):
    """A part that called a kernel with other types would compile what no tree calls."""
    seen = []
    monkeypatch.setattr(mean_distance, "cut_distances", lambda *arrays: seen.append([_type_of(a) for a in arrays]))
    compile_parts(CompileTask((Part(search_root, inputs),)))
    compile_parts(CompileTask((Part(grow_tree, inputs),)))
    assert len(seen) >= 2
    assert all(types == seen[0] for types in seen)


def test_a_stump_is_no_cut(inputs, monkeypatch):
    searched = []
    monkeypatch.setattr(mean_distance, "cut_distances", lambda *arrays: searched.append(arrays))
    compile_parts(CompileTask((Part(grow_stump, inputs),)))
    assert searched == []


def _type_of(value):
    if isinstance(value, tuple):
        return tuple(map(_type_of, value))
    array = np.asarray(value)
    flags = (array.flags.c_contiguous, array.flags.writeable) if isinstance(value, np.ndarray) else ()
    return type(value).__name__, str(array.dtype), array.ndim, *flags
