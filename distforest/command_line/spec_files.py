"""Job specs in files, with values that the command line overrides."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

from dask.utils import parse_timedelta

from distforest.errors import InputError, SpecError
from distforest.jobs.any_spec import moved_addresses, spec_from_toml, spec_with
from distforest.jobs.reader import bytes_in, read_toml
from distforest.jobs.spec import Relation, Spec
from distforest.jobs.spec_models import Taught, read
from distforest.jobs.tune_spec import TuneSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from distforest.jobs.any_spec import AnySpec


def settings(texts: Iterable[str]) -> dict[str, object]:
    """Parse the values of ``--set`` into keys and values; raise InputError if one lacks a key or a value.

    Examples
    --------
    >>> settings(["params.max_depth=3", "output=a.zarr"])
    {'params.max_depth': 3, 'output': 'a.zarr'}
    """
    return dict(map(_setting, texts))


def _setting(text: str) -> tuple[str, object]:
    """Parse a key and its value, which is a string unless it is TOML."""
    key, equals, value = text.partition("=")
    if not equals or not all(key.split(".")):
        raise InputError(f"--set: KEY=VALUE was expected, found {text!r}")
    try:
        return key, tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return key, value


def bytes_of_option(option: str, text: str | None) -> int | None:
    """Parse the number of bytes in the text of an option; raise InputError.

    Examples
    --------
    >>> bytes_of_option("--max-bytes", "2GiB"), bytes_of_option("--max-bytes", None)
    (2147483648, None)
    """
    try:
        return None if text is None else bytes_in(text)
    except ValueError as error:
        raise InputError(f"{option} {error}, found {text!r}") from None


def seconds_of_option(option: str, text: str | None) -> float | None:
    """Parse the duration in the text of an option, a number with a unit; raise InputError.

    Examples
    --------
    >>> seconds_of_option("--older-than", "30d"), seconds_of_option("--older-than", None)
    (2592000.0, None)
    """
    try:
        return None if text is None else float(parse_timedelta(text, default=False))
    except (ValueError, KeyError, IndexError):
        raise InputError(f"{option} must be a number with a unit, such as 30d, 12h or 90m, found {text!r}") from None


def distances_of_option(text: str | None, move: Callable[[str], str] = str) -> Relation | None:
    """Parse the ground truth in the text of ``--distances``, with ``move`` applied to its addresses.

    Raises
    ------
    SpecError
        A scoring job does not take such a ground truth.

    Examples
    --------
    >>> distances_of_option("wine.zarr/Z")
    Relation(kind='dense', address='wine.zarr/Z', options={}, parts=())
    >>> distances_of_option("{ kind = 'graph', adjacency = 'net.zarr/A' }").options["absent"]
    1.0
    """
    if text is None:
        return None
    value: object = text
    if text.lstrip().startswith("{"):
        try:
            value = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError as error:
            raise InputError(f"--distances: an address, or a table as in a spec, was expected: {error}") from None
    given = Relation.from_table(read(Taught, value, {}, ("--distances",)))
    return Relation.from_table(read(Taught, moved_addresses(given.to_table(), move), {}, ("--distances",)))


def read_spec(path: str, changes: Mapping[str, object]) -> AnySpec:
    """Read the spec of a job in a TOML file.

    Parameters
    ----------
    path
        Path of the file.
    changes
        Values by dotted keys; they override those of the file.

    Raises
    ------
    SpecError
        The spec has faults. The error lists all of them, those of the file with their lines.
    InputError
        A dotted key leads through a value that is not a table, or the path is that of a data file.
    """
    if Path(path).suffix not in ("", ".toml"):
        cure = "`distforest ingest` makes arrays of a table, and `distforest fit --help` shows a file that names them"
        raise InputError(f"{path}: the TOML file of a job was expected; {cure}")
    if not changes:
        return spec_from_toml(Path(path))
    table, _ = read_toml(Path(path))
    try:
        return spec_with(table, changes)
    except SpecError:
        spec_from_toml(Path(path))  # its error names the line if the fault is in the file
        raise


def read_fit(path: str, changes: Mapping[str, object]) -> Spec:
    """Read the spec of a fit in a TOML file, as `read_spec` does; raise InputError for another kind of job."""
    spec = read_spec(path, changes)
    if isinstance(spec, TuneSpec):
        raise InputError(f"{path} is a tuning job, a fit was expected; `distforest tune` runs it")
    if not isinstance(spec, Spec):
        raise InputError(f"{path} is a scoring job, a fit was expected; `distforest submit` runs it, or see `score`")
    return spec


def read_tune(path: str, changes: Mapping[str, object]) -> TuneSpec:
    """Read the spec of a tuning job, as `read_spec` does; raise InputError for another kind of job."""
    spec = read_spec(path, changes)
    if not isinstance(spec, TuneSpec):
        raise InputError(f'{path} is not a tuning job, which has job = "tune" and a table [grid]; see `distforest fit`')
    return spec
