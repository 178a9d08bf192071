"""Trees over columns of categories grow by passes as in memory, for any budget, any blocks and any number of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from distforest.errors import InputError
from distforest.growth.cuts.categories import CategorySums
from distforest.growth.cuts.criteria import Gini, Variance
from distforest.growth.cuts.table_sums import TableSums
from distforest.growth.passes import Passes
from distforest.growth.problem import Data
from distforest.growth.row_room import RowRoom
from distforest.growth.sample_weights import Draws, SampleWeights
from distforest.sources.row_kinds import Features
from distforest.sources.truth import Truth, TruthKind
from tests.growth.test_value_passes import bound, digest_of, weights_of
from tests.messages import naming
from tests.tries import tries

if TYPE_CHECKING:
    from pathlib import Path

N_CATEGORIES = (0, 3, 40, 0, 2, 0)
FREE = settings(max_examples=tries(20), suppress_health_check=[HealthCheck.function_scoped_fixture])
KINDS = ("labels", "five labels", "targets", "embedding")
BINNED: dict[str, Any] = {"max_bins": 16}
HOW: dict[str, dict[str, Any]] = {
    "bins": BINNED,
    "few bins, all columns": {"max_bins": 3, "max_features": 6},
    "exact": {},
    "random cuts": {"splitter": "random"},
    "sums of columns": {"feature_combinations": 2.0, "max_features": 4},
}


def data_of(
    kind: str,
    n_rows: int,
    seed: int,
    holes: float = 0.0,
    weights: np.ndarray | None = None,
    n_categories: tuple[int, ...] = N_CATEGORIES,
) -> Data:
    """Numbers with ties and categories of which some are rare, and a truth that both tell, with noise."""
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(n_rows, len(n_categories))), 1).astype(np.float32)
    for column, n in enumerate(n_categories):
        if n:
            X[:, column] = np.floor(n * rng.random(n_rows) ** 2)
    most = int(np.argmax(n_categories))
    told = X[:, 0] + rng.normal(size=n_categories[most])[X[:, most].astype(int)] + rng.normal(size=n_rows) / 2.0
    X[rng.random(X.shape) < holes] = np.nan
    own = None if weights is None else SampleWeights.from_weights(weights, Draws(n_rows, replace=True))
    rows = Features(len(n_categories), n_categories)
    if kind in {"targets", "embedding"}:
        truth = np.stack([told, rng.normal(size=n_rows)], axis=1)[:, : 1 if kind == "targets" else 2]
        truth_kind = TruthKind.TARGETS if kind == "targets" else TruthKind.EMBEDDING
        return Data(rows, X, Truth(truth_kind, truth), sample_weights=own)
    n_classes = 2 if kind == "labels" else 5
    labels = np.clip(np.floor(told + n_classes / 2), 0, n_classes - 1).astype(np.int32)
    return Data(rows, X, Truth(TruthKind.LABELS, labels, list(range(n_classes))), sample_weights=own)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["labels", "embedding"])
def test_a_column_may_have_as_many_categories_as_a_code(tmp_path: Path, kind: str) -> None:
    data = data_of(kind, 900, seed=1, holes=0.1, n_categories=(0, 1 << 16, 0))
    given = {**BINNED, "max_depth": 4, "n_estimators": 1}
    assert digest_of(data, Passes(tmp_path, 30_000), **given) == digest_of(data, **given)


@pytest.mark.slow
@pytest.mark.parametrize("held", [1, 2, 3])
def test_columns_are_summed_a_few_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held: int) -> None:
    data, given = data_of("five labels", 300, seed=3, holes=0.1), {**BINNED, "max_features": 6, "max_depth": 5}
    passes, asked = Passes(tmp_path, 1, 50), list[int]()
    monkeypatch.setattr(RowRoom, "held", lambda *_: held)
    zeros = TableSums.zeros

    def noted(criterion: Gini | Variance, columns: np.ndarray, n_categories: np.ndarray) -> TableSums:
        asked.append(int((n_categories[columns] > 0).sum()))
        return zeros(criterion, columns, n_categories)

    monkeypatch.setattr(TableSums, "zeros", noted)
    assert digest_of(data, passes, **given) == digest_of(data, **given)
    assert max(asked) == held


@pytest.mark.slow
@pytest.mark.parametrize("how", sorted(HOW))
@pytest.mark.parametrize("columns", [(2,), (0, 3)], ids=["categories", "numbers"])
def test_values_may_be_missing_among_categories_or_numbers_alone(
    tmp_path: Path, how: str, columns: tuple[int, ...]
) -> None:
    data = data_of("labels", 300, seed=4)
    for column in columns:
        data.array[column::5, column] = np.nan
    for budget in (1, 8_000):
        assert digest_of(data, Passes(tmp_path, budget), **HOW[how]) == digest_of(data, **HOW[how])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["labels", "targets"])
@pytest.mark.parametrize("how", ["bins", "exact"])
@pytest.mark.parametrize("holes", [0.0, 0.4])
def test_a_node_is_cut_as_in_memory(tmp_path: Path, kind: str, how: str, holes: float) -> None:
    """A budget of nothing: nodes of more than one row are cut by passes, over one column of categories at a time."""
    data = data_of(kind, 300, seed=8, holes=holes)
    by_passes = bound(data, Passes(tmp_path, 1, 17), max_depth=3, **HOW[how]).grow(np.arange(2))
    in_memory = bound(data, max_depth=3, **HOW[how]).grow(np.arange(2))
    assert list(by_passes) == list(in_memory)
    assert in_memory["category_size"].any()
    for name, values in in_memory.items():
        np.testing.assert_array_equal(by_passes[name], values, err_msg=name)


def test_codes_that_are_no_categories_are_refused_wherever_they_stand(tmp_path: Path) -> None:
    data = data_of("labels", 40, seed=0)
    data.array[33, 2] = 40.0
    for how in ("bins", "exact"):
        with pytest.raises(InputError, match=naming("feature 2", "0 to 39", "40 in row 33")):
            bound(data, Passes(tmp_path, 1), **HOW[how])
    assert not list(tmp_path.iterdir())


@pytest.mark.kernels
@FREE
@given(
    n_rows=st.integers(1, 60),
    n_categories=st.integers(1, 9),
    seed=st.integers(0, 999),
    holes=st.sampled_from([0.0, 0.4, 1.0]),
    step=st.integers(1, 60),
    are_joined=st.booleans(),
)
def test_groups_of_categories_have_the_sums_of_all_rows(
    n_rows: int, n_categories: int, seed: int, holes: float, step: int, are_joined: bool
) -> None:
    """In the order in which categories come; blocks are added one after another, or each alone and then joined."""
    rng = np.random.default_rng(seed)
    categories = rng.integers(0, n_categories, n_rows).astype(np.float32)
    categories[rng.random(n_rows) < holes] = np.nan
    weights, labels = rng.integers(1, 5, n_rows).astype(np.int32), rng.integers(0, 3, n_rows).astype(np.int32)
    vectors = rng.integers(-(1 << 50), 1 << 50, (n_rows, 2))
    places = np.where(np.isnan(categories), n_categories, categories).astype(int)
    for truth, criterion in ((labels, Gini(labels, 3)), (vectors, Variance(vectors, 1.0))):
        sums = CategorySums.zeros(criterion, n_categories)
        for first in range(0, n_rows, step):
            rows = np.arange(first, min(first + step, n_rows), dtype=np.int32)
            block = CategorySums.zeros(criterion, n_categories) if are_joined else sums
            block.add(categories, truth, rows, weights[rows])
            sums = sums.joined(block) if are_joined else block
        assert sums.seen.tolist() == list(dict.fromkeys(places.tolist()))
        of_rows = np.eye(3, dtype=np.int64)[labels] if truth is labels else vectors
        for place in range(n_categories + 1):
            here = places == place
            assert sums.bins.weights[place] == weights[here].sum()
            assert sums.bins.sums[place].tolist() == (of_rows[here] * weights[here, None]).sum(axis=0).tolist()


@pytest.mark.slow
@FREE
@given(
    kind=st.sampled_from(KINDS),
    how=st.sampled_from(sorted(HOW)),
    n_rows=st.integers(2, 80),
    seed=st.integers(0, 999),
    holes=st.sampled_from([0.0, 0.3, 0.9]),
    budget=st.sampled_from([1, 5_000, 20_000, 1 << 20]),
    block_rows=st.one_of(st.none(), st.integers(1, 90)),
    min_leaf=st.sampled_from([1, 4]),
    weighted=st.booleans(),
)
def test_passes_over_categories_grow_the_forest_of_memory_to_the_bit(
    tmp_path: Path,
    kind: str,
    how: str,
    n_rows: int,
    seed: int,
    holes: float,
    budget: int,
    block_rows: int | None,
    min_leaf: int,
    weighted: bool,
) -> None:
    data = data_of(kind, n_rows, seed, holes, weights_of(n_rows, seed) if weighted else None)
    given = {**HOW[how], "min_samples_leaf": min_leaf}
    assert digest_of(data, Passes(tmp_path, budget, block_rows), **given) == digest_of(data, **given)
    assert not list(tmp_path.iterdir()), "rows on disk outlive their tree"


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", ["bins", "exact"])
@pytest.mark.parametrize("holes", [0.0, 0.2])
def test_three_budgets_give_one_digest(tmp_path: Path, kind: str, how: str, holes: float) -> None:
    n, given = 2_000, {**HOW[how], "n_estimators": 1, "min_samples_leaf": 20}
    data = data_of(kind, n, seed=5, holes=holes, weights=weights_of(n, 5), n_categories=(0, 4, 300, 0, 2, 1200))
    budgets = [Passes(tmp_path, 40_000, 333), Passes(tmp_path, 200_000), Passes(tmp_path, 1 << 20, 77)]
    digests = {digest_of(data, passes, **given) for passes in budgets}
    assert digests == {digest_of(data, **given)}
