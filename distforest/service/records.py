"""Checks of the values in the files of a job, as other programs may write to a store, too.

Readers count, compare and format these values, so a value of the wrong kind is refused here.
"""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, TypeGuard, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from distforest.service.messages import JobEvent

    Kind = Callable[[object], bool]

MOST_WHOLE, LAST_MOMENT = 2**53, 253_000_000_000.0
"""Greatest integer that JSON readers agree on, and a time in the year 9987, after which times have no date."""

NUMBER = re.compile(rb'\{"n":(\d{1,16}),')
"""Beginning of an event's line that a service has written."""


def _is_plain(value: object, depth: int = 8) -> bool:
    """Return whether JSON, the comm and a page can represent a value: no NaN, no lone surrogate, no deep nesting."""
    if isinstance(value, str):
        return value.isascii() or value.encode(errors="ignore").decode() == value
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, int):
        return abs(value) <= MOST_WHOLE
    if isinstance(value, list):
        return depth > 0 and all(_is_plain(part, depth - 1) for part in value)
    if isinstance(value, dict):
        return depth > 0 and all(_is_plain(name) and _is_plain(part, depth - 1) for name, part in value.items())
    return value is None


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_whole(value: object) -> TypeGuard[int]:
    return type(value) is int and 0 <= value <= MOST_WHOLE


def _is_amount(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and value >= 0


def is_moment(value: object) -> bool:
    """Return whether a value is a time in Unix seconds that has a date."""
    return _is_amount(value) and value <= LAST_MOMENT


def _is_object(**kinds: Kind) -> Kind:
    """Return the kind of objects that have these keys."""
    return lambda value: isinstance(value, dict) and all(kind(value.get(name)) for name, kind in kinds.items())


def _is_map(kind: Kind) -> Kind:
    """Return the kind of objects whose values are all of one kind."""
    return lambda value: isinstance(value, dict) and all(map(kind, value.values()))


def _or_none(kind: Kind) -> Kind:
    return lambda value: value is None or kind(value)


RESULT: dict[str, Kind] = {
    **dict.fromkeys(("forest", "output", "digest"), _is_text),
    **dict.fromkeys(("n_trees", "n_grown", "peak_bytes", "projected_bytes", "evaluations", "closed"), _is_whole),
    **dict.fromkeys(("seconds", "growing_seconds"), _is_amount),
    **dict.fromkeys(("scoring", "sides"), _is_text),
    "arrays": _is_map(lambda shape: isinstance(shape, list) and all(map(_is_whole, shape))),
    "best": _is_map(_is_plain),
    "score": lambda value: isinstance(value, (int, float)) and _is_plain(value),
}
STATE_VALUES: dict[str, Kind] = {
    **dict.fromkeys(("id", "kind", "output"), _is_text),
    **dict.fromkeys(("method", "service", "phase"), _or_none(_is_text)),
    **dict.fromkeys(("revision", "done", "total", "retries", "lost_workers", "attempt"), _is_whole),
    **dict.fromkeys(("submitted", "heartbeat"), is_moment),
    **dict.fromkeys(("started", "ended"), _or_none(is_moment)),
    "rate": _is_amount,
    "remaining": _or_none(_is_amount),
    "n_trees": _or_none(_is_whole),
    "error": _or_none(_is_object(kind=_is_text, message=_is_text)),
    "result": lambda value: value is None or (isinstance(value, dict) and _wrong(value, RESULT) is None),
}
"""Kind of each value of a state; a state that a service has written has all of these keys."""

OPTIONAL: dict[str, Kind] = {
    **dict.fromkeys(("waiting", "was", "submission", "owner", "queue"), _or_none(_is_text)),
    "priority": lambda value: type(value) is int,
    "since": is_moment,
    "grown_by": _is_map(_is_object(trees=_is_whole, seconds=_is_amount)),
    "worked": _is_amount,
}
EVENT: dict[str, Kind] = {"n": _is_whole, "time": is_moment, "event": _is_text, "message": _is_text}
TREES = {"first": _is_whole, "last": _is_whole, "seconds": _is_amount, "peak_bytes": _or_none(_is_whole)}
"""Kinds of the values of any event, and of further values of an event about committed trees."""


def _wrong(found: Mapping[str, object], kinds: Mapping[str, Kind]) -> str | None:
    """Return the key of the first value that is not of its kind, or not plain; None if all values are valid."""
    for name, value in found.items():
        if not (_is_plain(name) and _is_plain(value) and kinds.get(name, _is_plain)(value)):
            return name
    return None


def wrong_in_state(found: Mapping[str, object]) -> str | None:
    """Return the key of a value in a job's state that no service writes; None if all values are valid.

    Examples
    --------
    >>> wrong_in_state({"id": "a", "submitted": 100.0}), wrong_in_state({"id": "a", "submitted": float("nan")})
    (None, 'submitted')
    """
    return _wrong(found, STATE_VALUES | OPTIONAL)


def is_event(found: Mapping[str, object]) -> TypeGuard[JobEvent]:
    """Return whether an object has the values of an event."""
    is_of_trees = found.get("event") == "trees"
    kinds = EVENT | TREES if is_of_trees else EVENT
    if not kinds.keys() <= found.keys() or _wrong(found, kinds) is not None:
        return False
    return not is_of_trees or cast("int", found["first"]) <= cast("int", found["last"])


def parsed(line: bytes) -> dict[str, object] | None:
    """Return the JSON object of a line; None if the line is cut off or contains something else."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def line_of(value: Mapping[str, object]) -> bytes:
    """Write an object as a line of JSON."""
    return json.dumps(value, allow_nan=False, separators=(",", ":")).encode() + b"\n"


def events_in(lines: Iterator[bytes], after: int) -> Iterator[JobEvent]:
    """Yield the events of some lines with numbers greater than ``after``; earlier ones are not parsed."""
    for line in lines:
        number = NUMBER.match(line)
        if number and int(number[1]) <= after:
            continue
        event = parsed(line)
        if event is not None and is_event(event) and event["n"] > after:
            yield event
