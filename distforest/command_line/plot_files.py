"""Pictures that commands write: where one can be written, and what is said if none can be drawn."""

from __future__ import annotations

import os
from typing import Any

from distforest.errors import InputError


def check_plot(path: str) -> None:
    """Refuse a path where no picture can be written; raises InputError."""
    folder, name = os.path.split(path)
    if not os.path.isdir(folder or ".") or not os.path.splitext(name)[1]:
        raise InputError(f"--plot {path}: a name such as picture.png, in an existing folder, was expected")


def no_plots(error: ImportError) -> InputError:
    """The error where matplotlib is missing."""
    return InputError(f"--plot needs matplotlib, pip install 'distforest[plot]': {error}")


def save_figure(figure: Any, path: str) -> None:
    """Write a picture; raises InputError for a suffix that is not known."""
    try:
        figure.savefig(path, dpi=130)
    except ValueError as error:
        raise InputError(f"--plot {path}: {error}") from error
