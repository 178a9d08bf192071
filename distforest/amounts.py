"""Amounts in words: how many there are, and of what."""

from __future__ import annotations


def counted(count: int, noun: str, plural: str = "") -> str:
    """A number and its noun, in the singular where there is one.

    Examples
    --------
    >>> counted(1, "row"), counted(2500, "row"), counted(0, "class", "classes")
    ('1 row', '2,500 rows', '0 classes')
    """
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


def are(count: int) -> str:
    """The verb that goes with so many.

    Examples
    --------
    >>> are(1), are(2)
    ('is', 'are')
    """
    return "is" if count == 1 else "are"
