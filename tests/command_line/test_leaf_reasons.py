"""Every kind of leaf table is described where a forest is inspected, and where no tree has a split."""

from __future__ import annotations

from distforest.command_line.reports import REASONS
from distforest.forest.leaf_kinds import LEAF_KINDS, NEAREST
from distforest.forest.roots import FOLLOWS


def test_every_kind_of_leaf_table_is_described() -> None:
    assert set(REASONS) == set(LEAF_KINDS)
    assert set(FOLLOWS) - {NEAREST} == set(LEAF_KINDS)
