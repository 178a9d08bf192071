"""Rows that are read and judged apart from all others: a growth over some of them, and what can be grown so."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from distforest.errors import InputError
from distforest.growth.cuts.class_costs import ClassCosts
from distforest.growth.cuts.clusters import TwoClusters
from distforest.growth.cuts.criteria import Criterion, Gini, Variance, judging
from distforest.growth.cuts.random_cuts import AtRandom, judge_of_sides
from distforest.growth.cuts.sums import RowBlock
from distforest.growth.draws.columns import Axis, CategoriesAlone, Oblique
from distforest.sources.arrays import ArraySource
from distforest.sources.binned import BinnedSource
from distforest.sources.binned_table import BinnedTable
from distforest.sources.mapped_rows import MappedRows

if TYPE_CHECKING:
    from distforest.growth.grower import Growth
    from distforest.sources.source import Int32s, Ints

BY_PASSES = "by passes"
"""How trees grow whose rows wait on disk, in messages."""


def check_by_sums(growth: Growth, how: str) -> None:
    """Refuse growth whose cuts do not follow from sums over codes; ``how`` trees grow that ask for them.

    Raises
    ------
    InputError
        Cuts are not judged by such sums; the message says what grows so.
    """
    found = lack_of_sums(growth)
    if found:
        raise InputError(
            f"trees grow {how} over features in bins, from labels, targets or an embedding; found {found}: set "
            "max_bins and what goes with it, or give workers the memory for all rows"
        )


def lack_of_sums(growth: Growth) -> str:
    """Why the cuts of a growth do not follow from sums over codes; empty if they do."""
    if not isinstance(growth.source, (BinnedSource, BinnedTable)):
        return "max_bins=None"
    if type(growth.criterion) not in {Gini, Variance} or not growth.criterion.is_plain:
        return f"cuts that are judged by {type(growth.criterion).__name__}"
    return ""


def check_by_passes(growth: Growth) -> None:
    """Refuse growth by passes unless cuts follow from sums over codes, or from one candidate's values after another's.

    Raises
    ------
    InputError
        Features are sparse, cuts are judged otherwise, or columns are categories and nothing judges them; the message
        says what grows so.
    """
    if isinstance(growth.source, (BinnedSource, BinnedTable)):
        check_by_sums(growth, BY_PASSES)
        return
    found, draw = "", growth.draw.draw if isinstance(growth.draw, CategoriesAlone) else growth.draw
    if not isinstance(growth.source, ArraySource):
        found = "features that are not dense"
    elif not isinstance(draw, (Axis, Oblique)):
        found = f"candidates that are drawn by {type(draw).__name__}"
    elif growth.n_categories is not None and isinstance(growth.criterion, TwoClusters):
        found = "columns of categories without a ground truth"
    elif type(judge_of_sides(growth.criterion)) not in {Gini, ClassCosts, Variance, TwoClusters}:
        found = f"cuts that are judged by {type(judge_of_sides(growth.criterion)).__name__}"
    if found:
        raise InputError(
            f"trees grow {BY_PASSES} over dense features, from labels, targets or an embedding, or without a ground "
            f"truth over numbers alone; found {found}: give workers the memory for all rows (`run.memory_limit`)"
        )


def growth_among(growth: Growth, block: RowBlock) -> Growth:
    """The growth over some rows in memory, which are numbered from 0."""
    source = growth.source
    if isinstance(source, BinnedSource):
        source = replace(source, codes=block.values)
    elif isinstance(source, BinnedTable):
        assert block.categories is not None  # noqa: S101  (rows of a table have them)
        source = source.over(block.values, block.categories)
    else:
        assert isinstance(source, ArraySource)  # noqa: S101  (`check_by_passes`)
        source = ArraySource.of(block.values, source.is_complete)
    return replace(growth, source=source, criterion=criterion_over(growth.criterion, block.truth, block.values))


def criterion_over(
    criterion: Criterion, truth: np.ndarray, features: np.ndarray, stored: MappedRows | None = None
) -> Criterion:
    """The criterion over rows with this truth and these features; ``stored`` reads the latter if they are a map."""
    if isinstance(criterion, AtRandom):
        return replace(criterion, criterion=criterion_over(criterion.criterion, truth, features, stored))
    if isinstance(criterion, ClassCosts):
        return replace(criterion, codes=truth)
    if not isinstance(criterion, TwoClusters):
        return judging(criterion, truth)
    if criterion.witnesses is None:
        return criterion
    return replace(criterion, witnesses=replace(criterion.witnesses, matrix=features, stored=stored))


def truth_judged(criterion: Criterion) -> Int32s | Ints:
    """The truth of each row by which cuts are judged: its class, or its vector in fixed point."""
    if isinstance(criterion, (Gini, ClassCosts)):
        return criterion.codes
    assert isinstance(criterion, Variance)  # noqa: S101  (`check_by_passes`)
    return criterion.fixed


def truth_of_rows(growth: Growth) -> Int32s | Ints:
    """The truth of each row of a growth; without a ground truth it has no columns."""
    criterion = judge_of_sides(growth.criterion)
    if isinstance(criterion, TwoClusters):
        return np.empty((growth.source.shape[0], 0), np.int32)
    return truth_judged(criterion)


def rows_judged(growth: Growth) -> RowBlock:
    """All rows of a growth: their codes or features, which may be mapped, and their truth; each weighs 1."""
    source, truth = growth.source, truth_of_rows(growth)
    weights = np.broadcast_to(np.int32(1), len(truth))  # without an array of their size
    if isinstance(source, BinnedTable):
        return RowBlock(source.numbers.codes, truth, weights, source.categories)
    if isinstance(source, BinnedSource):
        return RowBlock(source.codes, truth, weights)
    assert isinstance(source, ArraySource)  # noqa: S101  (`check_by_passes`)
    return RowBlock(source.values, truth, weights)
