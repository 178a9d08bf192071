"""What all tests share: the profiles of hypothesis, their order, and kernels that run as plain Python without Numba."""

from __future__ import annotations

import signal
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numba
import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from distforest.forest.sealed.artifact import save
from tests import samples
from tests.forked_workers import fork_workers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from distforest.forest.forest import Forest

_SLOW = [HealthCheck.too_slow]  # a kernel is compiled at its first call
_PLAIN = settings.get_profile("default")  # hypothesis chooses another one itself in CI
settings.register_profile("explore", _PLAIN, deadline=None, suppress_health_check=_SLOW, print_blob=True)
settings.register_profile("same", settings.get_profile("explore"), derandomize=True)
settings.load_profile("same")  # every run draws the same examples, but with --hypothesis-profile=explore
if numba.config.DISABLE_JIT:  # some hundred times as slow
    settings.register_profile("plain", settings(), max_examples=6)
    settings.load_profile("plain")


def pytest_configure(config: pytest.Config) -> None:
    """Signals arrive, and NumPy's scalars wrap around in silence where they stand in for machine numbers."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in a background job of a shell
    if hasattr(config, "workerinput"):  # the controller still survives a logout under nohup
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    if numba.config.DISABLE_JIT:
        np.seterr(over="ignore", divide="ignore", invalid="ignore")


@pytest.hookimpl(trylast=True)  # what is not to run has been taken out
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that start processes run first: they wait for these, and other files fill the time."""
    waiting = {item.path for item in items if item.get_closest_marker("cluster")}
    items.sort(key=lambda item: item.path not in waiting)


@pytest.hookimpl(tryfirst=True)  # before a fixture changes the environment
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Embedded clusters of tests start in a tenth of a second."""
    if item.get_closest_marker("cluster"):
        fork_workers()


@pytest.fixture(scope="session")
def forest_of() -> Callable[[str], Forest]:
    """A function that gives the small forest of a case of `samples.CASES`, grown once."""
    grown: dict[str, Forest] = {}

    def forest_of(case: str) -> Forest:
        if case not in grown:
            grown[case] = samples.forest_from(samples.problem_of(case))
        return grown[case]

    return forest_of


@pytest.fixture(scope="session")
def sealed_of(forest_of: Callable[[str], Forest], tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A function that gives the folder of the sealed forest of a case; not to be written to."""
    sealed: dict[str, Path] = {}

    def sealed_of(case: str) -> Path:
        if case not in sealed:
            path = tmp_path_factory.mktemp("sealed") / f"{case}.forest.zarr"
            save(forest_of(case), str(path))
            sealed[case] = path
        return sealed[case]

    return sealed_of


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Path]:
    """A folder in another file system, one in memory."""
    memory = Path("/dev/shm")
    if not memory.is_dir() or memory.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is no second file system")
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        yield Path(folder)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """The root of a file system of 4 MiB, in memory."""
    place = tmp_path / "small"
    place.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(place)], capture_output=True, text=True, check=False
    )
    if made.returncode:
        pytest.skip(f"no file system can be mounted here: {made.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)
