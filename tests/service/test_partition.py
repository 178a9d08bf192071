"""A network that falls apart between hosts: trees grow elsewhere, jobs wait, and the forest is the undisturbed one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from distforest.errors import NotFoundError
from distforest.jobs.spec import Spec
from tests.service import faults
from tests.service.faults import Fault, Faults
from tests.service.processes import Cluster, Iris, Program, until

HOLDER = ["sleep", "200"]
"""What keeps a namespace there, and not for ever."""

IS_ROOT = os.geteuid() == 0

OF_USERS: dict[str, list[str]] = {
    "make": [] if IS_ROOT else ["--user", "--map-root-user"],
    "enter": [] if IS_ROOT else ["--user", "--preserve-credentials"],
}
"""Who is not root makes a namespace of users, in which he is, for all networks."""

SETTINGS = {
    # The least that Dask takes; kernels keep it, so a host that is only busy is not taken for one that is cut off.
    "DASK_DISTRIBUTED__COMM__TIMEOUTS__TCP": "11s",
    "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "10s",
    "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "10",
}

N_TREES, BATCH = 24, 4

SUBMIT = """
import sys
from distforest.service.calls import Service
Service(sys.argv[1]).submit(open(sys.argv[2]).read(), "a")
"""


def why_not() -> str:
    """What keeps this host from having networks within it; nothing if it can."""
    missing = [name for name in ("ip", "unshare", "nsenter") if shutil.which(name) is None]
    if sys.platform != "linux" or missing:
        return f"network namespaces need Linux and {', '.join(missing) or 'its programs'}"
    bridge = ["ip", "link", "add", "name", "hub0", "type", "bridge"]
    tried = subprocess.run(
        ["unshare", *OF_USERS["make"], "--net", *bridge], capture_output=True, text=True, check=False
    )
    return f"network namespaces are not permitted: {tried.stderr.strip()}" if tried.returncode else ""


pytestmark = [pytest.mark.cluster, pytest.mark.slow]


@dataclass
class Network:
    """Hosts at the ports of a switch, which is the first of them; each is a namespace, held by a process."""

    holders: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def address(self, host: int) -> str:
        """Of the addresses that are nobody's, kept for documents."""
        return f"192.0.2.{host + 1}"

    def inside(self, host: int) -> list[str]:
        """What comes before a command that shall run on a host."""
        return ["nsenter", "--target", str(self.holders[host].pid), *OF_USERS["enter"], "--net"]

    def ip(self, host: int, *words: str) -> None:
        subprocess.run([*self.inside(host), "ip", *words], check=True)

    def hold(self) -> None:
        """Have one more namespace."""
        users = self.inside(0)[:-1] if self.holders else []
        new = [] if self.holders else OF_USERS["make"]
        holder = subprocess.Popen([*users, "unshare", *new, "--net", *HOLDER])
        self.holders.append(holder)
        until(lambda: Path(f"/proc/{holder.pid}/cmdline").read_bytes().startswith(b"sleep"))
        self.ip(len(self.holders) - 1, "link", "set", "lo", "up")

    def plug_in(self, host: int) -> None:
        """Connect a host with the switch."""
        peer = ["peer", "name", "eth0", "netns", str(self.holders[host].pid)]
        self.ip(0, "link", "add", "name", f"port{host}", "type", "veth", *peer)
        self.ip(0, "link", "set", f"port{host}", "master", "hub0", "up")
        self.ip(host, "address", "add", f"{self.address(host)}/24", "dev", "eth0")
        self.ip(host, "link", "set", "eth0", "up")

    def cut(self, *hosts: int) -> None:
        for host in hosts:
            self.ip(0, "link", "set", f"port{host}", "down")

    def heal(self, *hosts: int) -> None:
        for host in hosts:
            self.ip(0, "link", "set", f"port{host}", "up")


@contextmanager
def network(n_hosts: int) -> Iterator[Network]:
    """A switch with so many hosts besides; nothing of it is left when the processes that hold it are gone."""
    made = Network()
    try:
        made.hold()
        made.ip(0, "link", "add", "name", "hub0", "type", "bridge")
        made.ip(0, "address", "add", f"{made.address(0)}/24", "dev", "hub0")
        made.ip(0, "link", "set", "hub0", "up")
        for host in range(1, n_hosts + 1):
            made.hold()
            made.plug_in(host)
        yield made
    finally:
        for holder in made.holders:
            holder.kill()
            holder.wait()


class Remote(Program):
    """A process on a host of a network."""

    def __init__(self, before: list[str], arguments: list[str], log: Path, environment: dict[str, str]) -> None:
        self.log = log
        command = [*before, sys.executable, *arguments]
        with log.open("ab") as out:
            self.process = subprocess.Popen(command, cwd=log.parent, env=environment, stdout=out, stderr=out)


@dataclass
class Apart(Cluster):
    """A cluster whose scheduler is at the switch, and whose workers are on hosts of their own; they share a disk.

    What is known of jobs is read from the job root, as this process is in none of these networks.
    """

    network: Network = field(default_factory=Network)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.port = 8786
        hosts = range(1, len(self.network.holders))
        self.on: dict[int, Faults] = {host: faults.prepared(self.folder / f"faults-{host}") for host in hosts}
        self.at: dict[int, Program] = {}

    @property
    def address(self) -> str:
        return f"tcp://{self.network.address(0)}:{self.port}"

    def remote(self, host: int, name: str, *arguments: str) -> Program:
        """Start a process on a host; faults and scratch are its own."""
        own = {"DISTFOREST_SCRATCH": f"{self.folder}/scratch-{host}"}
        if host:
            own[faults.FOLDER] = str(self.on[host].folder)
        log = self.folder / f"{name}.log"
        return Remote(self.network.inside(host), list(arguments), log, self.environment | SETTINGS | own)

    def start(self) -> None:
        where = ("--host", self.network.address(0), "--port", str(self.port), "--no-dashboard")
        own = ("--preload", "distforest.service", "--job-root", str(self.root))
        self.schedulers.append(self.remote(0, "scheduler", "-m", "dask", "scheduler", *where, *own))
        self.tend()
        until(lambda: all(self.registered(host) for host in self.on))

    def tend(self) -> None:
        """Start the worker of each host where none is running, as what supervises it there would."""
        for host in self.on:
            if host in self.at and self.at[host].process.poll() is None:
                continue
            own = ("--host", self.network.address(host), "--nthreads", "1", "--no-dashboard", "--no-nanny")
            mine = ("--preload", faults.__name__, "--local-directory", f"{self.folder}/local-{host}")
            worker = self.remote(host, f"worker-{len(self.workers)}", "-m", "dask", "worker", self.address, *own, *mine)
            self.at[host] = worker
            self.workers.append(worker)

    def registered(self, host: int) -> bool:
        """Whether a host's present worker has been taken in by the scheduler."""
        return "Registered to:" in self.at[host].said

    def come_back(self, *hosts: int) -> None:
        """Wait until new workers have come from hosts whose old ones were given up."""
        old = {host: self.at[host] for host in hosts}

        def is_there() -> bool:
            self.tend()
            return all(self.at[host] is not old[host] and self.registered(host) for host in hosts)

        until(is_there)

    def state(self, job: str) -> dict[str, Any]:
        """What the job root says of a job."""
        try:
            return self.registry.job(job, now=0.0)
        except NotFoundError:
            return {"state": None}

    def noted(self, job: str, event: str) -> list[dict[str, Any]]:
        return [found for found in self.registry.events(job) if found["event"] == event]

    def all_begun(self, job: str) -> Counter[int]:
        """How often each tree was begun, on all hosts together."""
        return sum((on.begun(job) for on in self.on.values()), Counter[int]())


@pytest.fixture
def hosts() -> Iterator[Network]:
    if reason := why_not():
        pytest.skip(reason)
    with network(2) as made:
        yield made


def test_hosts_that_are_cut_off_lose_their_trees_to_others_and_come_back(hosts: Network, tmp_path: Path) -> None:
    iris, cluster = Iris.written(tmp_path / "data"), Apart(tmp_path / "cluster", network=hosts)
    spec = iris.spec("a", N_TREES, BATCH)
    digest = iris.digest(spec)
    (tmp_path / "spec.json").write_text(Spec.from_dict({**spec, "run": {"batch": BATCH}}).to_json())
    try:
        cluster.start()
        first = cluster.on[1].arm(Fault("mid_tree", "hold", "a"))
        last = cluster.on[2].arm(Fault("mid_tree", "hold", "a", N_TREES - 1))
        assert cluster.remote(0, "client", "-c", SUBMIT, cluster.address, f"{tmp_path}/spec.json").wait() == 0
        until(lambda: cluster.on[1].struck(first) and cluster.on[2].struck(last))

        hosts.cut(1)
        [lost] = until(lambda: cluster.noted("a", "lost"))
        assert hosts.address(1) in lost["worker"]
        assert len(cluster.shards("a")) < N_TREES - BATCH
        hosts.heal(1)
        cluster.on[1].release()
        cluster.come_back(1)
        until(lambda: len(cluster.shards("a")) == N_TREES - BATCH)

        hosts.cut(1, 2)
        until(lambda: cluster.state("a")["state"] == "WAITING_FOR_WORKERS")
        hosts.heal(1, 2)
        cluster.on[2].release()
        cluster.come_back(1, 2)
        until(lambda: cluster.state("a")["state"] == "SUCCEEDED")
    finally:
        cluster.end()
    told = cluster.state("a")
    assert told["result"]["digest"] == digest
    assert told["attempt"] == 1
    assert {hosts.address(1), hosts.address(2)} == {
        note["worker"].split("/")[-1].split(":")[0] for note in cluster.noted("a", "lost")
    }
    assert len(cluster.noted("a", "waiting")) in (1, 2)  # for silent workers, and then for any
    assert len(cluster.noted("a", "running")) == 1
    assert max(cluster.all_begun("a").values()) <= 2
