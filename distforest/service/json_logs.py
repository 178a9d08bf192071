"""Logs of a service as JSON, one object in each line."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime


class JSONFormatter(logging.Formatter):
    r"""Writes a record as an object with its time, level, logger, message and, where there is one, the job's id.

    Examples
    --------
    >>> record = logging.makeLogRecord({"name": "distforest", "levelname": "INFO", "msg": "a\nb", "job": "nightly"})
    >>> record.created = 0.0
    >>> print(JSONFormatter().format(record))
    {"time": "1970-01-01T00:00:00+00:00", "level": "INFO", "logger": "distforest", "job": "nightly", "message": "a\nb"}
    """

    def format(self, record: logging.LogRecord) -> str:
        """Write a record in one line; a traceback follows the message."""
        message = super().format(record)
        job = {"job": record.job} if hasattr(record, "job") else {}
        time = datetime.fromtimestamp(record.created, UTC).isoformat()
        return json.dumps({"time": time, "level": record.levelname, "logger": record.name, **job, "message": message})


def log_as_json() -> None:
    """Let all handlers of this process write JSON, and the logger of this package report the events of jobs."""
    own = logging.getLogger("distforest")
    own.setLevel(logging.INFO)
    if not own.handlers:
        own.addHandler(logging.StreamHandler())
        own.propagate = False
    known = [logging.getLogger(), *map(logging.getLogger, logging.root.manager.loggerDict)]
    for handler in {handler for logger in known for handler in logger.handlers}:
        handler.setFormatter(JSONFormatter())
