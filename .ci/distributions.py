"""What is published, tried as a stranger would: python .ci/distributions.py FOLDER [--tag v1.2.3]

FOLDER has one sdist and one wheel. The sdist is to hold all tracked files and the wheel all of the package; the wheel
is installed into an empty environment, and runs the quickstart outside of the checkout.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tag", help="the tag whose version they must have")
    given = parser.parse_args()
    (sdist,) = given.folder.resolve().glob("*.tar.gz")
    (wheel,) = given.folder.resolve().glob("*.whl")
    version = wheel.name.split("-")[1]
    same("versions of sdist and wheel", {sdist.name.removesuffix(".tar.gz")}, {f"distforest-{version}"})
    if given.tag is not None:
        same("version and tag", {version}, {given.tag.removeprefix("v")})
    same("files of the sdist and tracked files", files_of_sdist(sdist), tracked())
    same("files of the wheel and tracked files of the package", files_of_wheel(wheel), tracked("distforest"))
    with tempfile.TemporaryDirectory() as folder:
        quickstart(wheel, version, Path(folder))


def same(what: str, found: set[str], wanted: set[str]) -> None:
    """End with the differences of two sets, if there are any."""
    if found != wanted:
        sys.exit(f"{what} differ: only the first has {sorted(found - wanted)}, the second {sorted(wanted - found)}")
    print(f"{what}: {len(found)}, the same")


def tracked(*paths: str) -> set[str]:
    return set(output("git", "-C", str(ROOT), "ls-files", "-z", *paths).rstrip("\0").split("\0"))


def files_of_sdist(path: Path) -> set[str]:
    with tarfile.open(path) as archive:
        return {own.name.partition("/")[2] for own in archive if own.isfile()} - {"PKG-INFO"}


def files_of_wheel(path: Path) -> set[str]:
    with zipfile.ZipFile(path) as archive:
        return {name for name in archive.namelist() if not name.split("/")[0].endswith(".dist-info")}


def quickstart(wheel: Path, version: str, folder: Path) -> None:
    """Run a wheel's quickstart in an empty environment; its forests must be whole and have the digests it tells."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True)
    pip = [sys.executable, "-m", "pip", "--python", folder / "venv"]
    subprocess.run([*pip, "install", "--quiet", wheel], check=True)
    program = str(folder / "venv/bin/distforest")
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "NUMBA_"))}
    environment |= {"DISTFOREST_SCRATCH": str(folder / "scratch")}

    def distforest(*words: str) -> str:
        return output(program, *words, cwd=folder, env=environment)

    same("the version that is told and the wheel's", set(distforest("--version").split()[-1:]), {version})
    told = json.loads(distforest("quickstart", "home", "--workers", "2", "--json"))
    for name in ("lazega", "ionosphere"):
        found = json.loads(distforest("verify", f"home/forests/{name}.zarr", "--json"))
        same(f"digests of {name}, of the file and told", {found["digest"]}, {told[name]["digest"]})


def output(*command: str, cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
    return subprocess.run(command, cwd=cwd, env=env, stdout=subprocess.PIPE, text=True, check=True).stdout


main()
