"""The order of rows that have names: rows are paired by their places, so the same names in another order are told."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

import numpy as np

from distforest.sources.arrays import open_array
from distforest.sources.files.ids import arrays_in, names_beside, text_of
from distforest.sources.opening import address_of
from distforest.sources.schema import NAMES
from distforest.sources.truth import GivenTruth
from distforest.stores.groups import attributes_of

if TYPE_CHECKING:
    from collections.abc import Sequence

NAMED_ROWS = "named"
"""The attribute of pairs that says by which names they number rows."""


def told_of_addresses(X: object, values: object) -> str:
    """Where rows at the addresses of ``X`` and ``values`` have the same names in another order; else "".

    ``values`` may number the rows of ``X`` by their names, and its own columns may be in another order than its rows.
    """
    rows, other = address_of(X), values.address if isinstance(values, GivenTruth) else address_of(values)
    if other is None:
        return ""
    of_both = "" if rows is None else told_of_named_order([rows, other]) or told_of_named_pairs(other, [rows])
    return of_both or told_of_square_order(other)


def told_of_named_order(addresses: Sequence[str]) -> str:
    r"""Where rows at two addresses have the same names in another order; else "". Rows are paired by their places.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from distforest.sources.files.ingest import ingest
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name, rows in (("new", "fern,1\nmoss,3"), ("old", "moss,3\nfern,1")):
    ...         _ = Path(folder, f"{name}.csv").write_text(f"plant,height\n{rows}\n")
    ...         _ = ingest(f"{folder}/{name}.csv", f"{folder}/{name}.zarr", id="plant")
    ...     told_of_named_order([f"{folder}/{name}.zarr/X" for name in ("new", "old")]).replace(folder, "")
    "row 0 of /new.zarr/X is named 'fern' and of /old.zarr/X 'moss', but they are taken for the same row; ingest both
    from tables in one order"
    """
    named = [(address, names) for address in addresses if (names := names_beside(address)) is not None]
    for other, names in named[1:]:
        address, own = named[0]
        if len(own) != len(names) or own.dtype.kind != names.dtype.kind or (own == names).all():
            continue
        if (np.sort(own) == np.sort(names)).all():
            place = int(np.argmax(own != names))
            one, another = (text_of(found[place]) for found in (own, names))
            told = f"row {place} of {address} is named {one!r} and of {other} {another!r}"
            return f"{told}, but they are taken for the same row; ingest both from tables in one order"
    return ""


def order_of_names(names: Sequence[str]) -> dict[str, dict[str, str]]:
    """An attribute of pairs that were named: by which names, in which order, their numbers count rows.

    Examples
    --------
    >>> one, other = (order_of_names(names)["named"] for names in (["fern", "moss"], ["moss", "fern"]))
    >>> one["order"] == other["order"], one["names"] == other["names"]
    (False, True)
    """
    digests = {what: sha256("\0".join(own).encode()) for what, own in (("order", names), ("names", sorted(names)))}
    return {NAMED_ROWS: {what: digest.hexdigest() for what, digest in digests.items()}}


def told_of_named_pairs(pairs: str, rows: Sequence[str]) -> str:
    r"""Where pairs, or a matrix of measured pairs, number the rows of others by their names in another order; else "".

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from distforest.sources.files.ingest import ingest
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name, rows in (("new", "fern,1\nmoss,3"), ("old", "moss,3\nfern,1")):
    ...         _ = Path(folder, f"{name}.csv").write_text(f"plant,height\n{rows}\n")
    ...         _ = ingest(f"{folder}/{name}.csv", f"{folder}/{name}.zarr", id="plant")
    ...     _ = Path(folder, "pairs.csv").write_text("i,j\nfern,moss\n")
    ...     _ = ingest(f"{folder}/pairs.csv", f"{folder}/pairs.zarr", pairs=["i", "j"], rows=f"{folder}/old.zarr")
    ...     pairs, rows = f"{folder}/pairs.zarr/pairs", [[f"{folder}/{name}.zarr/X"] for name in ("old", "new")]
    ...     told = [told_of_named_pairs(pairs, own) for own in rows]
    >>> told[0], told[1].split(" ", 1)[1].replace(folder, "")
    ('', 'numbers the rows of a table in another order than /new.zarr/X, by their names; `distforest ingest --rows
    /new.zarr/X` numbers these')
    """
    group, _, name = pairs.rstrip("/").rpartition("/")
    is_array = bool(group) and name in arrays_in(group)
    named = (open_array(pairs).attrs if is_array else attributes_of(pairs)).get(NAMED_ROWS)
    if not isinstance(named, dict):
        return ""
    for address in rows:
        found = names_beside(address)
        if found is None:
            continue
        own = order_of_names([text_of(name) for name in found])[NAMED_ROWS]
        if own["names"] == named.get("names") and own["order"] != named.get("order"):
            order = f"numbers the rows of a table in another order than {address}, by their names"
            return f"{pairs} {order}; `distforest ingest --rows {address}` numbers these"
    return ""


def told_of_square_order(address: str) -> str:
    """Where the rows and the columns of a matrix of pairs of objects have the same names in another order; else ""."""
    found = names_beside(address)
    columns = [] if found is None else open_array(address).attrs.get(NAMES)
    if found is None or not isinstance(columns, list):
        return ""
    rows = [text_of(name) for name in found]
    if rows == columns or sorted(rows) != sorted(map(str, columns)):
        return ""
    place = next(place for place, (row, column) in enumerate(zip(rows, columns, strict=True)) if row != column)
    named = f"row {place} of {address} is named {rows[place]!r} and column {place} {columns[place]!r}"
    return f"{named}, but they are taken for the same object; put the columns in the order of the rows"
