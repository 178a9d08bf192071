"""Execution of tasks, with retries and progress, on any cluster or in threads of this process.

A task is small and repeatable. Its result is committed once, under its own name. So a lost answer is looked up, and a
task that runs twice does no harm.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar, runtime_checkable

from distforest.amounts import counted
from distforest.errors import JobError
from distforest.stores.room import full_disk

if TYPE_CHECKING:
    from distforest.stores.claims import Claim

T = TypeVar("T")
R = TypeVar("R")

RETRY_SECONDS = 0.2
"""Seconds before a task is tried again after an error of its store or network."""


@dataclass(frozen=True)
class Progress:
    """The progress of a run of tasks; ``before`` is the part of ``done`` that an earlier run did."""

    name: str
    done: int
    total: int
    seconds: float
    before: int = 0

    @property
    def rate(self) -> float:
        """The amount that is done per second."""
        return (self.done - self.before) / self.seconds if self.seconds > 0 else 0.0

    @property
    def remaining(self) -> float:
        """Remaining seconds at the present rate."""
        return (self.total - self.done) / self.rate if self.rate > 0 else float("inf")


Watch = Callable[[Progress], None]


@dataclass(frozen=True)
class Work:
    """A run of tasks.

    Attributes
    ----------
    name
        Name of the run.
    retries
        Number of times a failed task is tried again.
    weight
        Weight of a task in the progress.
    watch
        Function that is called with the progress.
    on_answer
        Function that is called with each answer when it arrives.
    before
        Sum of the weights of the tasks that an earlier run has done.
    keep_going
        Whether a task that is repeatedly lost with its workers is answered by a `Lost`, so that the others continue.
    first
        Whether the tasks run before others, because they are few and short and their job waits for them.
    """

    name: str
    retries: int = 3
    weight: Callable[[Any], int] = lambda _task: 1
    watch: Watch | None = None
    on_answer: Callable[[Any], None] | None = None
    before: int = 0
    keep_going: bool = False
    first: bool = False


@dataclass(frozen=True)
class Lost:
    """The answer of a task whose workers died more often than allowed; ``why`` is the reason."""

    why: str


Handle = Any
"""The answer of a linked task, or a placeholder of the answer while it is on a worker."""

Course = Generator[Handle, Any, R]
"""A generator over linked tasks, which yields the handles whose answers it needs, is sent each answer, and returns."""


class TaskLinks(Protocol):
    """Tasks that take the answers of other tasks, which stay where they were computed."""

    def call(self, function: Callable[..., object], *arguments: object, near: int | None = None) -> Handle:
        """Run a pure function; handles among its arguments, in lists too, are replaced by their answers.

        Parameters
        ----------
        near
            Calls with the same number preferably run in the same process, the next number's in the next.
        """

    def follow(self, courses: Iterable[Course[R]], at_once: int) -> Iterator[R]:
        """Yield what the courses return, as they end; ``at_once`` of them run at the same time.

        Raises
        ------
        DistforestError
            A task raised it on purpose.
        JobError
            A task failed more often than allowed, or was repeatedly lost with its workers.
        """


class Cluster(Protocol):
    """A cluster of processes in which tasks run."""

    @property
    def slots(self) -> int:
        """Number of tasks that run at once."""

    @property
    def n_workers(self) -> int:
        """Number of processes."""

    @property
    def threads(self) -> int:
        """Number of threads of a process."""

    @property
    def memory_limit(self) -> int | None:
        """Memory limit of the smallest process in bytes; None if no limit is known."""

    def each(self, function: Callable[[T], R], tasks: Sequence[T], work: Work) -> list[R]:
        """Return the answers of ``function`` to ``tasks``, in their order.

        Raises
        ------
        DistforestError
            A task raised it on purpose; the task is not tried again.
        JobError
            A task failed more often than allowed.
        """

    def of_job(self, claim: Claim, method: str) -> Self:
        """Return the cluster for the tasks of one job; a process that does not see its claim raises JobError."""

    def everywhere(self, function: Callable[[str], object], argument: str) -> None:
        """Call a function in this process and in those that have run tasks, and ignore processes that do not answer."""

    def linked(self, work: Work) -> AbstractContextManager[TaskLinks]:
        """Return a context of linked tasks; an answer that is lost with its worker is computed again."""


@runtime_checkable
class Stream(Protocol):
    """A cluster that yields answers as they arrive, and draws tasks as slots become free."""

    @property
    def slots(self) -> int:
        """Number of tasks that run at once."""

    def stream(self, function: Callable[[T], R], tasks: Iterable[T], work: Work) -> Iterator[tuple[int, R]]:
        """Yield the answers as they arrive, each with the number of its task; errors as for `Cluster.each`."""


@dataclass(frozen=True)
class Threads:
    """Threads of this process; the kernels run outside the interpreter lock."""

    threads: int = 1
    memory_limit: int | None = None

    @property
    def slots(self) -> int:
        """Number of tasks that run at once."""
        return self.threads

    @property
    def n_workers(self) -> int:
        """One process."""
        return 1

    def each(self, function: Callable[[T], R], tasks: Sequence[T], work: Work) -> list[R]:
        """Return the answers of ``function`` to ``tasks``, in their order; see `Cluster.each`."""
        answers: dict[int, R] = {}
        clock = Clock(work, tasks)
        with ThreadPoolExecutor(self.threads) as pool:
            running: dict[Future[R], int] = {
                pool.submit(_with_retries, function, task, work): number for number, task in enumerate(tasks)
            }
            try:
                while running:
                    finished, _ = wait(running, return_when=FIRST_COMPLETED)
                    for future in finished:
                        number = running.pop(future)
                        answers[number] = future.result()
                        clock.tick(tasks[number], answers[number])
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        return [answers[number] for number in range(len(tasks))]

    def of_job(self, claim: Claim, method: str) -> Self:  # noqa: ARG002
        """Return this object; see `Cluster.of_job`."""
        return self

    def everywhere(self, function: Callable[[str], object], argument: str) -> None:
        """Call a function in this process; see `Cluster.everywhere`."""
        function(argument)

    def linked(self, work: Work) -> AbstractContextManager[TaskLinks]:
        """Return linked tasks in this thread; see `Cluster.linked`."""
        return nullcontext(_LinksHere(work))


@dataclass(frozen=True)
class _LinksHere:
    """Linked tasks in this thread, one after another."""

    work: Work

    def call(self, function: Callable[..., object], *arguments: object, near: int | None = None) -> Handle:  # noqa: ARG002
        """Call the function and return its answer."""
        return _with_retries(lambda _: function(*arguments), function.__name__, self.work)

    def follow(self, courses: Iterable[Course[R]], at_once: int) -> Iterator[R]:  # noqa: ARG002
        """Yield what the courses return, in their order."""
        for course in courses:
            answer = None
            try:
                while True:
                    answer = course.send(answer)
            except StopIteration as end:
                yield end.value


def _with_retries(function: Callable[[T], R], task: T, work: Work) -> R:
    """Call ``function``, and again after an error of the operating system; other errors are final."""
    for attempt in range(work.retries + 1):
        try:
            return function(task)
        except (OSError, TimeoutError) as error:
            if attempt == work.retries:
                raise JobError(failure_message(work, task, error)) from error
            time.sleep(RETRY_SECONDS * 2**attempt)
    raise AssertionError("unreachable")


def failure_message(work: Work, task: object, error: BaseException) -> str:
    """Return the message about a task that has failed as often as allowed.

    Examples
    --------
    >>> failure_message(Work("grow"), "tree 3", OSError("no answer"))
    "grow: tree 3 failed 4 times, the last time with OSError('no answer')"
    """
    tried = f"failed {counted(work.retries + 1, 'time')}, the last time with {error_in_words(error)}"
    return f"{work.name}: {task} {tried}"


def error_in_words(error: BaseException) -> str:
    """Return a text of an error, with the file that `repr` leaves out, and with its notes, such as the worker.

    Examples
    --------
    >>> error_in_words(PermissionError(13, "Permission denied", "/data/a.zarr")), error_in_words(OSError("no answer"))
    ("PermissionError: [Errno 13] Permission denied: '/data/a.zarr'", "OSError('no answer')")
    """
    text = repr(error) if getattr(error, "filename", None) is None else f"{type(error).__name__}: {error}"
    return full_disk(error) or " ".join((text, *getattr(error, "__notes__", ())))


class Clock:
    """A counter of finished tasks, which reports to the watcher."""

    def __init__(self, work: Work, tasks: Sequence[object]) -> None:
        self.work, self.done = work, work.before
        self.total = work.before + sum(work.weight(task) for task in tasks)
        self.start = time.monotonic()
        self.report()

    def tick(self, task: object, answer: object) -> None:
        """Count ``task`` as done, unless it was lost."""
        if isinstance(answer, Lost):
            return
        self.done += self.work.weight(task)
        if self.work.on_answer:
            self.work.on_answer(answer)
        self.report()

    def report(self) -> None:
        """Report the progress to the watcher."""
        if self.work.watch:
            seconds = time.monotonic() - self.start
            self.work.watch(Progress(self.work.name, self.done, self.total, seconds, self.work.before))
