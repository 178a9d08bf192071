"""Damaged and missing files: the errors of reading one become one error that names it."""

from __future__ import annotations

import lzma
import struct
import zipfile
import zlib
from contextlib import contextmanager
from typing import TYPE_CHECKING

from distforest.errors import InputError
from distforest.sources.files.bounds import brief, out_of_memory

if TYPE_CHECKING:
    from collections.abc import Iterator

FILE_ERRORS = (
    *(OSError, ValueError, EOFError, RuntimeError, OverflowError, lzma.LZMAError),
    *(struct.error, zipfile.BadZipFile, zlib.error),
)
"""Errors that reading a damaged file raises."""


@contextmanager
def readable(path: str, *others: type[Exception]) -> Iterator[None]:
    """Turn the errors of reading a damaged or missing file, and ``others``, into an `InputError` that names it."""
    errors: tuple[type[Exception], ...] = (*FILE_ERRORS, *others)
    try:
        yield
    except InputError:
        raise
    except UnicodeDecodeError as error:
        found = f"the byte {error.object[error.start]:#04x}"
        expected = f"{path}: text in {error.encoding.upper()} was expected"
        raise InputError(
            f"{expected}, found {found}; give `encoding` if it has another, or save it in UTF-8"
        ) from error
    except MemoryError as error:
        raise out_of_memory(path, error) from error
    except errors as error:
        raise InputError(f"{path}: cannot be read ({brief(str(error), 300)})") from error
