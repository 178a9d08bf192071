"""A node table in a quarter of the memory, as an opened forest keeps it.

::

    inner    1 0 1 1 0 ...           a bit a node
    left     -                       the k-th inner node of a tree, from 0, has the children 2 k + 1 and 2 k + 2
    columns  3 17 5 ...              only of inner nodes, in the narrowest dtype
    weights  -                       all are 1

Every array is kept by the first of these ways that restores it bit for bit, otherwise unchanged. An array that a kernel
needs is made and kept from then on. Walks down single columns need none, as they have separate nodes (`steps`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from distforest.forest.node_table import LEAF, NodeTable
from distforest.sources.source import offsets

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

    from distforest.forest.walks import WalkSteps
    from distforest.sources.source import Ints

LEAN = ("left", "right", "threshold", "width", "columns", "weights", "gain", "n_rows")
"""Arrays that are kept in another form; all others are kept unchanged."""

SELDOM = ("gain", "n_rows")
"""Those of them that no route needs, so that they are not kept after they were made."""


@dataclass(frozen=True)
class KeptArray:
    """An array in fewer bytes.

    Attributes
    ----------
    values
        The values, or those of inner nodes, in a narrower dtype; one value if all are the same.
    dtype
        The dtype of the array.
    elsewhere
        The value of leaves if ``values`` are those of inner nodes; None if they are those of all nodes.
    """

    values: np.ndarray
    dtype: np.dtype[np.generic]
    elsewhere: float | None = None

    @classmethod
    def from_array(cls, array: np.ndarray, inner: NDArray[np.bool_] | None = None, elsewhere: float = 0.0) -> KeptArray:
        """Keep an array; if ``inner`` is given, it has one value per node, mostly ``elsewhere`` for leaves."""
        if inner is not None and are_all(array[~inner], np.array(elsewhere, array.dtype)):
            return cls(shortest(array[inner]), array.dtype, elsewhere)
        return cls(shortest(array), array.dtype)

    def array(self, n: int, inner: NDArray[np.bool_]) -> np.ndarray:
        """Restore the array of ``n`` values."""
        if self.elsewhere is None:
            return np.full(n, self.values[0], self.dtype) if len(self.values) == 1 else self.values.astype(self.dtype)
        array = np.full(n, self.elsewhere, self.dtype)
        array[inner] = self.values
        return array


def shortest(array: np.ndarray) -> np.ndarray:
    """Return the values in the narrowest dtype that restores them, and a single one if they are all the same.

    Examples
    --------
    >>> shortest(np.array([1.0, 1.0])), shortest(np.array([3, 300])).dtype, shortest(np.array([0.1, 0.5])).dtype
    (array([1.], dtype=float32), dtype('uint16'), dtype('float64'))
    """
    if len(array) and are_all(array, array[0]):
        array = array[:1].copy()
    if array.dtype.kind != "f":
        low, high = int(array.min(initial=0)), int(array.max(initial=0))
        narrow = array.astype(np.result_type(np.min_scalar_type(low), np.min_scalar_type(high)))
    else:
        with np.errstate(over="ignore"):
            narrow = array.astype(np.float32)
        if not same_bits(narrow.astype(array.dtype), array):
            return array
    return narrow if narrow.itemsize < array.itemsize else array


def are_all(array: np.ndarray, value: np.generic | np.ndarray) -> bool:
    """Return whether all values of an array have the bits of a value of the same dtype."""
    as_integers: DTypeLike = f"i{array.itemsize}"
    return bool((array.view(as_integers) == value.view(as_integers)).all())


def same_bits(one: np.ndarray, other: np.ndarray) -> bool:
    """Return whether two arrays of a dtype have the same bits: 0 and -0 differ."""
    as_integers: DTypeLike = f"i{one.itemsize}"
    return np.array_equal(one.view(as_integers), other.view(as_integers))


class LeanTable(NodeTable):
    """A node table that makes its arrays when they are needed."""

    kept: dict[str, KeptArray]
    inner_bits: NDArray[np.uint8]
    n_nodes: int

    def __init__(self, **arrays: np.ndarray | None) -> None:  # the parameters are those of `NodeTable`
        wide = NodeTable(**arrays)  # type: ignore[arg-type]
        inner = ~wide.is_leaf
        self.__dict__.update({name: array for name, array in arrays.items() if name not in LEAN})
        self.__dict__.update(inner_bits=np.packbits(inner), n_nodes=len(inner))
        of_nodes = dict.fromkeys(("threshold", "width", "gain"), (inner, 0.0))
        of_nodes |= dict.fromkeys(("left", "right"), (inner, float(LEAF)))
        left, right = children_by_levels(wide.tree_size, inner)
        are_by_levels = np.array_equal(left, wide.left) and np.array_equal(right, wide.right)
        names = [name for name in LEAN if not (are_by_levels and name in ("left", "right"))]
        self.__dict__["kept"] = {
            name: KeptArray.from_array(getattr(wide, name), *of_nodes.get(name, ())) for name in names
        }

    def __getattr__(self, name: str) -> np.ndarray:
        """Make an array of `LEAN` that does not exist yet."""
        if name not in LEAN or "kept" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        array = self._made(name)
        if name not in SELDOM:
            self.__dict__[name] = array
        return array

    def _made(self, name: str) -> np.ndarray:
        if name not in self.kept:
            left, right = children_by_levels(self.tree_size, ~self.is_leaf)
            return left if name == "left" else right
        n = self.n_nodes if name not in ("columns", "weights") else self._n_entries
        return self.kept[name].array(n, ~self.is_leaf)

    @cached_property
    def _n_entries(self) -> int:
        """Number of entries of all projections."""
        return int(self.kept["width"].array(self.n_nodes, ~self.is_leaf).sum(dtype=np.int64))

    @cached_property
    def is_leaf(self) -> NDArray[np.bool_]:
        """Whether each node is a leaf, shape (N,)."""
        return ~np.unpackbits(self.inner_bits, count=self.n_nodes).astype(np.bool_)

    @cached_property
    def steps(self) -> WalkSteps | None:
        """The trees for rows without missing values, as for any table; the arrays that they need are not kept."""
        return self.wide().steps

    @cached_property
    def steps_of_twice(self) -> WalkSteps | None:
        """The trees for rows whose values are there twice, as for any table."""
        return self.wide().steps_of_twice

    @cached_property
    def offset(self) -> Ints:
        """Start of each node's projection in ``columns`` and ``weights``, shape (N + 1,)."""
        return offsets(self.__dict__["width"] if "width" in self.__dict__ else self._made("width"))

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the table's arrays by name; those that are made for it are not kept."""
        arrays = {name: self.__dict__.get(name) for name in NodeTable.__dataclass_fields__}
        return {
            name: self._made(name) if array is None else array
            for name, array in arrays.items()
            if array is not None or name in LEAN
        }

    def wide(self) -> NodeTable:
        """Return the table with all of its arrays."""
        return NodeTable(**self.arrays())

    def sending_on(self) -> NodeTable:
        """Return the table that sends on a row with a missing value, as for any table; it shares the kept arrays."""
        if self.missing_right is not None:
            return self
        twin = object.__new__(LeanTable)
        some = ("surrogate", "category_size", "category_codes", "chain_head")
        shared = ("tree_size", *some, "inner_bits", "n_nodes", "kept")
        twin.__dict__.update({name: self.__dict__[name] for name in shared if name in self.__dict__})
        twin.__dict__["missing_right"] = self.wide().sending_on().missing_right
        return twin

    @property
    def n_bytes(self) -> int:
        """Bytes of the kept arrays, including those that were made since."""
        arrays = [array for array in self.__dict__.values() if isinstance(array, np.ndarray)]
        return sum(array.nbytes for array in arrays) + sum(own.values.nbytes for own in self.kept.values())


def children_by_levels(tree_size: Ints, inner: NDArray[np.bool_]) -> tuple[np.ndarray, np.ndarray]:
    """Return the children of all nodes: 2 k + 1 and 2 k + 2 for the k-th inner node of each tree, `LEAF` for leaves."""
    start = offsets(tree_size)[:-1]
    before: Ints = np.cumsum(inner) - inner  # inner nodes of the whole table before each node
    k: Ints = before - np.repeat(before[start], tree_size)
    left = np.where(inner, 2 * k + 1, LEAF).astype(np.int32)
    return left, np.where(inner, left + 1, LEAF).astype(np.int32)
