"""The plugin that makes a failure of a skip; each case is a run of pytest of its own."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import skips

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
TESTS = """
import pytest

def test_runs():
    pass

def test_skips_itself():
    pytest.skip("nothing is here")

@pytest.mark.skipif(True, reason="nothing is here")
def test_is_skipped():
    pass

@pytest.mark.xfail(reason="known", strict=True)
def test_fails_as_is_known():
    raise AssertionError
"""
WHOLE = """
import pytest
pytest.importorskip("no_such_package")
"""


def ran(folder, *options):
    """What pytest says of the tests in a folder."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, *options, str(folder)]
    environment = {name: value for name, value in os.environ.items() if name != "CI"}  # there it says all twice
    environment["PYTHONPATH"] = str(ROOT)
    return subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)


def test_a_skip_is_none_of_a_plain_user_s_concern(tmp_path):
    (tmp_path / "test_some.py").write_text(TESTS)
    plain = ran(tmp_path)
    assert plain.returncode == 0
    assert "1 passed, 2 skipped, 1 xfailed" in plain.stdout


@pytest.mark.parametrize("processes", [(), ("-n", "1")])
def test_a_skip_that_is_not_named_is_a_failure(tmp_path, processes):
    (tmp_path / "test_some.py").write_text(TESTS)
    strict = ran(tmp_path, "-p", "tests.skips", *processes)
    assert strict.returncode == 1
    assert "1 failed, 1 passed, 1 xfailed, 1 error" in strict.stdout  # what is skipped before it begins is an error
    assert len(re.findall("nothing is here\n.*tests/skips.py", strict.stdout)) == 2


def test_a_file_that_is_skipped_is_a_failure(tmp_path):
    (tmp_path / "test_none.py").write_text(WHOLE)
    strict = ran(tmp_path, "-p", "tests.skips")
    assert strict.returncode not in {0, 5}
    assert "'no_such_package'" in strict.stdout


def test_a_skip_that_is_named_is_none(tmp_path):
    tests = TESTS.replace("skips_itself", "umap_by_itself").replace("is_skipped", "umap_is_skipped")
    (tmp_path / "test_urerf_elsewhere.py").write_text(tests)
    strict = ran(tmp_path, "-p", "tests.skips")
    assert "1 passed, 2 skipped, 1 xfailed" in strict.stdout


def test_what_may_be_skipped_is_here_and_has_a_reason():
    files = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    for pattern, reason in skips.ALLOWED.items():
        name = re.search(r"test_\w+(?=\\\[|$)", pattern)
        assert name, pattern
        assert f"def {name[0]}" in files
        assert len(reason) > 20
