"""Charts of a page as SVG, and matrices as PNG, without a library: a page shows them in light and in dark.

A chart's text stands beside it as text of the page, so that it is as large on a phone as on a desk.
"""

from __future__ import annotations

import base64
import struct
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

CANVAS_WIDTH, CANVAS_HEIGHT = 600.0, 240.0
"""Size of a chart in its own units; the page stretches it."""

CIVIDIS = ("00224e", "123570", "3b496c", "575d6d", "707173", "8a8678", "a59c74", "c3b369", "e1cc55", "fee838")
"""Colours from the least to the greatest, evenly spaced, which can be told apart under colour blindness."""


@dataclass(frozen=True)
class Shape:
    """A shape of a chart: a column, or a line.

    Attributes
    ----------
    kind
        ``"column"``, ``"line"`` or ``"chance"``.
    points
        Places of a line, as SVG has them; empty for a column.
    box
        x, y, width and height of a column; empty for a line.
    told
        What it says, in words.
    """

    kind: str
    points: str = ""
    box: tuple[str, ...] = ()
    told: str = ""


@dataclass(frozen=True)
class SVGChart:
    """A chart: its shapes, and the words at its axes, each from the least to the greatest."""

    shapes: tuple[Shape, ...]
    across: tuple[str, ...]
    upwards: tuple[str, ...]
    across_name: str
    upwards_name: str
    width: float = CANVAS_WIDTH
    height: float = CANVAS_HEIGHT


def line_chart(
    x: ArrayLike, y: ArrayLike, names: tuple[str, str], *, most: float | None = None, with_chance: bool = False
) -> SVGChart:
    """Draw a line over ascending ``x``, from 0 up to ``most`` or the greatest ``y``; ``names`` are of the axes."""
    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
    left, right, top = float(x[0]), float(x[-1]), float(y.max()) if most is None else most
    if left == right:  # a single point, as a line across
        x, y = np.array([left, left + 1.0]), np.append(y, y)
    span, top = float(x[-1] - x[0]), top or 1.0
    places = zip((x - left) / span * CANVAS_WIDTH, (1.0 - y / top) * CANVAS_HEIGHT, strict=True)
    shapes = [Shape("line", " ".join(f"{a:.1f},{b:.1f}" for a, b in places))]
    if with_chance:
        shapes.insert(0, Shape("chance", f"0,{CANVAS_HEIGHT:g} {CANVAS_WIDTH:g},0"))
    middle = (left + right) / 2.0
    is_count = left == round(left) and right == round(right) and right > 1.0
    marks = (
        (left,) if left == right else (left, right) if is_count and middle != round(middle) else (left, middle, right)
    )
    upwards = tuple(in_digits(top * share) for share in (0.0, 0.5, 1.0))
    return SVGChart(tuple(shapes), tuple(map(in_digits, marks)), upwards, *names)


def column_chart(columns: Sequence[tuple[str, int]], names: tuple[str, str]) -> SVGChart:
    """Draw a column for each name and number; ``names`` are those of the axes."""
    top, step = max(1, *(n for _, n in columns)), CANVAS_WIDTH / len(columns)
    shapes = []
    for k, (name, n) in enumerate(columns):
        height = n / top * CANVAS_HEIGHT
        box = (k * step + 0.1 * step, CANVAS_HEIGHT - height, 0.8 * step, height)
        shapes.append(Shape("column", box=tuple(f"{size:.1f}" for size in box), told=f"{name}: {n:,}"))
    ends = sorted({0, len(columns) // 2, len(columns) - 1})
    return SVGChart(tuple(shapes), tuple(columns[k][0] for k in ends), ("0", f"{top:,}"), *names)


def in_digits(value: float) -> str:
    """A number in three digits, or all of a whole one.

    Examples
    --------
    >>> in_digits(0.12345), in_digits(1500.0), in_digits(250.5)
    ('0.123', '1,500', '250')
    """
    return f"{value:,.0f}" if value == round(value) or abs(value) >= 100.0 else f"{value:.3g}"


def matrix_as_png(matrix: np.ndarray) -> str:
    """A matrix of shares from 0 to 1 as the address of a PNG that holds itself, a pixel for each entry.

    Examples
    --------
    >>> matrix_as_png(np.eye(2))[:30]
    'data:image/png;base64,iVBORw0K'
    """
    anchors = np.array([[int(colour[k : k + 2], 16) for k in (0, 2, 4)] for colour in CIVIDIS], np.float64)
    places = np.linspace(0.0, len(anchors) - 1.0, 256)
    palette = np.stack([np.interp(places, np.arange(len(anchors)), own) for own in anchors.T], axis=1)
    codes = (np.clip(matrix, 0.0, 1.0) * 255.0).round().astype(np.uint8)
    rows = np.concatenate([np.zeros((len(codes), 1), np.uint8), codes], axis=1)  # each row begins with its filter: none
    header = struct.pack(">IIBBBBB", matrix.shape[1], matrix.shape[0], 8, 3, 0, 0, 0)
    blocks = (
        (b"IHDR", header),
        (b"PLTE", palette.round().astype(np.uint8).tobytes()),
        (b"IDAT", zlib.compress(rows.tobytes(), 9)),
        (b"IEND", b""),
    )
    content = b"\x89PNG\r\n\x1a\n" + b"".join(_block(*block) for block in blocks)
    return f"data:image/png;base64,{base64.b64encode(content).decode()}"


def _block(name: bytes, content: bytes) -> bytes:
    """A block of a PNG with its length and checksum."""
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
