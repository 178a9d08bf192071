"""Names of rows, beside their features or labels: whole numbers, or texts as bytes of UTF-8 in rows of one width."""

from __future__ import annotations

import re
from hashlib import sha256
from typing import TYPE_CHECKING

import numpy as np

from distforest.errors import InputError
from distforest.sources.arrays import open_array, row_blocks
from distforest.sources.opening import address_of, open_matrix
from distforest.sources.schema import NAMES
from distforest.sources.truth import GivenTruth
from distforest.stores.groups import attributes_of

if TYPE_CHECKING:
    from collections.abc import Sequence

IDS = "ids"
"""The array of a group that names its rows."""

OBJECTS = "objects"
"""The array of a group that holds the objects, texts, of which a function tells the similarity."""

NAMED_ROWS = "named"
"""The attribute of pairs that says by which names, in which order, they number rows."""

TEXT_ENCODING = "encoding"
"""The attribute of an array of names that are texts."""

MAX_ID_BYTES, MAX_OBJECT_BYTES = 1 << 10, 1 << 16
"""The most bytes of a name, and of an object."""

WHOLE = re.compile(r"0|-?[1-9]\d{0,17}")
"""A name that is a whole number and nothing else: 7, and not 007."""


def packed_names(names: Sequence[str], width: int) -> np.ndarray:
    r"""Names as bytes, shape (n, width) of uint8, filled up with zeros.

    Examples
    --------
    >>> packed_names(["ab", "é"], 3).tolist()
    [[97, 98, 0], [195, 169, 0]]
    """
    packed = b"".join(name.encode().ljust(width, b"\0") for name in names)
    return np.frombuffer(packed, np.uint8).reshape(len(names), width)


def names_of_rows(values: np.ndarray, attributes: object) -> list[str]:
    """The names in an array of them, or in some of its rows.

    Raises
    ------
    InputError
        These are no names.

    Examples
    --------
    >>> names_of_rows(packed_names(["ab", "é"], 3), {"encoding": "utf-8"}), names_of_rows(np.array([7, -1]), {})
    (['ab', 'é'], ['7', '-1'])
    """
    is_text = isinstance(attributes, dict) and attributes.get(TEXT_ENCODING) == "utf-8"
    try:
        if is_text and values.ndim == 2 and values.dtype == np.uint8:
            return [row.tobytes().rstrip(b"\0").decode() for row in values]
        if not is_text and values.ndim == 1 and values.dtype.kind in "iu":
            return [str(number) for number in values.tolist()]
    except UnicodeDecodeError as error:
        raise InputError(f"{IDS}: names in UTF-8 were expected, found other bytes") from error
    raise InputError(f"{IDS}: a name for each row was expected, found {values.dtype} of shape {values.shape}")


def rows_of_ids(address: str) -> str:
    """The address of the rows whose names are asked for by it, or by the group that holds them.

    They are the features ``X`` of the group, or its ground truth ``y`` if it has no features, or else its ``objects``,
    unless another one of its arrays is named.

    Examples
    --------
    >>> rows_of_ids("wines.zarr"), rows_of_ids("wines.zarr/X"), rows_of_ids("wines.zarr/ids")
    ('wines.zarr/X', 'wines.zarr/X', 'wines.zarr/X')
    """
    group, _, name = address.rstrip("/").rpartition("/")
    beside = arrays_in(group) if group else []
    if name in beside and name not in ("X", "y", IDS):
        return f"{group}/{name}"
    is_within = bool(group) and (name in ("X", IDS) or (name == "y" and name in beside))
    group = group if is_within else address.rstrip("/")
    arrays = arrays_in(group)
    return f"{group}/{next((own for own in ('X', 'y', OBJECTS) if own in arrays), 'X')}"


def read_ids(address: str) -> np.ndarray:
    r"""Read the names that ``distforest ingest --id`` has kept beside the rows of a table.

    Parameters
    ----------
    address
        Path or URL of the group that ``ingest`` has written, or of its ``X`` or ``y``.

    Returns
    -------
    ndarray of shape (n,)
        The names in the order of the rows: int64 if all are whole numbers, otherwise strings.

    Raises
    ------
    InputError
        There are no such rows, or nobody has named them.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from distforest import read_ids
    >>> from distforest.sources.files.ingest import ingest
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "plants.csv").write_text("plant,height\nfern,1\nmoss,3\n")
    ...     _ = ingest(f"{folder}/plants.csv", f"{folder}/plants.zarr", id="plant")
    ...     read_ids(f"{folder}/plants.zarr").tolist()
    ['fern', 'moss']
    """
    rows = rows_of_ids(address)
    ids = ids_beside(rows, int(open_matrix(rows).shape[0]))
    if ids is None:
        cure = "ingest the table once more, and give `id`, the column that names its rows"
        raise InputError(f"{rows}: rows with names beside them were expected, found none; {cure}")
    array = open_array(ids)
    if array.dtype.kind in "iu" and len(array.shape) == 1:
        return np.asarray(array[...])
    return np.array(names_at(ids), np.str_)


def names_at(ids: str) -> list[str]:
    """The names of rows in the array at an address of `ids_beside`; raises InputError as `names_of_rows`."""
    array = open_array(ids)
    return [name for _, block in row_blocks(array) for name in names_of_rows(block, dict(array.attrs))]


def refuse_text_as_bytes(address: str, array: object) -> None:
    """Refuse an array of the names of rows, which `ingest` writes as bytes, where numbers are required.

    Raises
    ------
    InputError
        Its attributes say that its numbers are bytes of text.
    """
    if is_text_as_bytes(array):
        cure = "name another array, such as X beside it"
        raise InputError(f"{address}: numbers were expected, found the names of rows as bytes of text; {cure}")


def is_text_as_bytes(array: object) -> bool:
    """Whether the attributes of an array say that its rows are bytes of text."""
    attributes = getattr(array, "attrs", None)
    is_utf8 = attributes is not None and attributes.get(TEXT_ENCODING) == "utf-8"
    return bool(is_utf8 and getattr(array, "dtype", None) == np.uint8)


def ids_beside(address: str, n_rows: int | None = None) -> str | None:
    """The address of the names that `distforest.sources.files.ingest.ingest` wrote beside an array; None: none."""
    group, _, name = address.rstrip("/").rpartition("/")
    arrays = arrays_in(group) if group else []
    if IDS not in arrays or name not in arrays or name == IDS:
        return None
    ids = open_array(f"{group}/{IDS}")
    whole = len(ids.shape) == 1 and ids.dtype.kind in "iu"
    text = len(ids.shape) == 2 and ids.shape[1] <= MAX_ID_BYTES and ids.attrs.get(TEXT_ENCODING) == "utf-8"
    is_known = ids.shape[0] == (open_matrix(address).shape[0] if n_rows is None else n_rows)
    return f"{group}/{IDS}" if is_known and (whole or (text and ids.dtype == np.uint8)) else None


def arrays_in(group: str) -> list[object]:
    """The names of the arrays that a group says it holds."""
    mark = attributes_of(group).get("distforest")
    arrays = mark.get("arrays") if isinstance(mark, dict) else None
    return arrays if isinstance(arrays, list) else []


def told_of_addresses(X: object, values: object) -> str:
    """Where rows at the addresses of ``X`` and ``values`` have the same names in another order; else "".

    ``values`` may number the rows of ``X`` by their names, and its own columns may be in another order than its rows.
    """
    rows, other = address_of(X), values.address if isinstance(values, GivenTruth) else address_of(values)
    if other is None:
        return ""
    of_both = (told_of_named_order([rows, other]) or warning_of_pair_order(other, rows)) if rows else ""
    return of_both or told_of_square_order(other)


def warning_of_named_pairs(X: object, pairs: object) -> str:
    """`warning_of_pair_order` of the pairs and the rows ``X``, if both are at addresses; else ""."""
    rows, other = address_of(X), address_of(pairs)
    return warning_of_pair_order(other, rows) if rows and other else ""


def told_of_named_order(addresses: Sequence[str]) -> str:
    r"""Where rows at two addresses have the same names in another order; else "". Rows are paired by position.

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
    named = [(address, np.asarray(open_array(ids)[...])) for address in addresses if (ids := ids_beside(address))]
    for other, names in named[1:]:
        address, own = named[0]
        if own.ndim != names.ndim or len(own) != len(names):
            continue
        one, another = (held if held.ndim == 1 else held.view(f"S{held.shape[1]}")[:, 0] for held in (own, names))
        if (one != another).any() and (np.sort(one) == np.sort(another)).all():
            place = int(np.argmax(one != another))
            both = (held[place].item() for held in (one, another))
            words = (repr(name.decode() if isinstance(name, bytes) else str(name)) for name in both)
            told = f"row {place} of {address} is named {next(words)} and of {other} {next(words)}"
            return f"{told}, but they are taken for the same row; ingest both from tables in one order"
    return ""


def order_of_names(names: Sequence[str]) -> dict[str, dict[str, str]]:
    """An attribute of pairs that were named: digests of the names of rows, in their order and sorted.

    Examples
    --------
    >>> one, other = (order_of_names(names)["named"] for names in (["fern", "moss"], ["moss", "fern"]))
    >>> one["order"] == other["order"], one["names"] == other["names"]
    (False, True)
    """
    each = {"order": names, "names": sorted(names)}
    return {NAMED_ROWS: {what: sha256("\0".join(own).encode()).hexdigest() for what, own in each.items()}}


def warning_of_pair_order(pairs: str, rows: str) -> str:
    """Say that pairs, or a matrix of measured pairs, number the rows at an address in another order; else "".

    They do if `distforest.sources.files.ingest.ingest` has numbered them by the same names in another order.
    """
    group, _, name = pairs.rstrip("/").rpartition("/")
    is_array = bool(group) and name in arrays_in(group)
    given = (open_array(pairs).attrs if is_array else attributes_of(pairs)).get(NAMED_ROWS)
    if not isinstance(given, dict) or (ids := ids_beside(rows)) is None:
        return ""
    own = order_of_names(names_at(ids))[NAMED_ROWS]
    if own["names"] != given.get("names") or own["order"] == given.get("order"):
        return ""
    found = f"{pairs} numbers rows by the names of {rows}, but in another order"
    return f"{found}; `distforest ingest --rows {rows}` numbers them in this one"


def told_of_square_order(address: str) -> str:
    """Where the rows and the columns of a matrix of pairs of objects have the same names in another order; else ""."""
    ids = ids_beside(address)
    columns = open_array(address).attrs.get(NAMES) if ids else None
    if ids is None or not isinstance(columns, list):
        return ""
    rows = names_at(ids)
    if rows == columns or sorted(rows) != sorted(map(str, columns)):
        return ""
    place = next(place for place, (row, column) in enumerate(zip(rows, columns, strict=True)) if row != column)
    named = f"row {place} of {address} is named {rows[place]!r} and column {place} {columns[place]!r}"
    return f"{named}, but they are taken for the same object; put the columns in the order of the rows"
