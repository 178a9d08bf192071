"""Versions: all trees of a forest have one version of the growth; versions of libraries may differ, with a warning."""

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
    """Refuse a worker with another version of the growth than the job; raises JobError."""
    if worker != job:
        raise JobError(
            f"a worker grows trees by version {worker} of the growth, the job by version {job}: one forest would be "
            "of two kinds; install one version of distforest everywhere and start again, what fits is kept"
        )


def check_own_growth(job: int) -> None:
    """Refuse the version of this process, a worker, if the job has another one; raises JobError."""
    check_growth(GROWTH, job)


def grown_by(receipts: Sequence[Receipt]) -> list[dict[str, int | str]]:
    """Each set of versions that grew trees, with the number of these trees; the largest number first."""
    n_trees: Counter[tuple[str, ...]] = Counter()
    for receipt in receipts:
        n_trees[tuple(getattr(receipt, name) for name in VERSIONS_HERE)] += receipt.n_trees
    most_first = sorted(n_trees.items(), key=lambda pair: (-pair[1], pair[0]))
    return [{"trees": count, **dict(zip(VERSIONS_HERE, numbers, strict=True))} for numbers, count in most_first]


def told_of_versions(receipts: Sequence[Receipt]) -> str:
    """The warning about trees that were grown with different versions of libraries; empty if there was one."""
    sets = grown_by(receipts)
    if len({tuple(row[name] for name in COMPUTING) for row in sets}) < 2:
        return ""
    parts = (f"{row['trees']:,} with " + ", ".join(f"{name} {row[name]}" for name in COMPUTING) for row in sets)
    return (
        f"the trees of this forest were not all grown with the same versions: {'; '.join(parts)}. Where these round "
        "differently, no run of one version gives its digest; to repeat it, install the same versions everywhere and "
        "grow it again (`run.overwrite`)"
    )
