"""A SLURM of one node: the real one, started in a folder by root, or programs that stand in for its commands."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from tests.deploy.containers import free_port, until
from tests.programs import PATH, program

NEEDED = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scontrol", "squeue")

CONFIG = """\
ClusterName=one
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
SlurmctldPort={ctld}
SlurmdPort={slurmd}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
SchedulerType=sched/builtin
SlurmdParameters=config_overrides
KillWait=5
NodeName={host} NodeAddr=127.0.0.1 CPUs=4 RealMemory=4000 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""

SRUN = """\
#!/usr/bin/env bash
# Stands in for srun: as many processes as tasks, which end when it is told to.
trap 'kill $(jobs -p) 2>/dev/null; wait; exit 143' TERM
while [[ $1 == --* ]]; do
    case $1 in --ntasks=*) tasks=${1#--ntasks=} ;; esac
    shift
done
for ((rank = 0; rank < tasks; rank++)); do SLURM_PROCID=$rank "$@" & done
wait
"""


def missing() -> str | None:
    """Why SLURM cannot be started here; None if it can."""
    absent = [name for name in NEEDED if program(name) is None]
    if absent:
        return f"{', '.join(absent)} missing: apt-get install slurm-wlm munge"
    return None if os.geteuid() == 0 else "slurmd needs root"


@dataclass
class Slurm:
    """A SLURM that runs; commands go to it by the environment."""

    environment: dict[str, str]

    def call(self, *command: str) -> str:
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, f"{command}: {done.stderr}"
        return done.stdout

    def told(self, job: str, name: str) -> str:
        """What `scontrol show job` says of a job."""
        words = self.call("scontrol", "show", "job", job).split()
        return next(word.split("=", 1)[1] for word in words if word.startswith(f"{name}="))

    def hurry(self, job: str) -> None:
        """Start a job that was queued again soon, and not in two minutes as SLURM would.

        Not at once: what is launched in the second in which the same job was stopped is taken for that one.
        """
        begin = self.told(job, "EligibleTime")
        if self.told(job, "JobState") != "PENDING" or begin == "Unknown":
            return
        if datetime.fromisoformat(begin) - datetime.now() > timedelta(seconds=10):
            command = ["scontrol", "update", f"JobId={job}", "StartTime=now+3seconds"]
            subprocess.run(command, env=self.environment, capture_output=True, timeout=60, check=False)


@contextmanager
def slurm(folder: Path) -> Iterator[Slurm]:
    """The real one."""
    host = socket.gethostname().split(".")[0]
    for name in ("state", "spool"):
        (folder / name).mkdir()
    (folder / "munge.key").write_bytes(os.urandom(128))
    (folder / "munge.key").chmod(0o600)
    said = CONFIG.format(host=host, folder=folder, ctld=free_port(), slurmd=free_port())
    (folder / "slurm.conf").write_text(said)
    environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf"), "PATH": PATH}
    places = {"key-file": "key", "socket": "socket", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}
    munge = [f"--{option}={folder}/munge.{name}" for option, name in places.items()]
    daemons = (
        ["munged", "--foreground", "--force", *munge],
        ["slurmctld", "-D"],
        ["slurmd", "-D", "-N", host],
    )
    started = []
    try:
        for command in daemons:
            with (folder / f"{command[0]}.out").open("wb") as out:
                started.append(subprocess.Popen(command, env=environment, stdout=out, stderr=out))
            if command[0] == "munged":
                until("munged answers", (folder / "munge.socket").exists)
        running = Slurm(environment)
        until("the node is idle", lambda: node_state(running) == "idle")
        yield running
    finally:
        for daemon in reversed(started):
            daemon.send_signal(signal.SIGTERM)
        for daemon in reversed(started):
            daemon.wait(60)


def node_state(running: Slurm) -> str:
    asked = subprocess.run(
        ["sinfo", "-h", "-o", "%t"], env=running.environment, capture_output=True, text=True, timeout=60, check=False
    )
    return asked.stdout.strip()
