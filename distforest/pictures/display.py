"""What all displays share: they hold what they show, draw it on axes, and are shown by a notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Self

from distforest.pictures.plotting import Picture, canvas, name_lines

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase


class Display:
    """A picture of single axes, as scikit-learn has them.

    Attributes
    ----------
    ax_ : matplotlib Axes
        On which `plot` has drawn last.
    figure_ : matplotlib figure
        That has these axes.
    """

    size: ClassVar[tuple[float, float]] = (7.0, 4.0)
    ax_: Axes
    figure_: FigureBase

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw the picture.

        Parameters
        ----------
        ax
            Axes to draw on; None: a figure of its own, which a notebook shows and ``figure_.savefig`` saves.

        Returns
        -------
        Display
            Itself.

        Raises
        ------
        InputError
            ``ax`` is anything but axes of matplotlib.
        """
        shown, self.ax_ = canvas(*self._size(), ax)
        self.figure_ = self.ax_.figure
        self._draw(self.ax_, is_given=ax is not None)
        if self.ax_.get_legend() is None and self.ax_.get_legend_handles_labels()[0]:
            name_lines(shown, self.ax_)
        return self

    def _size(self) -> tuple[float, float]:
        """Width and height in inches of a figure of its own."""
        return self.size

    def _draw(self, axes: Axes, is_given: bool) -> None:
        raise NotImplementedError

    def _repr_png_(self) -> bytes | None:
        """The picture as PNG, for IPython; None if it was drawn on given axes, which their own figure shows."""
        figure = getattr(self, "figure_", None)
        return figure._repr_png_() if isinstance(figure, Picture) else None
