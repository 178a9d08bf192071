"""What happens to workers and tasks, taken down among the events of the jobs that it concerns."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from distributed import SchedulerPlugin

from distforest.jobs.cluster import Progress
from distforest.jobs.on_dask import job_of
from distforest.service.leading import ANSWER_TOPIC, TOPIC

if TYPE_CHECKING:
    from distforest.service.job import Job


class Watching(SchedulerPlugin):  # type: ignore[misc]  # of a package without types
    """Notes for each job lost workers, workers that ran out of memory, and tasks that are tried again."""

    name = "distforest"

    def __init__(self, jobs: dict[str, Job]) -> None:
        self._jobs = jobs

    def _job(self, key: Any) -> Job | None:
        return self._jobs.get(job_of(key) or "")

    def transition(self, key: Any, start: str, finish: str, *_args: Any, **_more: Any) -> None:
        """Count a task that failed and is tried again."""
        if start == "processing" and finish == "waiting" and (job := self._job(key)):
            job.count("retries")

    def log_event(self, topic: str, msg: Any) -> None:
        """Hear of lost workers, of their memory, and of a job that is led by a worker."""
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

    def _progress(self, msg: dict[str, Any]) -> None:
        if job := self._jobs.get(msg["job"]):
            job.watch(Progress(*(msg[name] for name in Progress.__dataclass_fields__)))

    def _answered(self, msg: dict[str, Any]) -> None:
        if job := self._jobs.get(msg["job"]):
            job.note(**msg["event"])

    def _lost(self, msg: dict[str, Any]) -> None:
        if msg.get("expected"):
            return
        tasks = Counter(job_of(key) or "" for key in msg.get("processing-tasks", ()))
        for name, count in tasks.items():
            if job := self._jobs.get(name):
                what = f"worker {msg['worker']} was lost with {count} of the job's tasks; they run again elsewhere"
                job.note("lost", what, worker=msg["worker"])
                job.count("lost_workers")

    def _out_of_memory(self, msg: dict[str, Any]) -> None:
        for job in self._jobs.values():
            if job.is_at_work:
                held = f"{int(msg['rss']) >> 20:,} MiB"
                what = f"worker {msg['worker']} was ended by its nanny, as it was out of memory: it held {held}"
                job.note("memory", what, worker=msg["worker"])
