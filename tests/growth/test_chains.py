"""Trees whose nodes are parted by exemplars are those of nested nodes, node by node and row by row."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numba
import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits, load_iris, load_wine

from distforest import Lazy, SimForestClassifier, load, merge
from distforest.command_line.cli import main
from distforest.errors import ArtifactError, InputError
from distforest.forest.forest import Forest
from distforest.forest.leaf_kinds import KeepsCounts
from distforest.forest.table import NodeTable, route
from distforest.growth import grower
from distforest.growth.chains import ChainGrowth, ChainLinks, link_exemplars
from distforest.growth.cuts.criteria import Gini
from distforest.growth.methods import METHODS, problem
from distforest.growth.parameters import complete
from distforest.growth.problem import Data, Problem
from distforest.sources.arrays import ArraySource
from distforest.sources.lazy.source import LazySource, Objects, ValueSupplier
from distforest.sources.row_kinds import Dense, Several
from distforest.sources.source import offsets
from distforest.sources.truth import TruthKind
from tests import samples
from tests.reference import naive_exemplars as nested
from tests.reference.naive_exemplars import NestedNode
from tests.reference.naive_landmarks import drawn
from tests.reference.naive_simforest import Rules

if TYPE_CHECKING:
    from collections.abc import Sequence

pytestmark = pytest.mark.kernels

FREE = settings(max_examples=15 if numba.config.DISABLE_JIT else 120)
FEW = settings(max_examples=6 if numba.config.DISABLE_JIT else 30)
TREES = np.array([1, 6])


@dataclass(frozen=True)
class Case:
    """Similarities, by several measures side by side, classes and their weights, weights of rows, and parameters."""

    S: np.ndarray
    measures: list[tuple[float, str]]
    y: np.ndarray
    class_weights: tuple[int, ...]
    row_weights: np.ndarray
    seed: int
    params: dict[str, Any]

    @property
    def rules(self) -> Rules:
        """The same for the nested nodes."""
        names = ("n_pairs", "min_samples_split", "min_samples_leaf", "max_depth")
        own = {name: self.params[name] for name in names}
        n_landmarks = self.params["n_landmarks"]
        marks = drawn(self.y, n_landmarks, self.seed, by_class=True) if n_landmarks else ()
        measures = tuple(self.measures) if len(self.measures) > 1 else ()
        is_fresh = n_landmarks or measures
        pairing = self.params["pairing"] or ("fresh" if is_fresh else "kept")
        kind = self.measures[0][1]
        return Rules(
            kind=kind, class_weight=self.class_weights, landmarks=marks, pairing=pairing, measures=measures, **own
        )

    def problem(self) -> Problem:
        """The product's; with class weights by themselves, as what a user states is scaled."""
        n = len(self.y)
        kinds = tuple(Dense(n, kind) for _, kind in self.measures)
        rows = kinds[0] if len(kinds) == 1 else Several(kinds, tuple(weight for weight, _ in self.measures))
        names = list(range(len(self.class_weights)))
        data = Data(rows, self.S, TruthKind.LABELS, self.y.astype(np.int32), names)
        told = {"n_estimators": 2, "bootstrap": True, "cut": "exemplars", **self.params}
        bound = problem(METHODS["simforest"], data, complete(METHODS["simforest"].parameters, told), self.seed)
        assert isinstance(bound, Problem)
        criterion = Gini(data.truth, len(names), class_weights=np.array(self.class_weights, np.int64))
        return replace(bound, growth=replace(bound.growth, criterion=criterion))

    def weights(self, bound: Problem) -> np.ndarray:
        """In-bag weight of each row in each tree."""
        found = bound.sampling.weights(self.seed, TREES) * self.row_weights
        return found.astype(np.int32)

    def roots(self, weights: np.ndarray) -> list[NestedNode]:
        """The trees as nested nodes."""
        return [
            nested.grow_nested(self.S, self.y, own, self.seed, int(tree), self.rules)
            for tree, own in zip(TREES, weights, strict=True)
        ]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    n, seed, n_classes = draw(st.integers(2, 20)), draw(st.integers(0, 2**40)), draw(st.integers(1, 5))
    rng = np.random.default_rng(seed)
    measures = draw(
        st.sampled_from(
            [[(1.0, "similarity")], [(1.0, "distance")], [(1.0, "similarity"), (2.0, "distance"), (0.0, "similarity")]]
        )
    )
    parts = []
    for _ in measures:
        S = rng.normal(size=(n, n)).round(draw(st.integers(0, 2)))
        S[rng.random((n, n)) < draw(st.sampled_from([0.0, 0.02, 0.2]))] = np.nan
        parts.append(S)
    y = rng.integers(0, n_classes, n)
    n_distinct = len(set(y.tolist()))
    y = np.unique(y, return_inverse=True)[1]
    least = max(2, n_distinct)
    params = {
        "n_pairs": draw(st.integers(1, 4)),
        "n_landmarks": draw(st.none() if least > n else st.one_of(st.none(), st.integers(least, n))),
        "min_samples_leaf": draw(st.sampled_from([1, 1, 3])),
        "min_samples_split": draw(st.sampled_from([2, 2, 6])),
        "max_depth": draw(st.sampled_from([None, None, 1, 2])),
        "bootstrap": draw(st.booleans()),
        "max_samples": draw(st.sampled_from([None, 0.6])),
    }
    params["pairing"] = draw(st.sampled_from(["fresh", None] if params["n_landmarks"] else ["kept", "fresh", None]))
    class_weights = draw(st.sampled_from([(1, 1, 1, 1, 1), (1, 2, 5, 3, 1)]))[:n_distinct]
    row_weights = draw(st.sampled_from([np.ones(n, int), rng.integers(1, 5, n)]))
    return Case(np.concatenate(parts, axis=1).astype(np.float32), measures, y, class_weights, row_weights, seed, params)


def assert_nested(table: NodeTable, roots: Sequence[NestedNode], rtol: float = 1e-11) -> None:
    """Compare each tree with nested nodes, and every number of the table with what it says of them."""
    assert table.chain_head is not None
    table.check(int(table.columns.max(initial=-1)) + 1)
    for tree, root in enumerate(roots):
        own = table.tree(tree)
        seen = [number for node in root.all() for number in assert_node(own, node, rtol)]
        assert sorted(seen) == list(range(own.tree_size[0]))


def assert_node(tree: NodeTable, node: NestedNode, rtol: float) -> list[int]:
    """Compare one node with its chain, which is followed stage by stage; returns the nodes of the chain."""
    assert tree.chain_head is not None
    assert tree.n_rows[node.own] == node.n_rows
    assert tree.gain[node.own] == pytest.approx(node.gain, rel=rtol)
    assert tree.is_leaf[node.own] == (not node.children)
    assert tree.chain_head[node.own] == node.own
    leads, seen = {0: node.own}, [node.own]
    for stage in range(1, len(node.exemplars)):
        following: dict[int, int] = {}
        for leader, number in leads.items():
            terms = slice(tree.offset[number], tree.offset[number + 1])
            assert tree.columns[terms].tolist() == [node.exemplars[stage], node.exemplars[leader]]
            assert tree.weights[terms].tolist() == [1.0, -1.0]
            assert tree.threshold[number] == 0.0
            assert (tree.chain_head[number], tree.n_rows[number]) == (node.own, node.n_rows)
            assert number == node.own or tree.gain[number] == 0.0
            assert following.setdefault(leader, int(tree.left[number])) == tree.left[number]
            assert following.setdefault(stage, int(tree.right[number])) == tree.right[number]
        leads = following
        if stage < len(node.exemplars) - 1:
            seen += leads.values()
    if node.children:
        assert [leads[place] for place in range(len(node.exemplars))] == [child.own for child in node.children]
    return seen


# --- trees of any similarities ----------------------------------------------------------------------------


@FREE
@given(cases())
def test_trees_are_those_of_nested_nodes(case: Case) -> None:
    bound = case.problem()
    weights = case.weights(bound)
    table, leaves = bound.growth.grow(TREES, weights)
    roots = case.roots(weights)
    assert_nested(table, roots)
    for tree, root in enumerate(roots):
        expected = [nested.end_of(root, row).own if w else -1 for row, w in zip(case.S, weights[tree], strict=True)]
        assert leaves[tree][weights[tree] > 0].tolist() == [own for own in expected if own >= 0]


@FREE
@given(cases(), st.integers(0, 2**32), st.sampled_from([0.0, 0.05, 0.3]))
def test_new_rows_go_to_the_nearest_exemplar_all_the_way(case: Case, seed: int, missing: float) -> None:
    bound, rng = case.problem(), np.random.default_rng(seed)
    weights = case.weights(bound)
    table, _ = bound.growth.grow(TREES, weights)
    queries = rng.integers(-2, 3, (12, case.S.shape[1])) / 2.0  # many are equally near
    queries[rng.random(queries.shape) < missing] = np.nan
    found = route(table, ArraySource.of(queries), np.arange(len(queries), dtype=np.int32))
    for own, root in zip(found, case.roots(weights), strict=True):
        assert own.tolist() == [nested.end_of(root, row).own for row in queries]


@FEW
@given(cases())
def test_class_counts_are_those_of_the_rows_that_passed(case: Case) -> None:
    bound = replace(case.problem(), data=replace(case.problem().data, sample_weights=None))
    weights = bound.sampling.weights(case.seed, TREES)
    table, leaves = bound.growth.grow(TREES, weights)
    leaves[weights == 0] = 0
    counts = bound.leaf_arrays(table, leaves, weights)["class_counts"]
    assert table.chain_head is not None
    for tree, root in enumerate(case.roots(weights)):
        own = slice(table.tree_start[tree], table.tree_start[tree + 1])
        masses = {node.own: node.masses for node in root.all()}
        assert counts[own].tolist() == [masses[head] for head in table.chain_head[own].tolist()]
        assert table.n_rows[own].tolist() == counts[own].sum(axis=1).tolist()


@FEW
@given(cases(), st.data())
def test_trees_of_a_batch_do_not_depend_on_each_other_or_their_order(case: Case, data: st.DataObject) -> None:
    growth, trees = case.problem().growth, np.array([5, 2, 9])
    weights = case.problem().sampling.weights(case.seed, trees)
    together, leaves = growth.grow(trees, weights)
    order = data.draw(st.permutations(range(3)))
    other, other_leaves = growth.grow(trees[order], weights[order])
    for place, tree in enumerate(order):
        assert samples.bits(other.tree(place).arrays()) == samples.bits(together.tree(tree).arrays())
        assert other_leaves[place].tolist() == leaves[tree].tolist()


@pytest.mark.parametrize("cells", [1, 100, 1000])
def test_slabs_of_chains_change_nothing(cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    bound = samples.problem_of("dense", cut="exemplars")
    whole = bound.grow(np.arange(3))
    monkeypatch.setattr(grower, "SLAB_CELLS", cells)
    assert samples.bits(bound.grow(np.arange(3))) == samples.bits(whole)


# --- chains -----------------------------------------------------------------------------------------------


def test_a_chain_is_the_one_of_the_picture() -> None:
    """Node 7 has exemplars 40, 10, 30 and 20, its chain goes on at 9, and its children begin at 50."""
    links = ChainLinks.room(6)
    exemplars = np.array([40, 10, 30, 20], np.int32)
    link_exemplars(np.array([0, 4]), exemplars, np.array([9]), np.array([50]), links)
    compared = {"1|2": 0, "1|3": 9, "2|3": 10, "1|4": 11, "2|4": 12, "3|4": 13}
    goes = {
        "1|2": ("1|3", "2|3"),
        "1|3": ("1|4", "3|4"),
        "2|3": ("2|4", "3|4"),
        "1|4": (50, 53),
        "2|4": (51, 53),
        "3|4": (52, 53),
    }
    for place, (name, (left, right)) in enumerate(goes.items()):
        first, second = (exemplars[int(own) - 1] for own in name.split("|"))
        assert links.columns[place].tolist() == [second, first]
        assert links.left[place] == compared.get(str(left), left)
        assert links.right[place] == compared.get(str(right), right)


@given(st.lists(st.integers(2, 9), min_size=1, max_size=4), st.integers(0, 2**32))
def test_chains_of_any_lengths_lead_to_the_child_of_the_nearest(sizes: list[int], seed: int) -> None:
    rng, offset = np.random.default_rng(seed), offsets(np.array(sizes))
    exemplars = np.arange(offset[-1], dtype=np.int32)
    n_nodes = [size * (size - 1) // 2 for size in sizes]
    further, first = (np.array([base * (node + 1) for node in range(len(sizes))]) for base in (1000, 100_000))
    links = ChainLinks.room(sum(n_nodes))
    link_exemplars(offset, exemplars, further, first, links)
    begin = 0
    for node, size in enumerate(sizes):
        places = {int(further[node]) + own - 1: begin + own for own in range(1, n_nodes[node])}
        for _ in range(20):
            values = rng.integers(0, size, size)
            at, n_steps = begin, 0
            while True:
                new, leader = links.columns[at] - offset[node]
                number = int((links.left if values[new] <= values[leader] else links.right)[at])
                n_steps += 1
                if number not in places:
                    break
                at = places[number]
            assert n_steps == size - 1
            assert number == first[node] + np.argmax(values)
        begin += n_nodes[node]


def table_of_chains() -> NodeTable:
    """A tree whose root is parted by three exemplars, one of whose children by two."""
    S = np.array([[3.0, 0, 0, 1], [0, 3, 0, 1], [0, 0, 3, 1], [0, 0, 2, 3]])
    case = Case(S, [(1.0, "similarity")], np.array([0, 1, 2, 0]), (1, 1, 1), np.ones(4, int), 0, {})
    case = replace(case, params={"bootstrap": False, "n_pairs": 1, "min_samples_leaf": 1})
    for seed in range(20):
        bound = replace(case, seed=seed).problem()
        table = bound.growth.grow(TREES[:1], np.ones((1, 4), np.int32))[0]
        if table.left.tolist()[:3] == [1, 3, 4]:
            break
    assert table.chain_head is not None
    assert table.chain_head.tolist()[:3] == [0, 0, 0]
    assert len(table.left) == 8
    return table


def with_entry(table: NodeTable, name: str, node: int, value: int) -> NodeTable:
    """The same table with another number at one place."""
    array = getattr(table, name).copy()
    array[node] = value
    return replace(table, **{name: array})


def test_a_table_with_broken_chains_is_refused() -> None:
    table = table_of_chains()
    table.check(4)
    assert table.chain_head is not None
    inner = int(np.flatnonzero(~table.is_leaf)[-1])
    leaf = int(np.flatnonzero(table.is_leaf)[0])
    assert inner > 2
    refused = {
        "chain_head: tree_size announces 8 nodes, found 7": replace(table, chain_head=table.chain_head[:-1]),
        r"chain_head\[1\]: a head comes before the nodes of its chain": with_entry(table, "chain_head", 1, 2),
        r"chain_head\[2\]: a head comes before the nodes of its chain": with_entry(table, "chain_head", 2, -1),
        r"chain_head\[2\]: a head belongs to no other chain": with_entry(table, "chain_head", 2, 1),
        rf"chain_head\[{leaf}\]: a leaf belongs to no chain": with_entry(table, "chain_head", leaf, 0),
        r"n_rows\[1\]: the nodes of a chain hold what its head holds": with_entry(table, "n_rows", 1, 3),
    }
    for message, broken in refused.items():
        with pytest.raises(ArtifactError, match=message):
            broken.check(4)


# --- forests ----------------------------------------------------------------------------------------------

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


def forest(similarity: Any = "precomputed", **params: Any) -> SimForestClassifier:
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


def nested_trees(grown: Forest, S: np.ndarray, y: np.ndarray) -> list[NestedNode]:
    """The trees of a forest as nested nodes."""
    rules, weights = rules_of(grown, y), grown.in_bag.astype(int)
    if grown.sample_weight is not None:
        weights = weights * grown.sample_weight
    return [nested.grow_nested(S, y, own, grown.meaning.seed, tree, rules) for tree, own in enumerate(weights)]


@pytest.mark.parametrize("missing", [0.0, 0.01])
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
    name: str, params: dict[str, Any], weighed: bool, missing: float
) -> None:
    S, y = similarities_of(name, missing), SETS[name][1]
    weights = np.random.default_rng(2).integers(0, 4, len(y)).astype(float) if weighed else None
    grown = forest(**params).fit(S, y, weights)
    trees, c = nested_trees(grown.forest_, S, y), rules_of(grown.forest_, y).class_weight
    assert_nested(grown.forest_.table, trees)
    queries = np.where(np.random.default_rng(4).random(S.shape) < missing / 2, np.nan, np.roll(S, 1, axis=1))
    np.testing.assert_allclose(grown.predict_proba(queries), nested.shares_of(trees, queries, c), rtol=1e-12)


@pytest.mark.parametrize("similarity", ["rbf", "linear", "cosine", "manhattan"])
@pytest.mark.parametrize("name", ["iris", "digits"])
def test_forests_of_built_in_similarities_answer_as_nested_nodes(name: str, similarity: str) -> None:
    X, y = SETS[name]
    train = np.arange(len(y)) % 3 > 0
    grown = forest(similarity).fit(X[train], y[train])
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
    table = forest(max_depth=1, min_samples_leaf=1).fit(S, y).forest_.table
    for tree in range(table.n_trees):
        own = table.tree(tree)
        n_leaves = int(own.is_leaf.sum())
        assert n_leaves > 5
        assert own.tree_size[0] == n_leaves * (n_leaves - 1) // 2 + n_leaves


def test_a_row_that_lacks_one_similarity_ends_at_the_head_of_the_chain() -> None:
    table = table_of_chains()
    assert table.chain_head is not None
    three = sorted({*table.columns[table.offset[0] : table.offset[3]].tolist()})
    assert len(three) == 3
    for column in range(4):
        row = np.zeros((1, 4))
        row[0, three[0]] = 1.0
        row[0, column] = np.nan
        end = route(table, ArraySource.of(row), np.zeros(1, np.int32))[0, 0]
        assert (end == 0) == (column in three)


def test_forests_of_two_classes_and_of_an_object_a_class() -> None:
    rng = np.random.default_rng(0)
    S, y = rng.normal(size=(30, 30)), rng.integers(0, 2, 30)
    two = forest(min_samples_leaf=1).fit(S, y).forest_
    assert_nested(two.table, nested_trees(two, S, y))
    head = two.table.chain_head
    assert head is not None
    assert (head == np.concatenate([np.arange(size) for size in two.table.tree_size])).all()
    alone = forest(min_samples_leaf=1, bootstrap=False).fit(np.eye(7), np.arange(7))
    assert alone.predict(np.eye(7)).tolist() == list(range(7))
    assert alone.forest_.table.tree_size.tolist() == [7 * 6 // 2 + 7] * 4
    assert_nested(alone.forest_.table, nested_trees(alone.forest_, np.eye(7), np.arange(7)))


def test_duplicates_of_different_classes_and_constant_similarities() -> None:
    """A candidate of equal objects parts nothing, as all rows go to the first of them."""
    y = np.array([0, 1, 2] * 4)
    S = np.ones((12, 12))
    with pytest.warns(UserWarning, match="no tree has a split"):
        constant = forest(min_samples_leaf=1).fit(S, y)
    assert constant.forest_.table.tree_size.tolist() == [1] * 4
    S = np.kron(np.eye(4), np.ones((3, 3)))  # objects of each class at each of four places
    placed = forest(min_samples_leaf=1).fit(S, y).forest_
    assert_nested(placed.table, nested_trees(placed, S, y))


def test_more_classes_than_a_candidate_has_exemplars() -> None:
    n_classes = nested.MOST + 4
    y = np.arange(3 * n_classes) % n_classes
    S = np.random.default_rng(0).normal(size=(len(y), len(y))).astype(np.float32)
    for pairing in ("kept", "fresh"):
        grown = forest(pairing=pairing, min_samples_leaf=1, bootstrap=False, n_estimators=2).fit(S, y).forest_
        trees = nested_trees(grown, S, y)
        assert_nested(grown.table, trees)
        assert max(len(root.exemplars) for root in trees) > nested.MOST - 4


# --- the same forest, always ------------------------------------------------------------------------------


def test_the_digest_is_that_of_any_threads_and_batches() -> None:
    S, y = similarities_of("wine", 0.01), SETS["wine"][1]
    whole = forest(n_estimators=20, oob_score=True).fit(S, y)
    threads = forest(n_estimators=20, oob_score=True, n_jobs=2).fit(S, y)
    assert (threads.digest_, threads.oob_score_) == (whole.digest_, whole.oob_score_)
    grown = forest(n_estimators=2, warm_start=True).fit(S, y)
    assert grown.set_params(n_estimators=5).fit(S, y).digest_ == forest(n_estimators=5).fit(S, y).digest_
    bound = samples.problem_of("dense", cut="exemplars", n_estimators=5)
    batches = [bound.grow(np.array(own)) for own in ([0], [1, 2, 3], [4])]
    assert bound.forest(batches).digest == samples.forest_from(bound).digest
    other = [forest(n_estimators=3, random_state=seed).fit(S, y) for seed in (0, 1)]
    merged = merge(other)
    shares = np.mean([own.predict_proba(S) for own in other], axis=0)
    np.testing.assert_allclose(merged.predict_proba(S), shares, rtol=1e-12)


def test_a_forest_is_the_same_saved_packed_lean_and_exported(tmp_path: Path) -> None:
    S, y = similarities_of("iris", 0.01), SETS["iris"][1]
    grown = forest().fit(S, y)
    lean = grown.forest_.with_lean_table()
    assert lean.digest == grown.digest_
    assert samples.bits(lean.arrays()) == samples.bits(grown.forest_.arrays())
    rows = np.arange(len(y), dtype=np.int32)
    ends = [route(own, ArraySource.of(S), rows) for own in (lean.table, grown.forest_.table)]
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


class Asked:
    """Similarities of numbered objects, which counts what it is asked for."""

    def __init__(self, S: np.ndarray) -> None:
        self.S, self.pairs = S, Counter[tuple[int, int]]()

    def __call__(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        self.pairs.update(zip(map(int, left), map(int, right), strict=True))
        return self.S[np.asarray(left), np.asarray(right)]


@FEW
@given(cases())
def test_growth_asks_for_the_similarities_of_rows_to_the_exemplars_of_their_nodes(case: Case) -> None:
    n = len(case.y)
    lower = np.tril(case.S[:, :n])
    case = replace(case, S=np.where(np.tri(n, dtype=bool), lower, lower.T), measures=[(1.0, "similarity")])
    bound, asked = case.problem(), Asked(case.S)
    lazy = Lazy(asked)
    source = LazySource(lazy, Objects.of(np.arange(n)), ValueSupplier.here(lazy))
    weights = case.weights(bound)
    assert isinstance(bound.growth, ChainGrowth)
    limits = replace(bound.growth.limits, min_samples_split=case.rules.min_samples_split)  # as over lazy similarities
    replace(bound.growth, source=source, limits=limits).grow(TREES, weights)
    expected = set()
    for tree, own in zip(TREES, weights, strict=True):
        read = nested.pairs_read(case.S, case.y, own, case.seed, int(tree), case.rules)
        expected |= {(min(pair), max(pair)) for pair in read}
    assert asked.pairs == dict.fromkeys(expected, 1)


def test_a_function_gives_the_forest_of_the_matrix_and_kept_exemplars_ask_for_fewer_pairs() -> None:
    X, y = load_wine(return_X_y=True)
    X = X / X.std(axis=0)
    S = np.exp(-((X[:, None] - X) ** 2).mean(axis=2))
    spent = {}
    for pairing in ("kept", "fresh"):
        asked = Asked(S)
        own = forest(Lazy(asked), pairing=pairing, n_estimators=3).fit(np.arange(len(y)), y)
        given_matrix = forest(pairing=pairing, n_estimators=3, min_samples_split=own.min_samples_split).fit(S, y)
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
        with pytest.raises(InputError, match="cut='exemplars' has one object of each class"):
            forest(**params).fit(S, y)
