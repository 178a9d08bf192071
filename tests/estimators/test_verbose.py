"""``verbose``: what a fit tells on stderr, and that the forest does not depend on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numba
import numpy as np
import pytest
from numba.core import event

from distforest import SMERF, Lazy, SimForestClassifier, TreeRank, jit, load
from distforest.jit import COMPILE, kernel, reporting_compilation
from tests.estimators.rows import SMALL, SMALL_Y

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def warm() -> None:
    """Kernels of the tests are compiled, so that no test tells of it by chance."""
    SMERF(2, random_state=0).fit(SMALL, SMALL_Y)


def test_a_fit_is_silent_or_tells_how_many_trees_are_grown(capsys: Any, tmp_path: Path) -> None:
    silent = SMERF(8, random_state=0).fit(SMALL, SMALL_Y)
    assert capsys.readouterr() == ("", "")
    told = SMERF(8, random_state=0, verbose=1).fit(SMALL, SMALL_Y)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines()[0].startswith("grow 0/8")
    assert err.splitlines()[-1].startswith("grow 8/8")
    assert told.digest_ == silent.digest_
    told.save(tmp_path / "told.zarr")
    silent.save(tmp_path / "silent.zarr")
    manifests = [(tmp_path / f"{name}.zarr" / "manifest.json").read_bytes() for name in ("told", "silent")]
    assert manifests[0] == manifests[1]
    assert b"verbose" not in manifests[0]
    assert load(tmp_path / "told.zarr").verbose == 0


def test_a_screen_a_pruning_and_asking_are_told_too(capsys: Any) -> None:
    SMERF(4, feature_weights="dependence", random_state=0, verbose=True).fit(SMALL, SMALL_Y)
    assert "screen 1/1" in capsys.readouterr().err
    TreeRank(3, pruning_folds=2, random_state=0, verbose=1).fit(SMALL, np.median(SMALL_Y) < SMALL_Y)
    assert capsys.readouterr().err.count("grow 3/3") == 3
    lazy = Lazy(lambda left, right: [float(-abs(a - b)) for a, b in zip(left, right, strict=True)])
    SimForestClassifier(lazy, n_estimators=2, random_state=0, verbose=1).fit(SMALL[:, 0].tolist(), SMALL_Y > 0)
    assert "ask " in capsys.readouterr().err


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
def test_compiling_is_reported_once_in_a_block_that_asks(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Any
) -> None:
    monkeypatch.setattr(jit, "COMPILE_PATIENCE", 0.0)
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))  # where no earlier run has left the kernel
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    words: list[str] = []

    def tripled(x: float) -> float:
        return 3.0 * x

    tripled.__module__ = "distforest.growth.tripled"
    with event.install_listener("numba:compile", jit.Notice(jit._print_to_person)), reporting_compilation(words.append):
        assert kernel(tripled)(2.0) == 6.0
    assert words == [COMPILE]
    assert capsys.readouterr().err == ""
