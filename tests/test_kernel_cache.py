"""Compiled kernels are loaded wherever nothing has changed that they are made of, and only there."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path
from subprocess import PIPE
from types import SimpleNamespace
from typing import Any

import numba
import pytest
from numba.core.errors import NumbaError

from distforest import kernel_cache
from distforest.errors import DistforestWarning
from distforest.growth.cuts import categories, scan
from distforest.growth.cuts.criteria import GiniImpurity
from distforest.growth.cuts.scan import ClassSums
from distforest.jit import kernel
from distforest.kernel_cache import FOLDER, kernel_folder, stamp_of
from distforest.sources import lanes
from distforest.sources.kernels import project_kernel, similarity

pytestmark = pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")

ROOT = Path(__file__).parents[1]

OUTER = """
from distforest.jit import kernel
from inner import STEP, called

@kernel
def f(x):
    return called(x) + STEP
"""

INNER = """
from distforest.jit import kernel

STEP = 1

@kernel
def called(x):
    return x + {added}
"""

COUNTING = """
from numba.core import event
compiled = event.RecordingListener()
event.register("numba:compile", compiled)
{before}
from outer import f
print(f(0), len(compiled.buffer) // 2)
"""
"""Prints what the outer kernel returns, and how many kernels this process compiled."""


class Checkout:
    """Two modules of kernels, of which one calls the other, and a folder of compiled kernels."""

    def __init__(self, home: Path, kernels: Path) -> None:
        self.home, self.kernels = home, kernels
        home.mkdir(exist_ok=True)
        (home / "outer.py").write_text(OUTER)
        self.write_inner(INNER.format(added=1))

    def write_inner(self, text: str) -> None:
        (self.home / "inner.py").write_text(text)

    def start(self, before: str = "", **environment: str) -> subprocess.Popen[str]:
        path = os.pathsep.join([str(self.home), str(ROOT)])
        own = {"PYTHONPATH": path, FOLDER: str(self.kernels), "PYTHONDONTWRITEBYTECODE": "1", **environment}
        command = [sys.executable, "-c", COUNTING.format(before=before)]
        return subprocess.Popen(command, env={**os.environ, **own}, stdout=PIPE, stderr=PIPE, text=True)

    def run(self, before: str = "", **environment: str) -> tuple[int, int]:
        printed, errors = self.start(before, **environment).communicate()
        assert not errors
        returned, n_compiled = map(int, printed.split())
        return returned, n_compiled


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path / "checkout", tmp_path / "kernels")


@pytest.mark.slow
def test_a_second_checkout_compiles_nothing(checkout: Checkout, tmp_path: Path) -> None:
    assert checkout.run() == (2, 2)
    for file in checkout.home.iterdir():
        os.utime(file, (0, 0))
    assert checkout.run() == (2, 0)
    shutil.move(checkout.home, tmp_path / "elsewhere")
    assert Checkout(tmp_path / "elsewhere", checkout.kernels).run() == (2, 0)


@pytest.mark.slow
def test_a_kernel_is_compiled_again_if_what_it_calls_or_reads_in_another_file_has_changed(checkout: Checkout) -> None:
    found = []
    for inner in (
        INNER.format(added=1),
        INNER.format(added="10"),
        INNER.format(added=10).replace("STEP = 1", "STEP = 100"),
        INNER.format(added=1),
    ):
        checkout.write_inner(inner)
        found.append(checkout.run())
    assert found == [(2, 2), (11, 2), (110, 2), (2, 0)]  # the first version is still there


@pytest.mark.slow
def test_code_that_was_imported_before_its_file_changed_is_not_kept_as_the_new_one(checkout: Checkout) -> None:
    new = INNER.format(added=10)
    changed = f"import inner; from pathlib import Path; Path({str(checkout.home / 'inner.py')!r}).write_text({new!r})"
    assert checkout.run(changed) == (2, 2)
    assert checkout.run() == (11, 2)


@pytest.mark.slow
def test_a_kernel_that_is_kept_may_call_one_that_no_file_holds(checkout: Checkout) -> None:
    held = "import sys, types; inner = sys.modules['inner'] = types.ModuleType('inner')"
    assert checkout.run(f"{held}; exec({INNER.format(added=1)!r}, inner.__dict__)") == (2, 2)


@pytest.mark.slow
def test_each_kernel_is_compiled_by_one_of_several_processes(checkout: Checkout) -> None:
    processes = [checkout.start() for _ in range(3)]
    printed = [process.communicate()[0].split() for process in processes]
    assert [returned for returned, _ in printed] == ["2"] * 3
    assert sum(int(n_compiled) for _, n_compiled in printed) == 2


@pytest.mark.slow
def test_nobody_waits_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "f.kernel"
    holding = f"from pathlib import Path; from distforest.kernel_cache import _lock; _lock(Path({str(path)!r}))"
    command = [sys.executable, "-c", f"{holding}; print('holding', flush=True); input()"]
    monkeypatch.setattr(kernel_cache, "LONGEST_WAIT", 0.1)
    with subprocess.Popen(command, stdin=PIPE, stdout=PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout
        process.stdout.readline()
        held = [kernel_cache._lock(path)]
        process.communicate("released")
    held.append(kernel_cache._lock(path))
    assert held == [False, True]


GONE = b"\x80\x04\x8c\x10distforest.jit__\x8c\x04Gone\x93."
"""A pickle that names a type of a module that is not there."""


@pytest.mark.slow
@pytest.mark.parametrize("damaged", [GONE, b"", pickle.dumps((("int64",), None)), b"\0" * 100])
def test_a_damaged_file_is_compiled_again(damaged: bytes, checkout: Checkout) -> None:
    checkout.run()
    files = list(checkout.kernels.glob("*.kernel"))
    assert len(files) == 2
    for file in files:
        file.write_bytes(damaged)
    assert [checkout.run(), checkout.run()] == [(2, 2), (2, 0)]


@pytest.mark.slow
def test_no_kernel_is_kept_where_none_is_wanted(checkout: Checkout, tmp_path: Path) -> None:
    off = {FOLDER: "off", "XDG_CACHE_HOME": str(tmp_path / "cache"), "NUMBA_CACHE_DIR": ""}
    assert [checkout.run(**off), checkout.run(**off)] == [(2, 2), (2, 2)]
    assert not (tmp_path / "cache").exists()
    assert not list(checkout.home.glob("__pycache__/*"))


@pytest.mark.parametrize(
    ("named", "of_numba", "of_user", "folder"),
    [
        ("/a", "/b", "/c", "/a"),
        ("", "/b", "/c", "/b"),
        ("", "", "/c", "/c/distforest/kernels"),
        ("", "", "", "/home/.cache/distforest/kernels"),
        ("", "", "relative", "/home/.cache/distforest/kernels"),
        ("off", "/b", "/c", None),
    ],
)
def test_the_folder(named: str, of_numba: str, of_user: str, folder: str | None, monkeypatch: Any) -> None:
    monkeypatch.setenv(FOLDER, named)
    monkeypatch.setenv("XDG_CACHE_HOME", of_user)
    monkeypatch.setenv("HOME", "/home")
    monkeypatch.setattr(numba.config, "CACHE_DIR", of_numba)
    assert kernel_folder() == (None if folder is None else Path(folder))


@pytest.mark.slow
def test_a_full_disk_warns_once_and_ends_nothing(checkout: Checkout, small_disk: Path) -> None:
    with (small_disk / "filler").open("wb") as filler:
        os.posix_fallocate(filler.fileno(), 0, 4 << 20)
    checkout.kernels = small_disk / "kernels"
    process = checkout.start()
    printed, errors = process.communicate()
    assert printed.split() == ["2", "2"], errors
    assert errors.count(f"{DistforestWarning.__name__}: ") == 1
    assert str(checkout.kernels) in errors
    assert FOLDER in errors


@pytest.mark.slow
def test_a_folder_that_cannot_be_made_warns_and_ends_nothing(checkout: Checkout, tmp_path: Path) -> None:
    checkout.kernels = tmp_path / "file" / "kernels"
    checkout.kernels.parent.write_bytes(b"")
    printed, errors = checkout.start().communicate()
    assert printed.split() == ["2", "2"], errors
    assert errors.count(f"{DistforestWarning.__name__}: ") == 1


def test_the_folder_is_bounded_by_what_was_used_longest_ago(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(kernel_cache, "LARGEST_BYTES", 250)
    for place in range(5):
        (tmp_path / f"{place}.kernel").write_bytes(bytes(100))
        os.utime(tmp_path / f"{place}.kernel", (place, place))
    monkeypatch.setattr(kernel_cache.pickle, "loads", lambda _: (("x",), "kept"))
    assert kernel_cache._read(tmp_path / "0.kernel", ("x",)) == "kept"  # used now
    (tmp_path / "thesis.tex").write_bytes(bytes(1000))
    (tmp_path / "numba").mkdir()
    kernel_cache._make_room.__wrapped__(tmp_path)
    assert {file.name for file in tmp_path.iterdir()} == {"0.kernel", "4.kernel", "thesis.tex", "numba"}


def test_a_compilation_that_fails_keeps_nobody_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unlocked: list[Path] = []
    monkeypatch.setattr(kernel_cache, "_unlock", unlocked.append)
    monkeypatch.setenv(FOLDER, str(tmp_path))

    @kernel
    def failing(x: float) -> float:
        return x + "1"  # type: ignore[operator]

    with pytest.raises(NumbaError):
        failing(1.0)
    assert [path.parent for path in unlocked] == [tmp_path]


def test_a_kernel_with_a_closure_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER, str(tmp_path))

    def adding(step: int) -> Any:
        @kernel
        def added(x: int) -> int:
            return x + step

        return added

    assert (adding(1)(1), adding(2)(1)) == (2, 3)
    assert not list(tmp_path.glob("*.kernel"))


def test_a_folder_that_can_only_be_read_is_used(checkout: Checkout) -> None:
    checkout.run()
    read_only = "import os\ndef utime(*_): raise PermissionError\nos.utime = utime"
    assert checkout.run(read_only) == (2, 0)


def test_types_that_only_look_the_same_share_no_file(tmp_path: Path) -> None:
    path = tmp_path / "x.kernel"
    path.write_bytes(pickle.dumps((("a",), "reduced")))
    assert kernel_cache._read(path, ("a",)) == "reduced"  # type: ignore[arg-type]
    assert kernel_cache._read(path, (SimpleNamespace(),)) is None  # type: ignore[arg-type]


def test_a_kernel_follows_from_how_it_is_compiled_and_from_code_that_is_inserted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def stamp() -> str:
        return str(stamp_of.__wrapped__(project_kernel))

    stamps = {stamp()}
    monkeypatch.setattr(lanes.dot, "source_stamp", "another", raising=False)
    stamps.add(stamp())
    monkeypatch.setitem(similarity.targetoptions, "error_model", "python")
    assert len({*stamps, stamp()}) == 3


def test_an_implementation_counts_by_where_it_lies_or_if_its_kind_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def stamp(types: str = "") -> str:
        return str(stamp_of.__wrapped__(categories.cut_ranks, types))

    beside, named = stamp(), stamp("Elsewhere(x)")
    assert beside == named
    elsewhere = type("Elsewhere", (), {"__module__": scan.__name__})
    stamp.source_stamp = "of this file"  # type: ignore[attr-defined]
    monkeypatch.setitem(scan.add_row.implementations, elsewhere, stamp)  # as a later import adds one
    assert stamp() == beside
    assert stamp("Elsewhere(x)") != named
    of_gini = stamp("GiniImpurity(x)")
    monkeypatch.setattr(scan.load_vectors.implementations[GiniImpurity], "source_stamp", "another")
    assert stamp() == beside, "it lies in another file, and may not have been imported"
    assert stamp("GiniImpurity(x)") != of_gini
    monkeypatch.setattr(scan.add_row.implementations[ClassSums], "source_stamp", "another")
    assert stamp() != beside
