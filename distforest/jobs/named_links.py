"""Links whose words were turned into numbers: by their order, which need not be what the words mean."""

from __future__ import annotations

from distforest.errors import InputError
from distforest.sources.factors import names_of_classes

IN_ORDER = (
    *(["no", "yes"], ["false", "true"], ["0", "1"], ["-1", "1"]),
    *(["different", "same"], ["dissimilar", "similar"], ["cannot-link", "must-link"]),
)
"""Words whose alphabetic order is that of dissimilar and similar."""


def check_named_links(similar: object) -> None:
    """Refuse numbers of words as links, unless their order says which of them means similar.

    A file of ``linked`` and ``unlinked`` becomes 0 and 1, which would be read the other way round.

    Parameters
    ----------
    similar
        Whether each pair is similar; an array on disk may have the attribute ``classes``.

    Raises
    ------
    InputError
        The array has names of classes, and the words do not tell.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> check_named_links(SimpleNamespace(attrs={"classes": ["no", "yes"]}))
    >>> check_named_links(SimpleNamespace(attrs={"classes": ["linked", "unlinked"]}))
    Traceback (most recent call last):
    distforest.errors.InputError: similar: True or False for each pair was expected, found numbers of the words
    'linked', 'unlinked' in alphabetic order; write true or false in their place
    """
    names = names_of_classes(similar)
    if names is None or [str(name).lower() for name in names] in IN_ORDER:
        return
    found = f"found numbers of the words {', '.join(map(repr, names[:5]))} in alphabetic order"
    raise InputError(f"similar: True or False for each pair was expected, {found}; write true or false in their place")
