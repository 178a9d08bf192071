"""Staging: at which share of the rate at which Zarr reads a store it is staged, on a disk and from an S3 emulation.

``python benchmarks/staging.py`` writes one array of features in several layouts of chunks, in ``--folder`` and in the
emulation (moto's server, extra ``test``), and reads each by Zarr alone, a block of rows after another, and by staging,
in turn. ``--latency`` lets each answer of the emulation wait, as those of a store that is far away do.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

import fsspec
import numpy as np
import zarr
from measurement import print_table

from distforest.sources.arrays import zarr_store
from distforest.sources.readings import FEATURES
from distforest.sources.scratch import ScratchFolder
from distforest.sources.staging import stage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BUCKET = "staging"
KEYS = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "NO_PROXY": "127.0.0.1",
}
SLOW_SERVER = """
import sys, time
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import run_simple
inner, wait = DomainDispatcherApplication(create_backend_app), float(sys.argv[1])
def slow(environ, start_response):
    time.sleep(wait)
    return inner(environ, start_response)
run_simple("127.0.0.1", 0, slow, threaded=True)
"""


class Layout(NamedTuple):
    """Rows of a chunk, and of a shard; 0 without shards."""

    name: str
    chunk_rows: int
    shard_rows: int = 0


def layouts(n_rows: int, n_columns: int) -> list[Layout]:
    """Layouts by the sizes of their chunks in bytes."""

    def rows(n_bytes: int) -> int:
        return min(n_rows, n_bytes // (4 * n_columns))

    return [
        Layout("chunks of 4 MiB", rows(4 << 20)),
        Layout("chunks of 64 MiB", rows(64 << 20)),
        Layout("shards of 32 MiB, chunks of 1 MiB", rows(1 << 20), 32 * rows(1 << 20)),
        Layout("shards of 128 MiB, chunks of 1 MiB", rows(1 << 20), 128 * rows(1 << 20)),
    ]


@contextmanager
def emulation(folder: Path, latency: float) -> Iterator[None]:
    """Moto's server, which this process reaches."""
    log = folder / "moto.log"
    with log.open("wb") as out:
        command = [sys.executable, "-W", "ignore", "-c", SLOW_SERVER, str(latency)]
        server = subprocess.Popen(command, stdout=out, stderr=out, cwd=folder)
    try:
        while not (found := re.search(r"Running on (http://127.0.0.1:\d+)", log.read_text(errors="replace"))):
            time.sleep(0.1)
        os.environ.update({**KEYS, "AWS_ENDPOINT_URL": found[1]})
        fsspec.get_filesystem_class("s3").clear_instance_cache()
        fsspec.filesystem("s3", use_listings_cache=False).mkdir(BUCKET)
        yield
    finally:
        server.send_signal(signal.SIGKILL)
        server.wait()


def write(address: str, layout: Layout, n_rows: int, n_columns: int) -> None:
    """Write random features, which compress badly, in a layout."""
    rng, shards = np.random.default_rng(0), (layout.shard_rows, n_columns) if layout.shard_rows else None
    array = zarr.create_array(
        zarr_store(address),
        shape=(n_rows, n_columns),
        dtype=np.float32,
        chunks=(layout.chunk_rows, n_columns),
        shards=shards,
        overwrite=True,
    )
    step = layout.shard_rows or layout.chunk_rows
    for first in range(0, n_rows, step):
        array[first : first + step] = rng.normal(size=(min(step, n_rows - first), n_columns)).astype(np.float32)


def read(address: str) -> None:
    """Read an array by Zarr alone, from the first row to the last, about 64 MiB or a shard at once."""
    array = zarr.open_array(zarr_store(address), mode="r")
    rows = (array.shards or array.chunks)[0]
    step = max(1, (64 << 20) // (4 * array.shape[1] * rows)) * rows
    for first in range(0, array.shape[0], step):
        array[first : first + step]


class Taken(NamedTuple):
    """Seconds that have gone by, and those of this process's threads on processors."""

    elapsed: float
    processor: float


def taken_by(call: Callable[[], object]) -> Taken:
    """What a call takes."""
    start, busy = time.perf_counter(), time.process_time()
    call()
    return Taken(time.perf_counter() - start, time.process_time() - busy)


def measured(address: str, folder: Path, n_bytes: int, repeats: int) -> list[str]:
    """The rates of reading and of staging, and the share of each pair; that of the best of each; that of processors."""
    plain, own = list[Taken](), list[Taken]()
    for _ in range(repeats):
        shutil.rmtree(folder, ignore_errors=True)
        plain.append(taken_by(lambda: read(address)))
        own.append(taken_by(lambda: stage(address, FEATURES, ScratchFolder(folder))))
    rates = [f"{median(n_bytes / one.elapsed / 1e6 for one in side):,.0f}" for side in (plain, own)]
    shares = [one.elapsed / other.elapsed for one, other in zip(plain, own, strict=True)]
    best = [min(getattr(one, kind) for one in plain) / min(getattr(one, kind) for one in own) for kind in Taken._fields]
    return [*rates, f"{median(shares):.2f} ({min(shares):.2f} to {max(shares):.2f})", *(f"{one:.2f}" for one in best)]


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rows", type=int, default=2_000_000)
    options.add_argument("--columns", type=int, default=50)
    options.add_argument("--repeats", type=int, default=3)
    options.add_argument("--latency", type=float, nargs="*", default=[0.0, 0.05], help="seconds of an answer")
    options.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    options.add_argument("--only", nargs="*", default=[], help="words in the names of layouts")
    given = options.parse_args()
    n_bytes, table = 4 * given.rows * given.columns, []
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory(dir=given.folder) as place:
        folder = Path(place)
        for latency in (None, *given.latency):
            with ExitStack() as held:
                if latency is not None:
                    held.enter_context(emulation(folder, latency))
                where = "disk" if latency is None else f"S3, {1e3 * latency:.0f} ms"
                for layout in layouts(given.rows, given.columns):
                    if given.only and not any(word in layout.name for word in given.only):
                        continue
                    address = f"{folder}/X.zarr" if latency is None else f"s3://{BUCKET}/X.zarr"
                    write(address, layout, given.rows, given.columns)
                    table.append([where, layout.name, *measured(address, folder / "s", n_bytes, given.repeats)])
                    print(table[-1], flush=True)
    print_table(
        ["store", "layout", "Zarr reads, MB/s", "staged, MB/s", "share", "of the best", "of the processor"], table
    )


if __name__ == "__main__":
    main()
