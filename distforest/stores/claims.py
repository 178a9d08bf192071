"""Claims: an output has one owner, from the submission of its job until the job has ended.

::

    wine.forest.zarr          the output
    wine.forest.zarr.job/     the folder in which its job works
        owner.json            the claim: the job, and its process or service

The claim of a process has heartbeats as long as the process lives. The claim of a service's job is valid until the job
has ended. So the claim of an owner that has crashed can be recognised, and is taken over.
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

from distforest.errors import CancelledJobError, ConflictError, InputError, JobError
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
"""Name of the file of a claim."""

CLAIM_BEAT, CLAIM_STALE = 5.0, 30.0
"""Seconds between two heartbeats of a process, and seconds without one after which it counts as dead."""

CLAIM_BYTES, MOST_OF_STATE = 64 << 10, 8 << 20
"""Largest sizes, in bytes, of a claim and of the state of a job that are read."""

TAKES = 8
"""Largest number of reads of a claim while other jobs make and release theirs."""

JOB_FILES = re.compile(
    "|".join([*map(re.escape, (CLAIM, PUBLISHING, "inputs.zarr", *BUILDINGS)), r"shards-.*", r"\..*\.partial"])
)
"""Names of the files and folders that a job creates in the folder beside its output."""

LASTING_ERRNOS = {errno.EROFS, errno.ENOTDIR, errno.ENAMETOOLONG}
"""Numbers of errors with which a claim can never be written, beside a missing folder or permission."""

BOOT, PIDS = Path("/proc/sys/kernel/random/boot_id"), Path("/proc/self/ns/pid")


@dataclass(frozen=True)
class Claim:
    """The claim of a job on its output.

    Attributes
    ----------
    output
        The address, as the user gave it.
    job
        Name of the job, for messages.
    id
        Id of the job; a claim with the same id belongs to the job.
    root
        Address of the folder of a service's job, whose ``state.json`` has its state. None for the claim of a process.
    ends
        The states in which a service's job has ended.

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
        """Address of the claim's file."""
        return f"{self.folder}/{CLAIM}"

    @contextmanager
    def held(self) -> Iterator[Claim]:
        """Own the output for a block of this process; raise as `take`."""
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
        """Own the output, unless another owner is alive; a job that owns it already keeps it.

        An output that an earlier owner has half published is repaired, and its buildings are removed.

        Raises
        ------
        ConflictError
            Another job owns the output, or an output around it.
        InputError
            Nothing can be written there.
        OSError
            The store does not answer.
        """
        raw = _read(self.address)
        if raw is not None and object_in(raw).get("id") == self.id:
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
        raise self._unwritable("its folder appears and disappears")

    def check_held(self) -> None:
        """Refuse to write for a job that no longer owns its output; a task checks this just before it writes.

        Dask does not stop a running task when its job is stopped, and another job may write there when the task ends.

        Raises
        ------
        ConflictError
            Another job owns the output.
        CancelledJobError
            The job has ended.
        """
        raw = _read(self.address)
        if raw is None:
            raise CancelledJobError(f"{self.job} has ended, or {self.address} was removed: nothing more is written")
        if (owner := object_in(raw)).get("id") != self.id:
            raise ConflictError(self._refusal(owner))

    def check_outside(self) -> None:
        """Refuse an output inside another one, or inside an array; raise as `take`."""
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

    def release(self) -> None:
        """Release the output and remove buildings from its folder; errors are left to the next owner."""
        with suppress(OSError, InputError):
            raw = _read(self.address)
            if raw is not None and object_in(raw).get("id") == self.id:
                clear(self.output)
                _discard(self.address, raw)
            if "://" not in self.folder:
                os.rmdir(self.folder)  # if it is empty

    def record(self) -> Record:
        """Return the content of the claim's file."""
        record = {"id": self.id, "job": self.job, "output": self.output, "since": time.time(), "host": platform.node()}
        record |= {"machine": machine(), "pid": os.getpid(), "born": start_time_of(os.getpid())}
        return record if self.root is None else {**record, "root": self.root, "ends": list(self.ends)}

    # --- checks ------------------------------------------------------------------------------------------

    def _check_place(self) -> None:
        """Refuse an address at which an output is impossible; raise as `take`."""
        check_place(self.output)
        self.check_outside()
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

    def _refusal(self, owner: Record) -> str:
        """Return the error for a job that requests the output of another one: its owner, and what to do."""
        who, gone = str(owner.get("job", "a job that has just begun")), ""
        with suppress(KeyError, TypeError, ValueError, OverflowError, OSError):  # it has no valid time
            who += time.strftime(", since %Y-%m-%d %H:%M:%S UTC", time.gmtime(owner["since"]))
        if "root" in owner:
            cure = f"wait for its end, cancel it (`distforest cancel {PurePosixPath(str(owner['root'])).name}`)"
            gone = f"; if its service will never be started again, remove {self.address}"
        else:
            who += f", process {owner['pid']} on {owner.get('host')}" if "pid" in owner else ""  # killed as it claimed
            cure = "wait for its end, stop it"
            if owner.get("machine") != machine():
                gone = f"; {CLAIM_STALE:g} s after its death it does not count any more"
        return f"{self.output} belongs to {who}; {self.job} would write it too: {cure}, or choose another output{gone}"

    def _unwritable(self, why: object) -> InputError:
        fault = f"{self.folder}, in which the job works, cannot be written: {why}"
        return InputError(f"output: {self.output}: {fault}; make a place for it, or choose another output")

    # --- the claim on the store ---------------------------------------------------------------------------

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Convert errors with which the claim can never be written to InputError."""
        try:
            yield
        except OSError as error:
            if not isinstance(error, (FileNotFoundError, PermissionError)) and error.errno not in LASTING_ERRNOS:
                raise
            raise self._unwritable(error.strerror or error) from error

    def _create(self) -> None:
        """Write the claim if there is none; if another claim is written first, keep that one."""
        with self._writing():
            if "://" in self.address:
                _put_new(self.address, self._content())
                return
            Path(self.folder).mkdir(exist_ok=True)
            path = Path(self.address)
            with suppress(FileExistsError, FileNotFoundError), path.open("xb") as file:  # its owner may be leaving
                try:
                    file.write(self._content())
                    file.flush()
                    os.fsync(file.fileno())
                except BaseException:
                    path.unlink()
                    raise

    def _seize(self, raw: bytes) -> None:
        """Replace a claim that is no longer valid; of several jobs that try, one succeeds."""
        if "://" in self.address:
            _discard(self.address, raw)
            return
        with self._writing(), _alone(Path(self.address), raw) as is_there:
            if is_there:
                put_file(self.address, self._content())

    def _content(self) -> bytes:
        return json.dumps(self.record(), indent=1).encode()

    def _beat(self, ending: Event) -> None:
        """Touch the claim repeatedly until ``ending`` is set; errors of the store are left to the next beat."""
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
    """Own an output for a block, by a claim that the job has made before, or by a new one of this process.

    An output that an earlier run of the same job has half published is repaired, too.

    Raises
    ------
    ConflictError, InputError, OSError
        As `Claim.take`.
    """
    with nullcontext(claim) if claim is not None else Claim(output, job).held() as held:
        held.take()
        mend(output)
        try:
            yield held
        except (OSError, JobError):
            held.take()  # if another job has taken the output over, that is the cause, and is raised
            raise


# --- files --------------------------------------------------------------------------------------------------


def _read(address: str) -> bytes | None:
    try:
        return read_file(address, CLAIM_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except PermissionError as error:
        fault = f"{address} cannot be read, so another user's job may own the output ({error})"
        raise InputError(f"output: {fault}; choose another output") from error
    except InputError:  # the protocol is unknown
        raise
    except ValueError as error:  # not a regular file, or a huge one
        raise InputError(f"output: {address} is not a claim ({error}); remove it") from error


def _put_new(address: str, content: bytes) -> None:
    """Put a file if there is none; a store without conditional puts is read first."""
    fs, path = store_of(address)
    try:
        with reaching(address):
            fs.pipe_file(path, content, mode="create")
    except FileNotFoundError:  # there is no bucket
        raise
    except (OSError, TypeError, ValueError, NotImplementedError):
        if _read(address) is None:
            put_file(address, content)


@contextmanager
def _alone(path: Path, raw: bytes) -> Iterator[bool]:
    """Lock a claim for a block against changes by others; yield whether its content is still ``raw``."""
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
    """Remove a claim if its content is still ``raw``."""
    if "://" not in address:
        with _alone(Path(address), raw) as is_there:
            if is_there:
                Path(address).unlink()
        return
    fs, path = store_of(address)
    if _read(address) == raw:
        with reaching(address), suppress(FileNotFoundError):
            fs.rm_file(path)


# --- whether an owner is alive ------------------------------------------------------------------------------


def _is_over(address: str, owner: Record) -> bool:
    """Return whether the owner of a claim has ended or died."""
    pid, here = owner.get("pid"), owner.get("machine") == machine()
    if "root" not in owner:
        return is_gone(pid, owner.get("born")) if here and isinstance(pid, int) else _silence(address) > CLAIM_STALE
    folder, ends = str(owner["root"]), owner.get("ends")  # a job of a service, in its job root
    protocol, colons, _ = folder.partition("://")
    if colons and protocol not in PROTOCOLS:
        return False
    try:
        if not names_in(folder):  # removed, unless its job root is on another host
            return is_remote(folder) or here or Path(folder).parent.is_dir()
        state = object_in(read_file(f"{folder}/state.json", MOST_OF_STATE))
    except (OSError, ValueError):
        return False
    return isinstance(ends, list) and state.get("state") in ends


def machine() -> str:
    """Identify the host, its boot and its process namespace; process ids are comparable only if all three agree."""
    boot = pids = ""
    with suppress(OSError):
        boot, pids = BOOT.read_text().strip(), os.readlink(PIDS)
    return f"{platform.node()}/{boot}/{pids}"


def start_time_of(pid: int) -> float | None:
    """Return the start time of a process, by a monotonic clock; None if there is no such process, or it has ended."""
    try:
        if PIDS.exists():
            state, *_, ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:20]
            return None if state in "ZX" else float(ticks)
        return float(psutil.Process(pid).create_time())
    except (OSError, ValueError, OverflowError, psutil.Error):
        return None


def is_gone(pid: int, born: object) -> bool:
    """Return whether the process of this machine with a number and a start time is gone."""
    own = start_time_of(pid)
    return own is None or own != born


def _silence(address: str) -> float:
    """Return the seconds since a claim was last written, by the clock of its store."""
    clock = f"{address.removesuffix(CLAIM)}.{uuid.uuid4().hex}.partial"
    fs, path = store_of(clock)
    put_file(clock, b"1", lasting=False)
    try:
        with reaching(address):
            return float((fs.modified(path) - fs.modified(store_of(address)[1])).total_seconds())
    except (FileNotFoundError, NotImplementedError):  # it was released meanwhile, or the store has no times
        return 0.0
    finally:
        with reaching(address):
            fs.rm_file(path)
