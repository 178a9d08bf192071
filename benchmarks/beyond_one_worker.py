"""Trees whose rows lie in parts on several workers, beside the same trees on one worker that has all rows.

``python benchmarks/beyond_one_worker.py [--rows N] [--columns P] [--trees B] [--leaf M] [--parts 1 2 4] [--batch B]``
writes N rows of P features with two classes into a store, and seals a forest of B trees of bins: in memory of one
worker, and in parts, each on a worker of its own, a process of one thread. Every run must give the same digest.

Seconds of the processor are those of all workers, and of this process, which is client and scheduler, from the
beginning to the end of growth; the kernels are warm. They hardly depend on what else the machine does, unlike the
seconds of the clock. Tasks and bytes between workers are those of one level, in the mean.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from distributed import Worker
from measurement import machine, mib, print_table, seconds_cell

from distforest.jobs import rounds
from distforest.jobs.input_staging import stage_inputs
from distforest.jobs.on_dask import OnDask, local_cluster
from distforest.jobs.spec import Spec
from distforest.jobs.train import Options, fit
from distforest.sources.arrays import write_array
from distforest.stores.folder import Folder

BLOCK = 100_000
"""Rows that are drawn at once."""


def write_rows(group: str, n_rows: int, n_columns: int) -> None:
    """Write features and labels."""
    rng = np.random.default_rng(0)
    labels = np.empty(n_rows, np.int32)

    def blocks() -> Any:
        for first in range(0, n_rows, BLOCK):
            n = min(BLOCK, n_rows - first)
            block = rng.standard_normal((n, n_columns), np.float32)
            labels[first : first + n] = block[:, 0] + block[:, 1] * block[:, 2] + rng.standard_normal(n) / 2.0 > 0.0
            yield block

    write_array(group, "X", (n_rows, n_columns), np.dtype(np.float32), blocks())
    write_array(group, "y", labels.shape, labels.dtype, [labels])


def spent_of_worker(dask_worker: Worker) -> tuple[float, int, int]:
    """Seconds of the processor, bytes sent to other workers, and the resident peak of a worker."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime, int(dask_worker.transfer_outgoing_bytes_total), usage.ru_maxrss << 10


def spent(cluster: OnDask) -> dict[str, float]:
    """The same of all workers together, and seconds of this process."""
    found = list(cluster.client.run(spent_of_worker).values())
    return {
        "workers": sum(one[0] for one in found),
        "sent": sum(one[1] for one in found),
        "peak": max(one[2] for one in found),
        "driver": time.process_time(),
    }


def counted_tasks(counts: dict[str, int]) -> Callable[..., Any]:
    """`rounds.of_same_growth`'s calls are counted by the name of the function, where they are made."""
    checked = rounds._checked

    def counting(links: Any) -> Callable[..., Any]:
        call = checked(links)

        def counted(function: Callable[..., object], *arguments: object, near: int | None = None) -> Any:
            counts[function.__name__] = counts.get(function.__name__, 0) + 1
            return call(function, *arguments, near=near)

        return counted

    return counting


def measured(options: argparse.Namespace, folder: str, n_workers: int, n_parts: int | None) -> dict[str, Any]:
    """Grow the forest once to warm up with few rows, and then with all of them."""
    counts: dict[str, int] = {}
    found: dict[str, Any] = {}
    with local_cluster(n_workers, memory_limit=options.limit << 20) as cluster:
        for group in ("few", "all"):
            name = f"{group}-{n_parts}-{n_workers}"
            spec = Spec.from_dict(
                {
                    "format": 1,
                    "method": "smerf",
                    "output": f"{folder}/{name}.zarr",
                    "input": {
                        "features": f"{folder}/{group}.zarr/X",
                        "distances": {"kind": "labels", "values": f"{folder}/{group}.zarr/y"},
                    },
                    "params": {"n_estimators": options.trees, "max_bins": 255, "min_samples_leaf": options.leaf},
                    "run": {"scratch": f"{folder}/scratch"},
                }
            )
            job = Folder(f"{spec.output}.job")
            inputs = stage_inputs(spec, job.address, n_parts)
            counts.clear()
            sound, rounds._checked = rounds._checked, counted_tasks(counts)  # type: ignore[assignment]
            before, start = spent(cluster), time.perf_counter()
            try:
                done = fit(inputs, spec.output, job, cluster, Options(batch=options.batch if n_parts else None))
            finally:
                rounds._checked = sound
            after = spent(cluster)
            found = {name: after[name] - before[name] for name in ("workers", "sent", "driver")}
            found |= {"seconds": time.perf_counter() - start, "digest": done.digest, "peak": after["peak"]}
    return {**found, "tasks": sum(counts.values()), "levels": counts.get("decide_level", 0), "counts": dict(counts)}


def main() -> None:
    """Measure one worker, and parts on as many workers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=50)
    parser.add_argument("--trees", type=int, default=2)
    parser.add_argument("--leaf", type=int, default=20, help="least rows of a leaf")
    parser.add_argument("--parts", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--batch", type=int, help="trees in parts that grow at once, 2 without it")
    parser.add_argument("--limit", type=int, default=3000, help="MiB of a worker")
    parser.add_argument("--folder", type=Path, help="where the rows are written")
    options = parser.parse_args()
    print(machine(), "\n", flush=True)
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        write_rows(f"{folder}/few.zarr", 3000, options.columns)
        write_rows(f"{folder}/all.zarr", options.rows, options.columns)
        runs = [("one worker, in memory", 1, None), *((f"{n} parts", n, n) for n in options.parts)]
        found = {how: measured(options, folder, n_workers, n_parts) for how, n_workers, n_parts in runs}
    base, rows = found["one worker, in memory"], []
    for how, one in found.items():
        levels = max(1, one["levels"])
        processor = one["workers"] + one["driver"]
        rows.append(
            [
                *(how, seconds_cell(one["seconds"]), seconds_cell(one["workers"]), seconds_cell(one["driver"])),
                f"{processor / (base['workers'] + base['driver']):.2f}",
                *(mib(one["peak"]), f"{levels}", f"{one['tasks'] / levels:.1f}", mib(one["sent"] / levels)),
                one["digest"][:12],
            ]
        )
    heads = ["rows", "seconds", "processor of workers", "of driver", "of all / in memory", "peak of a worker"]
    print_table([*heads, "levels", "tasks a level", "sent a level", "digest"], rows)
    for how, one in found.items():
        if one["counts"]:
            print(how, one["counts"])
    if len({one["digest"] for one in found.values()}) > 1:
        raise SystemExit("the forests differ")


if __name__ == "__main__":
    main()
