"""Functions that open a sealed forest as a fitted estimator, and merge several forests into one."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, get_args

from distforest.amounts import counted
from distforest.errors import ArtifactError, InputError
from distforest.estimators.forest_estimator import ForestEstimator
from distforest.estimators.input_types import ObjectsLike, TaughtLike
from distforest.estimators.outliers import SimForestOutlier
from distforest.estimators.rfd import RFD
from distforest.estimators.simforest import SUBSETS, OnSimilarities, SimForestClassifier, SimForestRegressor
from distforest.estimators.similarity_lists import similarities_of, words_of
from distforest.estimators.smerf import SMERF
from distforest.estimators.tree_rank import TreeRank
from distforest.estimators.urerf import URerF
from distforest.forest.merged_trees import merged
from distforest.forest.sealed.artifact import open_forest
from distforest.growth.cuts.class_weights import key_of
from distforest.growth.methods import METHODS
from distforest.growth.parameters import complete
from distforest.sources.comparisons import COMPARATORS, Comparison
from distforest.sources.lazy.callbacks import Lazy
from distforest.sources.lazy.identity import name_of
from distforest.sources.point_pairs import PairColumns
from distforest.sources.row_kinds import Dense, Features, Kernel, Several, is_given

if TYPE_CHECKING:
    from distforest.forest.forest import Forest

Functions = Sequence[Callable[..., object]] | Mapping[str, Callable[..., object]]
"""Functions that compare records, by their own names or by those of a mapping."""

Estimator = SMERF | URerF | SimForestClassifier | SimForestRegressor | SimForestOutlier | RFD | TreeRank
"""Any of the estimators; each recognises its own forests."""


def load(
    address: str | os.PathLike[str],
    similarity: Lazy | Sequence[Lazy] | None = None,
    X: ObjectsLike | None = None,
    comparisons: Functions = (),
) -> Estimator:
    """Load a sealed forest of an estimator, a job or the service as a fitted estimator.

    The estimator gives the same answers as the original. It has the names of the features and the estimates of the fit
    (``oob_score_``, ``pruning_`` and the like); ``random_state`` and ``gamma`` are the numbers that the fit used.

    Parameters
    ----------
    address
        Path or URL of the forest.
    similarity
        The function that computes similarities from now on, or a list of functions. A forest contains the names of its
        functions, but not the functions. Without this argument, the queries of a forest that has learned from
        similarities are rows of similarities.
    X
        With ``similarity``, the training objects, in the same form as for `fit`.
    comparisons
        Your functions by which the forest compares records, or a dict of them by name. It contains only their names.

    Raises
    ------
    ArtifactError
        There is no sealed forest at the address, or it is damaged.
    InputError
        ``similarity`` is given for a forest that does not read similarities, or without ``X``; or the
        forest does not use one of ``comparisons``.
    """
    forest = open_forest(os.fspath(address))
    if comparisons:
        forest = with_functions(forest, comparisons)
    rows = forest.meaning.rows
    estimator = estimator_of(forest, os.fspath(address))
    if similarity is not None:
        if not (isinstance(estimator, OnSimilarities) and is_given(rows)) or X is None:
            raise InputError("similarity=Lazy(...) goes with X, the training objects, of a forest on similarities")
        n_measures = len(rows.measures) if isinstance(rows, Several) else 1
        if (n := len(similarities_of(similarity))) != n_measures:
            raise InputError(
                f"the forest has learned from {counted(n_measures, 'similarity', 'similarities')}, found {n}"
            )
        estimator.similarity, estimator.kind = similarity, "similarity"
        estimator._bind_again(X)
        origin = forest.provenance.get("similarity", {})
        estimator.n_evaluations_, estimator.n_closed_ = origin.get("evaluations"), origin.get("closed")
    return estimator


def with_functions(forest: Forest, functions: Functions) -> Forest:
    """Return the forest with the functions by which it compares records; raises InputError for one that it lacks."""
    given = functions if isinstance(functions, Mapping) else {name_of(function): function for function in functions}
    if len(given) < len(functions):
        raise InputError(
            f"comparisons: two functions are called {', '.join(given)}; give a dict of names and functions"
        )
    rows, by_name = forest.meaning.rows, dict(given)
    own = rows.comparisons if isinstance(rows, PairColumns) else ()
    if strange := set(by_name) - {one.comparator for one in own}:
        names = ", ".join(one.comparator for one in own if one.comparator not in COMPARATORS) or "none"
        raise InputError(f"comparisons: functions that the forest names ({names}) were expected, found {min(strange)}")
    assert isinstance(rows, PairColumns)  # noqa: S101  (no other has comparisons)
    bound = tuple(replace(one, function=by_name.get(one.comparator, one.function)) for one in own)
    return replace(forest, meaning=replace(forest.meaning, rows=replace(rows, comparisons=bound)))


def _absent(*_: object) -> object:
    """Stand for a function of a sealed forest, which is never imported by its name."""
    raise InputError("a function that compares records is not there: load(address, comparisons=[function])")


def estimator_of(forest: Forest, address: str) -> Estimator:
    """Return the fitted estimator of a forest; raises ArtifactError with its address for unknown parameters."""
    meaning, rows = forest.meaning, forest.meaning.rows
    try:
        params = complete(METHODS[meaning.method].parameters, meaning.params)
    except (KeyError, InputError) as error:
        raise ArtifactError(f"{address}: unknown method or parameters: {error}") from error
    kind: type[Estimator] = next(own for own in get_args(Estimator) if own._opens(meaning))
    estimator = kind(random_state=meaning.seed)
    estimator.set_params(**{row.name: params[row.name] for row in estimator._parameters if row.name in params})
    if params.get("feature_weights") == "given":
        estimator.set_params(feature_weights=forest.feature_weights)
    weights = params.get("class_weight")
    if isinstance(estimator, SimForestClassifier) and isinstance(weights, Mapping):
        by_label: dict[object, float] = {
            label: weights[key_of(label)] for label in meaning.classes or [] if key_of(label) in weights
        }
        estimator.class_weight = by_label
    if isinstance(estimator, (RFD, TreeRank)) and isinstance(rows, PairColumns) and not rows.blocks:
        names = forest.schema.names if forest.schema else range(rows.n_features)
        compared = []
        for one in rows.comparisons:
            is_word = one.comparator in COMPARATORS
            compare, name = (one.comparator, None) if is_word else (one.function or _absent, one.comparator)
            fields = (names[c] for c in one.features)
            compared.append(Comparison(compare, *fields, each=one.each, name=name))
        estimator.pair_columns = compared or None
    measures = rows.measures if isinstance(rows, Several) else (rows,)
    if isinstance(estimator, OnSimilarities):
        estimator.similarity = SUBSETS if isinstance(rows, Features) else words_of(rows)
        if isinstance(rows, Several):
            estimator.similarity_weights = [*rows.weights]
        kinds = {measure.measure if isinstance(measure, Dense) else "similarity" for measure in measures}
        estimator.kind = kinds.pop() if len(kinds) == 1 else "similarity"
        gammas = [own.gamma for own in measures if isinstance(own, Kernel) and own.kind == "rbf"]
        estimator.gamma = gammas[0] if gammas else None
    estimator._restore(forest)
    return estimator


def merge(forests: Sequence[Estimator | str | os.PathLike[str]], y: TaughtLike | None = None) -> Estimator:
    """Merge forests that were grown on the same data with the same parameters, but with other seeds.

    The merged forest has the trees of all forests, ordered by seed, whatever the order of the list. Its digest covers
    all trees. Because no single fit has grown it, you cannot add trees to it.

    Parameters
    ----------
    forests
        Fitted estimators, or paths or URLs of sealed forests; two or more.
    y
        The ground truth of the forests. If it is given, the out-of-bag score of all trees is computed.

    Returns
    -------
    SMERF, URerF, SimForestClassifier, SimForestRegressor, SimForestOutlier, RFD or TreeRank
        A fitted estimator, as `load` returns it.

    Raises
    ------
    InputError
        One of the forests is not fitted; two of them have a tree in common; they differ in data or parameters, or it is
        unknown whether they do; or ``y`` is not their ground truth, or they have no out-of-bag score.
    ArtifactError
        There is no sealed forest at an address, or it is damaged.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from distforest import SMERF, merge
    >>> X, y = load_iris(return_X_y=True)
    >>> both = merge([SMERF(50, random_state=seed).fit(X, y) for seed in (0, 1)], y)
    >>> both.forest_.n_trees, bool(both.oob_score_ > 0.7)
    (100, True)
    """
    opened = []
    for place, one in enumerate([forests] if isinstance(forests, (str, os.PathLike)) else forests):
        if not isinstance(one, ForestEstimator):
            opened.append(open_forest(os.fspath(one)))
            continue
        if not hasattr(one, "forest_"):
            raise InputError(f"forests[{place}]: a fitted forest was expected, found one without trees; call fit")
        schema = one._schema()
        opened.append(one.forest_ if schema is None else one.forest_.with_schema(schema.kept()))
    estimator = estimator_of(merged(opened), "the merged forest")
    if y is not None:
        estimator._score_out_of_bag(y)
    return estimator
