"""Trees whose nodes are parted by exemplars, in pictures and reports: a chain is one parting."""

from __future__ import annotations

from collections import Counter

from sklearn.datasets import load_wine

from distforest import SimForestClassifier
from distforest.forest.node_table import LEAF
from distforest.forest.path_lengths import depths_of
from distforest.pictures.tree_shapes import TreeShapes
from distforest.pictures.trees import OF_CHAINS, drawn_tree

X, Y = load_wine(return_X_y=True)
FOREST = SimForestClassifier(
    "rbf", cut="exemplars", n_estimators=3, min_samples_leaf=1, max_depth=4, random_state=0
).fit((X - X.mean(axis=0)) / X.std(axis=0), Y)
TABLE = FOREST.forest_.table


def leaves_under(tree: int, node: int) -> set[int]:
    """The leaves below a node, found by walking."""
    left, right = (int(child[TABLE.tree_start[tree] + node]) for child in (TABLE.left, TABLE.right))
    return {node} if left == LEAF else leaves_under(tree, left) | leaves_under(tree, right)


def partings_above(tree: int, node: int) -> int:
    """The nodes that are parted on every way from the root to a node; chains count once."""
    start, depths = int(TABLE.tree_start[tree]), Counter[int]()
    assert TABLE.chain_head is not None
    for parent in range(int(TABLE.tree_size[tree])):
        for child in (int(TABLE.left[start + parent]), int(TABLE.right[start + parent])):
            if child != LEAF:
                stays = TABLE.chain_head[start + child] != child
                depths[child] = depths[int(TABLE.chain_head[start + parent])] + (0 if stays else 1)
    return depths[node]


def test_a_chain_is_one_level() -> None:
    depths = depths_of(TABLE)
    for tree in range(3):
        start = int(TABLE.tree_start[tree])
        found = [partings_above(tree, node) for node in range(int(TABLE.tree_size[tree]))]
        assert depths[start : start + len(found)].tolist() == found
    assert depths.max() <= 4
    assert sum(n for _, n in TreeShapes.of(FOREST.forest_).depths_told()) == int(TABLE.is_leaf.sum())


def test_a_leaf_below_several_boxes_counts_once_in_each() -> None:
    drawn = drawn_tree(FOREST, 0, 3, [])
    boxes, nodes = {}, {(0, 0): 0}
    for box in drawn.boxes:
        boxes[box.depth, box.place] = box
    for (depth, place), box in boxes.items():
        node = nodes[depth, place]
        assert box.n_leaves == len(leaves_under(0, node))
        if TABLE.left[node] != LEAF:
            nodes |= {(depth + 1, 2 * place): int(TABLE.left[node]), (depth + 1, 2 * place + 1): int(TABLE.right[node])}
    assert OF_CHAINS in drawn.lines
