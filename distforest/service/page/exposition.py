"""Numbers of the service in Prometheus' text format, version 0.0.4."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from distforest.service.page.measured import Serving
from distforest.service.page.words import STATE_WORDS

_COUNTERS = (
    ("trees_committed", "trees", "Trees committed since the service started."),
    ("growth_seconds", "seconds", "Seconds that tasks grew trees since the service started."),
    ("retries", "retries", "Tasks that were tried again, of the jobs of this service."),
    ("lost_workers", "lost_workers", "Workers that were lost in the work since the service started."),
)
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metric(NamedTuple):
    """One metric and its samples by the label of a state; the label is empty if there is one sample."""

    name: str
    kind: str
    help: str
    samples: Mapping[str, float]


def metrics(service: Serving, totals: Mapping[str, float], now: float) -> list[Metric]:
    """All metrics of a service; ``totals`` were counted since its start."""
    about = service.about()
    by_state = Counter(dict.fromkeys(STATE_WORDS, 0))
    by_state.update(job["state"] for job in service.listed())
    age, working = max(0.0, now - about["heartbeat"]), float(service.failure is None)
    return [
        Metric("distforest_jobs", "gauge", "Jobs under the job root, by state.", by_state),
        _single("distforest_working", "gauge", "1 while the service works, 0 when it has failed.", working),
        _single("distforest_heartbeat_age_seconds", "gauge", "Seconds since the service's last heartbeat.", age),
        _single("distforest_start_time_seconds", "gauge", "Unix time at which the service started.", about["started"]),
        _single("distforest_workers", "gauge", "Workers that are connected.", about["workers"]),
        _single("distforest_threads", "gauge", "Threads of the workers that are connected.", about["threads"]),
        *(_single(f"distforest_{name}_total", "counter", help_text, totals[key]) for name, key, help_text in _COUNTERS),
    ]


def _single(name: str, kind: str, help_text: str, value: float) -> Metric:
    return Metric(name, kind, help_text, {"": value})


def written(found: Iterable[Metric]) -> str:
    """Metrics as text.

    Examples
    --------
    >>> print(written([Metric("distforest_jobs", "gauge", "Jobs, by state.", {"FAILED": 2})]), end="")
    # HELP distforest_jobs Jobs, by state.
    # TYPE distforest_jobs gauge
    distforest_jobs{state="FAILED"} 2
    """
    return "".join(f"{line}\n" for metric in found for line in _lines(metric))


def _lines(metric: Metric) -> Iterator[str]:
    yield f"# HELP {metric.name} {metric.help}"
    yield f"# TYPE {metric.name} {metric.kind}"
    for state, value in metric.samples.items():
        label = f'{{state="{_in_quotes(state)}"}}' if state else ""
        yield f"{metric.name}{label} {value!r}"


def _in_quotes(value: str) -> str:
    """Escape the value of a label."""
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
