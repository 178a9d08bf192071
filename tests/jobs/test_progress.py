"""Progress on stderr: what a person sees who waits."""

import importlib.util
import io
import re

import pytest
from rich.console import Console
from rich.progress import Progress as Bars

from distforest.jobs import progress as shown
from distforest.jobs.cluster import Progress
from distforest.jobs.progress import BarWatch, LineWatch, progress_in_words, shown_progress


def lines_of(moments):
    """The lines that a watcher writes when told (second, progress)."""
    stream, clock = io.StringIO(), iter([second for second, _ in moments])
    watch = LineWatch(stream, lambda: next(clock))
    for _, step in moments:
        watch(step)
    return stream.getvalue().splitlines()


def test_lines_come_once_a_second_and_at_the_end():
    lines = lines_of([(k / 10, Progress("grow", k, 25, k / 10)) for k in range(26)])
    assert [line.split(" trees")[0] for line in lines] == ["grow 0/25", "grow 10/25", "grow 20/25", "grow 25/25"]


def test_the_last_line_of_each_run_comes_at_once():
    runs = [Progress("grow", 3, 3, 0.1), Progress("merge", 0, 2, 0.0), Progress("merge", 2, 2, 0.1)]
    lines = lines_of([(0.0, run) for run in runs])
    assert [line.split(",")[0] for line in lines] == ["grow 3/3 trees", "merge 2/2 parts"]


@pytest.mark.parametrize(
    ("step", "numbers"),
    [
        (Progress("grow", 0, 8, 0.0), ["0/8", "0 %"]),
        (Progress("score", 2000, 4000, 4.0), ["2,000/4,000", "50 %", "500.0", "4 s"]),
        (Progress("merge", 4, 4, 2.0), ["4/4", "100 %", "2.0", "2.0 s"]),
        (Progress("compile", 1, 2, 40.0), ["1/2", "50 %", "40.0 s", "40 s"]),
        (Progress("merge", 0, 0, 0.0), ["0/0", "100 %", "0.0 s"]),
    ],
)
def test_words(step, numbers):
    words = progress_in_words(step)
    assert words.startswith(f"{step.name} ")
    assert re.findall(r"[\d][\d,./]*(?: (?:%|s)\b| %)?", words) == numbers


def test_without_a_terminal_progress_is_lines(capsys):
    with shown_progress() as watch:
        watch(Progress("grow", 2, 2, 1.0))
    assert capsys.readouterr().err == f"{progress_in_words(Progress('grow', 2, 2, 1.0))}\n"


@pytest.mark.parametrize("no_color", [True, False])
def test_on_a_terminal_progress_is_bars_without_colour_if_so_asked(no_color):
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=120, color_system="256", no_color=no_color)
    with Bars(console=console, auto_refresh=False) as bars:
        watch = BarWatch(bars)
        for done in (0, 3, 8):
            watch(Progress("grow", done, 8, 1.0))
        watch(Progress("merge", 1, 4, 1.0))
        assert [(task.description, task.completed, task.total) for task in bars.tasks] == [
            ("grow", 8, 8),
            ("merge", 1, 4),
        ]
        assert "100%" in stream.getvalue()  # a notebook draws nothing more
    assert ("[38;5;" in stream.getvalue()) is not no_color


class Notebook(Console):
    """A console as rich finds it in a notebook."""

    def __init__(self, stderr):
        super().__init__(stderr=stderr, force_jupyter=True)


@pytest.mark.parametrize("has_widgets", [True, False])
def test_in_a_notebook_bars_need_widgets_and_otherwise_progress_is_lines(has_widgets, monkeypatch, capsys):
    monkeypatch.setattr("rich.console.Console", Notebook)
    monkeypatch.setattr(shown, "find_spec", lambda name: importlib.util.find_spec("rich") if has_widgets else None)
    monkeypatch.setattr(Bars, "start", lambda _bars: None)  # there are no widgets here
    monkeypatch.setattr(Bars, "stop", lambda _bars: None)
    with shown_progress() as watch:
        assert isinstance(watch, BarWatch if has_widgets else LineWatch)
        if not has_widgets:
            watch(Progress("grow", 2, 2, 1.0))
    line = f"{progress_in_words(Progress('grow', 2, 2, 1.0))}\n"
    assert capsys.readouterr().err == ("" if has_widgets else line)
