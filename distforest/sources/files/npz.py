"""Arrays of .npy and .npz files, as NumPy and SciPy read them; nothing is unpickled."""

from __future__ import annotations

import io
import re
import zipfile
from functools import partial
from pathlib import Path, PurePath
from typing import IO, TYPE_CHECKING

import numpy as np
import scipy

from distforest.errors import InputError
from distforest.sources.arrays import row_blocks
from distforest.sources.files.bounds import brief, check_unfolded, quoted, readable
from distforest.sources.files.planned import PlannedArray, check_alike, check_labels, features_array, held_array
from distforest.sources.schema import Schema
from distforest.sources.sparse_store import csr_arrays

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SPARSE_MEMBERS = {"format", "shape", "data", "indices", "indptr", "row", "col", "coords", "offsets", "_is_array"}
"""Names of the arrays that `scipy.sparse.save_npz` writes, for any kind of matrix."""

MAX_TEXT = 1 << 20
"""The most characters of strings in attributes, which are read at every opening."""

MAX_HEADER = 10_000
"""Bytes of the longest header of an array. numpy has the same bound, but checks it after reading the header."""

WRITTEN_SIZE = rb"(?:0|[1-9]\d{,17})"
"""A size that fits int64, as numpy writes it."""

PLAIN_HEADER = re.compile(
    rb"\{'descr': '([<>|][a-zA-Z]\d{1,9})', 'fortran_order': (True|False), "
    rb"'shape': \((%b,|%b(?:, %b)+)\), \} *\n" % ((WRITTEN_SIZE,) * 3)
)
"""The header that numpy writes for rows of values whose dtype has a plain name."""


def arrays_of_npy(
    source: str, name: str | None, block_bytes: int, max_bytes: int | None
) -> tuple[list[PlannedArray], dict[str, object]]:
    """Plan the one array of an .npy file, which is mapped; raises InputError as `arrays_of_npz`."""
    with readable(source, Exception):  # numpy lets through whatever Python's parsers raise
        values = np.lib.format.open_memmap(source, mode="r")
    check_unfolded(source, values.nbytes, max_bytes)
    own = PurePath(source).stem if name is None else name
    return _planned(source, {} if values.dtype.kind == "U" and own != "y" else {own: values}, block_bytes), {}


def arrays_of_npz(source: str, block_bytes: int, max_bytes: int | None) -> tuple[list[PlannedArray], dict[str, object]]:
    """Plan the arrays that an .npz file becomes, and the attributes of their group; its arrays are read into memory.

    A file of `scipy.sparse.save_npz` becomes the three arrays of a sparse matrix.

    Raises
    ------
    InputError
        The file is damaged, unfolds to more than ``max_bytes`` (see `check_unfolded`), or holds something that is not
        an array of numbers or strings; features, labels and names do not fit each other.
    """
    with readable(source, Exception), Path(source).open("rb") as stream, np.load(stream, allow_pickle=False) as archive:
        members = archive.zip.infolist()
        check_unfolded(source, sum(member.file_size for member in members), max_bytes)
        if any(member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) for member in members):
            expected = "members that are stored or deflated were expected"  # zipfile unfolds others without a bound
            raise InputError(f"{source}: {expected}, found others; write the file by numpy.savez_compressed")
        names = set(archive.files)
        if {"format", "shape", "data"} <= names and {"indptr", "row", "coords", "offsets"} & names:
            if further := sorted(names - SPARSE_MEMBERS):
                found = f"found {brief(', '.join(map(quoted, further)))} beside it"
                raise InputError(f"{source}: a sparse matrix alone was expected, {found}; save them elsewhere")
            matrix = scipy.sparse.load_npz(source)
            check_unfolded(source, 8 * matrix.shape[0], max_bytes)
            try:
                parts, attributes = csr_arrays(matrix)
            except InputError as error:
                raise InputError(f"{source}: {error}") from error
            return [held_array(name, part) for name, part in parts.items()], attributes
        arrays = {name: archive[name] for name in archive.files}
    if others := [name for name, array in arrays.items() if not isinstance(array, np.ndarray)]:
        raise InputError(f"{source}: arrays of numpy were expected, found {brief(str(others))}")
    texts = {name: array for name, array in arrays.items() if array.dtype.kind == "U" and name not in ("X", "y")}
    n_rows = {array.shape[0] for name, array in arrays.items() if array.shape and name not in texts}
    of_others = {*(["feature_names"] if "X" in arrays else ()), *(["classes"] if _has_codes(arrays) else ())}
    labels = {name for name, array in texts.items() if array.ndim == 1 and len(array) in n_rows} - of_others
    kept = {name: array for name, array in arrays.items() if name not in texts or name in labels}
    of_columns = {name: texts[name] for name in of_others & set(texts)}
    planned = _planned(source, kept, block_bytes, **of_columns)
    rest = {name: array for name, array in texts.items() if name not in {*labels, *of_columns}}
    return planned, {name: _listed(source, name, array) for name, array in rest.items()}


def _has_codes(arrays: Mapping[str, np.ndarray]) -> bool:
    """Whether there are labels, and they are words or may be positions in ``classes``."""
    return "y" in arrays and arrays["y"].dtype.kind in "Uiu"


def _planned(
    source: str,
    arrays: Mapping[str, np.ndarray],
    block_bytes: int,
    feature_names: np.ndarray | None = None,
    classes: np.ndarray | None = None,
) -> list[PlannedArray]:
    """Plan each array: ``X``, ``y``, words as labels, and others as they are; raises InputError."""
    planned = []
    for name, array in arrays.items():
        what = f"dtype {brief(str(array.dtype))} and shape {brief(str(array.shape))}"
        if not re.fullmatch(r"(?!__|distforest$|zarr\.json$)\w[\w .-]*", name):
            expected = "a plain name was expected for the array"
            raise InputError(f"{source}: {expected}, found {quoted(name)}; give another `name`")
        is_text = array.dtype.kind == "U"
        if not is_text and (array.dtype.kind not in "biuf" or array.dtype.itemsize > 8):
            expected = "numbers of at most 64 bits or strings were expected"
            raise InputError(f"{source}: array {quoted(name)}: {expected}, found {what}; strings need .astype(str)")
        if not array.size or not array.ndim:
            raise InputError(f"{source}: array {quoted(name)}: rows of values were expected, found {what}")
        blocks = partial(_blocks, array, block_bytes)
        if name == "X":
            if is_text or array.ndim != 2:
                raise InputError(f"{source}: X of numbers and of shape (n_rows, n_columns) was expected, found {what}")
            named = None if feature_names is None else _listed(source, "feature_names", feature_names)
            if named is not None and (np.ndim(named) != 1 or len(named) != array.shape[1]):
                raise InputError(f"{source}: {array.shape[1]} feature_names were expected, found {brief(str(named))}")
            schema = Schema.from_names(named, (str(array.dtype),) * len(named)) if named else None
            planned.append(features_array(source, array.shape[1], blocks, schema))
        elif name == "y":
            planned.append(_labels(source, array, classes, block_bytes))
        elif is_text:
            planned.append(_words(source, name, array, None))
        else:
            planned.append(PlannedArray(name, array.shape, array.dtype.newbyteorder("="), blocks))
    if not planned:
        cure = "; if these are labels, give `name='y'`" if source.endswith(".npy") else ""
        raise InputError(f"{source}: an array of numbers was expected, found none{cure}")
    check_alike(source, planned)
    return planned


def _blocks(array: np.ndarray, block_bytes: int) -> Iterator[np.ndarray]:
    """Blocks of rows in the byte order of this machine."""
    for _, block in row_blocks(array, block_bytes):
        yield block.astype(array.dtype.newbyteorder("="), order="C", copy=False)


def _labels(source: str, array: np.ndarray, classes: np.ndarray | None, block_bytes: int) -> PlannedArray:
    """Plan ``y``: words become positions in ``classes``, integers must be such positions; numbers become float64."""
    names = None if classes is None else _listed(source, "classes", classes)
    if array.ndim != 1 and (array.dtype.kind == "U" or array.ndim != 2):
        raise InputError(f"{source}: y with a label for each row was expected, found shape {array.shape}")
    if names is not None and (np.ndim(names) != 1 or len(set(names)) != len(names)):
        raise InputError(f"{source}: classes of different names were expected, found {brief(str(names))}")
    if array.dtype.kind == "U":
        return _words(source, "y", array, names)
    dtype = np.dtype({"f": np.float64, "b": np.uint8}.get(array.dtype.kind, array.dtype.newbyteorder("=")))
    if dtype.kind == "f":
        check_labels(source, _blocks(array, block_bytes))
    if names is not None and not 0 <= array.min() <= array.max() < len(names):
        expected = f"labels from 0 to {len(names) - 1} were expected, the positions of as many classes"
        raise InputError(f"{source}: {expected}, found labels from {array.min()} to {array.max()}")
    attributes = {} if names is None else {"classes": names}
    return PlannedArray(
        "y", array.shape, dtype, lambda: (block.astype(dtype) for block in _blocks(array, block_bytes)), attributes
    )


def _words(source: str, name: str, array: np.ndarray, classes: list[str] | None) -> PlannedArray:
    """Plan labels of words, coded by their positions in ``classes``, or else in the sorted words."""
    own, places = np.unique(array, return_inverse=True)
    names = _listed(source, name, own) if classes is None else classes
    codes = {word: code for code, word in enumerate(names)}
    if unknown := [word for word in own.tolist() if word not in codes]:
        wanted = f"labels among the classes {brief(str(names))} were expected"
        raise InputError(f"{source}: {wanted}, found {quoted(unknown[0])}")
    values = np.array([codes[word] for word in own.tolist()], np.int64)[places]
    return held_array(name, values, {"classes": names})


def _listed(source: str, name: str, array: np.ndarray) -> list[str]:
    """Strings as JSON, for attributes; raises InputError if they have too many characters."""
    if (size := array.size * array.dtype.itemsize // 4) > MAX_TEXT:
        expected = f"at most {MAX_TEXT} characters were expected, as strings become attributes"
        raise InputError(f"{source}: array {name!r}: {expected}, found {size}; leave it out or code it as numbers")
    listed: list[str] = array.tolist()
    return listed


def header_of(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[np.generic]]:
    """Read shape, Fortran order and dtype; raises ValueError if the stream is no .npy file.

    numpy parses a header with `ast.literal_eval`, which before Python 3.11.9 and 3.12.3 fails now and then while
    another thread parses, too (python/cpython#106905). Then a sound shard would be taken for a damaged one, so plain
    headers are read here.
    """
    version = np.lib.format.read_magic(stream)
    if version not in {(1, 0), (2, 0), (3, 0)}:
        raise ValueError(f"the format of an .npy file is 1.0, 2.0 or 3.0, not {version[0]}.{version[1]}")
    length = stream.read(2 if version == (1, 0) else 4)
    if int.from_bytes(length, "little") > MAX_HEADER:
        raise ValueError(f"the header of an .npy file has at most {MAX_HEADER:,} bytes")
    text = stream.read(int.from_bytes(length, "little"))
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    try:
        if plain := PLAIN_HEADER.fullmatch(text):
            dtype, in_columns, shape = plain.groups()
            return tuple(map(int, re.findall(rb"\d+", shape))), in_columns == b"True", np.dtype(dtype.decode())
        return read(io.BytesIO(length + text))
    except Exception as error:  # numpy lets through whatever Python's parsers raise
        raise ValueError(f"its header is none of an .npy file: {brief(str(error))}") from error
