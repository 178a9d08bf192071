"""Trees over distances that do not fit into a worker: by passes, beside reading the store once, and beside memory.

``python benchmarks/distances_beyond_memory.py [--rows N] [--few N] [--trees B] [--limit MIB] [--folder FOLDER]`` writes
N x N distances of N rows, |x_i - x_j| of two of 20 features with noise, as float32 in chunks of whole rows. A job of
SMERF then grows B trees in one worker with that limit, which reads the matrix by passes. The unit of its time is one
reading of the store, from the first chunk to the last. A second job has few rows, and grows the same forest in memory
and by passes; their digests must be equal. On a machine that others use, seconds of the processor say more. All
processes of a job are watched from outside: a peak is the largest resident memory that the kernel reports of one,
mapped pages included.

The whole size is ``--rows 40000``, which takes 20 GB of disk.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from measurement import machine, mib, print_table, seconds_cell

from distforest.jobs.on_dask import local_cluster
from distforest.jobs.preview import check_and_stage, preview
from distforest.jobs.spec import Spec
from distforest.jobs.train import Options, fit
from distforest.sources.arrays import open_array, row_blocks, write_array
from distforest.stores.folder import Folder

N_COLUMNS = 20
BLOCK = 500
"""Rows that are made at once."""

MIB = 1 << 20
ROOMY = 1 << 40
"""A limit with which everything is in memory."""


def write_distances(group: str, n: int) -> None:
    """Write features, and distances that two of them tell, block by block."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, N_COLUMNS)).astype(np.float32)
    own = rng.random(n).astype(np.float32)

    def block(first: int) -> np.ndarray:
        rows = slice(first, first + BLOCK)
        z = np.abs(X[rows, :1] - X[:, 0]) + np.abs(X[rows, 1:2] - X[:, 1])
        noise = (own[rows, None] + own) * np.float32(997.0) % np.float32(1.0)  # the same for both of a pair
        z = z + np.float32(0.3) * noise
        z[np.arange(len(z)), np.arange(first, first + len(z))] = 0.0
        return z

    write_array(group, "X", X.shape, X.dtype, [X])
    write_array(group, "Z", (n, n), np.dtype(np.float32), (block(first) for first in range(0, n, BLOCK)))


def spec_of(options: argparse.Namespace, group: str, limit: int) -> Spec:
    """A job over the distances of a group."""
    params = {"n_estimators": options.trees, "min_samples_leaf": options.leaf}
    if options.samples:
        params["max_samples"] = options.samples
    run: dict[str, Any] = {"workers": 1, "memory_limit": limit, "max_bytes": 1 << 40}
    return Spec.from_dict(
        {
            "format": 1,
            "method": "smerf",
            "output": f"{group}.forest-{limit}.zarr",
            "input": {"features": f"{group}/X", "distances": f"{group}/Z"},
            "params": params,
            "run": {**run, "scratch": f"{options.folder}/scratch", "overwrite": True},
        }
    )


def grown(options: argparse.Namespace) -> dict[str, Any]:
    """Run a job in this process and one worker; the first one, of a few rows, compiles."""
    group = f"{options.folder}/{options.rows}.zarr"
    warm = f"{options.folder}/warm-{options.rows}-{options.limit}.zarr"
    with local_cluster(1, 1, options.limit) as cluster:
        write_distances(warm, 2_000)
        few = spec_of(options, warm, options.limit)
        folder = Folder(f"{few.output}.job")
        inputs = check_and_stage(few, folder.address)
        fit(inputs, few.output, folder, cluster, Options(overwrite=True))
        passing = replace(inputs, rows_budget=MIB)
        fit(passing, f"{few.output}.passes", folder, cluster, Options(overwrite=True))
        spec, start = spec_of(options, group, options.limit), time.perf_counter()
        folder = Folder(f"{spec.output}.job")
        inputs = check_and_stage(spec, folder.address)
        staged, before = time.perf_counter(), processor_of_workers()
        done = fit(inputs, spec.output, folder, cluster, Options(overwrite=True))
        processor = processor_of_workers() - before
    planned = preview(spec).plan
    return {
        "staging": staged - start,
        "growing": done.growing_seconds,
        "processor": processor,
        "tasks": len(planned.tasks),
        "passes": planned.n_passes,
        "budget": planned.rows_budget,
        "projected": done.projected_bytes,
        "digest": done.digest,
    }


def processor_of_workers() -> float:
    """Seconds that processors have worked for the children of this process."""
    return sum(sum(child.cpu_times()[:2]) for child in psutil.Process().children(recursive=True))


def read_once(options: argparse.Namespace) -> dict[str, Any]:
    """Read the store of distances once, block by block, and add up a cell of each row."""
    start, processor, total = time.perf_counter(), time.process_time(), 0.0
    for _, block in row_blocks(open_array(f"{options.folder}/{options.rows}.zarr/Z")):
        total += float(block[:, 0].sum())
    return {"reading": time.perf_counter() - start, "processor": time.process_time() - processor, "total": total}


def watched(command: list[str]) -> tuple[dict[str, Any], int, int]:
    """Run a command; its answer as JSON, and the largest resident memory of itself and of one of its workers."""
    own, worker = 0, 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        process = psutil.Process(child.pid)
        while child.poll() is None:
            try:
                own = max(own, process.memory_info().rss)
                worker = max([worker, *(one.memory_info().rss for one in process.children(recursive=True))])
            except psutil.NoSuchProcess:
                pass
            time.sleep(0.02)
        answer = child.stdout.read() if child.stdout else ""
    if child.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {child.returncode}")
    return json.loads(answer), own, worker


def alone(options: argparse.Namespace, what: str, rows: int, limit: int) -> tuple[dict[str, Any], int, int]:
    """Do something in a process of its own, which is watched."""
    named = {"rows": rows, "limit": limit // MIB, "trees": options.trees, "leaf": options.leaf}
    named |= {"samples": options.samples, "folder": options.folder, "alone": what}
    return watched([sys.executable, __file__, *(f"--{name}={value}" for name, value in named.items())])


def main() -> None:
    """Write, read once, grow by passes; then compare a smaller forest with memory."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--few", type=int, default=10_000, help="rows of the forest that also grows in memory")
    parser.add_argument("--trees", type=int, default=2)
    parser.add_argument("--leaf", type=int, default=20, help="least rows of a leaf")
    parser.add_argument("--samples", type=int, default=0, help="rows that a tree draws; 0: as many as there are")
    parser.add_argument("--limit", type=int, default=1536, help="MiB of the worker")
    parser.add_argument("--few-limit", type=int, default=560, help="MiB of the worker of the few rows")
    parser.add_argument("--folder", type=Path, help="where the distances are written")
    parser.add_argument("--alone", choices=("grown", "read_once"), help="measure in this process, and print JSON")
    options = parser.parse_args()
    if options.alone:
        options.limit *= MIB
        print(json.dumps({"grown": grown, "read_once": read_once}[options.alone](options)))
        return
    print(machine(), "\n", flush=True)
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        options.folder = folder
        for rows in {options.rows, options.few}:
            write_distances(f"{folder}/{rows}.zarr", rows)
        read = alone(options, "read_once", options.rows, MIB)[0]
        unit, of_processor = read["reading"], read["processor"]
        print(
            f"the store of {options.rows:,} rows once: {seconds_cell(unit)}, {seconds_cell(of_processor)} of processor"
        )
        table, few = [], {}
        limits = [(options.rows, options.limit), (options.few, options.few_limit), (options.few, ROOMY // MIB)]
        for rows, limit in dict.fromkeys(limits):
            one, driver, worker = alone(options, "grown", rows, limit * MIB)
            print(json.dumps({"rows": rows, "driver": driver, "worker": worker, **one}), file=sys.stderr, flush=True)
            few |= {one["budget"] is None: one} if rows == options.few else {}
            how = "in memory" if one["budget"] is None else f"by passes, {one['tasks']} x {one['passes']}"
            seconds = [seconds_cell(one[name]) for name in ("staging", "growing", "processor")]
            ratios = one["growing"] / options.trees / unit, one["processor"] / options.trees / of_processor
            a_tree = "{:.2f}, {:.2f}".format(*ratios) if rows == options.rows else ""
            memory = [mib(one["projected"]), mib(worker), mib(driver)]
            table.append([f"{rows:,}", how, *seconds, a_tree, *memory, one["digest"][:12]])
    columns = ["rows", "trees", "staging", "growing", "processor", "a tree / a reading: seconds, processor"]
    columns += ["projected", "worker", "driver"]
    print_table([*columns, "digest"], table)
    if len(few) > 1:
        if few[True]["digest"] != few[False]["digest"]:
            raise SystemExit("the forests differ")
        ratios = (few[False][name] / few[True][name] for name in ("growing", "processor"))
        print("{:,} rows, by passes / in memory: {:.2f}, of processor {:.2f}".format(options.few, *ratios))


if __name__ == "__main__":
    main()
