"""Distances that follow from labels, targets, embeddings or links, which SMERF can learn instead of a matrix."""

from __future__ import annotations

import datetime
from collections.abc import Sequence, Sized
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from distforest.errors import InputError
from distforest.sources.given import check_dense, in_memory, is_sparse, is_stored, unmasked
from distforest.sources.opening import opened_array, opened_rows
from distforest.sources.source import Floats, Int32s
from distforest.sources.sparse import canonical_csr

if TYPE_CHECKING:
    import scipy.sparse

DATES = "mM"
"""Kinds of dtypes that are durations and dates."""

ClassName = bool | int | float | str
"""The type of a label."""

RowIndex = SupportsIndex | slice | Sequence[int] | Sequence[bool] | NDArray[np.integer] | NDArray[np.bool_]
"""A selection of rows, as NumPy takes it."""


@dataclass(frozen=True, eq=False)
class Labels:
    """Distance 1 between different labels, 0 between equal labels (SMERF, Proposition 1).

    ``values`` has shape (n,): array-like, Zarr array, or the address of one. ``names`` are those of the classes where
    the labels are their numbers, from 0 on; by default those in the attribute ``classes`` of a Zarr array.

    Examples
    --------
    >>> Labels(["cat", "dog", "cat"]).matrix()
    array([[0., 1., 0.],
           [1., 0., 1.],
           [0., 1., 0.]])
    """

    values: object
    names: Sequence[ClassName] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        opened = opened_array(self.values)
        if self.names is None:
            object.__setattr__(self, "names", names_of_classes(opened))
        object.__setattr__(self, "values", _loaded(opened))

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the distance matrix."""
        return (len(self),) * 2

    def __len__(self) -> int:
        return _n_rows(self.values)

    def __getitem__(self, rows: RowIndex) -> Labels:
        return Labels(_selected(self.values, rows), self.names)

    def matrix(self) -> Floats:
        """The distances, shape (n, n)."""
        codes, _ = encoded(self.values)
        return (codes[:, None] != codes).astype(np.float64)


@dataclass(frozen=True, eq=False)
class Targets:
    """Distance (y - y')^2 / 2 between two targets (SMERF, Proposition 2).

    ``values`` has shape (n,): array-like, Zarr array, or the address of one.

    Dates (datetime64) are read as numbers of their unit since 1970, and durations (timedelta64) as numbers of their
    unit: datetime64[D] as days, and datetime64[ns], which pandas may make, as nanoseconds, which float64 holds to about
    256. Predictions are in that unit, and distances in its square.

    Examples
    --------
    >>> Targets([1.0, 3.0]).matrix()
    array([[0., 2.],
           [2., 0.]])
    >>> Targets(np.array(["2024-03-01", "2024-03-05"], "datetime64[D]")).matrix()
    array([[0., 8.],
           [8., 0.]])
    """

    values: object

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", _loaded(self.values))

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the distance matrix."""
        return (len(self),) * 2

    def __len__(self) -> int:
        return _n_rows(self.values)

    def __getitem__(self, rows: RowIndex) -> Targets:
        return Targets(_selected(self.values, rows))

    def matrix(self) -> Floats:
        """The distances, shape (n, n)."""
        vectors = finite_vectors(self.values, "targets")[:, 0]
        return (vectors[:, None] - vectors) ** 2 / 2.0


@dataclass(frozen=True, eq=False)
class Embedding:
    """Squared Euclidean distance between two points of an embedding.

    ``values`` has shape (n, q): array-like, Zarr array, or the address of one.

    Examples
    --------
    >>> Embedding([[0.0, 0.0], [3.0, 4.0]]).matrix()
    array([[ 0., 25.],
           [25.,  0.]])
    """

    values: object

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", _loaded(self.values))

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the distance matrix."""
        return (len(self),) * 2

    def __len__(self) -> int:
        return _n_rows(self.values)

    def __getitem__(self, rows: RowIndex) -> Embedding:
        return Embedding(_selected(self.values, rows))

    def matrix(self) -> Floats:
        """The distances, shape (n, n)."""
        vectors = finite_vectors(self.values, "embedding")
        total = np.zeros(self.shape)
        for dimension in vectors.T:  # differences first: squares of far points would cancel
            total += (dimension[:, None] - dimension) ** 2
        return total


@dataclass(frozen=True, eq=False)
class Distances:
    """Given distances of pairs of rows, shape (n, n): array-like, Zarr array, or the address of one.

    NaN is a distance that nobody observed, and on the diagonal 0. Where only one of z_ij and z_ji is observed, it
    counts for both.

    `SMERF` reads a plain matrix in the same way. But selecting rows here also selects the columns with the same
    numbers, so that cross-validation works: it gets the distances among training rows, and those among test rows.

    Raises
    ------
    InputError
        On a selection of rows: the matrix is not square, or not dense.

    Examples
    --------
    >>> import numpy as np
    >>> Z = Distances(np.arange(9.0).reshape(3, 3))
    >>> Z[[0, 2]].values
    array([[0., 2.],
           [6., 8.]])
    """

    values: object

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the distance matrix."""
        return (len(self),) * 2

    def __len__(self) -> int:
        return _square(self.values)[1]

    def __getitem__(self, rows: RowIndex) -> Distances:
        return Distances(_selected_square(self.values, rows))


@dataclass(frozen=True, eq=False)
class ObservedDistances:
    """Distances of those pairs of rows that were observed: the stored entries of a sparse matrix, zeros too.

    ``values`` has shape (n, n): a sparse matrix or array of SciPy, or the address of one in Zarr.

    An entry that is not stored is unobserved; that tells it from a `Graph`, in which two items without a link are far.
    A pair may be stored in one direction or in both, whose mean is used; on the diagonal, what is not stored is 0. It
    is read into a dense matrix, so n rows take 4 n^2 bytes. Selecting rows also selects the columns with the same
    numbers.

    Raises
    ------
    InputError
        The matrix is dense (give `Distances`, with NaN for what is unobserved), or not square.

    Warns
    -----
    UserWarning
        A pair is stored twice, and SciPy adds the two up.

    Examples
    --------
    >>> import scipy.sparse
    >>> judged = scipy.sparse.coo_array(([2.0, 5.0], ([0, 2], [1, 1])), (3, 3))
    >>> ObservedDistances(judged).matrix()
    array([[ 0.,  2., nan],
           [nan,  0., nan],
           [nan,  5.,  0.]])
    """

    values: object

    def __post_init__(self) -> None:
        opened = opened_rows(self.values)
        if not is_sparse(opened):
            cure = "give a dense one as Distances, with NaN for what is unobserved"
            raise InputError(f"observed distances: a sparse matrix was expected, found {type(opened).__name__}; {cure}")
        shape = tuple(getattr(opened, "shape", ()))
        if len(shape) != 2 or shape[0] != shape[1]:
            raise InputError(f"observed distances: a square matrix was expected, found shape {shape}")
        object.__setattr__(self, "values", canonical_csr(opened))

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the distance matrix."""
        return (len(self),) * 2

    def __len__(self) -> int:
        return int(self._stored.shape[0])

    def __getitem__(self, rows: RowIndex) -> ObservedDistances:
        numbers = np.arange(len(self))[rows].reshape(-1)
        return ObservedDistances(self._stored[numbers][:, numbers])

    @property
    def _stored(self) -> scipy.sparse.csr_array:
        return self.values  # from `canonical_csr`

    def matrix(self) -> np.ndarray:
        """The distances in the dtype in which they are stored, NaN where nobody observed them, shape (n, n)."""
        stored = self._stored
        matrix = np.full(stored.shape, np.nan, np.result_type(stored.dtype, np.float32))
        np.fill_diagonal(matrix, 0.0)
        matrix[np.repeat(np.arange(len(self)), np.diff(stored.indptr)), stored.indices] = stored.data
        return matrix


@dataclass(frozen=True, eq=False)
class Graph:
    """Distance 1 - a_ij from a dense adjacency matrix with entries in [0, 1]: an absent edge is distance 1.

    NaN is a pair of which nobody knows whether it is linked, and on the diagonal no loop.

    ``adjacency`` has shape (n, n): array-like, Zarr array, or the address of one.

    The diagonal is read as it is, so that a node without a loop has distance 1 to itself, as in the SMERF paper.
    Selecting rows also selects the columns with the same numbers: the links among some of the items.

    Examples
    --------
    >>> Graph([[0, 1, 0], [1, 0, 1], [0, 1, 0]])[1:].adjacency
    array([[0, 1],
           [1, 0]])
    """

    adjacency: object

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the distance matrix."""
        return (len(self),) * 2

    def __len__(self) -> int:
        return _square(self.adjacency)[1]

    def __getitem__(self, rows: RowIndex) -> Graph:
        return Graph(_selected_square(self.adjacency, rows))


def _square(given: object) -> tuple[object, int]:
    """Open a dense matrix, and count its rows; raises InputError if it is not square."""
    check_dense(given)
    opened = opened_array(given)
    matrix = opened if hasattr(opened, "shape") else np.asarray(opened)
    shape = tuple(matrix.shape)
    if len(shape) != 2 or shape[0] != shape[1]:
        raise InputError(f"a square matrix was expected, found shape {shape}")
    return matrix, shape[0]


def _selected_square(given: object, rows: RowIndex) -> np.ndarray:
    """Select rows of a square matrix, and the columns with the same numbers."""
    values = in_memory(_square(given)[0])
    numbers = np.arange(len(values))[rows].reshape(-1)
    return values[np.ix_(numbers, numbers)]


def _loaded(values: object) -> object:
    """Read an array on disk into memory, since rows may be selected from it; anything else stays as it is."""
    opened = opened_array(values)
    return in_memory(opened) if is_stored(opened) else opened


def _n_rows(values: object) -> int:
    if not isinstance(values, Sized):
        raise TypeError(f"a value for each row was expected, found {values!r} of type {type(values).__name__}")
    return len(values)


def _selected(values: object, rows: RowIndex) -> np.ndarray:
    return np.asarray(unmasked(values))[rows]


def names_of_classes(labels: object) -> list[ClassName] | None:
    """The names of the classes in the attributes of an array of labels on disk; None if there are none."""
    names = getattr(labels, "attrs", {}).get("classes")
    return names if isinstance(names, list) else None


def named_classes(classes: list[ClassName], names: Sequence[ClassName] | None) -> list[ClassName]:
    """Classes by their ``names`` where all classes are numbers of names; otherwise as they are.

    Examples
    --------
    >>> named_classes([0, 2], ["red", "green", "blue"]), named_classes([1, 3], ["red", "green", "blue"])
    (['red', 'blue'], [1, 3])
    """
    if names is None:
        return classes
    numbers = [int(c) for c in classes if isinstance(c, (int, float)) and 0 <= c < len(names) and c == int(c)]
    return [names[number] for number in numbers] if len(numbers) == len(classes) else classes


def encoded(values: object) -> tuple[Int32s, list[ClassName]]:
    """Encode labels of any type as codes 0, 1, ...; returns the codes and the sorted classes; raises InputError.

    Examples
    --------
    >>> encoded(["b", "a", "b"])
    (array([1, 0, 1], dtype=int32), ['a', 'b'])
    """
    array = np.asarray(unmasked(values))
    if array.ndim != 1:
        cure = "; give numpy.ravel(y)" if array.ndim == 2 and 1 in array.shape else ""
        raise InputError(f"labels must be 1-D, one for each row, found shape {array.shape}{cure}")
    _check_stray_labels(array)
    try:
        classes, codes = np.unique(array, return_inverse=True)
    except TypeError as error:
        raise InputError(f"labels must be all of one type that can be sorted: {error}") from error
    names = classes.tolist()
    for code, name in enumerate(names):
        if not isinstance(name, (bool, int, float, str)):
            found = f"found {name!r} in row {int(np.argmax(codes == code))}"
            raise InputError(f"labels must be numbers, booleans or strings, {found}; convert them")
    return codes.astype(np.int32), names


def _check_stray_labels(array: np.ndarray) -> None:
    """Refuse missing labels, and dates, which NumPy converts to whole numbers in some units only; raises InputError."""
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        row = int(np.argmin(np.isfinite(array)))
        raise InputError(f"labels contain NaN or infinity, the first in row {row}; remove those rows")
    if array.dtype.kind in DATES:
        cure = "give Labels(y.astype(str)) if each of them is a class"
        raise InputError(f"labels must be numbers, booleans or strings, found {array.dtype}; {cure}")
    missing = rows_without(array) if array.dtype.kind == "O" else []
    if missing:
        found = f"labels contain {len(missing)} missing values, the first in row {missing[0]}"
        raise InputError(f"{found} ({array[missing[0]]!r}); remove those rows")


def rows_without(array: np.ndarray) -> list[int]:
    """The rows of a vector of objects without a value: with None, NaN, or a missing value of pandas.

    Examples
    --------
    >>> rows_without(np.array(["a", None, float("nan")], object))
    [1, 2]
    """
    return [row for row, one in enumerate(array) if _is_missing(one)]


def _is_missing(one: object) -> bool:
    try:
        return one is None or bool(one != one)  # as NaN is, and NaT
    except TypeError:  # NA of pandas has no truth value
        return True
    except ValueError:  # an array has no truth value
        return False


def is_date(one: object) -> bool:
    """Whether an object is a date or a duration of Python, or of pandas, whose types derive from these."""
    return isinstance(one, (datetime.date, datetime.timedelta))


def _is_complex(array: np.ndarray) -> bool:
    if array.dtype.kind == "O":
        return any(isinstance(one, (complex, np.complexfloating)) for one in array.flat)
    return array.dtype.kind == "c"


def finite_vectors(values: object, name: str) -> Floats:
    """Convert targets or embeddings to float64, shape (n, q), dates in their unit; raises InputError with the row."""
    values = unmasked(values)
    try:
        raw = np.asarray(values)
    except (TypeError, ValueError) as error:  # rows of different lengths
        raise InputError(f"{name} must be numbers: {error}") from error
    array = _floats(raw, name)
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2:
        raise InputError(f"{name} must have one row for each row of the features, found shape {array.shape}")
    if name == "targets" and array.shape[1] != 1:
        raise InputError(f"targets must be one number a row, found shape {array.shape}; several are an embedding")
    bad = ~np.isfinite(array)
    if bad.any():
        row, kind = int(np.argwhere(bad)[0, 0]), "NaN or infinite values" if raw.dtype.kind not in DATES else "NaT"
        raise InputError(f"{name} contain {int(bad.sum())} {kind}, the first in row {row}; remove those rows")
    return array


def _floats(raw: np.ndarray, name: str) -> Floats:
    """Convert an array of any shape to float64, NaT to NaN; raises InputError if a value is not a number."""
    if _is_complex(raw):  # NumPy would drop the imaginary parts
        raise InputError(f"{name} must be numbers, found dtype {raw.dtype} with complex ones; give real numbers")
    if raw.dtype.kind in DATES:
        return np.where(np.isnat(raw), np.nan, raw.astype(np.int64).astype(np.float64))
    try:
        with np.errstate(over="ignore"):  # a value beyond float64 becomes infinite, and is refused later
            array: Floats = raw.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{name} must be numbers: {error}{_first_strange(raw)}") from error
    return array


def _first_strange(raw: np.ndarray) -> str:
    """The end of a message: the row of the first value that is not a number, and the remedy if it is a date."""
    for row, values in enumerate(raw.reshape(len(raw), -1) if raw.ndim else []):
        for value in values:
            try:
                float(value)
            except (TypeError, ValueError, OverflowError):
                cure = "; write dates as numpy.array(y, 'datetime64[s]')" if is_date(value) else ""
                return f", the first in row {row}{cure}"
    return ""
