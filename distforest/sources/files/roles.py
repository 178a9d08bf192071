"""What the columns of a table are for: features, and one each for labels or targets, weights, and names of the rows."""

from __future__ import annotations

import difflib
import json
import tomllib
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from distforest.amounts import are
from distforest.errors import InputError
from distforest.sources.files.bounds import brief, quoted
from distforest.sources.files.damage import readable
from distforest.sources.schema import COLUMNS_TOLD, ColumnKind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from distforest.sources.files.tables import Table

LIKELY = 1000
"""The most columns that are compared with a name that is missing, to suggest a near one: comparing takes time."""


@dataclass(frozen=True)
class RoleOptions:
    """Names of columns: of the features (all by default), of those left out, of categories, and of each other role.

    ``pairs`` are the two columns that say of which rows a pair is, ``rows`` the address of these rows, and ``value``
    the column of what was measured of each pair. ``object`` are texts of which a function tells the similarity.
    """

    columns: tuple[str, ...] | None = None
    drop: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    label: str | None = None
    target: str | None = None
    weight: str | None = None
    id: str | None = None
    pairs: tuple[str, ...] = ()
    rows: str | None = None
    value: str | None = None
    object: str | None = None
    schema: str | None = None

    def given(self) -> dict[str, Any]:
        """The options that are not left at their default, by name."""
        return {own.name: getattr(self, own.name) for own in fields(self) if getattr(self, own.name) != own.default}


@dataclass(frozen=True)
class Roles:
    """Positions of columns by what they are for; None for a role that no column has, () for no pairs.

    ``kinds`` are those of features of which an option says it. ``told`` is a warning of columns that are left out
    though nobody has said so; "" without any.
    """

    features: tuple[int, ...]
    kinds: Mapping[int, ColumnKind] = field(default_factory=dict)
    label: int | None = None
    target: int | None = None
    weight: int | None = None
    id: int | None = None
    pairs: tuple[int, ...] = ()
    value: int | None = None
    object: int | None = None
    told: str = ""

    @classmethod
    def of(cls, table: Table, options: RoleOptions) -> Roles:
        """What columns are for.

        Raises
        ------
        InputError
            A column is not there, two options contradict each other, or neither a feature nor a ground truth is left.
        """
        if options.label is not None and options.target is not None:
            both = f"{options.label!r} and {options.target!r}"
            raise InputError(f"`label` or `target` was expected, found {both}; a forest learns from one of them")
        found: dict[str, int | None] = {
            role: None if (name := getattr(options, role)) is None else position_of(table, role, name)
            for role in ("label", "target", "weight", "id", "value", "object")
        }
        taken: dict[int, str] = {}
        for role, position in found.items():
            if position is not None and taken.setdefault(position, role) != role:
                name = quoted(table.columns[position])
                raise InputError(f"{table.path}: a column for each role was expected, found {name} for two of them")
        pairs = _of_pairs(table, options, taken)
        if options.value is not None:
            _check_measured(options)
        left_out = {position_of(table, "drop", name) for name in each_name(table, options.drop)}
        schema = {} if options.schema is None else read_kinds(options.schema)
        if schema and (options.columns is not None or options.categorical):
            raise InputError("`schema` names the features and their kinds; leave `columns` and `categorical` out")
        names = schema or (None if options.columns is None else each_name(table, options.columns))
        asked = None if names is None else [position_of(table, "columns", name) for name in names]
        for option, positions in (("drop", left_out), ("columns", asked or ())):
            twice = next((position for position in positions if position in taken), None)
            if twice is not None:
                name, role = quoted(table.columns[twice]), taken[twice]
                raise InputError(
                    f"{table.path}: {name} is the `{role}`, found it in `{option}`; take it from one of them"
                )
        index = {table.columns.index(name) for name in table.index} - {*taken, *left_out, *(asked or ())}
        if index and not (pairs or asked):
            name = quoted(table.columns[min(index)])
            cure = f"give `id={name}` if it names the rows, `drop={name}` to leave it out, or name all `columns`"
            raise InputError(f"{table.path}: a role was expected for the index of a data frame, column {name}; {cure}")
        others = {*taken, *left_out, *index}
        chosen = asked or (() if pairs else range(len(table.columns)))
        features = tuple(dict.fromkeys(position for position in chosen if position not in others))
        if not features and not pairs and all(found[role] is None for role in ("label", "target", "object")):
            raise InputError(f"{table.path}: features, or a `label` or `target`, were expected, found no other column")
        kinds = {position_of(table, "columns", name): kind for name, kind in schema.items()}
        for name in each_name(table, options.categorical):
            kinds[position_of(table, "categorical", name)] = ColumnKind.CATEGORY
        if stray := sorted(set(kinds) - set(features)):
            raise InputError(f"{table.path}: `categorical` is for features, found {quoted(table.columns[stray[0]])}")
        rest = [] if asked or not pairs else [name for at, name in enumerate(table.columns) if at not in others]
        return cls(features, kinds, **found, pairs=pairs, told=_told_of_left_out(rest, options))


def read_kinds(path: str) -> dict[str, ColumnKind]:
    """Read the kinds of features from a TOML file, as ``ingest --dry-run`` writes it.

    Raises
    ------
    InputError
        The file cannot be read, or is not such a file.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
    ...     _ = file.write(schema_text({"bottled": ColumnKind.DATE, "alcohol %": ColumnKind.NUMBER}))
    ...     file.flush()
    ...     read_kinds(file.name)
    {'bottled': <ColumnKind.DATE: 'date'>, 'alcohol %': <ColumnKind.NUMBER: 'number'>}
    """
    with readable(path):
        entry = tomllib.loads(Path(path).read_text("utf-8"))
    columns = entry.get("columns")
    if set(entry) != {"columns"} or not isinstance(columns, dict) or not columns:
        raise InputError(f"{path}: [columns] with the kind of each feature was expected, found {brief(str(entry))}")
    known = [str(kind) for kind in ColumnKind]
    for name, kind in columns.items():
        if kind not in known:
            expected = f"{path}: columns.{brief(name)}: one of {', '.join(known)} was expected"
            raise InputError(f"{expected}, found {brief(repr(kind))}")
    return {name: ColumnKind(kind) for name, kind in columns.items()}


def schema_text(kinds: Mapping[str, str]) -> str:
    """The kinds of features as TOML, for `read_kinds`."""
    lines = [f'{json.dumps(name, ensure_ascii=False)} = "{kind}"' for name, kind in kinds.items()]
    return "\n".join(["[columns]", *lines, ""])


def _of_pairs(table: Table, options: RoleOptions, taken: dict[int, str]) -> tuple[int, ...]:
    """The positions of the two columns of pairs, which then are taken; () without pairs. Raises InputError."""
    names = each_name(table, options.pairs)
    if not names:
        if options.rows is not None:
            raise InputError(f"`rows` are those of `pairs`, found {options.rows!r} without; name the columns of pairs")
        return ()
    if len(names) != 2:
        raise InputError(f"{table.path}: the names of two columns were expected as `pairs`, found {len(names):,}")
    positions = tuple(position_of(table, "pairs", name) for name in names)
    for position in positions:
        if taken.setdefault(position, "pairs") != "pairs" or positions[0] == positions[1]:
            name = quoted(table.columns[position])
            raise InputError(f"{table.path}: a column for each role was expected, found {name} for two of them")
    return positions


def _told_of_left_out(names: Sequence[str], options: RoleOptions) -> str:
    """A warning of columns of a table of pairs that have no role, and how they get one; "" without any."""
    if not names:
        return ""
    listed = ", ".join(map(quoted, names[:COLUMNS_TOLD]))
    listed += f" and {len(names) - COLUMNS_TOLD:,} more" if names[COLUMNS_TOLD:] else ""
    found = f"{listed} {are(len(names))} left out"
    if options.value is not None:
        return f"{found}, as `value` alone is kept of each pair; give `drop` if that is meant"
    truth = "" if options.label is not None or options.target is not None else "`label`, `target` or "
    uses = f"`value` if it was measured of each pair, {truth}`columns` if it is a feature of pairs"
    return f"{found}, as a row is a pair; give {uses}, or `drop`"


def _check_measured(options: RoleOptions) -> None:
    """Refuse a value without the pairs and rows of which it is, or with another role beside it; raises InputError."""
    if not options.pairs or options.rows is None:
        lacking = " and ".join(f"`{name}`" for name in ("pairs", "rows") if not getattr(options, name))
        expected = f"`value` is what was measured of `pairs` of `rows`, found {options.value!r} without {lacking}"
        raise InputError(f"{expected}; name the two columns of pairs, and the rows that they name or number")
    others = [name for name in options.given() if name not in ("pairs", "rows", "value", "drop")]
    if others:
        found = ", ".join(f"`{name}`" for name in others)
        raise InputError(f"`value` makes a matrix of measured pairs, found {found} beside it; leave that out")


def each_name(table: Table, names: Sequence[str]) -> list[str]:
    """Names of columns, of which a string may hold several, separated by commas."""
    return [own for name in names for own in ([name] if name in table.columns else name.split(","))]


def position_of(table: Table, role: str, name: str) -> int:
    """The position of a column; raises InputError, which suggests a near name."""
    names = table.columns
    if name in names:
        return names.index(name)
    listed = ", ".join(map(quoted, names[:20])) + (", ..." if len(names) > 20 else "")
    likely = [own for own in names[:LIKELY] if len(own) <= 3 * len(name)]
    near = difflib.get_close_matches(name, likely, n=1)
    hint = f"; did you mean {quoted(near[0])}?" if near else ""
    role = {"columns": "feature", "drop": "dropped", "id": "id"}.get(role, role)
    raise InputError(f"{table.path}: {role} column {name!r} was expected, found {listed}{hint}")
