"""Links whose words were turned into numbers: by their order, which need not be what the words mean."""

from __future__ import annotations

from typing import TYPE_CHECKING

from distforest.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from distforest.sources.factors import ClassName

IN_ORDER = (
    *(["no", "yes"], ["false", "true"], ["0", "1"], ["-1", "1"]),
    *(["different", "same"], ["dissimilar", "similar"], ["cannot-link", "must-link"]),
    *(["cannot", "must"], ["cannot link", "must link"], ["n", "y"]),
)
"""Words whose alphabetic order is that of dissimilar and similar."""


def check_named_links(names: Sequence[ClassName] | None) -> None:
    """Refuse numbers of words as links, unless their order says which of them means similar.

    A file of ``linked`` and ``unlinked`` becomes 0 and 1, which would be read the other way round.

    Parameters
    ----------
    names
        The words, if links are their numbers: the attribute ``classes`` of a stored array.

    Raises
    ------
    InputError
        There are words, and they do not tell.

    Examples
    --------
    >>> check_named_links(["no", "yes"])
    >>> check_named_links(["linked", "unlinked"])
    Traceback (most recent call last):
    distforest.errors.InputError: similar: True or False for each pair was expected, found numbers of the words
    'linked', 'unlinked' in alphabetic order; write true or false in their place
    """
    if names is None or [str(name).lower() for name in names] in IN_ORDER:
        return
    found = f"found numbers of the words {', '.join(map(repr, names[:5]))} in alphabetic order"
    raise InputError(f"similar: True or False for each pair was expected, {found}; write true or false in their place")
