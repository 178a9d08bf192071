"""Files into Zarr: arrays, or a table of any form, become one group of arrays, as a whole or not at all."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING

from distforest.arguments import whole
from distforest.errors import InputError, warn_caller
from distforest.sources.arrays import CHUNK_BYTES, write_array
from distforest.sources.files.bounds import check_unfolded, out_of_memory
from distforest.sources.files.formats import TABLES, format_of
from distforest.sources.files.libsvm import LibsvmTable
from distforest.sources.files.npz import arrays_of_npy, arrays_of_npz
from distforest.sources.files.pair_tables import matrix_of_measured, pairs_of_rows_at
from distforest.sources.files.planned import PlannedArray, features_array, held_array, labels_array
from distforest.sources.files.roles import RoleOptions, Roles
from distforest.sources.files.table_arrays import arrays_of_table, numbers_in
from distforest.sources.files.tables import open_table
from distforest.sources.files.text_options import TextOptions
from distforest.sources.sparse_store import csr_arrays
from distforest.stores.groups import check_target, destination, seal_group

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zarr.core.common import JSON

    from distforest.sources.files.survey import ColumnSummary

INGEST_OPTIONS = {
    "name": ("the one array of an .npy file", ("npy",)),
    "n_features": ("the rows of a libsvm file", ("libsvm",)),
    "zero_based": ("the indices of a libsvm file", ("libsvm",)),
    **dict.fromkeys((own.name for own in fields(RoleOptions)), ("a column of a csv, Parquet or Arrow file", TABLES)),
    **dict.fromkeys((own.name for own in fields(TextOptions)), ("the cells of a csv file", ("csv",))),
    "header": ("the first row of a csv file", ("csv",)),
    "skip_rows": ("the lines above the table in a csv file", ("csv",)),
}
"""The purpose of each option, and the formats that have it."""


@dataclass(frozen=True)
class Ingested:
    """A written array: its name, shape, dtype, sha256 of its values in row order, attributes, what its columns hold."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    sha256: str
    attributes: Mapping[str, JSON] = field(default_factory=dict, compare=False)
    columns: tuple[ColumnSummary, ...] = field(default=(), compare=False)


@dataclass(frozen=True)
class _Options:
    """Options of `ingest` that some formats have; None: not given."""

    name: str | None
    n_features: int | None
    zero_based: bool | None
    roles: RoleOptions
    text: TextOptions

    def check(self, source: str, kind: str) -> None:
        """Refuse an option that a file's format does not have; raises InputError."""
        own = {"name": self.name, "n_features": self.n_features, "zero_based": self.zero_based}
        given = {name: value for name, value in own.items() if value is not None}
        for option, value in {**given, **self.roles.given(), **self.text.given()}.items():
            thing, kinds = INGEST_OPTIONS[option]
            if kind not in kinds:
                raise InputError(f"`{option}` is for {thing}, found {value!r} for the {kind} file {source}")


def ingest(
    source: str,
    group: str,
    *,
    columns: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    categorical: Sequence[str] = (),
    label: str | None = None,
    target: str | None = None,
    weight: str | None = None,
    id: str | None = None,  # noqa: A002 - the usual word
    pairs: Sequence[str] = (),
    rows: str | None = None,
    value: str | None = None,
    object: str | None = None,  # noqa: A002 - the usual word
    schema: str | None = None,
    header: bool | None = None,
    separator: str | None = None,
    quote: str | None = None,
    encoding: str | None = None,
    decimal: str | None = None,
    date_format: str | Sequence[str] | None = None,
    missing: Sequence[str] | None = None,
    skip_rows: int | None = None,
    n_features: int | None = None,
    zero_based: bool | None = None,
    name: str | None = None,
    format: str | None = None,  # noqa: A002 - the usual word
    max_bytes: int | None = None,
    overwrite: bool = False,
    dry_run: bool = False,
    chunk_bytes: int = CHUNK_BYTES,
) -> dict[str, Ingested]:
    r"""Turn a file into a Zarr group with one array for each of its arrays.

    Features become ``X``, float32; NaN is a missing value. Labels become ``y``: integers stay integers, numbers
    become float64, strings become their positions in the attribute ``classes`` of ``y``. The other arrays of an .npz
    file keep their names and dtypes and may hold NaN; a vector of strings, one for each row, becomes labels as those
    of ``y`` do. Its other strings become attributes, ``feature_names`` of ``X``, ``classes`` of ``y``, the others of
    the group.
    Nothing is ever unpickled.

    A table (csv, Parquet, Arrow) is read in two steps: what each column holds is found first, then its values become
    numbers. Numbers are themselves; words become the positions of their categories in the alphabet; true and false
    become 1 and 0; dates in ISO 8601 are counted from the first day, in days or, if they have times, in seconds; NaN
    is a missing value. The attributes ``feature_names``, ``feature_dtypes`` and ``feature_encodings`` of ``X`` say all
    that (`distforest.sources.schema`), and a forest that learns from ``X`` keeps it. A column that holds numbers and
    words, or dates of two forms, is refused with the line of the first value that does not fit.

    An .npz file of `scipy.sparse.save_npz` becomes ``data``, ``indices`` and ``indptr``. The group's attribute
    ``sparse`` says that they are a sparse matrix, and the group's address stands for it.

    The file is read in blocks of rows, more than once: faults are found before anything is written. The arrays of an
    .npz file are read into memory. What a file unfolds to is compared with ``max_bytes``.

    The keyword arguments are the options of the command ``distforest ingest``, which is why there are so many.

    Parameters
    ----------
    source
        Path of the file, or of a folder of Parquet or Arrow files with the same columns.
    group
        Path or fsspec URL of the Zarr group. A path appears when everything is written, and not at all after
        an error; until then the group is in the folder ``<group>.job``, which stays only if the process is killed.
        At a URL, where nothing can be renamed, a new group is written in place, and its attribute ``distforest`` says
        until the end that it is unfinished.
    columns
        Names of the columns of a table that are features, in this order; None: all that have no other role. A string
        may hold several names, separated by commas. A table with labels or targets may have none, and no ``X``.
    drop
        Names of columns that are left out.
    categorical
        Names of features that are categories, even if they look like numbers, such as codes.
    label
        Column that holds the labels, ``y``; the columns of a csv file without a header row are called ``"0"``, ``"1"``.
    target
        Column that holds numbers to predict, ``y``, whose attribute ``kind`` is then ``"targets"``.
    weight
        Column that holds the weights of the rows, ``weights``, float64.
    id
        Column that names the rows, ``ids``, beside ``X`` and in its order.
    pairs
        Two columns that say of which rows a pair is, ``pairs``, int64 of shape (n, 2): by the numbers of these rows,
        from 0, or by their names. Labels, targets and weights are then those of pairs; other columns are left out
        unless ``columns`` names them, and a warning lists them unless ``drop`` does.
    rows
        The group of the rows of which ``pairs`` are, or its ``X`` or ``y``: their names, if they have any, else their
        number. None: numbers, however large.
    value
        Column of what was measured of each of ``pairs``, a distance or a similarity. The group then is a sparse matrix
        with a row and a column for each of ``rows``, as of a file of `scipy.sparse.save_npz`: a pair counts in both
        directions, the mean of its rows is taken, and a pair that the table lacks was not measured.
    object
        Column of texts, ``objects``, of which a function tells the similarity: `objects` of a spec, or the queries and
        the training objects of a forest that asks a function.
    schema
        Path of a TOML file with the names of the features, in their order, and the kind of each, as
        ``distforest ingest --dry-run`` prints it: a value of another kind is refused. It stands in place of ``columns``
        and ``categorical``. None: a column is of the kind that all its values have.
    header
        Whether the first row of a csv file names its columns; None: it does.
    separator
        The character that separates the cells of a csv file, ``"tab"`` for the tab; None: a comma, in a file ``.tsv``
        the tab.
    quote
        The character that may enclose cells, ``"none"`` for none; None: the double quote.
    encoding
        Encoding of a csv file, such as ``"cp1252"``; None: UTF-8.
    decimal
        The decimal point of a csv file; None: a point.
    date_format
        How dates in a column of a csv file are written, as for `datetime.datetime.strptime`: ``"seen=%m/%d/%Y"`` says
        it of the column ``seen``, which then holds dates and nothing else, also if they are digits, as by
        ``"seen=%Y%m%d"``. A sequence gives several. Dates of all other columns are in ISO 8601.
    missing
        Words of a csv file for a missing value, instead of `pyarrow.csv.ConvertOptions.null_values`; an empty cell
        always is one.
    skip_rows
        How many lines stand above the table in a csv file, such as a title; they are not read. None: 0.
    n_features
        Number of features of a libsvm file; None: as its highest index says. A file of queries may lack the last
        features of the training file.
    zero_based
        Whether the indices of a libsvm file count from 0. None: they do if one of them is 0, which gives a warning.
    format
        ``"npy"``, ``"npz"``, ``"csv"``, ``"parquet"``, ``"arrow"`` or ``"libsvm"``; None: by the file's suffix.
    max_bytes
        The most bytes that the file may unfold to: the arrays of an .npy or .npz file, the rows of a Parquet or Arrow
        file as float64 and those of a libsvm file as float32, which are stored densely; a csv file is as large as
        its text. None: 1 GiB, or 200 times the file's size if that is more.
    overwrite
        Whether to replace a Zarr group at ``group``; nothing else is ever replaced.
    dry_run
        Whether to write nothing; the ``sha256`` of what is returned is then empty.
    chunk_bytes
        Size of a chunk of the arrays in bytes, and about that of a block that is read.

    Returns
    -------
    dict of str to Ingested
        The arrays that were written, by name; equal where name, shape, dtype and values are.

    Raises
    ------
    InputError
        The file cannot be read, unfolds to too much, or does not hold the requested columns (messages count rows and
        columns from 0); a row of text is too long; a feature, as float32, is infinite, or NaN in a libsvm file; a label
        is NaN or infinite; or the target exists.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "plants.csv").write_text("height,width,kind\n1,2,fern\n3,4,moss\n5,6,fern\n")
    ...     arrays = ingest(f"{folder}/plants.csv", f"{folder}/plants.zarr", label="kind")
    >>> arrays["X"].shape, arrays["X"].dtype, arrays["y"].shape, arrays["y"].dtype
    ((3, 2), 'float32', (3,), 'int64')
    """
    if chunk_bytes < 1:
        raise InputError(f"chunk_bytes must be at least 1, found {chunk_bytes!r}")
    most = None if max_bytes is None else whole("max_bytes", max_bytes, 1)
    kind = format_of(source, format)
    roles = RoleOptions(
        None if columns is None else tuple(columns),
        *(tuple(drop), tuple(categorical), label, target, weight, id, tuple(pairs), rows, value, object, schema),
    )
    words = None if missing is None else tuple(missing)
    text = TextOptions(header, separator, quote, encoding, decimal, date_format, words, skip_rows)
    options = _Options(name, n_features, zero_based, roles, text)
    options.check(source, kind)
    if not dry_run:
        check_target(group, overwrite)
    try:
        arrays, attributes = _read(source, kind, options, chunk_bytes, most)
    except MemoryError as error:
        raise out_of_memory(source, error) from error
    for array in arrays:
        if array.warning:
            warn_caller(f"{source}: {array.warning}")
    if dry_run:
        return {
            own.name: Ingested(own.name, own.shape, own.dtype.name, "", own.attributes, own.columns) for own in arrays
        }
    with destination(group, overwrite, f"the ingest of {source}") as place:
        records = {array.name: _write(place, array, chunk_bytes) for array in arrays}
        seal_group(place, {**attributes, "distforest": {"type": "arrays", "version": 1, "arrays": list(records)}})
    return records


def _write(group: str, array: PlannedArray, chunk_bytes: int) -> Ingested:
    digest = write_array(
        group, array.name, array.shape, array.dtype, array.blocks(), array.attributes, chunk_bytes=chunk_bytes
    )
    return Ingested(array.name, array.shape, array.dtype.name, digest, array.attributes, array.columns)


def _read(
    source: str, kind: str, options: _Options, block_bytes: int, max_bytes: int | None
) -> tuple[list[PlannedArray], dict[str, object]]:
    """The arrays to write, and the group's attributes."""
    if kind == "npy":
        return arrays_of_npy(source, options.name, block_bytes, max_bytes)
    if kind == "npz":
        return arrays_of_npz(source, block_bytes, max_bytes)
    if kind == "libsvm":
        rows = LibsvmTable.open(source, block_bytes, options.n_features, options.zero_based, max_bytes)
        check_unfolded(source, rows.n_bytes, max_bytes)
        X = features_array(source, rows.n_columns, rows.features, None, takes_missing=False)
        return [X, labels_array(source, rows.labels)], {}
    table = open_table(source, kind, options.text, max_bytes)
    roles, cells = Roles.from_table(table, options.roles), table.cells
    if roles.value is None:
        return arrays_of_table(table, roles, cells, block_bytes, options.roles.rows), {}
    pairs, n_rows, order = pairs_of_rows_at(table, roles.pairs, str(options.roles.rows))
    values = numbers_in(table, "value", table.columns[roles.value], cells, with_missing=True)
    parts, attributes = csr_arrays(matrix_of_measured(table, pairs, values, n_rows))
    first, *others = (held_array(name, part) for name, part in parts.items())
    return [replace(first, warning=roles.warning), *others], {**attributes, **order}
