"""Soak: many small jobs through the service while workers and schedulers are killed, frozen and ended at random.

::

    python benchmarks/soak.py                            200 jobs in 20 minutes, and what is left after that
    python benchmarks/soak.py --minutes 0.4 --jobs 8      the same loop as a test runs it

Two workers and the scheduler are started again when they end. In the first half of the time schedulers die too (at most
one a minute), in the second half one scheduler lives on, and its memory is watched. At the end every job must have
succeeded with the digest of the same job undisturbed, as the service says and as its output reads; else the exit code
is 1. A preload of the workers counts trees that were grown to their end more than once.
"""

from __future__ import annotations

import argparse
import random
import signal
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import growth_log
import numpy as np
import psutil
from measurement import machine, mib, print_table
from service_processes import Processes, Program
from soak_jobs import Truth

from distforest.errors import DistforestError
from distforest.jobs.any_spec import spec_from_dict
from distforest.service.registry import ENDS, Registry

GAP = 5.0, 10.0
"""Seconds between two blows."""

SCHEDULER_GAP = 60.0
"""Seconds that a scheduler is left alone."""

FROZEN = 1.0, 14.0
"""Seconds for which a worker is stopped; the scheduler gives it up after the time to live."""

TIME_TO_LIVE = "8s"
N_SEEDS = 3
"""Distinct seeds: so often is each kind of job known by another digest."""

WARM = 20
"""Jobs of a scheduler's life before its memory is compared."""

BOUND = 64 << 20
"""Bytes that a scheduler may grow in a hundred jobs, when it is warm."""

BLOWS = {
    "kill worker": 5,
    "kill nanny": 2,
    "end worker": 2,
    "freeze worker": 4,
    "kill scheduler": 3,
    "end scheduler": 1,
}
"""What happens, and how often against each other."""

AFTER = 900.0
"""Seconds for the rest of the jobs when the blows are over."""


@dataclass
class Life:
    """A scheduler's memory, in bytes, beside the number of jobs that it has brought to their end."""

    start: float
    samples: list[tuple[float, int, int]] = field(default_factory=list)

    @property
    def jobs(self) -> int:
        """Ended in this life."""
        return self.samples[-1][1] - self.samples[0][1] if self.samples else 0

    @property
    def growth(self) -> float | None:
        """Bytes a hundred jobs when warm, by a straight line; None for a life that was too short."""
        warm = [(jobs, rss) for _, jobs, rss in self.samples if jobs - self.samples[0][1] >= WARM]
        if not warm or warm[-1][0] - warm[0][0] < WARM:
            return None
        jobs, rss = np.array(warm, float).T
        return float(100.0 * np.polyfit(jobs, rss, 1)[0])


@dataclass
class Soak:
    """The loop: submits, strikes, tends, looks."""

    processes: Processes
    truth: Truth
    chance: random.Random
    n_jobs: int
    seconds: float
    kinds: dict[str, tuple[str, int, str]] = field(default_factory=dict)
    states: dict[str, dict[str, Any]] = field(default_factory=dict)
    blows: Counter[str] = field(default_factory=Counter)
    lives: list[Life] = field(default_factory=list)
    log: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        (self.processes.folder / "out").mkdir(exist_ok=True)
        self.start = time.monotonic()
        times = sorted(self.chance.uniform(0.0, 0.95 * self.seconds) for _ in range(self.n_jobs))
        names = list(self.truth.kinds)
        self.waiting = [(at, k, names[k % len(names)], self.chance.randrange(N_SEEDS)) for k, at in enumerate(times)]
        self.asleep: list[tuple[float, psutil.Process]] = []
        self.blow_at, self.look_at = self.chance.uniform(*GAP), 0.0
        self.attended = False  # whether the service has a worker, at the last look
        self.spared_until = 0.0

    @property
    def now(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.start

    @property
    def unfinished(self) -> int:
        """Jobs that have not ended, as far as it is known."""
        return self.n_jobs - sum(state["state"] in ENDS for state in self.states.values())

    def say(self, what: str) -> None:
        """Keep a line for the reader of the log."""
        self.log.append(what)
        print(f"{self.now:7.1f} s  {what}", file=sys.stderr, flush=True)

    def run(self) -> None:
        """Run to the end of all jobs; TimeoutError if they do not come to it."""
        while self.unfinished:
            if self.now > self.seconds + AFTER:
                raise TimeoutError(f"{self.unfinished} jobs had not ended {AFTER:g} s after the last blow")
            self._wake()
            for program in self.processes.tend():
                self.say(f"started again: {program.log.stem}")
            if self.waiting and self.waiting[0][0] <= self.now:
                self._submit()
            if self.blow_at <= self.now < self.seconds and self.attended:
                self._strike()
            if self.look_at <= self.now:
                self._look()
            time.sleep(0.05)
        self._wake(everyone=True)

    # --- what it does ---------------------------------------------------------------------------------------------

    def _submit(self) -> None:
        _, number, kind, seed = self.waiting[0]
        job = f"soak-{number:03d}"
        output = str(self.processes.folder / "out" / f"{job}.zarr")
        text = spec_from_dict(self.truth.spec(kind, seed, output)).to_json()
        if self.processes.asked(self.processes.service.submit, text, job):  # else again: the id makes it the same job
            self.kinds[job] = (kind, seed, output)
            self.waiting.pop(0)

    def _strike(self) -> None:
        self.blow_at = self.now + self.chance.uniform(*GAP)
        of_scheduler = self.spared_until <= self.now <= self.seconds / 2
        names = [name for name in BLOWS if of_scheduler or "scheduler" not in name]
        [name] = self.chance.choices(names, [BLOWS[name] for name in names])
        name = name if self.blows else "kill scheduler"  # so that it happens in the shortest of soaks
        worker = self.chance.choice(self.processes.workers)
        if name.endswith("scheduler"):
            self.spared_until = self.now + SCHEDULER_GAP
            self.processes.scheduler.send(signal.SIGKILL if name.startswith("kill") else signal.SIGTERM)
        elif not self._strike_worker(name, worker):
            return
        self.blows[name] += 1
        self.say(name)

    def _strike_worker(self, name: str, worker: Program) -> bool:
        """Whether there was a worker."""
        child = worker.child()
        if not worker.is_alive or child is None:
            return False
        with suppress(psutil.Error):
            if name == "kill worker":
                child.kill()
            elif name == "kill nanny":
                worker.send(signal.SIGKILL)
            elif name == "end worker":
                worker.send(signal.SIGTERM)
            else:
                child.suspend()
                self.asleep.append((self.now + self.chance.uniform(*FROZEN), child))
        return True

    def _wake(self, everyone: bool = False) -> None:
        for _, process in (due := [own for own in self.asleep if everyone or own[0] <= self.now]):
            with suppress(psutil.Error):
                process.resume()
        self.asleep = [own for own in self.asleep if own not in due]

    def _look(self) -> None:
        self.look_at = self.now + 1.0
        found = self.processes.asked(self.processes.service.listed)
        self.attended = bool(found and found["service"]["workers"])
        if found is None:
            return
        for job in found["jobs"]:
            if job["state"] in ENDS and self.states.get(job["id"], {}).get("state") not in ENDS:
                self.say(f"{job['id']} {self.kinds[job['id']][0]}: {job['state']} {job['error'] or ''}")
            self.states[job["id"]] = job
        started = self.processes.scheduler.starts[-1]
        if not self.lives or self.lives[-1].start != started:
            self.lives.append(Life(started))
        ended = sum(state["state"] in ENDS for state in self.states.values())
        with suppress(psutil.Error):
            rss = psutil.Process(self.processes.scheduler.pid).memory_info().rss
            self.lives[-1].samples.append((time.time(), ended, rss))

    # --- what came of it ------------------------------------------------------------------------------------------

    def faults(self) -> list[str]:
        """What is not as it must be."""
        found = [f"{len(self.kinds)} jobs were taken in, of {self.n_jobs}"] if len(self.kinds) != self.n_jobs else []
        kept = {job["id"]: job for job in Registry(str(self.processes.root)).listed(time.time())}
        for job, (kind, seed, output) in self.kinds.items():
            state = kept.get(job, {"state": "lost"})
            if state["state"] != "SUCCEEDED":
                found.append(f"{job} ({kind}) is {state['state']}: {state.get('error')}")
                continue
            expected = self.truth.expected(kind, seed)
            try:
                digest = self.truth.found(kind, output)
            except (DistforestError, OSError) as error:
                digest = repr(error)
            told = {digest} if state["kind"] == "score" else {digest, state["result"]["digest"]}
            if told != {expected}:
                found.append(f"{job} ({kind}, seed {seed}) made {told}, not {expected}")
        found += [f"{path} is left" for path in self.processes.folder.glob("jobs/*/work")]
        found += [f"{path} is left" for path in (self.processes.folder / "out").rglob("*.partial")]
        growth = self.lives[-1].growth if self.lives else None
        if growth is not None and growth > BOUND:
            found.append(f"the scheduler grew by {mib(growth)} in a hundred jobs")
        return found

    def grown_again(self) -> tuple[int, int]:
        """Trees grown to their end, and how many of them once more than needed."""
        with open(self.processes.settings[growth_log.VARIABLE], encoding="utf-8") as file:
            lines = [line.split() for line in file]
        grown = Counter((job, tree) for job, first, last in lines for tree in range(int(first), int(last) + 1))
        return sum(grown.values()), sum(grown.values()) - len(grown)

    def report(self) -> None:
        """Print the tables."""
        seconds = [state["ended"] - state["submitted"] for state in self.states.values() if state["ended"]]
        counts = Counter(state["state"] for state in self.states.values())
        grown, again = self.grown_again()
        rows = [
            ["jobs", ", ".join(f"{n} {state}" for state, n in counts.items())],
            ["blows", ", ".join(f"{n} x {name}" for name, n in sorted(self.blows.items()))],
            ["minutes", f"{self.now / 60.0:.1f}"],
            ["seconds from submit to end", f"median {statistics.median(seconds):.1f}, most {max(seconds):.1f}"],
            ["jobs that lived through a scheduler", str(sum(job["attempt"] > 1 for job in self.states.values()))],
            ["workers lost by jobs", str(sum(job["lost_workers"] for job in self.states.values()))],
            ["tasks tried again", str(sum(job["retries"] for job in self.states.values()))],
            ["trees grown to their end", f"{grown:,}, {again:,} of them once more than needed"],
        ]
        print_table(["soak", ""], rows)
        print("The scheduler's memory, one row a life:\n")
        print_table(["jobs ended", "seconds", "first", "last", "most", "a hundred jobs, when warm"], self._memory())

    def _memory(self) -> list[list[str]]:
        rows = []
        for life in self.lives:
            if not life.samples:
                continue
            rss, growth = [rss for _, _, rss in life.samples], life.growth
            seconds = life.samples[-1][0] - life.start
            last = "" if growth is None else f"**{growth / 2**20:+.1f} MiB**"
            rows.append([str(life.jobs), f"{seconds:.0f}", mib(rss[0]), mib(rss[-1]), mib(max(rss)), last])
        return rows


def soak(folder: Path, n_jobs: int, minutes: float, seed: int) -> list[str]:
    """Run it, print what came of it; the faults."""
    log = folder / "growth.log"
    log.touch()
    settings = {
        growth_log.VARIABLE: str(log),
        "DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": TIME_TO_LIVE,
        "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "10",
    }
    preload = ("--preload", str(Path(growth_log.__file__)))
    processes = Processes(folder, settings=settings, worker_options=preload)
    try:
        truth = Truth(folder)
        processes.start()
        own = Soak(processes, truth, random.Random(seed), n_jobs, 60.0 * minutes)
        try:
            own.run()
            overdue: list[str] = []
        except TimeoutError as error:
            overdue = [str(error)]
    finally:
        processes.end()
    own.report()
    return overdue + own.faults()


def main(arguments: Sequence[str] | None = None) -> None:
    """Run it; the exit code is 1 where something is not as it must be."""
    parser = argparse.ArgumentParser(description="Jobs through the service under random kills.")
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="a folder for all files, which is kept")
    options = parser.parse_args(arguments)
    print(
        f"# Soak: {options.jobs} jobs in {options.minutes:g} minutes, seed {options.seed}\n\n{machine()}\n", flush=True
    )
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        if options.keep:
            options.keep.mkdir(parents=True, exist_ok=True)
        found = soak((options.keep or Path(folder)).absolute(), options.jobs, options.minutes, options.seed)
    print("\n".join(found or ["No job was lost, none is wrong."]))
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
