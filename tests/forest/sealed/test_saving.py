"""A forest that is saved is there as a whole or not at all, whatever stops its process and whoever writes beside it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import fsspec
import numpy as np
import pytest

from distforest.errors import ArtifactError, ConflictError, InputError
from distforest.forest.sealed import artifact
from distforest.forest.sealed.artifact import open_forest, save
from distforest.stores.building import Building
from distforest.stores.outputs import FOREST_KIND
from tests.forest.sealed.damage import ForestOf, SealedOf
from tests.messages import naming

FORMS = ("f.zarr", "f.zip")

KILLED = """
import os, sys
from distforest.forest.sealed import artifact
forest, write = artifact.open_forest(sys.argv[1]), artifact.write_rows
def write_some(array, first, values, calls=[]):
    calls.append(first)
    return write(array, first, values) if len(calls) < 4 else os._exit(9)
artifact.write_rows = write_some
artifact.save(forest, sys.argv[2])
"""


@pytest.fixture(params=[*FORMS, *(f"memory://saving/{form}" for form in FORMS)])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of a new forest; after the test, nothing but that forest may be beside it."""
    if request.param in FORMS:
        yield str(tmp_path / request.param)
        assert [own.name for own in tmp_path.iterdir() if own.name not in FORMS] == []
        return
    yield request.param
    files, root = fsspec.core.url_to_fs("memory://saving")
    assert [own for own in files.ls(root, detail=False) if own.rpartition("/")[2] not in FORMS] == []
    files.rm(root, recursive=True)


@pytest.fixture
def after_some_arrays(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """A function that lets something happen once, when a few arrays of a forest are written."""

    def let(happen: Callable[[], object]) -> None:
        calls, write = list[int](), artifact.write_rows

        def write_and_let(array: artifact.Prepared, first: int, values: np.ndarray) -> list[str]:
            calls.append(first)
            if len(calls) == 4:
                happen()
            return write(array, first, values)

        monkeypatch.setattr(artifact, "write_rows", write_and_let)

    return let


def interrupt() -> None:
    raise KeyboardInterrupt


def test_an_interrupted_one_leaves_nothing(
    address: str, forest_of: ForestOf, after_some_arrays: Callable[[Callable[[], object]], None]
) -> None:
    after_some_arrays(interrupt)
    with pytest.raises(KeyboardInterrupt):
        save(forest_of("labels"), address)
    files, path = fsspec.core.url_to_fs(address)
    assert not files.exists(path)
    assert save(forest_of("labels"), address) == open_forest(address).digest


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_after_one_that_was_killed_the_next_is_written(
    form: str, forest_of: ForestOf, sealed_of: SealedOf, tmp_path: Path
) -> None:
    place = tmp_path / form
    command = [sys.executable, "-c", KILLED, str(sealed_of("labels")), str(place)]
    assert subprocess.run(command, check=False).returncode == 9
    assert not place.exists()
    assert [own.name for own in tmp_path.iterdir()] == [f"{form}.job"]
    assert save(forest_of("labels"), str(place)) == open_forest(str(place)).digest
    assert [own.name for own in tmp_path.iterdir()] == [form]


def test_one_that_was_killed_in_place_is_replaced_but_not_that_of_a_job(forest_of: ForestOf) -> None:
    for name, mark in (("saved", artifact.SAVED), ("job", {"fingerprint": "of a job"})):
        begun = Building.from_output(f"memory://killed/{name}.zarr", FOREST_KIND, mark)
        begun.begin()
        begun.folder.write("left/zarr.json", b"{}")
    save(forest_of("labels"), "memory://killed/saved.zarr")
    assert open_forest("memory://killed/saved.zarr").digest == forest_of("labels").digest
    with pytest.raises(ArtifactError, match=naming("memory://killed/job.zarr", "exists")):
        save(forest_of("labels"), "memory://killed/job.zarr")


def test_of_two_at_once_the_second_is_refused(
    address: str, forest_of: ForestOf, after_some_arrays: Callable[[Callable[[], object]], None]
) -> None:
    def save_too() -> None:
        with pytest.raises(ConflictError, match=naming(address, "the saving of a forest")):
            save(forest_of("targets"), address)

    after_some_arrays(save_too)
    save(forest_of("labels"), address)
    assert open_forest(address).digest == forest_of("labels").digest


@pytest.mark.parametrize("form", FORMS)
def test_what_somebody_puts_there_meanwhile_stays(
    form: str, forest_of: ForestOf, tmp_path: Path, after_some_arrays: Callable[[Callable[[], object]], None]
) -> None:
    place = tmp_path / form
    after_some_arrays(lambda: place.write_bytes(b"mine"))
    with pytest.raises(ArtifactError, match=naming(place, "exists")):
        save(forest_of("labels"), str(place))
    assert [(own.name, own.read_bytes()) for own in tmp_path.iterdir()] == [(form, b"mine")]


def test_none_is_saved_inside_another_one(forest_of: ForestOf, tmp_path: Path) -> None:
    save(forest_of("labels"), str(tmp_path / "f.zarr"))
    for inner in ("g.zarr", "g.zip", "left/g.zarr"):
        with pytest.raises(InputError, match=naming("output:", f"f.zarr/{inner}", f"{tmp_path}/f.zarr;")):
            save(forest_of("labels"), str(tmp_path / "f.zarr" / inner))
    assert open_forest(str(tmp_path / "f.zarr")).digest == forest_of("labels").digest
