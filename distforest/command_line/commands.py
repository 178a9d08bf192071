"""What all commands share: ``--json``, how an answer is printed, and how a command ends that fails.

stdout is data, stderr is all else; with ``--json`` a failure is an object on stdout, too.
"""

from __future__ import annotations

import errno
import json
import re
import shlex
import warnings
from collections.abc import Callable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from distforest.command_line.exits import exit_code
from distforest.errors import DistforestError, InterruptedJobError, MemoryLimitError, NotDoneError, SpecError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import TextIO

    from distforest.command_line.reports import Report

F = TypeVar("F", bound=Callable[..., Any] | click.Command)

JSON = "distforest.json"
"""Where a command's context keeps whether ``--json`` was given."""


ARGUMENT = re.compile(
    r"`(?P<marked>[\w.]+)(?:=(?P<given>[^`]+))?`"
    r"|^(?P<first>\w+)(?=:| must be )"
    r"|(?<![\w/.])(?P<called>[a-z_.]+)=(?P<word>True|False|None)(?![\w/])"
)
"""An argument in a message: in backquotes, at its beginning, or given one of Python's words."""

WORDS = {"True": "true", "False": "false", "None": "'none'"}
"""Python's words as a job's file has them."""


class Doors(click.Group):
    """A group whose commands end with a line on stderr and an exit code where the error is a known one.

    Its help tells them in sections.
    """

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._sections: dict[str, str] = {}

    def take(self, commands: Iterable[click.Command], section: str = "Commands") -> None:
        """Add commands, each with ``--json``, under the head of a section."""
        for command in commands:
            json_option(command)
            self.add_command(command)
            self._sections[str(command.name)] = section

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the sections of the help."""
        limit = formatter.width - 6 - max(map(len, self.commands))
        sections: dict[str, list[tuple[str, str]]] = {"Commands": []}
        for name in self.list_commands(ctx):
            told = self.commands[name].get_short_help_str(limit)
            sections.setdefault(self._sections.get(name, "Commands"), []).append((name, told))
        for section, rows in sections.items():
            with formatter.section(section):
                formatter.write_dl(rows)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command."""
        try:
            with _plain_warnings(ctx):
                return super().invoke(ctx)
        except (DistforestError, KeyboardInterrupt) as error:
            fail(ctx, error)
        except MemoryError as error:
            fail(ctx, MemoryLimitError(f"there is not enough memory here: {error or 'none is left'}"))
        except OSError as error:
            if error.errno == errno.EPIPE:  # the reader of stdout has gone: click ends quietly
                raise
            fail(ctx, error)


def fail(ctx: click.Context, error: BaseException, **more: object) -> NoReturn:
    """Say what went wrong on stderr, under --json on stdout too, and end with the code for it."""
    interrupted = isinstance(error, (KeyboardInterrupt, InterruptedJobError))
    said = error.faults if isinstance(error, SpecError) else [str(error) or "ended by Ctrl-C or another signal"]
    faults = [as_typed(fault, _command_of(ctx)) for fault in said]
    for fault in faults:
        click.echo(f"{'interrupted' if interrupted else 'error'}: {printable(fault)}", err=True)
    code = exit_code(error)
    if ctx.meta.get(JSON):
        told = {"kind": type(error).__name__, "message": "\n".join(faults), "faults": faults}
        known = error.job if isinstance(error, NotDoneError) else {}
        click.echo(json.dumps({**known, **more, "error": known.get("error") or told, "exit_code": code}))
    ctx.exit(code)


def as_typed(text: str, command: click.Command) -> str:
    """Write the arguments that a message names as the command has them: its flags, else keys of a job's file.

    Examples
    --------
    >>> command = click.Command("score", params=[click.Option(["--overwrite/--keep"]), click.Option(["--n-neighbors"])])
    >>> as_typed("n_neighbors must be in 1..9; see `n_neighbors`, or allow it (`run.overwrite`)", command)
    '--n-neighbors must be in 1..9; see --n-neighbors, or allow it (--overwrite)'
    >>> as_typed("give overwrite=False, or `n_neighbors='9'`, or oob_score=True in the fit", command)
    'give --keep, or --n-neighbors 9, or oob_score=true in the fit'
    """
    options = {option.name: option for option in command.params if isinstance(option, click.Option)}

    def typed(found: re.Match[str]) -> str:
        name, value = found["marked"] or found["first"] or found["called"], found["given"] or found["word"]
        option = options.get(name.rpartition(".")[2])
        if option is None:
            return f"{name}={WORDS.get(value, value)}" if value else found[0]
        flag = max(option.opts, key=len)
        if value == "False" and option.secondary_opts:
            return max(option.secondary_opts, key=len)
        return flag if value in (None, "True") else f"{flag} {shlex.quote(value.strip(chr(39)))}"

    return ARGUMENT.sub(typed, text)


def _command_of(ctx: click.Context) -> click.Command:
    """The command that was asked for: of a group's context the one below it."""
    command = ctx.command
    return command.commands.get(ctx.invoked_subcommand or "", command) if isinstance(command, click.Group) else command


@contextmanager
def _plain_warnings(ctx: click.Context) -> Iterator[None]:
    """Warnings as one line each, without the line of code that they come from."""

    def show(
        message: Warning | str,
        category: type[Warning],  # noqa: ARG001  (the five that Python hands over)
        filename: str,  # noqa: ARG001
        lineno: int,  # noqa: ARG001
        file: TextIO | None = None,  # noqa: ARG001
        line: str | None = None,  # noqa: ARG001
    ) -> None:
        click.echo(f"warning: {printable(as_typed(str(message), _command_of(ctx)))}", err=True)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


def printable(text: str) -> str:
    """Replace control characters: a name in a stranger's forest must not control the terminal."""
    return "".join(c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in text)


def print_report(ctx: click.Context, report: Report) -> None:
    """Print an answer: as JSON if that was asked for, else as lines of a name and a value."""
    if ctx.meta.get(JSON):
        click.echo(json.dumps(report.answer, allow_nan=False))
        return
    width = max(len(name) for name, _ in report.lines)
    for name, value in report.lines:
        click.echo(printable(f"{name:<{width}}  {value}").rstrip())


def _keep_json(ctx: click.Context, _parameter: click.Parameter, value: bool) -> bool:
    ctx.meta[JSON] = value
    return value


def json_option(command: F) -> F:
    """``--json``."""
    return click.option(
        "--json",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_keep_json,
        help="Print one JSON object on stdout.",
    )(command)
