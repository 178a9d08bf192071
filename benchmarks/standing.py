"""How ours and the peers stand: from the results of `against_peers.py` to Markdown, and into pages with a place for it.

Results are a dictionary of comparisons, as the file of results holds it::

    {NAME: {"title", "text", "machine", "threads", "seeds", "environments": {NAME: {"versions"} or {"failed"}},
            "sets": {NAME: {"rows", "columns", "methods": {NAME: METHOD}}}}}

where METHOD has a ``side``, and either ``failed`` or, with one number for each seed, ``quality`` (a list for each
measure), ``fit_seconds``, ``answer_seconds`` and ``peak_bytes``. The first method of a set is ours by default.

A page has a place ``<!-- against-peers: NAME -->``, up to ``<!-- end -->``, for a comparison or for ``summary``.
"""

from __future__ import annotations

import re
import statistics
from typing import TYPE_CHECKING, Any

from measurement import markdown_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    Results = Mapping[str, Any]

PLACE = re.compile(r"(<!-- against-peers: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
SUMMARY = "summary"
MARKS = {"ahead": " **ahead**", "level": "", "behind": " behind"}
"""What follows a number in a table, by its standing."""

MOST_RATIO = 1000.0
"""A ratio beyond this, or below its inverse, is no better known than this."""


def filled(page: str, results: Results) -> str:
    """A page with all its places filled anew.

    Raises
    ------
    KeyError
        The page has a place for a comparison of which there are no results.
    """

    def own(place: re.Match[str]) -> str:
        name = place[2]
        text = summary(results) if name == SUMMARY else section(results[name])
        return f"{place[1]}\n{text}\n\n{place[3]}"

    return PLACE.sub(own, page)


# --- one comparison ---------------------------------------------------------------------------------------


def section(comparison: Results) -> str:
    """What is compared, with which version of the peer, and a table of all sets."""
    sets = comparison["sets"]
    measures = measures_of(comparison)
    rows = [
        [first if number == 0 else "", name, *cells(method, own["methods"][lead_of(comparison)], measures)]
        for set_name, own in sets.items()
        for first in [f"{set_name} ({own['rows']:,} x {own['columns']:,})"]
        for number, (name, method) in enumerate(own["methods"].items())
    ]
    facts = [environment_line(name, own) for name, own in comparison["environments"].items()]
    seeds, threads = len(comparison["seeds"]), comparison["threads"]
    effort = f"{seeds} seeds, {threads} thread{'' if threads == 1 else 's'} each."
    table = markdown_table(["set", "method", *measures, "fit and answers"], rows)
    return "\n\n".join([comparison["text"], " ".join([effort, *facts]), table])


def lead_of(comparison: Results) -> str:
    """The method that the others are held against."""
    return next(iter(next(iter(comparison["sets"].values()))["methods"]))


def measures_of(comparison: Results) -> list[str]:
    """Names of the measures, from the first method that was measured."""
    methods = [own for each in comparison["sets"].values() for own in each["methods"].values()]
    return next((list(own["quality"]) for own in methods if "quality" in own), [])


def environment_line(name: str, environment: Results) -> str:
    """The package that an environment is for, with its version or why there is none, in a sentence."""
    if "failed" in environment:
        return f"**{name} could not be installed**: {environment['failed']}."
    package, version = next(iter(environment["versions"].items()))
    return f"{package} {version}."


def cells(method: Results, lead: Results, measures: Sequence[str]) -> list[str]:
    """A row of the table but for its first two cells."""
    if "failed" in method:
        return [f"not measured: {plain(method['failed'])}", *[""] * len(measures)]
    values = [decimal(f"{statistics.median(method['quality'][name]):.3f}") for name in measures]
    if beside(method, lead):
        words = [standing(method["quality"][name], lead["quality"][name]) for name in measures]
        values = [f"{value}{MARKS[word]}" for value, word in zip(values, words, strict=True)]
    return [*values, duration(statistics.median(seconds(method)))]


def beside(method: Results, lead: Results) -> bool:
    """Whether a method can be held against the lead: both were measured, and it is another one."""
    return method is not lead and "failed" not in method and "failed" not in lead


def seconds(method: Results) -> list[float]:
    """Of fitting and answering, for each seed."""
    return [a + b for a, b in zip(method["fit_seconds"], method["answer_seconds"], strict=True)]


def ratios(own: Sequence[float], lead: Sequence[float]) -> list[float]:
    """One over the other, seed by seed."""
    return [a / b for a, b in zip(own, lead, strict=True)]


def standing(own: Sequence[float], lead: Sequence[float]) -> str:
    """``ahead`` if a method is better with every seed, ``behind`` if it is worse with every one, else ``level``."""
    differences = [a - b for a, b in zip(own, lead, strict=True)]
    if min(differences) > 0:
        return "ahead"
    return "behind" if max(differences) < 0 else "level"


def duration(value: float) -> str:
    """Seconds, in milliseconds below one."""
    number, unit = (value, "s") if value >= 1 else (1e3 * value, "ms")
    return f"{f'{number:.3g}' if number < 999.5 else f'{number:.0f}'} {unit}"


def ratio_spread(values: Sequence[float]) -> str:
    """The median, and the least and the most in brackets, with two digits, none beyond `MOST_RATIO` or its inverse."""
    if max(values) < 1 / MOST_RATIO:
        return f"< {1 / MOST_RATIO}"
    if min(values) > MOST_RATIO:
        return f"> {MOST_RATIO:,.0f}"
    known = [min(max(value, 1 / MOST_RATIO), MOST_RATIO) for value in values]
    texts = [two_digits(value) for value in (statistics.median(known), min(known), max(known))]
    return texts[0] if len(set(texts)) == 1 else f"{texts[0]} ({texts[1]} to {texts[2]})"


def two_digits(value: float) -> str:
    """A number with two digits, without an exponent."""
    rounded = float(f"{value:.2g}")
    return f"{rounded:.2g}" if rounded < 100 else f"{rounded:,.0f}"


def decimal(text: str) -> str:
    """A number as the tables write it: a true minus, and a zero without a fraction."""
    return "0" if float(text) == 0 else text.replace("-", "\N{MINUS SIGN}")


def plain(text: str) -> str:
    """What a package says, as text of a cell."""
    return re.sub(r"([|*_<>`])", r"\\\1", text)


# --- all of them ------------------------------------------------------------------------------------------


def summary(results: Results) -> str:
    """For each peer and measure: the sets on which it is ahead of ours, level and behind, and its time."""
    head = ["peer, and ours", "measure", "ahead of us on", "level on", "behind us on", "our time / its"]
    return markdown_table(head, [row for comparison in results.values() for row in summary_rows(comparison)])


def summary_rows(comparison: Results) -> Iterator[list[str]]:
    """The rows of a comparison: one for each of its peers and measures."""
    lead, sets = lead_of(comparison), comparison["sets"]
    for name, first in next(iter(sets.values()))["methods"].items():
        if first["side"] != "peer":
            continue
        pairs = {each: (own["methods"][name], own["methods"][lead]) for each, own in sets.items()}
        held = {each: pair for each, pair in pairs.items() if beside(*pair)}
        missing = [
            f"{each}: not measured, {plain(own['failed'])}" for each, (own, _) in pairs.items() if "failed" in own
        ]
        label = f"{comparison['title']}: {name}, {lead}"
        if not held:
            yield [label, "not measured", plain(first.get("failed", "ours failed")), *[""] * 3]
            continue
        for number, measure in enumerate(measures_of(comparison)):
            found = {each: standing(*(own["quality"][measure] for own in pair)) for each, pair in held.items()}
            words = ("ahead", "level", "behind")
            by_word = [", ".join(each for each, word in found.items() if word == wanted) for wanted in words]
            by_word[1] = "; ".join(text for text in (by_word[1], *missing) if text)
            shown, cost = (label, time_over_sets(held)) if number == 0 else ("", "")
            yield [shown, measure, *(text or "none" for text in by_word), cost]


def time_over_sets(held: Mapping[str, tuple[Results, Results]]) -> str:
    """Our time over a peer's: the median of each set, and from which to which set it goes."""
    return ratio_spread([statistics.median(ratios(seconds(lead), seconds(own))) for own, lead in held.values()])
