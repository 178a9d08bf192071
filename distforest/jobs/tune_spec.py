"""The spec of a tuning job: that of a fit, with a grid of values to choose from."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Self, cast

from distforest.errors import InputError, SpecError
from distforest.evaluation.grids import DIAGONAL, SCORINGS, grid_cells, shared_trees
from distforest.growth.methods import METHODS, check_together
from distforest.growth.parameters import faults
from distforest.jobs.reader import NOT_NEGATIVE, Key, Place, Reader, listed, shown, word
from distforest.jobs.spec import LAZY_KIND, NONE, Spec, parameter_value
from distforest.sources.truth import TruthKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from distforest.evaluation.grids import GridCell, SharedTrees
    from distforest.growth.parameters import Value
    from distforest.jobs.spec import Input

TUNED = tuple(method.name for method in METHODS.values() if TruthKind.DISTANCES in method.truth_kinds)
"""Methods whose parameters may be tuned: out of bag they know distances of pairs."""

MOST_GRID_CELLS = 1024
"""The most cells of a grid."""

TUNE_KEYS = (Key("job", word(("tune",))), Key("scoring", word(SCORINGS), SCORINGS[0]))
GRID = "grid"


@dataclass(frozen=True)
class TuneSpec(Spec):
    """A tuning job: ``grid`` has a list of values by the name of a parameter, ``scoring`` says which cell is best.

    Examples
    --------
    >>> spec = TuneSpec.from_dict({
    ...     "format": 1, "job": "tune", "method": "smerf", "output": "wine.forest.zarr", "scoring": "spearman",
    ...     "input": {"features": "wine.zarr/X", "distances": "wine.zarr/Z"},
    ...     "grid": {"max_features": [1, "sqrt", "none"], "min_samples_split": [2, 8]},
    ... })
    >>> len(spec.cells), spec.cells[-1]
    (6, {'max_features': None, 'min_samples_split': 8})
    >>> TuneSpec.from_dict(spec.to_dict()) == spec
    True
    """

    grid: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)
    scoring: str = SCORINGS[0]

    @property
    def cells(self) -> list[GridCell]:
        """The combinations of the grid."""
        return grid_cells(self.grid)

    def shared_trees(self, *, share: bool) -> list[SharedTrees]:
        """The cells that are judged with the same trees, as `distforest.evaluation.grids.shared_trees` parts them."""
        return shared_trees(self.cells, self.params, share=share)

    def fit_of(self, changes: Mapping[str, Value]) -> Spec:
        """The fit with these values of parameters, and of a graph's diagonal."""
        params = {**self.params, **{name: value for name, value in changes.items() if name != DIAGONAL}}
        given = _with_diagonal(self.input, changes[DIAGONAL]) if DIAGONAL in changes else self.input
        return Spec(self.method, self.seed, self.output, given, params, self.run)

    @classmethod
    def from_table(cls, table: object, lines: Mapping[Place, int] | None = None) -> Self:
        """Read a spec from a parsed table, with the line of each key; raises SpecError with all its faults."""
        reader = Reader(lines or {})
        own = dict(table) if isinstance(table, Mapping) else {}
        head = reader.values((), own, TUNE_KEYS)
        given = own.get(GRID)
        rest = {name: value for name, value in own.items() if name not in {*(key.name for key in TUNE_KEYS), GRID}}
        found: Spec | None = None
        wrong: tuple[str, ...] = ()
        try:
            found = Spec.from_table(rest if isinstance(table, Mapping) else table, lines)
        except SpecError as error:
            wrong = error.faults
        if found is not None and found.method not in TUNED:
            reader.fault(("method",), f"must be {listed(TUNED)} in a tuning job, found {shown(found.method)}")
            raise reader.error()
        if found is not None and any(relation.kind == LAZY_KIND for relation in found.input.relations.values()):
            what = "asks a function, but the cells of a grid are scored by distances that are known; fit instead"
            reader.fault(("input", "distances", "kind"), what)
        if found is not None and found.run.grow_on:
            reader.fault(("run", "grow_on"), "goes with a fit; leave it out")
        if found is not None and found.run.parts is not None:
            reader.fault(("run", "parts"), "goes with a fit; leave it out")
        grid = _grid(reader, given, found)
        if wrong or reader.found_faults or found is None:
            raise SpecError([*wrong, *(reader.error().faults if reader.found_faults else ())])
        return cls(
            *(found.method, found.seed, found.output, found.input, found.params, found.run), grid, head["scoring"]
        )

    def to_dict(self) -> dict[str, object]:
        """Write the whole spec, defaults included, as plain dicts, lists, numbers, strings, booleans and None."""
        grid = {name: list(values) for name, values in self.grid.items()}
        return {**super().to_dict(), "job": "tune", "scoring": self.scoring, GRID: grid}


def _grid(reader: Reader, value: object, base: Spec | None) -> dict[str, tuple[Value, ...]]:
    """Read ``[grid]``; each value must suit its parameter, and each cell the input."""
    place = (GRID,)
    rows = {row.name: row for row in METHODS[base.method if base else TUNED[0]].parameters}
    given = reader.table(place, {} if value is None else value, [DIAGONAL, *rows])
    if given is None:
        return {}
    if not given:
        reader.fault(
            place, "must have a list of values for one parameter or more, such as min_samples_split = [2, 4, 8]"
        )
    grid: dict[str, tuple[Value, ...]] = {}
    for name, held in given.items():
        if not isinstance(held, (list, tuple)) or not held:
            reader.fault((*place, name), f"must be a list of values, found {shown(held)}")
            continue
        if name == DIAGONAL:
            grid[name] = _diagonals(reader, held, base)
            continue
        values = []
        for one in held:
            try:
                values.append(parameter_value(rows[name], one))
            except (ValueError, OverflowError):
                reader.fault((*place, name), f"must hold {rows[name].allowed()}, found {shown(one)}")
                continue
            for what in faults(rows.values(), {name: values[-1]}).values():
                reader.fault((*place, name), what.removeprefix(f"{name} ").replace("must be", "must hold", 1))
        grid[name] = tuple(values)
    if math.prod(map(len, grid.values())) > MOST_GRID_CELLS:
        found = math.prod(map(len, grid.values()))
        reader.fault(place, f"must have at most {MOST_GRID_CELLS:,} cells, found {found:,}")
    elif base is not None and not reader.found_faults:
        _check_cells(reader, base, grid)
    return grid


def _diagonals(reader: Reader, held: Sequence[object], base: Spec | None) -> tuple[Value, ...]:
    """Read the distances of a node to itself; "none" leaves it to the graph."""
    place = (GRID, DIAGONAL)
    if base is not None and base.input.relations["distances"].kind != "graph":
        reader.fault(place, "is that of a graph, and the distances are none; leave it out")
    values: list[Value] = []
    for one in held:
        try:
            values.append(None if one in (None, NONE) else cast("float", NOT_NEGATIVE.plain(one)))
        except (ValueError, TypeError, OverflowError):
            reader.fault(place, f"must hold {NOT_NEGATIVE.words} or {NONE!r}, found {shown(one)}")
    return tuple(values)


def _with_diagonal(given: Input, diagonal: Value) -> Input:
    """The inputs with this distance of a node of the graph to itself."""
    graph = given.relations["distances"]
    changed = replace(graph, options={**graph.options, DIAGONAL: diagonal})
    return replace(given, relations={**given.relations, "distances": changed})


def _check_cells(reader: Reader, base: Spec, grid: Mapping[str, tuple[Value, ...]]) -> None:
    """Note the first cell whose parameters contradict each other or the input."""
    named = "feature_weights" in base.input.addresses
    if "feature_weights" in grid and (named or "given" in grid["feature_weights"]):
        what = "names some, which all cells have" if named else "names none"
        reader.fault((GRID, "feature_weights"), f"is in the grid, but input.feature_weights {what}")
        return
    for cell in grid_cells(grid):
        params = {**base.params, **{name: value for name, value in cell.items() if name != DIAGONAL}}
        if not params["bootstrap"] and params["max_samples"] in (None, 1.0):
            cure = "set bootstrap = true or a smaller max_samples"
            reader.fault(
                (GRID,), f"the cell {shown(cell)} leaves no row out of bag, by which it could be judged; {cure}"
            )
            return
        try:
            check_together(params)
        except InputError as error:
            reader.fault((GRID,), f"the cell {shown(cell)} is none: {error}")
            return
