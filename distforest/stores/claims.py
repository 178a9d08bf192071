"""Claims: an output has one owner, named in a file of the folder beside it, from the submit on until its job has ended.

::

    wine.forest.zarr          the output
    wine.forest.zarr.job/     what its job works in
        owner.json            the claim: which job, of which process or service

The claim of a process beats for as long as the process lives; that of a service's job holds until the job has ended.
So the claim of an owner that has crashed is told from one that is alive, and is taken over.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import platform
import re
import time
import uuid
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import psutil

from distforest.errors import ConflictError, InputError, JobError
from distforest.stores.addresses import (
    PROTOCOLS,
    is_remote,
    names_in,
    put_file,
    reaching,
    read_file,
    real_address,
    store_of,
)
from distforest.stores.building import BUILDINGS, PUBLISHING, clear, mend
from distforest.stores.outputs import ANSWERS_KIND, ARRAY, FOREST_KIND, check_place, job_folder, look, object_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    Record = dict[str, Any]

CLAIM = "owner.json"
"""The name of a claim."""

CLAIM_BEAT, CLAIM_STALE = 5.0, 30.0
"""Seconds between two heartbeats of a process; and without one, by the clock of the store, until it counts as dead."""

CLAIM_BYTES, MOST_OF_STATE = 64 << 10, 8 << 20
"""No claim, and no state of a job, is read that is larger."""

TAKES = 8
"""So often a claim is looked at while others come and go."""

JOB_FILES = re.compile(
    "|".join([*map(re.escape, (CLAIM, PUBLISHING, "inputs.zarr", *BUILDINGS)), r"shards-.*", r"\..*\.partial"])
)
"""Names of all that a job puts into the folder beside its output."""

LASTING_ERRNOS = {errno.EROFS, errno.ENOTDIR, errno.ENAMETOOLONG}
"""What keeps a claim from being written whenever it is tried, beside a folder or a right that is missing."""

BOOT, PIDS = Path("/proc/sys/kernel/random/boot_id"), Path("/proc/self/ns/pid")


@dataclass(frozen=True)
class Claim:
    """A job's hold of its output.

    Attributes
    ----------
    output
        The address, as the user wrote it.
    job
        What the job is called.
    id
        Of the job: a claim with the same one is its own.
    root
        Of a service's job: the address of its folder, whose ``state.json`` says what has become of it. None for the
        claim of a process.
    ends
        The states in which such a job has ended.

    Examples
    --------
    >>> with Claim("memory://claims/a.zarr", "the first").held():
    ...     Claim("memory://claims/a.zarr/", "the second").take()
    Traceback (most recent call last):
    distforest.errors.ConflictError: memory://claims/a.zarr/ belongs to the first, since ...
    """

    output: str
    job: str
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    root: str | None = None
    ends: tuple[str, ...] = ()

    @property
    def folder(self) -> str:
        """The job's folder beside the output."""
        return job_folder(self.output)

    @property
    def address(self) -> str:
        """Where the claim is."""
        return f"{self.folder}/{CLAIM}"

    @contextmanager
    def held(self) -> Iterator[Claim]:
        """Own the output for a block of this process; raises as `take`."""
        ending = Event()
        beating = Thread(target=self._beat, args=(ending,), name="distforest-claim", daemon=True)
        try:
            self.take()
            beating.start()
            yield self
        finally:
            ending.set()
            if beating.ident is not None:
                beating.join()
            self.release()

    def take(self) -> None:
        """Own the output, if nobody does who is alive; its owner goes on owning it.

        What an owner before has left half done is mended, and what it had built is removed.

        Raises
        ------
        ConflictError
            Another job owns the output, or one around it.
        InputError
            Nothing can be written there.
        OSError
            The store does not answer.
        """
        if self._is_held():
            return
        self._check_place()
        for _ in range(TAKES):
            raw = _read(self.address)
            if raw is None:
                self._create()
            elif object_in(raw).get("id") == self.id:
                mend(self.output)
                clear(self.output)
                return
            elif _is_over(self.address, object_in(raw)):
                self._seize(raw)
            else:
                raise ConflictError(self._refusal(object_in(raw)))
        raise self._unwritable("its folder comes and goes")

    def release(self) -> None:
        """Give the output back, with nothing left of what was built in its folder; what fails is left to the next."""
        with suppress(OSError, InputError):
            raw = _read(self.address)
            if raw is not None and object_in(raw).get("id") == self.id:
                clear(self.output)
                _discard(self.address, raw)
            if "://" not in self.folder:
                os.rmdir(self.folder)  # if it is empty

    def record(self) -> Record:
        """What the claim says."""
        told = {"id": self.id, "job": self.job, "output": self.output, "since": time.time(), "host": platform.node()}
        told |= {"machine": _machine(), "pid": os.getpid(), "born": _born(os.getpid())}
        return told if self.root is None else {**told, "root": self.root, "ends": list(self.ends)}

    # --- at the door --------------------------------------------------------------------------------------

    def _check_place(self) -> None:
        """Refuse a place where no output can be; raises as `take`."""
        check_place(self.output)
        self._check_outside()
        path = Path(self.folder)
        if "://" not in self.folder and path.exists() and not path.is_dir():
            strange = ["a file"]
        else:
            strange = [name for name in names_in(self.folder) if not JOB_FILES.fullmatch(name)]
        if strange:
            raise InputError(
                f"output: {self.folder}, where the job works, was expected, found {strange[0]}; move that away, or "
                "choose another output"
            )

    def _check_outside(self) -> None:
        """Refuse an output inside another one, or inside an array."""
        place = real_address(self.output)
        protocol, colons, path = place.rpartition("://")
        for above in PurePosixPath(path).parents:
            if above.name.endswith(".zarr.job"):
                raise InputError(
                    f"output: {self.output} lies where the job of another output works; choose another place"
                )
            if above.suffix != ".zarr":
                continue
            outer = Claim(f"{protocol}{colons}{above}", self.job)
            raw = _read(outer.address)
            if raw is not None and not _is_over(outer.address, object_in(raw)):
                raise ConflictError(f"output: {self.output} lies inside another one: {outer._refusal(object_in(raw))}")
            found = look(outer.output)
            if found and found.kind in (FOREST_KIND, ANSWERS_KIND, ARRAY):
                raise InputError(f"output: {self.output} lies inside {found} at {outer.output}; choose another place")

    def _refusal(self, found: Record) -> str:
        """Who has the output, who wanted it, and what to do."""
        who = f"{found.get('job', 'a job that has just begun')}{_since(found)}"
        gone = ""
        if "root" in found:
            cure = f"wait for its end, cancel it (`distforest cancel {PurePosixPath(str(found['root'])).name}`)"
            gone = f"; if its service will never be started again, remove {self.address}"
        else:
            who += f", process {found.get('pid')} on {found.get('host')}"
            cure = "wait for its end, stop it"
            if found.get("machine") != _machine():
                gone = f"; {CLAIM_STALE:g} s after its death it does not count any more"
        return f"{self.output} belongs to {who}; {self.job} would write it too: {cure}, or choose another output{gone}"

    def _unwritable(self, why: object) -> InputError:
        what = f"{self.folder}, in which the job works, cannot be written: {why}"
        return InputError(f"output: {self.output}: {what}; make a place for it, or choose another output")

    # --- the claim on the store ---------------------------------------------------------------------------

    def _is_held(self) -> bool:
        raw = _read(self.address)
        return raw is not None and object_in(raw).get("id") == self.id

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Tell what keeps a claim from being written whenever that is tried."""
        try:
            yield
        except OSError as error:
            if not isinstance(error, (FileNotFoundError, PermissionError)) and error.errno not in LASTING_ERRNOS:
                raise
            raise self._unwritable(error.strerror or error) from error

    def _create(self) -> None:
        """Write the claim where there is none; where another one comes first, that one stays."""
        with self._writing():
            if "://" in self.address:
                _put_new(self.address, self._content())
                return
            Path(self.folder).mkdir(exist_ok=True)
            with suppress(FileExistsError, FileNotFoundError):  # its owner may just give it back, with its folder
                _write_new(Path(self.address), self._content())

    def _seize(self, raw: bytes) -> None:
        """Put this claim in the place of one that holds no more; of several who try, one succeeds."""
        if "://" in self.address:
            _discard(self.address, raw)
            return
        path = Path(self.address)
        with self._writing(), _alone(path, raw) as is_there:
            if is_there:
                put_file(self.address, self._content())

    def _content(self) -> bytes:
        return json.dumps(self.record(), indent=1).encode()

    def _beat(self, ending: Event) -> None:
        """Tell others that this process lives, until the end; what a store refuses is tried again."""
        while not ending.wait(CLAIM_BEAT):
            with suppress(OSError, InputError):
                raw = _read(self.address)
                if raw is None or object_in(raw).get("id") != self.id:
                    continue
                if "://" in self.address:
                    put_file(self.address, raw)
                else:
                    os.utime(self.address)


@contextmanager
def owned(output: str, job: str, claim: Claim | None = None) -> Iterator[Claim]:
    """Own an output for a block, by the claim of a job that was made before or by one of this process.

    What an earlier run of the same job has left half done is mended, too.

    Raises
    ------
    ConflictError, InputError, OSError
        As `Claim.take`.
    """
    with nullcontext(claim) if claim is not None else Claim(output, job).held() as own:
        own.take()
        mend(output)
        try:
            yield own
        except (OSError, JobError):
            own.take()  # where another one has taken it over, that is the cause, and is told
            raise


# --- files --------------------------------------------------------------------------------------------------


def _since(found: Record) -> str:
    """When a claim was made, in words."""
    try:
        return time.strftime(", since %Y-%m-%d %H:%M:%S UTC", time.gmtime(found["since"]))
    except (KeyError, TypeError, ValueError, OverflowError, OSError):
        return ""


def _read(address: str) -> bytes | None:
    try:
        return read_file(address, CLAIM_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except PermissionError as error:
        what = f"{address} cannot be read, so another user's job may own the output ({error})"
        raise InputError(f"output: {what}; choose another output") from error
    except InputError:  # of a store that is not known
        raise
    except ValueError as error:  # no file, or a huge one
        raise InputError(f"output: {address} is no claim ({error}); remove it") from error


def _put_new(address: str, content: bytes) -> None:
    """Put a file if there is none; a store that knows of no such condition is asked first."""
    fs, path = store_of(address)
    try:
        with reaching(address):
            fs.pipe_file(path, content, mode="create")
    except FileNotFoundError:  # there is no bucket
        raise
    except (OSError, TypeError, ValueError, NotImplementedError):
        if _read(address) is None:
            put_file(address, content)


def _write_new(path: Path, content: bytes) -> None:
    with path.open("xb") as file:
        try:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        except BaseException:
            path.unlink()
            raise


@contextmanager
def _alone(path: Path, raw: bytes) -> Iterator[bool]:
    """Lock a claim for a block, against others who would change it too; whether it still is what was read."""
    try:
        file = path.open("r+b")
    except FileNotFoundError:
        yield False
        return
    with file:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(file, fcntl.LOCK_EX)
        try:
            is_same = path.stat().st_ino == os.fstat(file.fileno()).st_ino
        except FileNotFoundError:
            is_same = False
        yield is_same and file.read() == raw


def _discard(address: str, raw: bytes) -> None:
    """Remove a claim if it still is what was read."""
    if "://" not in address:
        with _alone(Path(address), raw) as is_there:
            if is_there:
                Path(address).unlink()
        return
    fs, path = store_of(address)
    if _read(address) == raw:
        with reaching(address), suppress(FileNotFoundError):
            fs.rm_file(path)


# --- whether an owner lives ---------------------------------------------------------------------------------


def _is_over(address: str, found: Record) -> bool:
    """Whether the owner of a claim has ended or is dead."""
    if "root" in found:
        return _has_ended(found)
    pid = found.get("pid")
    if found.get("machine") == _machine() and isinstance(pid, int):
        born = _born(pid)
        return born is None or born != found.get("born")
    return _silence(address) > CLAIM_STALE


def _machine() -> str:
    """The host, its present run, and the processes that this one can see: the same only where their numbers agree."""
    boot = pids = ""
    with suppress(OSError):
        boot, pids = BOOT.read_text().strip(), os.readlink(PIDS)
    return f"{platform.node()}/{boot}/{pids}"


def _born(pid: int) -> float | None:
    """When a process has begun, by a clock that nobody sets; None where there is none, or one that has ended."""
    try:
        if PIDS.exists():
            state, *_, ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:20]
            return None if state in "ZX" else float(ticks)
        return float(psutil.Process(pid).create_time())
    except (OSError, ValueError, OverflowError, psutil.Error):
        return None


def _has_ended(found: Record) -> bool:
    """Whether the job of a claim has ended, or was removed, as its service's job root tells."""
    folder, ends = str(found["root"]), found.get("ends")
    protocol, colons, _ = folder.partition("://")
    if colons and protocol not in PROTOCOLS:
        return False
    try:
        if not names_in(folder):  # removed, unless its job root is one of another host
            return is_remote(folder) or found.get("machine") == _machine() or Path(folder).parent.is_dir()
        told = object_in(read_file(f"{folder}/state.json", MOST_OF_STATE))
    except (OSError, ValueError):
        return False
    return isinstance(ends, list) and told.get("state") in ends


def _silence(address: str) -> float:
    """Seconds since a claim was last written, by the clock of its store."""
    clock = f"{address.removesuffix(CLAIM)}.{uuid.uuid4().hex}.partial"
    fs, path = store_of(clock)
    put_file(clock, b"1", lasting=False)
    try:
        with reaching(address):
            return float((fs.modified(path) - fs.modified(store_of(address)[1])).total_seconds())
    except (FileNotFoundError, NotImplementedError):  # it was given back meanwhile; or the store tells no times
        return 0.0
    finally:
        with reaching(address):
            fs.rm_file(path)
