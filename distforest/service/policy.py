"""The operator's policy: which stores and functions jobs may name, and how large they may be.

A spec comes from a client, the policy from the command that starts the scheduler. Nothing in a spec can extend it.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote

from distforest.errors import InputError, SpecError
from distforest.jobs.reader import listed, sentence, shown
from distforest.sources.lazy.identity import ENTRY_POINTS
from distforest.stores.addresses import PROTOCOLS, SAME_STORE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

EVERY = "*"
"""Wildcard for every public name of a module in the list of allowed functions."""

MOST_DECODINGS = 8
"""Number of times an address is percent-decoded; one that is still encoded after that is refused."""

_CALLBACK = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:([^\W\d]\w*(\.[^\W\d]\w*)*|\*)")


class _RefusedError(ValueError):
    """An address is refused; the message continues a sentence that begins with the address."""


@dataclass(frozen=True)
class StorePlace:
    """The target of an address: a protocol and the parts of the path, after following the links of a local path.

    Examples
    --------
    >>> StorePlace.from_address("s3://forests/wine.zarr/X")
    StorePlace(protocol='s3', parts=('forests', 'wine.zarr', 'X'))
    >>> StorePlace.from_address("s3://forests/wine.zarr/X").is_within(StorePlace.from_address("s3a://forests/"))
    True
    """

    protocol: str
    parts: tuple[str, ...]

    @classmethod
    def from_address(cls, address: str) -> StorePlace:
        """Read an address; raise a ValueError with what it must not contain."""
        if not address.isprintable():
            raise _RefusedError("contains a character that is not printable")
        if "::" in address:
            raise _RefusedError("chains file systems by '::'; name the store itself")
        protocol, colons, path = address.partition("://")
        if not colons:
            protocol, path = "file", address
        if protocol not in PROTOCOLS:
            raise _RefusedError(f"names the protocol {shown(protocol)}; allowed are {listed(PROTOCOLS)}")
        if protocol == "file":
            if not path.startswith("/"):
                raise _RefusedError("is relative; write the path from the root, or a URL")
            return cls("file", tuple(os.path.realpath("/" + "/".join(_parts(path[1:]))).split("/")[1:]))
        if not path.strip("/"):
            raise _RefusedError("names no bucket")
        if "?" in path or "#" in path:
            raise _RefusedError("contains '?' or '#'; options of a store belong to the environment of the service")
        user, at, _ = path.partition("/")[0].rpartition("@")
        if at and (":" in user or protocol != "abfs"):
            raise _RefusedError("contains a user or a password; secrets belong to the environment of the service")
        return cls(SAME_STORE.get(protocol, protocol), _parts(path))

    def is_within(self, prefix: StorePlace) -> bool:
        """Return whether this is the target of ``prefix``, or below it."""
        parts = [part for part in prefix.parts if part]  # the root of the local file system has one empty part
        return self.protocol == prefix.protocol and list(self.parts[: len(parts)]) == parts


def _parts(path: str) -> tuple[str, ...]:
    """Return the parts of a path; refuse empty parts, and ``.`` and ``..``, also if they are percent-encoded."""
    decoded = path
    for _ in range(MOST_DECODINGS):
        if any(part in (".", "..") for part in re.split(r"[/\\]", decoded)):
            raise _RefusedError("has a part '.' or '..'; write the address without it")
        before, decoded = decoded, unquote(decoded)
        if before == decoded:
            break
    else:
        raise _RefusedError(f"is percent-encoded more than {MOST_DECODINGS} times")
    parts = tuple(path.removesuffix("/").split("/"))
    if "" in parts[1:] or (parts[0] == "" and len(parts) > 1):
        raise _RefusedError("has an empty part, '//'; write one '/'")
    return parts


@dataclass(frozen=True)
class Policy:
    """The rules that the spec of a job must follow.

    Parameters
    ----------
    prefixes
        Addresses; all that a job reads and writes must be at or below one of them, by whole parts of the path. Without
        prefixes, a job may use any store of a known protocol that the users of scheduler and workers can reach. Links
        in a local path are followed as this host sees them.
    callbacks
        Functions that a job may name: ``"module:function"``, or ``"module:*"`` for every public name of a module,
        including the names that it imports. Entry points of the group ``distforest.similarity`` are allowed as
        installed.
    max_spec_bytes
        Largest spec, as UTF-8.
    max_trees
        Largest forest.
    max_jobs
        Largest number of unfinished jobs; the service counts them.
    reserved
        Addresses such as the job root; a job's addresses may not be at or below them.

    Raises
    ------
    InputError
        A prefix is not an absolute address of a known protocol, a callback has neither form, or a limit is below 1.

    Examples
    --------
    >>> policy = Policy(prefixes=("s3://forests/ours",), callbacks=("ours:alike",))
    >>> policy.check({"output": "s3://forests/ours/wine.zarr"}, {"input.similarity.function": "ours:alike"}, 100)
    >>> policy.check({"output": "s3://forests/oursandtheirs.zarr"}, {}, 10**6)
    Traceback (most recent call last):
    distforest.errors.SpecError: output: 's3://forests/oursandtheirs.zarr' is outside what this service allows...
    params.n_estimators: 1000000 trees were requested, this service allows at most 100000
    """

    prefixes: tuple[str, ...] = ()
    callbacks: tuple[str, ...] = ()
    max_spec_bytes: int = 65536
    max_trees: int = 100_000
    max_jobs: int = 1000
    reserved: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for prefix in (*self.prefixes, *self.reserved):
            try:
                StorePlace.from_address(prefix)
            except _RefusedError as error:
                raise InputError(f"the prefix {shown(prefix)} {error}") from None
        for name in self.callbacks:
            if not _CALLBACK.fullmatch(name):
                raise InputError(f"the allowed callback {shown(name)} is neither 'module:function' nor 'module:*'")
        for name in ("max_spec_bytes", "max_trees", "max_jobs"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be an integer from 1, found {getattr(self, name)}")

    def read(self, text: object) -> None:
        """Refuse a spec that is not text or too long, before it is parsed; raise SpecError."""
        if not isinstance(text, str):
            raise SpecError([sentence((), 0, f"must be a JSON text, found {shown(text)}")])
        n_bytes = len(text.encode("utf-8", "surrogatepass"))
        if n_bytes > self.max_spec_bytes:
            what = f"must have at most {self.max_spec_bytes} bytes for this service, found {n_bytes}"
            raise SpecError([sentence((), 0, what)])

    def check(self, addresses: Mapping[str, str], callbacks: Mapping[str, str], n_trees: int | None) -> None:
        """Refuse a job that names or needs more than is allowed.

        Links are followed at the time of the call, so a waiting job is checked again when it starts.

        Parameters
        ----------
        addresses
            Addresses that a job reads and writes, by position in the spec, such as ``"input.features"``.
        callbacks
            Functions that the job calls, by position in the spec.
        n_trees
            Trees that the job grows; None for a job that grows none.

        Raises
        ------
        SpecError
            All faults: an address that is relative, has a part ``.`` or ``..``, chains file systems, names an unknown
            protocol, contains a query or a password, or leads outside the prefixes; if there are prefixes, an input
            that contains a link; a function that is not allowed; too many trees.
        """
        faults = [*self._address_faults(addresses), *self._callback_faults(callbacks)]
        if n_trees is not None and n_trees > self.max_trees:
            what = f"{n_trees} trees were requested, this service allows at most {self.max_trees}"
            faults.append(sentence(("params", "n_estimators"), 0, what))
        if faults:
            raise SpecError(faults)

    def _address_faults(self, addresses: Mapping[str, str]) -> Iterator[str]:
        allowed, reserved = (
            [StorePlace.from_address(prefix) for prefix in own] for own in (self.prefixes, self.reserved)
        )
        for key, address in addresses.items():
            try:
                found = StorePlace.from_address(address)
            except _RefusedError as error:
                yield sentence(tuple(key.split(".")), 0, f"{shown(address)} {error}")
                continue
            if allowed and not any(found.is_within(prefix) for prefix in allowed):
                real = "/" + "/".join(found.parts)
                is_linked = found.protocol == "file" and real != "/" + address.removeprefix("file://").strip("/")
                leads = f", which leads to {shown(real)}," if is_linked else ""
                what = f"{shown(address)}{leads} is outside what this service allows"
                yield sentence(tuple(key.split(".")), 0, f"{what}: {listed(self.prefixes)}")
            elif allowed and key.startswith("input.") and (link := _link_inside(found)):
                what = f"{shown(address)} contains the link {shown(link)}, which this service does not follow"
                yield sentence(tuple(key.split(".")), 0, f"{what}; replace it by its target")
            if any(found.is_within(prefix) for prefix in reserved):
                what = f"{shown(address)} is where this service keeps its jobs; choose another place"
                yield sentence(tuple(key.split(".")), 0, what)

    def _callback_faults(self, callbacks: Mapping[str, str]) -> Iterator[str]:
        for key, name in callbacks.items():
            module, _, function = name.partition(":")
            is_public = function.isidentifier() and not function.startswith("_")
            is_listed = function != EVERY and name in self.callbacks
            if is_listed or (is_public and f"{module}:{EVERY}" in self.callbacks):
                continue
            installed = importlib.metadata.entry_points(group=ENTRY_POINTS)
            if name in installed.names:
                continue
            allowed = listed([*self.callbacks, *sorted(installed.names)]) or "no function"
            what = f"{shown(name)} is not a function that this service calls; it allows {allowed}"
            yield sentence(tuple(key.split(".")), 0, what)


def _link_inside(place: StorePlace) -> str | None:
    """Return the path of the first link in a local folder, at any depth; Zarr would follow it for each chunk."""
    if place.protocol != "file":
        return None
    top = "/" + "/".join(place.parts)
    for folder, folders, files in os.walk(top):
        for name in sorted(folders + files):
            if os.path.islink(path := os.path.join(folder, name)):
                return os.path.relpath(path, top)
    return None
