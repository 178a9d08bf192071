"""Environments of the peers: made with venv and pip, kept in a folder, and found there by the next run.

An environment that cannot be made is no error: it is told why, and its peers are missing from the tables by name.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from peers import Environments, inherited

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Run = Callable[[Sequence[str]], subprocess.CompletedProcess[str]]

REQUIREMENTS: dict[str, tuple[str, ...]] = {
    "metric-learn": ("metric-learn==0.7.0", "scikit-learn<1.8"),
    "umap": ("umap-learn==0.5.12",),
    "pynndescent": ("pynndescent==0.7.0", "scikit-learn"),
    "aeon": ("aeon==1.6.0",),
    "treeple": ("treeple==0.10.3", "scikit-learn==1.6.1"),
    "ydf": ("ydf==0.16.1",),
}
"""What pip is asked for, by the name of the environment."""

MARK = "made-of.json"


@dataclass(frozen=True)
class PeerEnvironment:
    """The Python of a peer's environment, or why there is none."""

    python: str | None
    failed: str | None = None

    def versions(self) -> dict[str, str]:
        """The peer and what it stands on, with their versions; nothing where there is no environment."""
        if self.python is None:
            return {}
        return {name: own for name, own in Environments.versions(self.python).items() if own}


def own_environment() -> PeerEnvironment:
    """That of the Python which runs this."""
    return PeerEnvironment(sys.executable)


def run_captured(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run a command and keep what it says; what it finds elsewhere is not in the environment."""
    return subprocess.run(command, capture_output=True, text=True, check=False, env=inherited(command[0]))


def environment_of(name: str, folder: Path, run: Run = run_captured) -> PeerEnvironment:
    """The environment of a peer in a folder, made where it is not there or was made of something else.

    Parameters
    ----------
    name
        One of `REQUIREMENTS`.
    folder
        Where environments are kept; made if missing.
    run
        Runs a command.

    Raises
    ------
    SystemExit
        A folder of that name is there and is no environment.
    """
    place, made_of = folder / name, {"python": sys.version, "requirements": list(REQUIREMENTS[name])}
    python, mark = str(place / "bin" / "python"), place / MARK
    if Path(python).exists() and mark.exists() and json.loads(mark.read_text()) == made_of:
        return PeerEnvironment(python)
    if place.exists():
        if not (place / "pyvenv.cfg").exists():
            raise SystemExit(f"{place} is there and is no environment: name another folder with --environments")
        shutil.rmtree(place)
    print(f"making the environment of {name}: {' '.join(REQUIREMENTS[name])}", file=sys.stderr, flush=True)
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *REQUIREMENTS[name]]
    for command in ([sys.executable, "-m", "venv", str(place)], pip):
        done = run(command)
        if done.returncode:
            return PeerEnvironment(None, reason_of(done))
    mark.write_text(json.dumps(made_of))
    return PeerEnvironment(python)


def reason_of(done: subprocess.CompletedProcess[str]) -> str:
    """Why a command failed, in one line: its last line that tells of an error, or its last line."""
    lines = [line.strip() for line in (done.stderr + done.stdout).splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()]
    return (errors or lines or [f"it ended with {done.returncode}"])[-1]
