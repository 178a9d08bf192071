"""Files whose text or pictures a page of the site shows: a git host shows the file, to which its readers are led.

These are files that lie above the documentation, and the scripts of the gallery.
"""

from __future__ import annotations

import re
from pathlib import Path
from posixpath import relpath
from typing import Any

ROOT = Path(__file__).parents[2]
PAGES = {"CHANGELOG.md": "changelog", "CONTRIBUTING.md": "explanation/contributing"}
LINK = re.compile(r"\[([^\]]*)\]\(((?:\.\./)*)([\w./-]+)(#[\w-]+)?\)")
GALLERY, SCRIPT = "gallery.md", re.compile(r"gallery/([\w/]+)\.py")


def read(_app: Any, page: str, source: list[str]) -> None:
    """Put a file's text in the place of its page, and lead links to pages."""
    above = next((name for name, own in PAGES.items() if own == page), None)
    text = (ROOT / above).read_text() if above else source[0]
    here = Path(page).parent.as_posix()

    def led(link: re.Match[str]) -> str:
        words, up, path, anchor = link.groups()
        if path == GALLERY:
            return f"[{words}]({up}gallery-made/index.rst)"
        if script := SCRIPT.fullmatch(path):
            return f"[{words}]({up}gallery-made/{script[1]}.rst)"
        if above and path.startswith("docs/"):
            return f"[{words}]({relpath(path.removeprefix('docs/'), here)}{anchor or ''})"
        if path in PAGES and (above or up.count("../") == len(Path(page).parts)):
            return f"[{words}]({relpath(PAGES[path], here)}.md{anchor or ''})"
        return words if above else link[0]

    source[0] = LINK.sub(led, text)


def setup(app: Any) -> dict[str, bool]:
    """Read pages so."""
    app.connect("source-read", read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
