"""Cells of a grid of parameters: which cells share trees, the scores of their forests, and the best cell.

Cells that differ only in when trees stop (``min_samples_split``, ``max_depth``) are scored with the trees of the
loosest of them: see `distforest.forest.stopped_trees`.
"""

from __future__ import annotations

import csv
import itertools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from distforest.amounts import counted
from distforest.errors import ArtifactError, InputError
from distforest.forest.stopped_trees import EarlyStop, stopped_distances

if TYPE_CHECKING:
    import os

    from distforest.forest.forest import Forest
    from distforest.sources.source import Floats, Ints
    from distforest.sources.truth import Truth

SCORINGS = ("neg_root_mean_squared_error", "spearman", "roc_auc", "average_precision")
"""By what a cell may be chosen; all are greater for a better one."""

AREAS = SCORINGS[2:]
"""Scores that are defined for distances of two values."""

MOST_SCORED_ROWS = 2048
"""If there are more rows, a fixed random sample of this size is drawn, and all its pairs are scored."""

EQUAL = 1e-12
"""Scores that differ by less than this, relative to the best, are equal."""

DIAGONAL = "diagonal"
"""The name in a grid of the distance of a node of a graph to itself."""

TUNING = "tuning"
"""The key of a grid in the provenance of a forest that was chosen from it."""

GridCell = dict[str, Any]
"""The parameters of a cell by their names."""


# --- cells ------------------------------------------------------------------------------------------------


def grid_cells(grid: Mapping[str, Sequence[Any]]) -> list[GridCell]:
    """Return the combinations of a grid in its order: the last parameter changes first.

    Examples
    --------
    >>> grid_cells({"max_features": [1, 5], "min_samples_split": [2, 8]})[1]
    {'max_features': 1, 'min_samples_split': 8}
    """
    return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]


class SharedTrees(NamedTuple):
    """Cells that are scored with the same trees.

    Attributes
    ----------
    numbers
        Numbers of the cells in the grid.
    params
        The parameters of these trees that differ from those of all cells.
    stops
        When the trees of each cell stop; ``EarlyStop()`` for a cell with separate trees.
    """

    numbers: tuple[int, ...]
    params: Mapping[str, Any]
    stops: tuple[EarlyStop, ...]


def shared_trees(cells: Sequence[GridCell], params: Mapping[str, Any], *, share: bool) -> list[SharedTrees]:
    """Group the cells of a grid that are scored with the same trees.

    Parameters
    ----------
    cells
        The cells.
    params
        The parameters of cells that do not set another value.
    share
        Whether cells that differ only in when trees stop share the trees of the cell with the loosest limits. They may
        if all distances were observed and rows have equal weights. Otherwise the tables of the nodes above a leaf do
        not follow from that of the leaf.

    Examples
    --------
    >>> cells = grid_cells({"max_features": [1, 5], "min_samples_split": [2, 8]})
    >>> for one in shared_trees(cells, {"min_samples_split": 2, "max_depth": None}, share=True):
    ...     print(one.numbers, one.params["max_features"], one.stops[1].min_samples_split)
    (0, 1) 1 8
    (2, 3) 5 8
    """
    if not share:
        return [SharedTrees((number,), cell, (EarlyStop(),)) for number, cell in enumerate(cells)]
    groups: dict[str, list[int]] = {}
    for number, cell in enumerate(cells):
        key = repr([(name, value) for name, value in cell.items() if name not in EarlyStop._fields])
        groups.setdefault(key, []).append(number)
    found = []
    for numbers in groups.values():
        stops = [EarlyStop(*({**params, **cells[number]}[name] for name in EarlyStop._fields)) for number in numbers]
        depths = [stop.max_depth for stop in stops if stop.max_depth is not None]
        deepest = max(depths) if len(depths) == len(stops) else None
        loosest = EarlyStop(min(stop.min_samples_split for stop in stops), deepest)
        found.append(SharedTrees(tuple(numbers), {**cells[numbers[0]], **loosest._asdict()}, tuple(stops)))
    return found


# --- scores -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ScoredCell:
    """Scores of a cell by their names, and whether most of its trees have a split."""

    scores: Mapping[str, float]
    splits: bool

    def by(self, scoring: str) -> float:
        """Return the score with this name; minus infinity if it is undefined."""
        score = self.scores[scoring]
        return -math.inf if math.isnan(score) else score


def scored_cells(forest: Forest, truth: Truth, stops: Sequence[EarlyStop]) -> list[ScoredCell]:
    """Score a forest whose trees stop earlier, by the out-of-bag distances of pairs i < j of rows.

    Parameters
    ----------
    forest
        The forest, as for `distforest.forest.stopped_trees.stopped_distances`.
    truth
        The ground truth of the forest.
    stops
        When its trees stop.

    Raises
    ------
    InputError
        No pair is out of bag.
    """
    rows = scored_rows(forest.n_training, forest.sample_weight)
    estimates, counts = stopped_distances(forest, rows, stops)
    left, right = np.triu_indices(len(rows), 1)
    true = truth.distances(rows[left], rows[right])
    known = (counts[left, right] > 0) & ~np.isnan(true)
    if not known.any():
        cure = "set bootstrap=True or a smaller max_samples, or grow more trees"
        raise InputError(f"no tree left any of the pairs out of its sample whose distance is known; {cure}")
    left, right = left[known], right[known]
    scorer = DistanceScorer.from_distances(true[known], weights_of_pairs(forest.sample_weight, rows[left], rows[right]))
    root = forest.table.tree_start[:-1]
    splits = ~forest.table.is_leaf[root]
    found = []
    for stop, estimate in zip(stops, estimates, strict=True):
        are_cut = splits & (forest.table.n_rows[root] >= stop.min_samples_split)
        found.append(ScoredCell(scorer.scores(estimate[left, right]), bool(2 * are_cut.sum() > len(are_cut))))
    return found


def weights_of_pairs(weights: np.ndarray | None, left: Ints, right: Ints) -> Floats | None:
    """Return the products of the weights of two rows, relative to the largest weight; None: equal weights."""
    if weights is None:
        return None
    relative: Floats = weights / weights.max()  # so that no product is infinite
    return relative[left] * relative[right]


def scored_rows(n_rows: int, sample_weight: np.ndarray | None = None) -> Ints:
    """Return the rows whose pairs are scored: all rows of positive weight, or some of them."""
    rows = np.arange(n_rows) if sample_weight is None else np.flatnonzero(sample_weight)
    if len(rows) <= MOST_SCORED_ROWS:
        return rows
    return np.sort(np.random.default_rng(0).choice(rows, MOST_SCORED_ROWS, replace=False))


def check_defined(scoring: str, truth: Truth, rows: Ints) -> None:
    """Refuse a score that is undefined for all cells, before trees grow.

    Raises
    ------
    InputError
        The score is an area, and the true distances do not have exactly two values.
    """
    if scoring not in AREAS:
        return
    left, right = np.triu_indices(len(rows), 1)
    true = truth.distances(rows[left], rows[right])
    if len(np.unique(true[~np.isnan(true)])) != 2:
        raise undefined(scoring)


def undefined(scoring: str) -> InputError:
    """Return the error of a score that is undefined for all cells."""
    why = "the true distances have more, or fewer, than two values" if scoring in AREAS else "they are equal"
    return InputError(f"scoring={scoring!r} is not defined: {why}; take another of {', '.join(SCORINGS)}")


@dataclass(frozen=True)
class DistanceScorer:
    """True distances with which estimates are compared.

    Attributes
    ----------
    true
        The true distances, shape (n_pairs,).
    weights
        The weight of each distance; None: equal weights.
    near
        Which distances are the smaller of two values; None if there are not exactly two.
    """

    true: Floats
    weights: Floats | None
    near: np.ndarray | None

    @classmethod
    def from_distances(cls, true: Floats, weights: Floats | None = None) -> Self:
        """Prepare true distances."""
        least, greatest = true.min(), true.max()
        has_two_values = least < greatest and bool(((true == least) | (true == greatest)).all())
        return cls(true, weights, true == least if has_two_values else None)

    def scores(self, estimate: Floats) -> dict[str, float]:
        """Compute all scores of estimates, shape (n_pairs,); undefined scores are NaN.

        Examples
        --------
        >>> scores = DistanceScorer.from_distances(np.array([0.0, 1.0, 1.0])).scores(np.array([0.2, 0.1, 0.9]))
        >>> [round(score, 3) for score in scores.values()]
        [-0.535, 0.0, 0.5, 0.5]
        """
        from scipy.stats import rankdata  # noqa: PLC0415  (slow, and a spec is read without)
        from sklearn.metrics import (  # noqa: PLC0415  (slow, too)
            average_precision_score,
            roc_auc_score,
            root_mean_squared_error,
        )

        error = root_mean_squared_error(self.true, estimate, sample_weight=self.weights)
        correlation = math.nan
        if np.ptp(self.true) > 0.0 and np.ptp(estimate) > 0.0:
            covariance = np.cov(rankdata(self.true), rankdata(estimate), aweights=self.weights)
            correlation = covariance[0, 1] / math.sqrt(covariance[0, 0] * covariance[1, 1])
        areas = [math.nan, math.nan]
        if self.near is not None:
            both = (roc_auc_score, average_precision_score)
            areas = [area(self.near, -estimate, sample_weight=self.weights) for area in both]
        return dict(zip(SCORINGS, map(float, (-error, correlation, *areas)), strict=True))


# --- the choice -------------------------------------------------------------------------------------------


def best_cell(scored: Sequence[ScoredCell], scoring: str) -> tuple[int, list[str]]:
    """Choose the best cell, among equals the first whose trees have splits; return its number, and warnings.

    Raises
    ------
    InputError
        The score is undefined for all cells.
    """
    scores = np.array([one.by(scoring) for one in scored])
    if np.isneginf(scores).all():
        raise undefined(scoring)
    top = np.flatnonzero(scores >= scores.max() - EQUAL * max(1.0, abs(float(scores.max())))).tolist()
    best = next((number for number in top if scored[number].splits), top[0])
    warnings = []
    if len(top) == len(scored) > 1:
        found = f"all {counted(len(scored), 'cell')} score the same, {scores[best]:.4g}, so the choice says nothing"
        warnings.append(f"tune: {found}; try values that are further apart, or another scoring")
    if not scored[best].splits:
        warnings.append("tune: most trees of the best cell have no split, so all its distances are nearly the same")
    return best, warnings


@dataclass(frozen=True)
class ScoredGrid:
    """Scores of the cells of a grid.

    Attributes
    ----------
    cv_results_ : dict of str to list
        A column for each parameter (``"param_max_depth"``), each score, and its rank by the chosen one, 1 for the
        best, as in scikit-learn's searches; ``"params"`` has each cell as a dict. An undefined score is
        NaN: areas need distances of exactly two values.
    scoring : str
        The score by which the best was chosen.
    best_index_, best_params_, best_score_
        The best cell; among equals the first whose trees have splits.

    Examples
    --------
    >>> cells = grid_cells({"max_features": [1, 5]})
    >>> scored = [ScoredCell(dict.fromkeys(SCORINGS, score), True) for score in (0.25, 0.75)]
    >>> grid = ScoredGrid(table_of(cells, scored, "spearman"), "spearman", 1)
    >>> grid.best_params_, grid.cv_results_["rank_spearman"]
    ({'max_features': 5}, [2, 1])
    >>> ScoredGrid.of_provenance(grid.into({})) == grid
    True
    """

    cv_results_: dict[str, list[Any]]
    scoring: str
    best_index_: int

    @property
    def best_params_(self) -> GridCell:
        """Parameters of the best cell."""
        return dict(self.cv_results_["params"][self.best_index_])

    @property
    def best_score_(self) -> float:
        """Score of the best cell."""
        return float(self.cv_results_[self.scoring][self.best_index_])

    @property
    def columns(self) -> list[str]:
        """Columns of the table: parameters, scores, and the rank."""
        return [name for name in self.cv_results_ if name != "params"]

    def rows(self) -> list[list[Any]]:
        """Return the cells as rows of the table, in the order of the grid."""
        return [list(cell) for cell in zip(*(self.cv_results_[name] for name in self.columns), strict=True)]

    def to_dict(self) -> dict[str, object]:
        """Return the score, the parameters, the number of the best cell, and all cells for JSON, with null for NaN."""
        cells = []
        for row in self.rows():
            plain = [value.item() if isinstance(value, np.generic) else value for value in row]
            known = [None if isinstance(value, float) and math.isnan(value) else value for value in plain]
            cells.append(dict(zip(self.columns, known, strict=True)))
        names = list(self.cv_results_["params"][0])
        return {"scoring": self.scoring, "params": names, "best": self.best_index_, "cells": cells}

    def into(self, provenance: Mapping[str, object]) -> dict[str, object]:
        """Return the provenance of a forest with this grid added."""
        return {**provenance, TUNING: self.to_dict()}

    @classmethod
    def of_provenance(cls, provenance: Mapping[str, object]) -> ScoredGrid | None:
        """Read the grid from which a forest was chosen from its provenance; None if there was no grid.

        Raises
        ------
        ArtifactError
            The entry is not of the form that `to_dict` writes.
        """
        entry: Any = provenance.get(TUNING)
        if entry is None:
            return None
        try:
            scoring, names, best, cells = (entry[name] for name in ("scoring", "params", "best", "cells"))
            rank = f"rank_{scoring}"
            found: dict[str, list[Any]] = {
                "params": [{name: cell[f"param_{name}"] for name in names} for cell in cells]
            }
            found |= {f"param_{name}": [cell[f"param_{name}"] for cell in cells] for name in names}
            found |= {
                name: [math.nan if cell[name] is None else float(cell[name]) for cell in cells] for name in SCORINGS
            }
            found[rank] = [int(cell[rank]) for cell in cells]
            is_one = scoring in SCORINGS and bool(names) and type(best) is int and 0 <= best < len(cells)
            is_one &= all(set(cell) == {*found} - {"params"} for cell in cells)
        except (KeyError, TypeError, ValueError, OverflowError):
            is_one = False
        if not is_one:
            raise ArtifactError(f"manifest.json: provenance.{TUNING}: expected a scored grid; found {str(entry)[:80]}")
        return ScoredGrid(found, scoring, best)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the table of all cells to a file, ``.csv`` or ``.json``.

        Raises
        ------
        InputError
            The file has another suffix.
        """
        check_table_path(path)
        if Path(path).suffix == ".json":
            Path(path).write_text(json.dumps(self.to_dict(), indent=1))
            return
        with Path(path).open("w", newline="") as file:
            csv.writer(file).writerows([self.columns, *self.rows()])

    def __str__(self) -> str:
        """Return the table as text; an asterisk marks the best cell."""
        lines = [["", *(name.removeprefix("param_") for name in self.columns)]]
        for number, row in enumerate(self.rows()):
            mark = "*" if number == self.best_index_ else ""
            lines.append([mark, *(f"{value:.4g}" if isinstance(value, float) else str(value) for value in row)])
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        padded = ([cell.ljust(width) for cell, width in zip(line, widths, strict=True)] for line in lines)
        return "\n".join("  ".join(line).rstrip() for line in padded)


def check_table_path(path: str | os.PathLike[str]) -> None:
    """Refuse a file for a table that ends neither in .csv nor in .json; raises InputError."""
    if Path(path).suffix not in {".csv", ".json"}:
        raise InputError(f"{Path(path)}: a file that ends in .csv or .json was expected")


def table_of(cells: Sequence[GridCell], scored: Sequence[ScoredCell], scoring: str) -> dict[str, list[Any]]:
    """Return the table of all cells by column: parameters, scores, and the rank by one of them."""
    found: dict[str, list[Any]] = {"params": list(cells)}
    found |= {f"param_{name}": [cell[name] for cell in cells] for name in cells[0]}
    found |= {name: [one.scores[name] for one in scored] for name in SCORINGS}
    scores = np.array([one.by(scoring) for one in scored])
    return found | {f"rank_{scoring}": (1 + (scores > scores[:, None]).sum(axis=1)).tolist()}
