"""Events of workers and tasks, which are added to the jobs that they concern."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from distributed import SchedulerPlugin

from distforest.jobs.cluster import Progress
from distforest.jobs.on_dask import job_of
from distforest.service.leading import ANSWER_TOPIC, TOPIC

if TYPE_CHECKING:
    from collections.abc import Mapping

    from distforest.service.job import Job

    Message = Mapping[str, Any]
    """A message of Dask, or of the worker that leads a job."""


class Watching(SchedulerPlugin):  # type: ignore[misc]  # of a package without types
    """Records for each job its lost workers, workers out of memory, and tasks that are tried again."""

    name = "distforest"

    def __init__(self, jobs: dict[str, Job]) -> None:
        self._jobs = jobs

    def _job(self, key: object) -> Job | None:
        return self._jobs.get(job_of(key) or "")

    def transition(self, key: object, start: str, finish: str, *_args: object, **_more: object) -> None:
        """Count a task that failed and is tried again."""
        if start == "processing" and finish == "waiting" and (job := self._job(key)):
            job.count("retries")

    def log_event(self, topic: str, msg: object) -> None:
        """Take a message about a lost worker, a worker's memory, or a job that a worker leads."""
        if not isinstance(msg, dict):
            return
        if topic == TOPIC:
            self._progress(msg)
        elif topic == ANSWER_TOPIC:
            self._answered(msg)
        elif topic == "all" and msg.get("action") == "remove-worker":
            self._lost(msg)
        elif topic == "worker-restart-memory":
            self._out_of_memory(msg)

    def _progress(self, msg: Message) -> None:
        if job := self._jobs.get(msg["job"]):
            job.watch(Progress(*(msg[name] for name in Progress.__dataclass_fields__)))

    def _answered(self, msg: Message) -> None:
        if job := self._jobs.get(msg["job"]):
            job.note(**msg["event"])

    def _lost(self, msg: Message) -> None:
        if msg.get("expected"):
            return
        tasks = Counter(job_of(key) or "" for key in msg.get("processing-tasks", ()))
        for name, count in tasks.items():
            if job := self._jobs.get(name):
                message = f"worker {msg['worker']} was lost with {count} of the job's tasks; they run again elsewhere"
                job.note("lost", message, worker=msg["worker"])
                job.count("lost_workers")

    def _out_of_memory(self, msg: Message) -> None:
        for job in self._jobs.values():
            if job.is_at_work:
                size = f"{int(msg['rss']) >> 20:,} MiB"
                message = f"worker {msg['worker']} was ended by its nanny, as it was out of memory: it held {size}"
                job.note("memory", message, worker=msg["worker"])
