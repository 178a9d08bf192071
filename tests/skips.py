"""A plugin for pytest: a test that is skipped, and is not named here, has failed. ``pytest -p tests.skips``

A test that runs nowhere tells nothing; so where everything can be installed, everything is to run.
"""

from __future__ import annotations

import re
from collections.abc import Generator

import pytest

ALLOWED = {
    r"test_scikit_learn\[.*check_array_api_input": "SciPy is told to take other arrays before it is imported, and then "
    "refuses some that users give; so .ci/run runs these alone, with SCIPY_ARRAY_API=1",
    r"test_urerf_elsewhere.py::test_umap_": "umap-learn compiles for two minutes before it begins; run it by hand "
    "where what URerF's distance says has changed",
}
"""What a test's id must contain to be skipped, as a regular expression, and why it may be."""


def allowed(name: str) -> bool:
    """Whether a test may be skipped."""
    return any(re.search(pattern, name) for pattern in ALLOWED)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test that skips itself, or is marked so."""
    report = yield
    return report if hasattr(report, "wasxfail") else judged(report)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """A whole file that is skipped."""
    return judged((yield))


def judged(report: pytest.TestReport | pytest.CollectReport) -> pytest.TestReport | pytest.CollectReport:
    """The report of what was skipped and may not be is one of a failure."""
    if report.skipped and not allowed(report.nodeid):
        why = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.longrepr = f"{report.nodeid}\n{why}\nInstall what it needs, or name it in tests/skips.py with a reason."
        report.outcome = "failed"
    return report
