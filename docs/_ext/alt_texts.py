"""What the pictures of the gallery show, in words, for those who do not see them: from their axes and legends."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.legend import Legend

ALT = re.compile(r"(?<=:alt: ).*")


def words_of(figure: Figure) -> str:
    """A figure in words: of each axes its title, what is drawn against what, and the names in its legend."""
    title = [figure.get_suptitle()] if figure.get_suptitle() else []
    legends = [_names(legend) for legend in figure.legends]
    words = "; ".join(dict.fromkeys(filter(None, [*title, *map(_words, figure.axes), *legends])))
    return " ".join(words.split()).replace('"', "'")  # sphinx-gallery writes it between quotes as it is


def _words(axes: Axes) -> str:
    across, up = axes.get_xlabel(), axes.get_ylabel()
    drawn = f"{up} against {across}" if across and up else across or up
    legend = axes.get_legend()
    return ": ".join(filter(None, [axes.get_title(), drawn, _names(legend) if legend else ""]))


def _names(legend: Legend) -> str:
    return ", ".join(text.get_text() for text in legend.get_texts())


def pictures(block: Any, variables: dict[str, Any], settings: dict[str, Any]) -> str:
    """Save the figures of a block as sphinx-gallery does, and put words in the place of their alternative texts."""
    import matplotlib.pyplot as plt  # noqa: PLC0415  (which a test of the words does without)
    from sphinx_gallery.scrapers import matplotlib_scraper  # noqa: PLC0415

    words = iter([words_of(plt.figure(number)) for number in plt.get_fignums()])
    saved: str = matplotlib_scraper(block, variables, settings)
    return ALT.sub(lambda alt: next(words) or alt[0], saved)


def _get_sg_image_scraper() -> Callable[..., str]:
    """By this name sphinx-gallery asks a module for what saves figures."""
    return pictures
