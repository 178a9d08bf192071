"""The units: systemd knows all that they say, and starts scheduler and workers again whatever their exit code."""

from __future__ import annotations

import configparser
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deploy.containers import ROOT
from tests.programs import program

FOLDER = ROOT / "deploy" / "systemd"
UNITS = sorted(FOLDER.glob("*.service"))


def said(unit: Path) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None, strict=True)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read(unit)
    return parser


def verified(unit: Path, text: str, folder: Path) -> str:
    """What systemd finds wrong with a unit whose program is one that is here."""
    analyze = program("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is missing: apt-get install systemd")
    copy = folder / unit.name.replace("@", "@1")
    copy.write_text(text.replace("/opt/distforest/bin/dask", sys.executable))
    command = [analyze, "verify", "--man=no", str(copy)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stderr


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_finds_nothing_wrong(unit: Path, tmp_path: Path) -> None:
    assert verified(unit, unit.read_text(), tmp_path) == ""


def test_a_misspelt_key_is_found(tmp_path: Path) -> None:
    text = UNITS[0].read_text().replace("ProtectClock=", "ProtectClocks=")
    assert "ProtectClocks" in verified(UNITS[0], text, tmp_path)


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_unit_stays_up_and_is_confined(unit: Path) -> None:
    service = said(unit)["Service"]
    assert service["Restart"] == "always"
    assert said(unit)["Unit"]["StartLimitIntervalSec"] == "0"
    assert (service["User"], service["NoNewPrivileges"], service["ProtectSystem"]) == ("distforest", "yes", "strict")
    assert service["CapabilityBoundingSet"] == ""


def test_the_variables_of_the_units_are_in_the_environment_file() -> None:
    lines = (FOLDER / "environment").read_text().splitlines()
    given = dict(line.split("=", 1) for line in lines if line and line[0] != "#")
    commands = " ".join(said(unit)["Service"]["ExecStart"] for unit in UNITS)
    assert {name for name in given if f"${{{name}}}" in commands} == {"SCHEDULER_HOST", "WORKER_MEMORY"}
    assert commands.count("${") == 2
    written = [given[name] for name in ("DISTFOREST_JOB_ROOT", "NUMBA_CACHE_DIR", "DISTFOREST_SCRATCH")]
    assert all(path.startswith(("/var/lib/distforest/", "/var/cache/distforest/")) for path in written)
