"""Fails if a page of a site loads a script, style, font, picture or frame from elsewhere: ``offline.py FOLDER``."""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path

ELSEWHERE = re.compile(r"^\s*(?:https?:)?//", re.IGNORECASE)
IN_STYLE = re.compile(r"""(?:url\(\s*['"]?|@import\s+['"])((?:https?:)?//[^'")\s]+)""", re.IGNORECASE)
LOADED = {"stylesheet", "icon", "preload", "prefetch", "preconnect", "dns-prefetch", "modulepreload", "manifest"}
"""What a link element may be that a browser loads by itself; others, such as ``canonical``, it leaves alone."""


class Loads(HTMLParser):
    """What a page makes a browser load from elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.in_style = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.in_style = tag == "style"
        if tag == "link" and not LOADED & set(given.get("rel", "").split()):
            given.pop("href", None)
        asked = [given.get("src", ""), given.get("data", "") if tag == "object" else "", given.get("poster", "")]
        asked += re.split(r",\s+", given.get("srcset", ""))
        asked += [given.get("href", "")] if tag in {"link", "image", "use"} else []
        self.found += [f"<{tag}> {address}" for address in asked if ELSEWHERE.match(address)]
        self.found += [f"style of <{tag}> {address}" for address in IN_STYLE.findall(given.get("style", ""))]

    def handle_data(self, data: str) -> None:
        if self.in_style:
            self.found += [f"<style> {address}" for address in IN_STYLE.findall(data)]


def loads(path: Path) -> list[str]:
    """Find what a page or a style asks for from elsewhere."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".css":
        return IN_STYLE.findall(text)
    page = Loads()
    page.feed(text)
    return page.found


def main() -> int:
    """Check all pages and styles of a site."""
    site = Path(sys.argv[1])
    files = [path for path in sorted(site.rglob("*")) if path.suffix in {".html", ".css"}]
    found = [f"{path.relative_to(site)}: {what}" for path in files for what in loads(path)]
    print("\n".join(found) or f"{len(files)} pages and styles ask for nothing from elsewhere")
    return 1 if found or not files else 0


if __name__ == "__main__":
    sys.exit(main())
