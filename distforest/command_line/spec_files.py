"""A job spec from a file, with settings of the command line over its own, and its paths from the root."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from distforest.errors import InputError, SpecError
from distforest.jobs.any_spec import AnySpec, moved, spec_from_dict, spec_from_toml
from distforest.jobs.reader import SIZE, read_toml
from distforest.jobs.spec import Spec

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

S = TypeVar("S", bound=AnySpec)


def settings(texts: Iterable[str]) -> dict[str, object]:
    """Keys and values of several ``--set``; raises InputError for one that has no key or no value.

    Examples
    --------
    >>> settings(["params.max_depth=3", "output=a.zarr"])
    {'params.max_depth': 3, 'output': 'a.zarr'}
    """
    return dict(map(_setting, texts))


def _setting(text: str) -> tuple[str, object]:
    """Key and value: the value as TOML has it, or else as the string that it is."""
    key, equals, value = text.partition("=")
    if not equals or not all(key.split(".")):
        raise InputError(f"--set: KEY=VALUE was expected, found {text!r}")
    try:
        return key, tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return key, value


def bytes_of_option(option: str, text: str | None) -> int | None:
    """Bytes, as an option writes them; raises InputError.

    Examples
    --------
    >>> bytes_of_option("--max-bytes", "2GiB"), bytes_of_option("--max-bytes", None)
    (2147483648, None)
    """
    try:
        return None if text is None else cast("int", SIZE.plain(text))
    except (ValueError, OverflowError):
        raise InputError(f"{option} must be {SIZE.words}, found {text!r}") from None


def read_spec(path: str, changes: Mapping[str, object]) -> AnySpec:
    """Read the spec of a job in a TOML file.

    Parameters
    ----------
    path
        Of the file.
    changes
        Values by dotted keys, which take the place of the file's own.

    Raises
    ------
    SpecError
        Every fault of the spec, those of the file with their lines.
    InputError
        A change goes into something that is no table.
    """
    if not changes:
        return spec_from_toml(Path(path))
    table, _ = read_toml(Path(path))
    for key, value in changes.items():
        _put(table, key.split("."), value)
    try:
        return spec_from_dict(table)
    except SpecError:
        spec_from_toml(Path(path))  # a fault of the file is told with its line
        raise


def read_fit(path: str, changes: Mapping[str, object]) -> Spec:
    """Read the spec of a fit in a TOML file; see `read_spec`. Raises InputError where it is another kind of job."""
    spec = read_spec(path, changes)
    if not isinstance(spec, Spec):
        raise InputError(f"{path} is a scoring job, a fit was expected; `distforest submit` runs it, or see `score`")
    return spec


def _put(table: dict[str, Any], key: list[str], value: object) -> None:
    """Set a dotted key of a table, making the tables around it."""
    for name in key[:-1]:
        table = table.setdefault(name, {})
        if not isinstance(table, dict):
            raise InputError(f"--set {'.'.join(key)}: {name} is not a table")
    table[key[-1]] = value


def from_the_root(address: str) -> str:
    """Write a local path from the root, for a process that runs in another folder; a URL stays as it is."""
    return address if "://" in address else os.path.abspath(address)


def with_absolute_paths(spec: S) -> S:
    """Write all local paths of a spec from the root."""
    return cast("S", moved(spec, from_the_root))
