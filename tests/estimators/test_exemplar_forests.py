"""Forests whose nodes are parted by exemplars answer as nested nodes do, and are the same however they are grown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from sklearn.datasets import load_digits, load_iris, load_wine

from distforest import Lazy, SimForestClassifier, load, merge
from distforest.command_line.cli import main
from distforest.errors import DistforestWarning, InputError
from distforest.forest.forest import Forest
from distforest.forest.leaf_kinds import KeepsCounts
from distforest.forest.node_table import route
from distforest.pictures.tree_shapes import TreeShapes
from distforest.sources.arrays import ArraySource
from tests import samples
from tests.growth.test_chains import Asked, assert_nested
from tests.messages import naming
from tests.reference import naive_exemplars as nested
from tests.reference.naive_exemplars import NestedNode
from tests.reference.naive_simforest import Rules, with_means

SETS = {
    "iris": tuple(array[::3] for array in load_iris(return_X_y=True)),
    "wine": tuple(array[::3] for array in load_wine(return_X_y=True)),
    "digits": tuple(array[:90] for array in load_digits(return_X_y=True)),
}


def similarities_of(name: str, missing: float) -> np.ndarray:
    """Similarities of a set's rows, rounded so that some are equal; a share of the pairs is unobserved."""
    X = SETS[name][0] / SETS[name][0].std()
    S = np.exp(-((X[:, None] - X) ** 2).mean(axis=2)).round(2)
    gone = np.triu(np.random.default_rng(1).random(S.shape) < missing, 1)
    S[gone | gone.T] = np.nan
    return S.astype(np.float32)


def by_exemplars(similarity: Any = "precomputed", **params: Any) -> SimForestClassifier:
    return SimForestClassifier(
        similarity, **{"cut": "exemplars", "n_estimators": 4, "n_pairs": 3, "random_state": 3, **params}
    )


def rules_of(grown: Forest, y: np.ndarray) -> Rules:
    """What a forest was told."""
    assert isinstance(grown.meaning.leaf, KeepsCounts)
    own, params = grown.meaning.leaf.class_weights, grown.meaning.params
    c = (1,) * (int(y.max()) + 1) if own is None else tuple(int(weight) for weight in own)
    names = ("n_pairs", "min_samples_split", "min_samples_leaf", "max_depth")
    return Rules(pairing=params["pairing"] or "kept", class_weight=c, **{name: params[name] for name in names})


def as_read(grown: Forest, S: np.ndarray) -> np.ndarray:
    """Similarities as a forest's rule says that missing ones are read."""
    is_mean = grown.meaning.params["on_missing"] == "mean"
    return with_means(S, S.shape[1], grown.sample_weight) if is_mean else S


def nested_trees(grown: Forest, S: np.ndarray, y: np.ndarray) -> list[NestedNode]:
    """The trees of a forest as nested nodes."""
    rules, weights, read = rules_of(grown, y), grown.in_bag.astype(int), as_read(grown, S)
    if grown.sample_weight is not None:
        weights = weights * grown.sample_weight
    return [nested.grow_nested(read, y, own, grown.meaning.seed, tree, rules) for tree, own in enumerate(weights)]


@pytest.mark.filterwarnings("ignore::distforest.errors.DistforestWarning")  # which are rolled
@pytest.mark.parametrize(("missing", "rule"), [(0.0, "stop"), (0.01, "stop"), (0.01, "mean"), (0.2, "mean")])
@pytest.mark.parametrize("weighed", [False, True])
@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("iris", {}),
        ("wine", {"min_samples_leaf": 3, "pairing": "fresh"}),
        ("digits", {"max_depth": 2, "min_samples_leaf": 1}),
        ("iris", {"class_weight": {"0": 1.0, "1": 2.5, "2": 4.0}, "bootstrap": False, "max_samples": 0.7}),
        ("wine", {"max_depth": 1, "max_samples": 30, "class_weight": "balanced"}),
    ],
)
def test_forests_of_given_similarities_answer_as_nested_nodes(
    name: str, params: dict[str, Any], weighed: bool, missing: float, rule: str
) -> None:
    S, y = similarities_of(name, missing), SETS[name][1]
    weights = np.random.default_rng(2).integers(0, 4, len(y)).astype(float) if weighed else None
    grown = by_exemplars(**params, on_missing=rule).fit(S, y, weights)
    trees, c = nested_trees(grown.forest_, S, y), rules_of(grown.forest_, y).class_weight
    assert_nested(grown.forest_.table, trees)
    queries = np.where(np.random.default_rng(4).random(S.shape) < missing / 2, np.nan, np.roll(S, 1, axis=1))
    expected = nested.shares_of(trees, as_read(grown.forest_, queries), c)
    np.testing.assert_allclose(grown.predict_proba(queries), expected, rtol=1e-12)


@pytest.mark.parametrize("similarity", ["rbf", "linear", "cosine", "manhattan"])
@pytest.mark.parametrize("name", ["iris", "digits"])
def test_forests_of_built_in_similarities_answer_as_nested_nodes(name: str, similarity: str) -> None:
    X, y = SETS[name]
    train = np.arange(len(y)) % 3 > 0
    grown = by_exemplars(similarity).fit(X[train], y[train])
    columns = np.arange(train.sum(), dtype=np.int32)
    S, new = (
        grown.forest_.source(own.astype(np.float32)).block(np.arange(len(own), dtype=np.int32), columns)
        for own in (X[train], X[~train])
    )
    trees, c = nested_trees(grown.forest_, S, y[train]), rules_of(grown.forest_, y).class_weight
    assert_nested(grown.forest_.table, trees)
    np.testing.assert_allclose(grown.predict_proba(X[~train]), nested.shares_of(trees, new, c), rtol=1e-12)
    assert grown.forest_.leaves is not None
    for own, root in zip(grown.forest_.leaves, trees, strict=True):
        assert own.tolist() == [nested.end_of(root, row).own for row in S]


def test_a_chain_is_one_level_of_depth() -> None:
    S, y = similarities_of("digits", 0.0), SETS["digits"][1]
    flat = by_exemplars(max_depth=1, min_samples_leaf=1).fit(S, y).forest_
    for tree in range(flat.n_trees):
        own = flat.table.tree(tree)
        n_leaves = int(own.is_leaf.sum())
        assert n_leaves > 5
        assert own.tree_size[0] == n_leaves * (n_leaves - 1) // 2 + n_leaves
    assert set(TreeShapes.of(flat).depths.tolist()) == {1}
    deep = by_exemplars(min_samples_leaf=1).fit(S, y).forest_
    leaves = [node for root in nested_trees(deep, S, y) for node in sorted(root.all(), key=lambda node: node.own)]
    assert TreeShapes.of(deep).depths.tolist() == [node.depth for node in leaves if not node.children]


@pytest.mark.filterwarnings("ignore::distforest.errors.DistforestWarning")  # random numbers are no similarities
def test_forests_of_two_classes_and_of_an_object_a_class() -> None:
    rng = np.random.default_rng(0)
    S, y = rng.normal(size=(30, 30)), rng.integers(0, 2, 30)
    two = by_exemplars(min_samples_leaf=1).fit(S, y).forest_
    assert_nested(two.table, nested_trees(two, S, y))
    head = two.table.chain_head
    assert head is not None
    assert (head == np.concatenate([np.arange(size) for size in two.table.tree_size])).all()
    alone = by_exemplars(min_samples_leaf=1, bootstrap=False).fit(np.eye(7), np.arange(7))
    assert alone.predict(np.eye(7)).tolist() == list(range(7))
    assert alone.forest_.table.tree_size.tolist() == [7 * 6 // 2 + 7] * 4
    assert_nested(alone.forest_.table, nested_trees(alone.forest_, np.eye(7), np.arange(7)))


def test_duplicates_of_different_classes_and_constant_similarities() -> None:
    """A candidate of equal objects parts nothing, as all rows go to the first of them."""
    y = np.array([0, 1, 2] * 4)
    S = np.ones((12, 12))
    with pytest.warns(DistforestWarning, match="split"):
        constant = by_exemplars(min_samples_leaf=1).fit(S, y)
    assert constant.forest_.table.tree_size.tolist() == [1] * 4
    S = np.kron(np.eye(4), np.ones((3, 3)))  # objects of each class at each of four places
    placed = by_exemplars(min_samples_leaf=1).fit(S, y).forest_
    assert_nested(placed.table, nested_trees(placed, S, y))


@pytest.mark.filterwarnings("ignore::distforest.errors.DistforestWarning")  # random numbers are no similarities
def test_more_classes_than_a_candidate_has_exemplars() -> None:
    n_classes = nested.MOST + 4
    y = np.arange(3 * n_classes) % n_classes
    S = np.random.default_rng(0).normal(size=(len(y), len(y))).astype(np.float32)
    for pairing in ("kept", "fresh"):
        grown = by_exemplars(pairing=pairing, min_samples_leaf=1, bootstrap=False, n_estimators=2).fit(S, y).forest_
        trees = nested_trees(grown, S, y)
        assert_nested(grown.table, trees)
        assert max(len(root.exemplars) for root in trees) > nested.MOST - 4


# --- the same forest, always ------------------------------------------------------------------------------


def test_the_digest_is_that_of_any_threads_and_batches() -> None:
    S, y = similarities_of("wine", 0.01), SETS["wine"][1]
    whole = by_exemplars(n_estimators=20, oob_score=True).fit(S, y)
    threads = by_exemplars(n_estimators=20, oob_score=True, n_jobs=2).fit(S, y)
    assert (threads.digest_, threads.oob_score_) == (whole.digest_, whole.oob_score_)
    grown = by_exemplars(n_estimators=2, warm_start=True).fit(S, y)
    assert grown.set_params(n_estimators=5).fit(S, y).digest_ == by_exemplars(n_estimators=5).fit(S, y).digest_
    bound = samples.problem_of("dense", cut="exemplars", n_estimators=5)
    batches = [bound.grow(np.array(own)) for own in ([0], [1, 2, 3], [4])]
    assert bound.forest(batches).digest == samples.forest_from(bound).digest
    other = [by_exemplars(n_estimators=3, random_state=seed).fit(S, y) for seed in (0, 1)]
    merged = merge(other)
    shares = np.mean([own.predict_proba(S) for own in other], axis=0)
    np.testing.assert_allclose(merged.predict_proba(S), shares, rtol=1e-12)


def test_a_forest_is_the_same_saved_packed_lean_and_exported(tmp_path: Path) -> None:
    S, y = similarities_of("iris", 0.01), SETS["iris"][1]
    grown = by_exemplars().fit(S, y)
    lean = grown.forest_.with_lean_table()
    assert lean.digest == grown.digest_
    assert samples.bits(lean.arrays()) == samples.bits(grown.forest_.arrays())
    rows = np.arange(len(y), dtype=np.int32)
    ends = [route(own, ArraySource.from_values(S), rows) for own in (lean.table, grown.forest_.table)]
    assert ends[0].tolist() == ends[1].tolist()
    for name in ("a.forest.zarr", "a.forest.zarr.zip"):
        grown.save(tmp_path / name)
        opened = load(tmp_path / name)
        assert opened.digest_ == grown.digest_
        assert opened.predict_proba(S).tolist() == grown.predict_proba(S).tolist()
    exported = tmp_path / "b.forest.zarr.zip"
    done = CliRunner().invoke(main, ["export", str(tmp_path / "a.forest.zarr"), str(exported)])
    assert done.exit_code == 0, done.output
    assert load(exported).digest_ == grown.digest_


@pytest.mark.slow
def test_a_function_gives_the_forest_of_the_matrix_and_kept_exemplars_ask_for_fewer_pairs() -> None:
    X, y = load_wine(return_X_y=True)
    X = X / X.std(axis=0)
    S = np.exp(-((X[:, None] - X) ** 2).mean(axis=2))
    spent = {}
    for pairing in ("kept", "fresh"):
        asked = Asked(S)
        own = by_exemplars(Lazy(asked), pairing=pairing, n_estimators=3).fit(np.arange(len(y)), y)
        given_matrix = by_exemplars(pairing=pairing, n_estimators=3, min_samples_split=own.min_samples_split).fit(S, y)
        assert samples.bits(own.forest_.table.arrays()) == samples.bits(given_matrix.forest_.table.arrays())
        assert own.n_evaluations_ == len(asked.pairs) == sum(asked.pairs.values())
        assert all(left <= right for left, right in asked.pairs)
        rules = rules_of(own.forest_, y)
        read = set[tuple[int, int]]()
        for tree, weights in enumerate(own.forest_.in_bag.astype(int)):
            read |= nested.pairs_read(S, y, weights, own.forest_.meaning.seed, tree, rules)
        assert asked.pairs.keys() == {(min(pair), max(pair)) for pair in read}
        spent[pairing] = own.n_evaluations_
    assert spent["kept"] < 0.9 * spent["fresh"]


def test_exemplars_go_with_labels_and_a_candidate_of_single_columns() -> None:
    S, y = similarities_of("iris", 0.0), SETS["iris"][1]
    for params in ({"n_columns": 2}, {"on_missing": "larger"}, {"on_missing": "surrogate"}):
        with pytest.raises(
            InputError, match=naming("cut='exemplars'", *(f"{name}={value!r}" for name, value in params.items()))
        ):
            by_exemplars(**params).fit(S, y)
