"""Landmarks and the nearest vote in plain loops, from what the methods page says: what their kernels must equal."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

from tests.reference.naive import below, stream

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.reference.naive import Matrix, Vector
    from tests.reference.naive_simforest import Sample

LANDMARK_TREE = 2**40 + 2  # the tree that no forest has, whose nodes' streams rank objects
CHOICE = 2**35  # the draw that begins those which choose landmarks for the classes of a pair


def parted(sizes: Sequence[int], m: int) -> list[int]:
    """Part m among classes: at least 1 each, m size / n rounded down, then one more where most is lacking."""
    exact = [Fraction(m * size, sum(sizes)) for size in sizes]
    found = [max(1, math.floor(share)) for share in exact]
    while sum(found) > m:
        found[found.index(max(found))] -= 1
    for _ in range(m - sum(found)):
        lacking = [share - own for share, own in zip(exact, found, strict=True)]
        found[lacking.index(max(lacking))] += 1
    return found


def drawn(y: Vector, m: int, seed: int, *, by_class: bool) -> tuple[int, ...]:
    """Draw m landmarks, ascending: of each class those whose streams are lowest; targets are as of one class."""
    codes = [float(own) for own in y] if by_class else [0.0] * len(y)
    classes, found = sorted(set(codes)), []
    for own, count in zip(classes, parted([codes.count(c) for c in classes], m), strict=True):
        pool = [row for row in range(len(codes)) if codes[row] == own]
        found += sorted(pool, key=lambda row: stream(seed, LANDMARK_TREE, row))[:count]
    return tuple(sorted(found))


def pool_of(sample: Sample, rows: Sequence[int], y: float) -> list[int]:
    """Return what a node's columns are drawn of: its rows, or where there are landmarks those that stand for it.

    Of labels the landmarks of class y in the node, or all of class y; of targets the landmarks in the node, or all if
    there are not two different targets among these.
    """
    marks = sample.rules.landmarks
    if not marks:
        return list(rows)
    inside = [row for row in rows if row in marks]
    if sample.rules.truth_kind == "targets":
        return inside if len({float(sample.y[row]) for row in inside}) > 1 else list(marks)
    return [row for row in inside if sample.y[row] == y] or [row for row in marks if sample.y[row] == y]


def landmark_pair(sample: Sample, rows: Sequence[int], pair: tuple[int, int], key: int, base: int) -> tuple[int, int]:
    """Return a landmark of the class of j and one of the class of i, each from the draw of its side."""
    pools = [pool_of(sample, rows, sample.y[own]) for own in pair]
    j, i = (pool[below(key, CHOICE + base + side, len(pool))] for side, pool in enumerate(pools))
    return j, i


def voter(similarity: Sequence[float], leaf: int, leaves: Sequence[int]) -> int:
    """Return the training row in a leaf with the largest observed similarity, the first of equals; -1 for none."""
    best = -1
    for row, own in enumerate(leaves):
        if own == leaf and not math.isnan(similarity[row]) and (best < 0 or similarity[row] > similarity[best]):
            best = row
    return best


def said(
    S: Matrix,
    ends: Sequence[Sequence[int]],
    leaves: Sequence[Sequence[int]],
    object_votes: Matrix,
    nodes_say: Sequence[Matrix],
) -> list[list[float]]:
    """Return the mean over the trees of what their voters say, or of what the node says where none votes.

    ends[t][q] and leaves[t][row] are nodes of queries and training rows; nodes_say[t][node] is what a node says.
    """
    answers = []
    for query, similarity in enumerate(S):
        own = []
        for tree, nodes in enumerate(ends):
            row = voter(similarity, nodes[query], leaves[tree])
            own.append(list(object_votes[row]) if row >= 0 else list(nodes_say[tree][nodes[query]]))
        answers.append([sum(column) / len(own) for column in zip(*own, strict=True)])
    return answers
