"""Pieces of HTML, escaped and without scripts: a short table for a notebook, and a sentence with words of code."""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING

from markupsafe import Markup

if TYPE_CHECKING:
    from collections.abc import Iterable

_TABLE = "border-collapse:collapse;color:inherit;background:transparent;margin:0.5em 0"
_CELL = "text-align:left;vertical-align:top;padding:0.1em 1em 0.1em 0;color:inherit;background:transparent"


def html_table(rows: Iterable[tuple[str, object]]) -> str:
    """Write names and values as a table, which a notebook shows in its own colours, dark or light.

    Examples
    --------
    >>> "<td" in html_table([("output", "<b>.zarr")]), "<b>" in html_table([("output", "<b>.zarr")])
    (True, False)
    """
    lines = [
        f'<tr><th scope="row" style="{_CELL}">{escape(name)}</th>'
        f'<td style="{_CELL};overflow-wrap:anywhere">{escape(str(value))}</td></tr>'
        for name, value in rows
    ]
    return f'<table style="{_TABLE}"><tbody>{"".join(lines)}</tbody></table>'


def with_code(text: str) -> Markup:
    """Write a sentence in which backquotes mark words of code, as messages have them.

    Examples
    --------
    >>> str(with_code("give `label`, or leave `<out>` out"))
    'give <code>label</code>, or leave <code>&lt;out&gt;</code> out'
    """
    return Markup(re.sub(r"`([^`\n]+)`", r"<code>\1</code>", escape(text)))  # noqa: S704  (it is escaped)
