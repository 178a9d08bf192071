"""Signals that stop a command: what a person sees and can do."""

import signal
import subprocess
import sys

import pytest

from distforest.command_line.console import STOP_SIGNALS, interruptible


@pytest.mark.parametrize("number", STOP_SIGNALS)
def test_first_signal_is_reported_and_raised_and_the_handlers_come_back(number, capsys):
    before = [signal.getsignal(one) for one in STOP_SIGNALS]
    with pytest.raises(KeyboardInterrupt), interruptible("stopping"):
        signal.raise_signal(number)
    assert "stopping" in capsys.readouterr().err
    assert [signal.getsignal(one) for one in STOP_SIGNALS] == before


@pytest.mark.parametrize("number", STOP_SIGNALS)
def test_second_signal_ends_the_process(number):
    script = f"""
import signal
from distforest.command_line.console import interruptible
with interruptible("stopping"):
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt:
        signal.raise_signal({int(number)})
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr.strip()) == (128 + number, "stopping")


def test_a_closed_terminal_that_is_ignored_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with interruptible("stopping"):
            signal.raise_signal(signal.SIGHUP)
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
