"""The containers of a compose file as processes of this host: ports and folders mapped, policies applied.

What is read of the file is what decides whether a job survives: commands, environment, volumes, replicas, health
checks and restart policies. There is no isolation.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from distforest.kernel_cache import FOLDER, kernel_folder
from tests.programs import PATH

ROOT = Path(__file__).parents[2]

PATIENCE = 300.0
"""Seconds in which anything that is waited for must happen, on a machine that has other things to do."""

_VARIABLE = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")


def from_image(dockerfile: Path = ROOT / "deploy" / "Dockerfile") -> dict[str, str]:
    """The environment that the image gives to its processes."""
    lines = dockerfile.read_text().replace("\\\n", " ").splitlines()
    last = [line for line in lines if line.startswith("ENV ")][-1]
    return dict(pair.split("=", 1) for pair in shlex.split(last.removeprefix("ENV ")))


def interpolated(node: Any, variables: dict[str, str]) -> Any:
    """A part of a compose file with its variables replaced, as compose does it."""
    if isinstance(node, dict):
        return {key: interpolated(value, variables) for key, value in node.items()}
    if isinstance(node, list):
        return [interpolated(value, variables) for value in node]
    if isinstance(node, str):
        return _VARIABLE.sub(lambda found: variables.get(found[1]) or found[2] or "", node)
    return node


def merged(under: Any, over: Any) -> Any:
    """A compose file with another one laid over it."""
    if isinstance(under, dict) and isinstance(over, dict):
        return {**under, **{key: merged(under.get(key), value) for key, value in over.items()}}
    return over


def read(*files: Path, **variables: str) -> dict[str, Any]:
    """What compose files say together, given some variables."""
    said: dict[str, Any] = {}
    for file in files:
        said = merged(said, interpolated(yaml.safe_load(file.read_text()), variables))
    return said


def restarts(policy: str, code: int) -> bool:
    """Whether a container that ended by itself is started again."""
    return policy in {"always", "unless-stopped"} or (policy == "on-failure" and code != 0)


def free_port() -> int:
    """A port that nobody has."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def until(what: str, condition: Callable[[], bool], between: Callable[[], None] = lambda: None) -> None:
    """Wait until something is true, and do something else meanwhile."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"not within {PATIENCE} s: {what}"
        between()
        time.sleep(0.05)


@dataclass
class Container:
    """A process and its children, which end together, and are started again as their policy says."""

    command: list[str]
    environment: dict[str, str]
    restart: str
    log: Path
    exits: list[int] = field(default_factory=list)
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command, env=self.environment, stdout=log, stderr=log, cwd=self.log.parent, start_new_session=True
            )

    def kill(self) -> None:
        """SIGKILL to all of it, as when its host dies."""
        assert self.process
        os.killpg(self.process.pid, signal.SIGKILL)

    def tend(self) -> None:
        """Note that it has ended, and start it again if its policy says so."""
        if self.process is None or self.process.poll() is None:
            return
        self._leave()
        self.exits.append(self.process.returncode)
        self.process = None
        if restarts(self.restart, self.exits[-1]):
            self.start()

    def end(self) -> None:
        """Leave nothing of it."""
        if self.process is not None:
            self._leave()
            self.process.wait(60)

    def _leave(self) -> None:
        """The first process of a container takes all others with it."""
        assert self.process
        with contextlib.suppress(ProcessLookupError):  # there are no others
            os.killpg(self.process.pid, signal.SIGKILL)


@dataclass
class Host:
    """This host in the place of an engine: a folder for volumes, a port for each port of a container."""

    compose: dict[str, Any]
    folder: Path
    containers: dict[tuple[str, int], Container] = field(default_factory=dict)
    ports: dict[tuple[str, int, str], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True)

    def port(self, service: str, number: int, inside: str) -> int:
        """The port of this host that stands for a container's port."""
        key = (service, number, inside)
        if key not in self.ports:
            self.ports[key] = free_port()
        return self.ports[key]

    def outside(self, service: str, number: int, text: str) -> str:
        """A text of a container in the words of this host."""
        for inside, outside in self._mounts(service).items():
            text = re.sub(rf"(?<![\w./-]){re.escape(inside)}(?=[/\s:'\"]|$)", str(outside), text)
        names = "|".join(map(re.escape, self.compose["services"]))

        def mapped(found: re.Match[str]) -> str:
            other = found[1] in self.compose["services"]
            port = self.port(found[1], 0, found[2]) if other else self.port(service, number, found[2])
            return f"127.0.0.1:{port}"

        text = re.sub(rf"(?<![\w.])(0\.0\.0\.0|127\.0\.0\.1|{names}):(\d+)", mapped, text)
        text = re.sub(r"(--port=)(\d+)", lambda found: found[1] + str(self.port(service, number, found[2])), text)
        return text.replace("--host=0.0.0.0", "--host=127.0.0.1")

    def _mounts(self, service: str) -> dict[str, Path]:
        said = self.compose["services"][service]
        mounts = {}
        for volume in said.get("volumes", []):
            source, target = volume.removesuffix(":ro").rsplit(":", 1)
            mounts[target] = self.folder / source if source in self.compose["volumes"] else Path(source).absolute()
            mounts[target].mkdir(parents=True, exist_ok=True)
        for secret in said.get("secrets", []):
            mounts[f"/run/secrets/{secret}"] = Path(self.compose["secrets"][secret]["file"])
        return dict(sorted(mounts.items(), reverse=True))  # the longer of two that begin alike comes first

    def environment(self, service: str, number: int) -> dict[str, str]:
        """What the processes of a container see, and nothing of this process but where programs are."""
        said = {**from_image(), **self.compose["services"][service].get("environment", {})}
        said.pop("NUMBA_CACHE_DIR")
        found = {name: self.outside(service, number, value) for name, value in said.items()}
        return {**found, "PATH": PATH, "HOME": str(self.folder), FOLDER: str(kernel_folder())}  # compiled already

    def up(self, service: str) -> list[Container]:
        """Start all containers of a service."""
        replicas = int(self.compose["services"][service].get("deploy", {}).get("replicas", 1))
        return [self._started(service, number) for number in range(replicas)]

    def _started(self, service: str, number: int) -> Container:
        said = self.compose["services"][service]
        container = Container(
            [self.outside(service, number, word) for word in said["command"]],
            self.environment(service, number),
            said.get("restart", "no"),
            self.folder / f"{service}-{number}.log",
        )
        self.containers[service, number] = container
        container.start()
        return container

    def healthy(self, service: str, number: int = 0) -> bool:
        """Whether a container passes its own health check."""
        kind, *command = self.compose["services"][service]["healthcheck"]["test"]
        assert kind == "CMD"
        words = [self.outside(service, number, word) for word in command]
        environment = self.environment(service, number)
        return subprocess.run(words, env=environment, capture_output=True, timeout=90, check=False).returncode == 0

    def run(self, service: str, *command: str) -> subprocess.CompletedProcess[str]:
        """`docker compose run --rm SERVICE [COMMAND]`."""
        words = command or tuple(self.compose["services"][service]["command"])
        return subprocess.run(
            [self.outside(service, 0, word) for word in words],
            env=self.environment(service, 0),
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )

    def until(self, what: str, condition: Callable[[], bool]) -> None:
        """Tend the containers until something is true."""
        try:
            until(what, condition, self.tend)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.logs()}") from None

    def tend(self) -> None:
        for container in self.containers.values():
            container.tend()

    def logs(self) -> str:
        return "\n".join(f"== {log.name}\n{log.read_text()[-3000:]}" for log in sorted(self.folder.glob("*.log")))

    def down(self) -> None:
        """Leave nothing of any container."""
        for container in self.containers.values():
            container.end()
