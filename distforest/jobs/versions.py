"""Versions: of the growth, which is one in a forest; and of what works the trees out, which is told."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from distforest.errors import JobError
from distforest.growth.methods import GROWTH
from distforest.growth.versions import COMPUTING, VERSIONS_HERE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from distforest.jobs.shards import Receipt


def check_growth(worker: int, job: int) -> None:
    """Refuse a worker whose trees would not be those of the others; raises JobError."""
    if worker != job:
        raise JobError(
            f"a worker grows trees by version {worker} of the growth, the job by version {job}: one forest would be "
            "of two kinds; install one version of distforest everywhere and start again, what fits is kept"
        )


def check_own_growth(job: int) -> None:
    """The same in the worker, which is handed the version of the job."""
    check_growth(GROWTH, job)


def grown_by(receipts: Sequence[Receipt]) -> list[dict[str, int | str]]:
    """Each set of versions that has grown trees, with how many, the most first."""
    n_trees: Counter[tuple[str, ...]] = Counter()
    for receipt in receipts:
        n_trees[tuple(getattr(receipt, name) for name in VERSIONS_HERE)] += receipt.n_trees
    most_first = sorted(n_trees.items(), key=lambda own: (-own[1], own[0]))
    return [{"trees": count, **dict(zip(VERSIONS_HERE, found, strict=True))} for found, count in most_first]


def told_of_versions(receipts: Sequence[Receipt]) -> str:
    """What is to be said where trees were worked out by different versions; else nothing."""
    found = grown_by(receipts)
    if len({tuple(own[name] for name in COMPUTING) for own in found}) < 2:
        return ""
    parts = (f"{own['trees']:,} with " + ", ".join(f"{name} {own[name]}" for name in COMPUTING) for own in found)
    return (
        f"the trees of this forest were not all worked out by the same versions: {'; '.join(parts)}. Where these round "
        "differently, no run of one version gives its digest; to repeat it, install the same versions everywhere and "
        "grow it anew (`run.overwrite`)"
    )
