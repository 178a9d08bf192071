"""A page of the documentation, followed as its reader follows it: files saved, commands typed, examples run, in order.

A block of Markdown is one of these:

- any language, under a line that ends with "Save … `name`:" is a file of that name in the reader's folder;
- ``console``: lines that begin with ``$`` are commands, and what stands below one is its stdout; nothing stands for
  anything, ``...`` for any part of it, and a command that ends with ``&`` runs beside those that follow;
- ``python`` with ``>>>`` is a session, without it a script; both go on where the page's last one ended;
- all others are read alone.
"""

from __future__ import annotations

import doctest
import os
import re
import shlex
import socket
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from distforest.command_line.cli import main
from tests.programs import PATH
from tests.service.processes import free_port, until

ROOT = Path(__file__).parents[1]
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
BLOCK = re.compile(r"^```(\{?[\w-]*\}?)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SAVED = re.compile(r"^Save [^\n]*`([\w.-]+)`:$")
SHELL = frozenset("|&;<>()$`*?#~")
"""What the shell does not hand to a command as it is."""

PORTS = ("8786", "8787")
"""Dask's, which a page names; a test takes free ones."""


@dataclass(frozen=True)
class Block:
    """A block: its language, its text, its first line, and the name of the file that it is, if it is one."""

    language: str
    text: str
    line: int
    saved: str | None


def blocks(text: str) -> list[Block]:
    """Find the blocks of a page, in their order."""
    found = []
    for match in BLOCK.finditer(text):
        before = text[: match.start()].rstrip()
        saved = SAVED.match(before.rpartition("\n")[2])
        line = text.count("\n", 0, match.start()) + 1
        found.append(Block(match[1], match[2], line, saved[1] if saved else None))
    return found


@dataclass
class Reader:
    """Who follows a page, in a folder of their own.

    Attributes
    ----------
    folder
        The folder.
    types_alone
        Whether each command is a process of its own, as it is for a reader; or those of distforest are run in this
        process, which has imported all that they need, unless the shell has something to do, too.
    """

    folder: Path
    types_alone: bool = False
    names: dict[str, Any] = field(default_factory=lambda: {"__name__": "__main__"})
    ports: dict[str, str] = field(default_factory=lambda: {port: str(free_port()) for port in PORTS})
    beside: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def follow(self, path: Path) -> int:
        """Do what the page says, and give the number of its blocks that were done."""
        done = [self._do(block, path) for block in blocks(path.read_text())]
        return sum(done)

    def _do(self, block: Block, path: Path) -> bool:
        if block.saved:
            (self.folder / block.saved).write_text(block.text)
        elif block.language == "console":
            for command, shown in commands(block.text):
                self._type(command, shown, f"{path.name}:{block.line}")
        elif block.language == "python" and ">>> " in block.text:
            self._converse(block, path)
        elif block.language == "python":
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                exec(compile("\n" * block.line + block.text, str(path), "exec"), self.names)
        else:
            return False
        return True

    def _converse(self, block: Block, path: Path) -> None:
        session = doctest.DocTestParser().get_doctest(block.text, {}, path.name, str(path), block.line)
        session.globs = self.names
        runner = doctest.DocTestRunner(optionflags=FLAGS)
        failures: list[str] = []
        runner.run(session, out=failures.append, clear_globs=False)
        assert not failures, "".join(failures)

    def _type(self, command: str, shown: str, where: str) -> None:
        for known, free in self.ports.items():
            command, shown = command.replace(known, free), shown.replace(known, free)
        if command.endswith("&"):
            started = subprocess.Popen(
                shlex.split(command.removesuffix("&")),
                cwd=self.folder,
                env=self._environment(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            self.beside.append(started)
            if "scheduler" in command:
                until(lambda: _answers(self.ports[PORTS[0]]))
            return
        is_plain = command.startswith("distforest ") and not set(command) & SHELL
        run = self._run_here if is_plain and not self.types_alone else self._run_alone
        code, out, err = run(command)
        assert code == 0, f"{where}: {command}\n{out}{err}"
        if shown:
            told = f"{where}: {command}\nshown:\n{shown}\ncame:\n{out}"
            assert doctest.OutputChecker().check_output(shown, out, FLAGS), told

    def _run_alone(self, command: str) -> tuple[int, str, str]:
        """The exit code, stdout and stderr of a command of the shell."""
        words = ["bash", "-c", command]
        ran = subprocess.run(
            words, cwd=self.folder, env=self._environment(), capture_output=True, text=True, check=False
        )
        return ran.returncode, ran.stdout, ran.stderr

    def _run_here(self, command: str) -> tuple[int, str, str]:
        """The same of a command of distforest, in this process."""
        hidden = {name: None for name in os.environ if name.startswith(("DASK_", "DISTFOREST_"))}
        with warnings.catch_warnings():
            warnings.simplefilter("default")  # as in a process of its own
            ran = CliRunner(env={**hidden, **self._environment()}).invoke(main, shlex.split(command)[1:])
        if ran.exception and not isinstance(ran.exception, SystemExit):
            raise ran.exception
        return ran.exit_code, ran.stdout, ran.stderr

    def _environment(self) -> dict[str, str]:
        return {
            **{name: value for name, value in os.environ.items() if not name.startswith(("DASK_", "DISTFOREST_"))},
            "PATH": PATH,
            "PYTHONPATH": str(ROOT),
            "DISTFOREST_SCRATCH": str(self.folder / ".scratch"),
            "OMP_NUM_THREADS": "1",
            "COLUMNS": "80",
        }

    def leave(self) -> None:
        """End what runs beside, the last first: workers before their scheduler."""
        for started in reversed(self.beside):
            started.terminate()
        for started in reversed(self.beside):
            try:
                started.wait(30)
            except subprocess.TimeoutExpired:
                started.kill()
                started.wait()


@contextmanager
def reader(folder: Path, types_alone: bool = False) -> Iterator[Reader]:
    """Someone who follows pages in a folder, which is the current one for that time."""
    before, path, own = Path.cwd(), sys.path.copy(), Reader(folder, types_alone)
    os.chdir(folder)
    sys.path.insert(0, str(folder))  # as in a session of Python that is started there
    try:
        yield own
    finally:
        own.leave()
        os.chdir(before)
        sys.path[:] = path
        for name, module in list(sys.modules.items()):
            if str(getattr(module, "__file__", None)).startswith(f"{folder}{os.sep}"):
                del sys.modules[name]


def commands(text: str) -> list[tuple[str, str]]:
    """Read the commands of a transcript, and what it shows below each."""
    found: list[tuple[str, str]] = []
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, shown = part.partition("\n")
        while command.endswith("\\"):
            more, _, shown = shown.partition("\n")
            command = command.removesuffix("\\") + more.removeprefix(">").strip()
        found.append((command.split(" # ")[0].strip(), shown))
    return found


def _answers(port: str) -> bool:
    with socket.socket() as asked:
        return asked.connect_ex(("127.0.0.1", int(port))) == 0
