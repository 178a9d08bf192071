"""Formulas as outlines in the page, drawn by matplotlib: no script, no font, no network."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from outlines import on_its_own_line, outline


def inline(writer: Any, node: nodes.math) -> None:
    """Write a formula in a line."""
    writer.body.append(outline(node.astext()))
    raise nodes.SkipNode


def block(writer: Any, node: nodes.math_block) -> None:
    """Write a formula on a line of its own."""
    writer.body.append(f'<div class="math">{on_its_own_line(node.astext())}</div>')
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, bool]:
    """Make ``html_math_renderer = "outlines"`` known."""
    app.add_html_math_renderer("outlines", (inline, None), (block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
