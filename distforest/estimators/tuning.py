"""Choice of parameters as in the paper of SMERF: by the out-of-bag distances of pairs, on one training set."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from distforest.errors import InputError, warn_caller
from distforest.estimators.forest_estimator import seed_of
from distforest.estimators.smerf import SMERF
from distforest.evaluation.grids import (
    DIAGONAL,
    SCORINGS,
    ScoredCell,
    ScoredGrid,
    best_cell,
    check_defined,
    grid_cells,
    scored_cells,
    scored_rows,
    shared_trees,
    table_of,
)
from distforest.growth.parameters import faults
from distforest.sources.factors import Graph
from distforest.sources.truth import Truth

if TYPE_CHECKING:
    from distforest.estimators.input_types import FeaturesLike, SparseLike, TruthLike, VectorLike
    from distforest.evaluation.grids import GridCell


@dataclass(frozen=True)
class Tuned(ScoredGrid):
    """Scores of all cells of a grid, and the best forest.

    Attributes
    ----------
    cv_results_, scoring, best_index_, best_params_, best_score_
        The cells, as in `distforest.evaluation.grids.ScoredGrid`.
    best_estimator_
        The estimator with these parameters, fitted on all rows.
    n_fits_ : int
        Number of forests that were grown.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(80, 5))
    >>> Z = np.abs(np.subtract.outer(X[:, 0], X[:, 0]))
    >>> grid = {"max_features": [1, 5], "min_samples_split": [2, 8]}
    >>> found = tune(SMERF(60, random_state=0), grid, X, Z)
    >>> found.best_params_["max_features"], len(found.cv_results_["params"]), found.n_fits_ <= 3
    (5, 4, True)
    """

    best_estimator_: Any
    n_fits_: int


def tune(
    estimator: SMERF,
    grid: Mapping[str, Sequence[Any]],
    X: FeaturesLike | SparseLike,
    y: TruthLike,
    *,
    scoring: str = "neg_root_mean_squared_error",
    sample_weight: VectorLike | None = None,
) -> Tuned:
    """Tune the parameters of a `SMERF` by out-of-bag distances of pairs (Tomita, Vogelstein, section 5).

    All cells have the seed of the estimator, so their trees draw the same rows, and each pair is scored by trees that
    drew neither of its rows. Cells that differ only in ``min_samples_split`` or ``max_depth`` share trees: those of the
    cell with the loosest limits, which contain the trees of the others. So a grid of 5 x 3 needs 5 fits, and one more
    for the best cell unless its forest is among them. Cells do not share trees if distances are missing or rows have
    weights.

    Parameters
    ----------
    estimator
        The forest; all cells have its other parameters. It is not changed.
    grid
        The values to try, by the name of the parameter; every combination is a cell. For a `Graph`, ``"diagonal"`` may
        be one of the names: the distance of a node to itself, which the forest learns with the links, but which is not
        scored.
    X, y, sample_weight
        As for `SMERF.fit`.
    scoring
        The score that the best cell maximises, over all pairs i < j, or those of 2,048 random rows:
        ``"neg_root_mean_squared_error"``; ``"spearman"``, the rank correlation with the true distances; or, if there
        are only two distances (links, labels), ``"roc_auc"`` or ``"average_precision"`` of the pairs with the smaller
        one.

    Returns
    -------
    Tuned
        All cells with all scores, and the best forest. The score of the best cell is optimistic, because it was
        selected.

    Raises
    ------
    InputError
        The estimator is not a SMERF, the grid is empty or names other parameters, the score is not defined for ``y``,
        or no pair is out of bag.

    Warns
    -----
    DistforestWarning
        All cells have the same score, so that the choice is arbitrary; or most trees of the best have no split.
    """
    cells = _cells(estimator, grid, y)
    if scoring not in SCORINGS:
        raise InputError(f"scoring must be one of {', '.join(map(repr, SCORINGS))}, found {scoring!r}")
    seeded = clone(estimator).set_params(random_state=seed_of(estimator.random_state), warm_start=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the fit of the best cell warns of all that is odd
        truth = Truth.from_given(y)
    check_defined(scoring, truth, scored_rows(len(truth.values)))
    may_share = truth.n_unobserved == 0 and sample_weight is None
    groups = shared_trees(cells, {**seeded.get_params(deep=False), **_of_graph(y)}, share=may_share)
    scored: dict[int, ScoredCell] = {}
    kept: tuple[int, SMERF, list[str]] | None = None
    for group in groups:
        params, taught = _split({**group.params, "oob_score": False}, y)
        own = clone(seeded).set_params(**params)
        messages = _fit_quietly(own, X, taught, sample_weight)
        scored |= dict(zip(group.numbers, scored_cells(own.forest_, truth, group.stops), strict=True))
        loosest = next((number for number in group.numbers if {**group.params, **cells[number]} == group.params), None)
        if loosest is not None and not seeded.oob_score:
            score = scored[loosest].by(scoring)
            kept = (loosest, own, messages) if all(score >= one.by(scoring) for one in scored.values()) else kept
    in_order = [scored[number] for number in range(len(cells))]
    best, warned = best_cell(in_order, scoring)
    is_kept = kept is not None and kept[0] == best
    for text in [*warned, *(kept[2] if kept is not None and is_kept else [])]:
        warn_caller(text)
    table = table_of(cells, in_order, scoring)
    if kept is not None and is_kept:
        return Tuned(table, scoring, best, kept[1], len(groups))
    params, taught = _split(cells[best], y)
    grown = clone(seeded).set_params(**params).fit(X, taught, sample_weight)
    return Tuned(table, scoring, best, grown, len(groups) + 1)


def _fit_quietly(estimator: SMERF, X: Any, y: Any, sample_weight: Any) -> list[str]:
    """Fit an estimator, and return the texts of its warnings for users instead of emitting them."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        estimator.fit(X, y, sample_weight)
    for one in caught:
        if not issubclass(one.category, UserWarning):
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
    return [str(one.message) for one in caught if issubclass(one.category, UserWarning)]


def _of_graph(y: object) -> dict[str, Any]:
    """Return the part of the ground truth that a grid may change: the diagonal of a graph."""
    return {DIAGONAL: y.diagonal} if isinstance(y, Graph) else {}


def _split(cell: Mapping[str, Any], y: TruthLike) -> tuple[dict[str, Any], TruthLike]:
    """Return the parameters and the ground truth of a cell; raises InputError as `Graph` does."""
    params = {name: value for name, value in cell.items() if name != DIAGONAL or not isinstance(y, Graph)}
    return params, replace(y, diagonal=cell[DIAGONAL]) if isinstance(y, Graph) and DIAGONAL in cell else y


def _cells(estimator: object, grid: Mapping[str, Sequence[Any]], y: TruthLike) -> list[GridCell]:
    """Return the cells of a grid; raises InputError if it is not one of a SMERF."""
    if not isinstance(estimator, SMERF):
        cure = "for other forests use sklearn.model_selection.GridSearchCV"
        raise InputError(f"estimator: a SMERF was expected, found {type(estimator).__name__}; {cure}")
    if not grid:
        raise InputError("grid: a dict of lists of values by the name of a parameter was expected, found none")
    known = sorted([*(row.name for row in SMERF._parameters), *_of_graph(y)])
    for name, values in grid.items():
        if name not in known:
            raise InputError(f"grid: {name!r} is no parameter that changes trees; these are {', '.join(known)}")
        if isinstance(values, str) or not isinstance(values, (Sequence, np.ndarray)) or not len(values):
            raise InputError(f"grid: a list of values was expected for {name!r}, found {values!r}")
    cells = grid_cells(grid)
    for cell in cells:  # before anything grows, as not every cell is fitted
        changed, _ = _split(cell, y)  # refuses a diagonal
        params = clone(estimator).set_params(**changed)._params()
        for fault in faults(SMERF._parameters, {name: params[name] for name in changed}).values():
            raise InputError(f"grid: the cell {dict(cell)}: {fault}")
    return cells
