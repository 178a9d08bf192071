"""How tests look at messages: by what a message names, never by its sentences, which `tests/test_wording.py` reads."""

from __future__ import annotations

import re


def naming(*parts: object) -> str:
    r"""Return a pattern for ``match=`` that finds a message in which each part stands, in any order.

    A part is what a user would look for: an argument, a key, a column, a file, a row or a value.

    Examples
    --------
    >>> bool(re.search(naming("n_pairs", -3), "an amount above 0 was expected, found n_pairs=-3"))
    True
    >>> bool(re.search(naming("n_pairs", 7), "an amount above 0 was expected, found n_pairs=-3"))
    False
    """
    return "(?s)" + "".join(f"(?=.*{re.escape(str(part))})" for part in parts)
