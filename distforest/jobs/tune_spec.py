"""The spec of a tuning job, which is that of a fit with a grid of values to choose from."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

from distforest.errors import InputError
from distforest.evaluation.grids import DIAGONAL, SCORINGS, grid_cells, shared_trees
from distforest.growth.methods import check_together
from distforest.jobs.reader import LAZY_KIND, Place, refusal, shown
from distforest.jobs.spec import Input, Spec, check_format, contradictions, method_of
from distforest.jobs.spec_models import read, tune_table

if TYPE_CHECKING:
    from distforest.evaluation.grids import GridCell, SharedTrees
    from distforest.growth.parameters import Value

MOST_GRID_CELLS = 1024
"""Largest number of cells of a grid."""


@dataclass(frozen=True)
class TuneSpec(Spec):
    """A tuning job.

    ``grid`` has a list of values for each named parameter; ``scoring`` is the score that decides which cell is best.

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
        """The combinations of values of the grid."""
        return grid_cells(self.grid)

    def shared_trees(self, *, share: bool) -> list[SharedTrees]:
        """Return the cells that are scored with the same trees, as `distforest.evaluation.grids.shared_trees` does."""
        return shared_trees(self.cells, self.params, share=share)

    def fit_of(self, changes: Mapping[str, Value]) -> Spec:
        """Return the fit with these values of parameters, and of a graph's diagonal."""
        params = {**self.params, **{name: value for name, value in changes.items() if name != DIAGONAL}}
        given = _with_diagonal(self.input, changes[DIAGONAL]) if DIAGONAL in changes else self.input
        return Spec(self.method, self.seed, self.output, given, params, self.run)

    @classmethod
    def from_dict(cls, table: object, lines: Mapping[Place, int] | None = None) -> Self:
        """Read a spec from a parsed table, with the line of each key; raise SpecError with all its faults."""
        lines = lines or {}
        check_format(table, lines)
        tune: Any = read(tune_table(method_of(table)), table, lines)
        found = Input.from_table(tune.input)
        faults = contradictions(tune, found)
        if found.relations["distances"].kind == LAZY_KIND:
            what = "calls a function, but the cells of a grid are scored by known distances; fit instead"
            faults += [(("input", "distances", "kind"), what)]
        faults += [(("run", name), "is for a fit; omit it") for name in ("grow_on", "parts") if getattr(tune.run, name)]
        grid = {
            name: tuple(getattr(tune.grid, name))
            for name in type(tune.grid).model_fields
            if name in tune.grid.model_fields_set
        }
        params = dict(tune.params) | ({"feature_weights": "given"} if "feature_weights" in found.addresses else {})
        spec = cls(tune.method, tune.seed, tune.output, found, params, tune.run, grid, tune.scoring)
        if faults := faults or list(_faults_of_grid(spec)):
            raise refusal(faults, lines)
        return spec

    def to_dict(self) -> dict[str, object]:
        """Return the whole spec, defaults included, as plain dicts, lists, numbers, strings, booleans and None."""
        grid = {name: list(values) for name, values in self.grid.items()}
        return {**super().to_dict(), "job": "tune", "scoring": self.scoring, "grid": grid}


def _with_diagonal(given: Input, diagonal: Value) -> Input:
    """Return the inputs with this distance of a node of the graph to itself."""
    graph = given.relations["distances"]
    changed = replace(graph, options={**graph.options, DIAGONAL: diagonal})
    return replace(given, relations={**given.relations, "distances": changed})


def _faults_of_grid(spec: TuneSpec) -> Iterator[tuple[Place, str]]:
    """Yield the faults of a grid: what does not fit its input, and the first cell with contradicting parameters."""
    n_cells = math.prod(map(len, spec.grid.values()))
    if DIAGONAL in spec.grid and spec.input.relations["distances"].kind != "graph":
        yield ("grid", DIAGONAL), "is for a graph, but the distances are not one; omit it"
    if n_cells > MOST_GRID_CELLS:
        yield ("grid",), f"must have at most {MOST_GRID_CELLS:,} cells, found {n_cells:,}"
        return
    named = "feature_weights" in spec.input.addresses
    if "feature_weights" in spec.grid and (named or "given" in spec.grid["feature_weights"]):
        what = "gives some, which all cells have" if named else "names none"
        yield ("grid", "feature_weights"), f"is in the grid, but input.feature_weights {what}"
    for cell in spec.cells:
        params = {**spec.params, **{name: value for name, value in cell.items() if name != DIAGONAL}}
        if not params["bootstrap"] and params["max_samples"] in (None, 1.0):
            cure = "set bootstrap = true or a smaller max_samples"
            yield ("grid",), f"the cell {shown(cell)} leaves no row out of bag, so it cannot be scored; {cure}"
            return
        try:
            check_together(params)
        except InputError as error:
            yield ("grid",), f"the cell {shown(cell)} is not valid: {error}"
            return
