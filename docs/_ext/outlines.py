"""A formula as an outline: what ``formulas`` writes into a page, and a test asks without Sphinx."""

from __future__ import annotations

from html import escape

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


def on_its_own_line(formula: str) -> str:
    """Draw a formula that has a line of its own, which has room for tall fractions."""
    return outline(formula.replace(r"\frac", r"\dfrac"))
