"""What the columns of a table are for: features, and one each for labels or targets, weights, and names of the rows."""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from distforest.amounts import are
from distforest.errors import InputError
from distforest.sources.files.bounds import brief, quoted, readable
from distforest.sources.schema import MOST_COLUMNS_SHOWN, ColumnKind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from distforest.sources.files.tables import Table


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

    ``kinds`` are those of features of which an option says it. ``warning`` is a warning of columns that are left out
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
    warning: str = ""

    @classmethod
    def from_table(cls, table: Table, options: RoleOptions) -> Roles:
        """What columns are for.

        Raises
        ------
        InputError
            A column is not there, two options contradict each other, or neither a feature nor a ground truth is left.
        """
        if options.label is not None and options.target is not None:
            both = f"{options.label!r} and {options.target!r}"
            raise InputError(f"`label` or `target` was expected, found {both}; a forest learns from one of them")
        schema = {} if options.schema is None else read_kinds(options.schema)
        if schema and (options.columns is not None or options.categorical):
            raise InputError("`schema` names the features and their kinds; leave `columns` and `categorical` out")
        found = {
            role: None if (name := getattr(options, role)) is None else table.position(role, name)
            for role in ("label", "target", "weight", "id", "value", "object")
        }
        pairs = table.positions("pairs", options.pairs)
        left_out = table.positions("drop", options.drop)
        named = [*schema] or options.columns
        chosen = None if named is None else table.positions("columns", named)
        taken: dict[int, str] = {}
        each = [*found.items(), *(("pairs", position) for position in pairs)]
        each += [("drop", position) for position in dict.fromkeys(left_out)]
        each += [("columns", position) for position in dict.fromkeys(chosen or ())]
        for role, position in each:
            if position is not None and taken.setdefault(position, role) is not role:
                name, other = quoted(table.columns[position]), taken[position]
                expected = f"{table.path}: one role was expected for each column"
                raise InputError(f"{expected}, found {name} for `{other}` and for `{role}`; take it from one of them")
        _check_pairs(table, pairs, options)
        index = {table.columns.index(name) for name in table.index} - {*taken}
        if index and not (pairs or chosen):
            name = quoted(table.columns[min(index)])
            cure = f"give `id={name}` if it names the rows, `drop={name}` to leave it out, or name all `columns`"
            raise InputError(f"{table.path}: a role was expected for the index of a data frame, column {name}; {cure}")
        rest = [place for place in range(len(table.columns)) if place not in taken and place not in index]
        features = tuple(dict.fromkeys(() if pairs and not chosen else rest if chosen is None else chosen))
        if not features and not pairs and all(found[role] is None for role in ("label", "target", "object")):
            raise InputError(f"{table.path}: features, or a `label` or `target`, were expected, found no other column")
        kinds = dict(zip(chosen or (), schema.values(), strict=False))
        kinds |= dict.fromkeys(table.positions("categorical", options.categorical), ColumnKind.CATEGORY)
        if stray := sorted(set(kinds) - set(features)):
            raise InputError(f"{table.path}: `categorical` is for features, found {quoted(table.columns[stray[0]])}")
        warning = ""
        if pairs and not chosen and rest:
            names = ", ".join(quoted(table.columns[place]) for place in rest[:MOST_COLUMNS_SHOWN])
            more = ", ..." if rest[MOST_COLUMNS_SHOWN:] else ""
            roles = "`value`, `label`, `target` or `columns`, or `drop` if that is meant"
            warning = f"{names}{more} {are(len(rest))} left out, as a row is a pair; give them a role by {roles}"
        return cls(features, kinds, **found, pairs=tuple(pairs), warning=warning)


def _check_pairs(table: Table, pairs: Sequence[int], options: RoleOptions) -> None:
    """Check that pairs have two columns, and that options of pairs have pairs; raises InputError."""
    if pairs and len(set(pairs)) != 2:
        raise InputError(f"{table.path}: the names of two columns were expected as `pairs`, found {len(set(pairs))}")
    if options.rows is not None and not pairs:
        raise InputError(f"`rows` are those of `pairs`, found {options.rows!r} without; name the columns of pairs")
    if options.value is not None:
        others = sorted({*options.given()} - {"pairs", "rows", "value", "drop"})
        if others or not pairs or options.rows is None:
            found_them = ", ".join(sorted({*options.given()} - {"value"})) or "neither"
            raise InputError(f"`value` was expected with `pairs` and `rows` and no other role, found {found_them}")


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
