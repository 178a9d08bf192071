"""Amounts and values in words: counts with their nouns, bytes with their units, and what JSON holds."""

from __future__ import annotations


def counted(count: int, noun: str, plural: str = "") -> str:
    """A count with its noun, in the singular for 1.

    Examples
    --------
    >>> counted(1, "row"), counted(2500, "row"), counted(0, "class", "classes")
    ('1 row', '2,500 rows', '0 classes')
    """
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


def are(count: int) -> str:
    """The verb for a count.

    Examples
    --------
    >>> are(1), are(2)
    ('is', 'are')
    """
    return "is" if count == 1 else "are"


def in_bytes(count: float) -> str:
    """A number of bytes with its unit.

    Examples
    --------
    >>> in_bytes(71), in_bytes(1536), in_bytes(4 << 30)
    ('71 B', '1.5 KiB', '4.0 GiB')
    """
    if count < 1024:
        return f"{count:,.0f} B"
    for unit in ("KiB", "MiB"):
        count /= 1024
        if count < 1024:
            return f"{count:,.1f} {unit}"
    return f"{count / 1024:,.1f} GiB"


def value_in_words(value: object) -> str:
    """Write a value of a manifest: a dict, a list or a plain value.

    Examples
    --------
    >>> value_in_words({"kind": "rbf", "shape": [3, 4], "names": []})
    'kind rbf, shape 3, 4, names none'
    """
    if isinstance(value, dict):
        return ", ".join(f"{key} {value_in_words(entry)}" for key, entry in value.items())
    if isinstance(value, list):
        return ", ".join(map(value_in_words, value)) or "none"
    return str(value)
