"""A service whose workers are SLURM jobs, as many as its forests have use for: ``python jobqueue.py JOB_ROOT``.

Needs ``pip install dask-jobqueue``. The scheduler runs here, on a login or service node, until Ctrl-C or SIGTERM;
started again over the same job root it goes on with the jobs that were not finished. Its address is in
JOB_ROOT/scheduler.json, for ``distforest submit job.toml --scheduler-file``. Certificates are taken from Dask's
configuration (``DASK_CONFIG``, made by the recipe in docs/service.md): without them its port lets anyone run code.
"""

import argparse
import json
import os
import signal
from pathlib import Path

from dask_jobqueue import SLURMCluster

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def arguments() -> argparse.Namespace:
    """What is asked of SLURM."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("job_root", type=Path, help="a folder that the nodes see too")
    parser.add_argument("--partition", help="of the workers' jobs")
    parser.add_argument("--minutes", type=int, default=60, help="that a worker's job may take")
    parser.add_argument("--memory", default="4GiB", help="of a worker")
    parser.add_argument("--most", type=int, default=32, help="workers at once")
    return parser.parse_args()


def cluster_of(asked: argparse.Namespace) -> SLURMCluster:
    """A scheduler in this process, with the service, and a way to ask SLURM for workers."""
    # A worker leaves by itself before its time is up, hands on what it holds, and is followed by another.
    lifetime = ["--lifetime", f"{asked.minutes - 5}m", "--lifetime-stagger", "4m", "--lifetime-restart"]
    return SLURMCluster(
        cores=1,
        processes=1,
        memory=asked.memory,
        walltime=f"{asked.minutes}:00",
        queue=asked.partition,
        protocol="tls://" if os.environ.get("DASK_CONFIG") else "tcp://",
        scheduler_options={
            "preload": ["distforest.service"],
            "dashboard_address": "127.0.0.1:0",
            "worker_ttl": "30s",  # a worker that is silent for so long is given up
        },
        worker_extra_args=[*lifetime, "--dashboard-address", "127.0.0.1:0", "--death-timeout", "60"],
        job_script_prologue=[f"export {name}=1" for name in THREADS],
        local_directory="${TMPDIR:-/tmp}",
        log_directory=str(asked.job_root / "logs"),
    )


def main() -> None:
    """Serve until told to stop."""
    asked = arguments()
    asked.job_root = asked.job_root.absolute()
    asked.job_root.mkdir(parents=True, exist_ok=True)
    os.environ["DISTFOREST_JOB_ROOT"] = str(asked.job_root / "jobs")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with cluster_of(asked) as cluster:
        # One worker stays, as a forest is planned for the workers that are there.
        cluster.adapt(minimum=1, maximum=asked.most, wait_count=30)
        where = asked.job_root / "scheduler.json"
        where.write_text(json.dumps({"address": cluster.scheduler_address}), encoding="utf-8")
        print(f"{cluster.scheduler_address} serves {asked.job_root}; Ctrl-C stops it", flush=True)
        try:
            signal.pause()
        except KeyboardInterrupt:
            where.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
