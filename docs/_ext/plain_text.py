"""Docstrings as they are meant: a bar and a trailing underscore are plain characters, not marks of reStructuredText.

And signatures that say something: a protocol has one that takes anything, and is never called.
"""

from __future__ import annotations

import re
from typing import Any

MARKED = re.compile(r"(``.*?``|`[^`]*`)")
UNDERSCORE = re.compile(r"(?<=\w)_(?=[\s,.;:)]|$)")


def escaped(line: str) -> str:
    """Escape what reStructuredText would read as a reference, outside backquotes."""
    parts = MARKED.split(line)
    parts[::2] = [UNDERSCORE.sub(r"\\_", part).replace("|", r"\|") for part in parts[::2]]
    return "".join(parts)


def escape(_app: Any, _what: str, _name: str, _of: Any, _options: Any, lines: list[str]) -> None:
    """Escape the lines of a docstring that are neither examples nor blocks taken as they stand."""
    literal: int | None = None
    for number, line in enumerate(lines):
        depth = len(line) - len(line.lstrip())
        if literal is not None and line.strip() and depth <= literal:
            literal = None
        if literal is None:
            if line.lstrip().startswith(">>>"):
                literal = depth - 1
                continue
            if line.rstrip().endswith("::"):
                literal = depth
            lines[number] = escaped(line)
        elif not line.strip() and literal == depth - 1:
            literal = None


def shortened(_app: Any, what: str, _name: str, _of: Any, _options: Any, given: str, _returned: Any) -> Any:
    """Leave out the arguments of a class that nobody makes."""
    return ("", None) if what == "class" and given == "(*args, **kwargs)" else None


def setup(app: Any) -> dict[str, bool]:
    """Escape after numpydoc has made its sections."""
    app.connect("autodoc-process-signature", shortened)
    app.connect("autodoc-process-docstring", escape, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
