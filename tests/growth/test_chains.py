"""Trees whose nodes are parted by exemplars are those of nested nodes, node by node and row by row."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distforest import Lazy
from distforest.errors import ArtifactError
from distforest.forest.node_table import NodeTable, route
from distforest.growth import grower
from distforest.growth.chains import ChainGrowth, ChainLinks, link_exemplars
from distforest.growth.cuts.criteria import Gini
from distforest.growth.methods import METHODS, problem
from distforest.growth.parameters import complete
from distforest.growth.problem import Data, Problem
from distforest.sources.arrays import ArraySource
from distforest.sources.lazy.lazy_source import LazySource, Objects, ValueSupplier
from distforest.sources.row_kinds import Dense, Several
from distforest.sources.source import offsets
from distforest.sources.truth import Truth, TruthKind
from tests import samples
from tests.messages import naming
from tests.reference import naive_exemplars as nested
from tests.reference.naive_exemplars import NestedNode
from tests.reference.naive_landmarks import drawn
from tests.reference.naive_simforest import Rules, with_means
from tests.tries import tries

if TYPE_CHECKING:
    from collections.abc import Sequence

pytestmark = pytest.mark.kernels

FREE = settings(max_examples=tries(120))
FEW = settings(max_examples=tries(30))
TREES = np.array([1, 6])


def room_for(n_nodes: int) -> ChainLinks:
    """Room for the nodes of chains."""
    left, right = np.empty((2, n_nodes), np.int32)
    return ChainLinks(left, right, np.empty((n_nodes, 2), np.int32))


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
        data = Data(rows, self.S, Truth(TruthKind.LABELS, self.y.astype(np.int32), names))
        told = {"n_estimators": 2, "bootstrap": True, "cut": "exemplars", **self.params}
        bound = problem(METHODS["simforest"], data, complete(METHODS["simforest"].parameters, told), self.seed)
        assert isinstance(bound, Problem)
        criterion = Gini(data.truth.values, len(names), class_weights=np.array(self.class_weights, np.int64))
        return replace(bound, growth=replace(bound.growth, criterion=criterion))

    def weights(self, bound: Problem) -> np.ndarray:
        """In-bag weight of each row in each tree."""
        found = bound.sampling.weights(self.seed, TREES) * self.row_weights
        return found.astype(np.int32)

    @property
    def read(self) -> np.ndarray:
        """The similarities as splits read them."""
        return with_means(self.S, len(self.y)) if self.params.get("on_missing") == "mean" else self.S

    def roots(self, weights: np.ndarray) -> list[NestedNode]:
        """The trees as nested nodes."""
        return [
            nested.grow_nested(self.read, self.y, own, self.seed, int(tree), self.rules)
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
        "on_missing": draw(st.sampled_from(["stop", "mean"])),
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


@pytest.mark.slow
@FREE
@given(cases())
def test_trees_are_those_of_nested_nodes(case: Case) -> None:
    bound = case.problem()
    weights = case.weights(bound)
    table, leaves = bound.growth.grow(TREES, weights)
    roots = case.roots(weights)
    assert_nested(table, roots)
    for tree, root in enumerate(roots):
        expected = [nested.end_of(root, row).own if w else -1 for row, w in zip(case.read, weights[tree], strict=True)]
        assert leaves[tree][weights[tree] > 0].tolist() == [own for own in expected if own >= 0]


@pytest.mark.slow
@FREE
@given(cases(), st.integers(0, 2**32), st.sampled_from([0.0, 0.05, 0.3]))
def test_new_rows_go_to_the_nearest_exemplar_all_the_way(case: Case, seed: int, missing: float) -> None:
    bound, rng = case.problem(), np.random.default_rng(seed)
    weights = case.weights(bound)
    table, _ = bound.growth.grow(TREES, weights)
    queries = rng.integers(-2, 3, (12, case.S.shape[1])) / 2.0  # many are equally near
    queries[rng.random(queries.shape) < missing] = np.nan
    found = route(table, ArraySource.from_values(queries), np.arange(len(queries), dtype=np.int32))
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


@pytest.mark.parametrize("seed", range(4 if numba.config.DISABLE_JIT else 40))
def test_of_candidates_that_part_alike_the_first_is_chosen(seed: int) -> None:
    """Groups of equal objects, so that candidates have the same sides in other orders: gains differ by rounding."""
    rng = np.random.default_rng(seed)
    group = np.repeat([0, 1, 2], [7, 10, 19])
    y = np.where(rng.random(36) < 0.3, rng.integers(0, 3, 36), group)
    S = (group[:, None] == group).astype(np.float32)
    params = {"n_pairs": 8, "n_landmarks": None, "min_samples_leaf": 1, "min_samples_split": 2, "max_depth": None}
    params |= {"pairing": ["kept", "fresh"][seed % 2], "bootstrap": True}
    case = Case(S, [(1.0, "similarity")], y, (1, 3, 7), np.ones(36, int), seed, params)
    bound = case.problem()
    weights = case.weights(bound)
    assert_nested(bound.growth.grow(TREES, weights)[0], case.roots(weights))


@pytest.mark.parametrize("seed", range(8))
def test_of_candidates_that_gain_nothing_the_first_is_chosen(seed: int) -> None:
    """Both groups of equal objects have as many of each class, so that the root's cuts gain 0."""
    group, y = np.repeat([0, 1], 12), np.tile([0, 1, 2], 8)
    S = (group[:, None] == group).astype(np.float32)
    params = {"n_pairs": 4, "n_landmarks": None, "min_samples_leaf": 1, "min_samples_split": 2, "max_depth": None}
    params |= {"pairing": ["kept", "fresh"][seed % 2], "bootstrap": False}
    case = Case(S, [(1.0, "similarity")], y, (1, 1, 1), np.ones(24, int), seed, params)
    bound = case.problem()
    weights = case.weights(bound)
    roots = case.roots(weights)
    assert [(root.gain, len(root.children)) for root in roots] == [(0.0, 2)] * 2
    assert_nested(bound.growth.grow(TREES, weights)[0], roots)


# --- chains -----------------------------------------------------------------------------------------------


def test_a_chain_is_the_one_of_the_picture() -> None:
    """Node 7 has exemplars 40, 10, 30 and 20, its chain goes on at 9, and its children begin at 50."""
    links = room_for(6)
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
    links = room_for(sum(n_nodes))
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
        ("chain_head:", "tree_size", 8, 7): replace(table, chain_head=table.chain_head[:-1]),
        ("chain_head[1]:", "before"): with_entry(table, "chain_head", 1, 2),
        ("chain_head[2]:", "before"): with_entry(table, "chain_head", 2, -1),
        ("chain_head[2]:", "other"): with_entry(table, "chain_head", 2, 1),
        (f"chain_head[{leaf}]:", "leaf"): with_entry(table, "chain_head", leaf, 0),
        ("n_rows[1]:",): with_entry(table, "n_rows", 1, 3),
        ("left[1]:",): with_entry(table, "left", 1, 7),
        ("left[5]:",): with_entry(table, "right", 2, 6),
        ("right[0]:",): with_entry(table, "right", 0, 7),
        ("chain_head[2]:", "below"): with_entry(table, "right", 0, 1),
    }
    for named, broken in refused.items():
        with pytest.raises(ArtifactError, match=naming(*named)):
            broken.check(4)


def test_a_row_that_lacks_one_similarity_ends_at_the_head_of_the_chain() -> None:
    table = table_of_chains()
    assert table.chain_head is not None
    three = sorted({*table.columns[table.offset[0] : table.offset[3]].tolist()})
    assert len(three) == 3
    for column in range(4):
        row = np.zeros((1, 4))
        row[0, three[0]] = 1.0
        row[0, column] = np.nan
        end = route(table, ArraySource.from_values(row), np.zeros(1, np.int32))[0, 0]
        assert (end == 0) == (column in three)


# --- what is asked for ----------------------------------------------------------------------------------------


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
    source = LazySource(lazy, Objects.from_columns(np.arange(n)), ValueSupplier.here(lazy))
    weights = case.weights(bound)
    assert isinstance(bound.growth, ChainGrowth)
    limits = replace(bound.growth.limits, min_samples_split=case.rules.min_samples_split)  # as over lazy similarities
    replace(bound.growth, source=source, limits=limits).grow(TREES, weights)
    expected = set()
    for tree, own in zip(TREES, weights, strict=True):
        read = nested.pairs_read(case.S, case.y, own, case.seed, int(tree), case.rules)
        expected |= {(min(pair), max(pair)) for pair in read}
    assert asked.pairs == dict.fromkeys(expected, 1)
