"""How much an estimator tells while it grows a forest: scikit-learn's ``verbose``."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from numbers import Integral
from typing import TYPE_CHECKING

from distforest.errors import InputError
from distforest.jit import compiling_told
from distforest.jobs.progress import shown_progress

if TYPE_CHECKING:
    from collections.abc import Iterator

    from distforest.jobs.cluster import Watch


@contextmanager
def told_progress(verbose: object) -> Iterator[Watch | None]:
    """Give a watcher to the block, and tell on stderr that kernels are compiled; None and nothing if ``verbose`` is 0.

    Raises
    ------
    InputError
        ``verbose`` is neither a boolean nor an integer of at least 0.
    """
    if not isinstance(verbose, Integral) or int(verbose) < 0:
        raise InputError(f"verbose must be an integer >= 0 or a boolean, found {verbose!r}")
    if not int(verbose):
        yield None
        return
    with shown_progress() as watch, compiling_told(_tell):
        yield watch


def _tell(text: str) -> None:
    print(f"distforest: {text}", file=sys.stderr, flush=True)
