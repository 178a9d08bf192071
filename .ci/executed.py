"""Which scripts of the gallery have been executed as they stand: executed.py [--write]

The file `executed.sha256` has the digest of each script, and of each file of data, of the last build that executed all
of them. By default, a regular expression is printed of the scripts that a build is to execute where it has no time for
all: the first pictures, which take seconds, and the scripts that are not in the file as they stand; all of them, if
that is so for a file of data. With --write, the file is written.
"""

from __future__ import annotations

import hashlib
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
GALLERY, DATA = "docs/gallery", ("benchmarks/data", "examples/data")
FIRST = rf"/{GALLERY}/\w+\.py$"
ALL = r"\.py$"


def main() -> None:
    """Print the expression, or write the file."""
    kept = ROOT / ".ci/executed.sha256"
    if sys.argv[1:] == ["--write"]:
        kept.write_text("".join(f"{digest}  {name}\n" for name, digest in digests(ROOT).items()))
    else:
        print(to_execute(ROOT, kept.read_text()))


def to_execute(root: Path, kept: str) -> str:
    """The expression, by what a file of digests holds."""
    lines = set(kept.splitlines())
    changed = [name for name, digest in digests(root).items() if f"{digest}  {name}" not in lines]
    if any(name.startswith(DATA) for name in changed):
        return ALL
    return "|".join([FIRST, *(f"/{re.escape(name)}$" for name in changed)])


def digests(root: Path) -> dict[str, str]:
    """The digests of all scripts and files of data, by name."""
    paths = sorted((root / GALLERY).rglob("*.py"))
    paths += [path for folder in DATA for path in sorted((root / folder).glob("*.npz"))]
    return {path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


if __name__ == "__main__":
    main()
