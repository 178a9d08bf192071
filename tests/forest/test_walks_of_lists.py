"""The bits by which rows walk where nodes list categories."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from distforest.forest.category_sets import CategorySets
from distforest.forest.walks import MASK_BITS, THRESHOLD, WalkSets, write_sets

pytestmark = pytest.mark.kernels


def sets_of(lists: list[np.ndarray], others_right: list[bool]) -> CategorySets:
    start = np.cumsum([0, *map(len, lists)])
    return CategorySets(start, np.concatenate(lists).astype(np.uint16), np.array(others_right))


def written(lists: CategorySets) -> tuple[np.ndarray, WalkSets]:
    n = len(lists.others_right)
    nodes = np.zeros(4 * n, np.uint32)
    return nodes, write_sets(nodes, np.arange(0, 4 * n, 4, dtype=np.uint32), np.arange(n), lists)


def test_a_bit_says_whether_a_category_goes_right() -> None:
    rng = np.random.default_rng(0)
    own = [np.sort(rng.permutation(n)[: n // 2]) for n in (20, 32, 500, 60_000)]
    lists = sets_of(own * 2, [False] * 4 + [True] * 4)
    nodes, sets = written(lists)
    for node, listed in enumerate(own * 2):
        first = int(nodes[4 * node + THRESHOLD])
        if listed[-1] < MASK_BITS:
            words = np.array([first], np.uint32)
        else:
            words = sets.words[first + 1 : first + 1 + int(sets.words[first])]
        goes_right = np.unpackbits(words.view(np.uint8), bitorder="little").astype(bool)
        is_listed = np.isin(np.arange(len(goes_right)), listed)
        np.testing.assert_array_equal(goes_right, is_listed != (node >= 4))


def test_bits_of_long_lists_take_no_array_of_all_codes() -> None:
    lists = sets_of([np.arange(0, 20_000, 2)] * 5, [False] * 5)
    written(lists)  # compiles
    tracemalloc.start()
    _, sets = written(lists)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert sets.words.nbytes < most < lists.codes.nbytes
