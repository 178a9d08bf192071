"""Formulas as outlines in the page, drawn by matplotlib: no script, no font, no network."""

from __future__ import annotations

from html import escape
from typing import Any

from docutils import nodes
from matplotlib.font_manager import FontProperties
from matplotlib.path import Path
from matplotlib.textpath import TextPath

SIZE = 100
"""Units of an outline in the height of the page's font."""

STROKES = {Path.MOVETO: "M", Path.LINETO: "L", Path.CURVE3: "Q", Path.CURVE4: "C"}


def outline(formula: str) -> str:
    """Draw a formula as an element of a line, on the line's foot."""
    drawn = TextPath((0, 0), f"${' '.join(formula.split())}$", SIZE, prop=FontProperties(math_fontfamily="cm"))
    strokes = []
    for vertices, code in drawn.iter_segments(simplify=False):
        places = " ".join(f"{x:.1f} {-y:.1f}" for x, y in vertices.reshape(-1, 2))  # a page counts downwards
        strokes.append("Z" if code == Path.CLOSEPOLY else STROKES[code] + places)
    (left, low), (right, high) = drawn.get_extents().get_points()
    return (
        f'<svg class="formula" role="img" aria-label="{escape(formula)}" '
        f'viewBox="{left:.1f} {-high:.1f} {right - left:.1f} {high - low:.1f}" '
        f'style="width:{(right - left) / SIZE:.3f}em;height:{(high - low) / SIZE:.3f}em;'
        f'vertical-align:{low / SIZE:.3f}em">'
        f'<path fill="currentColor" d="{"".join(strokes)}"/></svg>'
    )


def inline(writer: Any, node: nodes.math) -> None:
    """Write a formula in a line."""
    writer.body.append(outline(node.astext()))
    raise nodes.SkipNode


def block(writer: Any, node: nodes.math_block) -> None:
    """Write a formula on a line of its own."""
    tall = node.astext().replace(r"\frac", r"\dfrac")  # which a line of its own has room for
    writer.body.append(f'<div class="math">{outline(tall)}</div>')
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, bool]:
    """Make ``html_math_renderer = "outlines"`` known."""
    app.add_html_math_renderer("outlines", (inline, None), (block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
