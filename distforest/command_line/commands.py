"""Parts that commands share: ``--json``, the printing of reports, errors with their exit codes, and pictures.

Data go to stdout, everything else to stderr; with ``--json`` an error is also an object on stdout.
"""

from __future__ import annotations

import errno
import functools
import json
import os
import re
import shlex
import warnings
from collections.abc import Callable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from distforest.errors import (
    ArtifactError,
    CancelledJobError,
    DistforestError,
    ExistsError,
    FaultsError,
    InputError,
    InterruptedJobError,
    JobError,
    MemoryLimitError,
    NotDoneError,
    NotFoundError,
    UnreachableError,
    WaitTimeoutError,
)
from distforest.stores.room import full_disk

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from distforest.command_line.reports import Report

F = TypeVar("F", bound=Callable[..., object] | click.Command)

JSON = "distforest.json"
"""Key of a command's context: whether ``--json`` was given."""

STOPPING = "stopping; a second signal, such as Ctrl-C, ends the command at once"
"""Message of a command that a signal stops."""

ARGUMENT = re.compile(
    r"`(?P<marked>[\w.]+)(?:=(?P<given>[^`]+))?`"
    r"|^(?P<first>\w+)(?=:| must be )"
    r"|(?<![\w/.])(?P<called>[a-z_.]+)=(?P<word>True|False|None)(?![\w/])"
)
"""Pattern of an argument in a message: in backquotes, at the beginning, or set to True, False or None."""

CODES = (
    (ExistsError, 8),
    (InputError, 2),
    (UnreachableError, 3),
    (NotFoundError, 4),
    (CancelledJobError, 5),
    (InterruptedJobError, 6),
    (ArtifactError, 7),
    (WaitTimeoutError, 124),
    (KeyboardInterrupt, 130),
)
"""Exit codes by kind of error; all other errors have 1."""

STATE_CODES = {"CANCELLED": 5, "INTERRUPTED": 6}
"""Exit codes of jobs that ended without a result, by state; all other states have 1."""

MEND_CODE = 1
"""Exit code of `doctor` if it has found a problem."""

WORDS = {"True": "true", "False": "false", "None": "'none'"}
"""Python's constants as a spec writes them."""


class CommandGroup(click.Group):
    """A group of commands that reports a known error as a line on stderr and an exit code.

    Its help lists the commands in sections.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._sections: dict[str, str] = {}  # by command

    def add_section(self, commands: Iterable[click.Command], section: str = "Commands") -> None:
        """Add commands, each with ``--json``, to a section of the help."""
        for command in commands:
            json_option(command)
            self.add_command(command)
            self._sections[str(command.name)] = section

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the sections of the help."""
        limit = formatter.width - 6 - max(map(len, self.commands))
        sections: dict[str, list[tuple[str, str]]] = {"Commands": []}
        for name in self.list_commands(ctx):
            summary = self.commands[name].get_short_help_str(limit)
            sections.setdefault(self._sections.get(name, "Commands"), []).append((name, summary))
        for section, rows in sections.items():
            with formatter.section(section):
                formatter.write_dl(rows)

    def invoke(self, ctx: click.Context) -> object:
        """Run a command; a known error ends it with its message and exit code."""
        as_json = "--json" in ctx.args  # the command has not read it if its usage is wrong
        try:
            with _plain_warnings(ctx):
                return super().invoke(ctx)
        except click.UsageError as error:
            if as_json:
                _print_error("UsageError", [error.format_message()], error.exit_code, {})
            raise
        except (DistforestError, KeyboardInterrupt) as error:
            fail(ctx, error)
        except MemoryError as error:
            fail(ctx, MemoryLimitError(f"there is not enough memory here: {error or 'none is left'}"))
        except OSError as error:
            if error.errno == errno.EPIPE:  # the reader of stdout is gone: click exits quietly
                raise
            message = full_disk(error)
            fail(ctx, JobError(message) if message else error)


def fail(ctx: click.Context, error: BaseException, **more: object) -> NoReturn:
    """Print an error to stderr, with ``--json`` also to stdout, and exit with its code.

    ``more`` are further entries of the JSON object.
    """
    interrupted = isinstance(error, (KeyboardInterrupt, InterruptedJobError))
    messages = error.faults if isinstance(error, FaultsError) else [str(error) or "ended by Ctrl-C or another signal"]
    faults = [as_typed(message, _command_of(ctx)) for message in messages]
    for fault in faults:
        click.echo(f"{'interrupted' if interrupted else 'error'}: {printable(fault)}", err=True)
    code = exit_code(error)
    if ctx.meta.get(JSON):
        job = error.job if isinstance(error, (NotDoneError, ExistsError)) else {}
        _print_error(type(error).__name__, faults, code, {**job, **more})
    ctx.exit(code)


def exit_code(error: BaseException) -> int:
    """Return the exit code for an error."""
    code = next((code for kind, code in CODES if isinstance(error, kind)), 1)
    return STATE_CODES.get(error.job["state"], code) if type(error) is NotDoneError else code


def _print_error(kind: str, faults: list[str], code: int, beside: Mapping[str, object]) -> None:
    """Print an error as JSON, with the entries ``beside``; if these have an ``error``, it replaces this one."""
    described = {"kind": kind, "message": "\n".join(faults), "faults": faults}
    click.echo(json.dumps({**beside, "error": beside.get("error") or described, "exit_code": code}))


def as_typed(text: str, command: click.Command) -> str:
    """Replace the arguments that a message names by the flags of a command, or else by keys of a spec.

    Examples
    --------
    >>> command = click.Command("score", params=[click.Option(["--overwrite/--keep"]), click.Option(["--n-neighbors"])])
    >>> as_typed("n_neighbors must be in 1..9; see `n_neighbors`, or allow it (`run.overwrite`)", command)
    '--n-neighbors must be in 1..9; see --n-neighbors, or allow it (--overwrite)'
    >>> as_typed("give overwrite=False, or `n_neighbors='9'`, or oob_score=True in the fit", command)
    'give --keep, or --n-neighbors 9, or oob_score=true in the fit'
    """
    options = {option.name: option for option in command.params if isinstance(option, click.Option)}

    def typed(match: re.Match[str]) -> str:
        name, value = match["marked"] or match["first"] or match["called"], match["given"] or match["word"]
        option = options.get(name.rpartition(".")[2])
        if option is None:
            return f"{name}={WORDS.get(value, value)}" if value else match[0]
        flag = max(option.opts, key=len)
        if value == "False" and option.secondary_opts:
            return max(option.secondary_opts, key=len)
        return flag if value in (None, "True") else f"{flag} {shlex.quote(value.strip(chr(39)))}"

    return ARGUMENT.sub(typed, text)


def _command_of(ctx: click.Context) -> click.Command:
    """Return the running command; in the context of a group, its subcommand."""
    command = ctx.command
    return command.commands.get(ctx.invoked_subcommand or "", command) if isinstance(command, click.Group) else command


@contextmanager
def _plain_warnings(ctx: click.Context) -> Iterator[None]:
    """Print each warning as one line, without the line of code that it comes from."""

    def show(message: Warning | str, *_place: object, **_further: object) -> None:
        click.echo(f"warning: {printable(as_typed(str(message), _command_of(ctx)))}", err=True)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


def printable(text: str) -> str:
    """Replace control characters, as a name in a downloaded forest must not control the terminal."""
    return "".join(c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in text)


def print_report(ctx: click.Context, report: Report) -> None:
    """Print a report: as JSON with ``--json``, otherwise as lines of a name and a value."""
    if ctx.meta.get(JSON):
        click.echo(json.dumps(report.answer, allow_nan=False))
        return
    width = max(len(name) for name, _ in report.lines)
    for name, value in report.lines:
        click.echo(printable(f"{name:<{width}}  {value}").rstrip())


def check_plot(path: str) -> None:
    """Refuse a path where no picture can be written, or any path without matplotlib; raise InputError."""
    folder, name = os.path.split(path)
    if not os.path.isdir(folder or ".") or not os.path.splitext(name)[1]:
        raise InputError(f"--plot {path}: a name such as picture.png, in an existing folder, was expected")
    try:
        import distforest.pictures.charts  # noqa: PLC0415, F401  (slow, and matplotlib is optional)
    except ImportError as error:
        raise InputError(f"--plot needs matplotlib, pip install 'distforest[plot]': {error}") from error


def save_figure(figure: Any, path: str) -> None:
    """Write a picture; raise InputError for an unknown suffix."""
    try:
        figure.savefig(path, dpi=130)
    except ValueError as error:
        raise InputError(f"--plot {path}: {error}") from error


def _keep_json(ctx: click.Context, _parameter: click.Parameter, value: bool) -> bool:
    ctx.meta[JSON] = value
    return value


def json_option(command: F) -> F:
    """Add the option ``--json`` to a command."""
    return click.option(
        "--json",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_keep_json,
        help="Print one JSON object to stdout.",
    )(command)


HEADED = click.option(
    "--header/--no-header",
    default=None,
    help="Whether the first row of a csv file names its columns.  [default: header]",
)
FORM_OPTIONS = (
    click.option(
        "--separator", metavar="CHAR", help="Character between the cells of a csv file, ';' or tab.  [default: ,]"
    ),
    click.option("--quote", metavar="CHAR", help='Character around cells of a csv file, or none.  [default: "]'),
    click.option("--encoding", metavar="NAME", help="Encoding of a csv file, such as cp1252.  [default: UTF-8]"),
    click.option(
        "--skip-rows",
        type=click.IntRange(0),
        metavar="N",
        help="Number of lines above the table in a csv file, such as a title.  [default: 0]",
    ),
)
"""Options for splitting the rows of a text table into cells."""

CELL_OPTIONS = (
    click.option("--decimal", metavar="CHAR", help="Decimal point of a csv file.  [default: .]"),
    click.option(
        "--date-format",
        multiple=True,
        metavar="COLUMN=FORMAT",
        help="Format of the dates of a column, such as seen=%d/%m/%Y; may be repeated.  [default: ISO 8601]",
    ),
    click.option(
        "--missing",
        multiple=True,
        metavar="WORD",
        help="Text of a missing value in a csv file; may be repeated.  [default: NA, NULL, nan, and others of Arrow]",
    ),
)
"""Options for numbers, dates and missing values in a text table."""


def form_options(command: F) -> F:
    """Add the options for rows of text to a command."""
    return functools.reduce(lambda own, option: option(own), reversed(FORM_OPTIONS), command)


def text_options(command: F) -> F:
    """Add the options for text tables to a command."""
    return form_options(functools.reduce(lambda own, option: option(own), reversed(CELL_OPTIONS), command))
