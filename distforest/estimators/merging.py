"""Merging fitted estimators: the trees of several forests of the same data as one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from distforest.errors import InputError
from distforest.estimators.forest_estimator import ForestEstimator
from distforest.estimators.loading import estimator_of
from distforest.forest.merged_trees import merged
from distforest.forest.sealed.artifact import open_forest

if TYPE_CHECKING:
    from distforest.estimators.input_types import TaughtLike
    from distforest.estimators.loading import Estimator


def merge(forests: Sequence[Estimator | str | os.PathLike[str]], y: TaughtLike | None = None) -> Estimator:
    """Merge forests that were grown on the same data with the same parameters, but with other seeds.

    The merged forest has the trees of all of them, those of the smallest seed first, whatever the order of the list.
    Its digest covers all trees, as that of any forest. No single fit has grown it, so no trees can be added to it.

    Parameters
    ----------
    forests
        Fitted estimators, or paths or URLs of sealed forests; two or more.
    y
        What the forests were taught. If it is given, the score out of bag is worked out over all trees.

    Returns
    -------
    SMERF, URerF, SimForestClassifier, SimForestRegressor, SimForestOutlier, RFD or TreeRank
        A fitted estimator, as `load` gives it.

    Raises
    ------
    InputError
        One of them is not fitted; a tree is in two of them; they differ in data or parameters, or nothing tells whether
        they do; or ``y`` is given for forests without a score out of bag, or is not what they were taught.
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
    if isinstance(forests, (str, os.PathLike)) or not isinstance(forests, Sequence):
        raise InputError(f"forests: a list of two or more was expected, found {type(forests).__name__}")
    opened = []
    for place, one in enumerate(forests):
        if isinstance(one, ForestEstimator):
            if not hasattr(one, "forest_"):
                raise InputError(f"forests[{place}]: a fitted forest was expected, found one without trees; call fit")
            schema = one._schema()
            opened.append(one.forest_ if schema is None else one.forest_.with_schema(schema.kept()))
        elif isinstance(one, (str, os.PathLike)):
            opened.append(open_forest(os.fspath(one)))
        else:
            raise InputError(
                f"forests[{place}]: a fitted forest or an address was expected, found {type(one).__name__}"
            )
    estimator = estimator_of(merged(opened), "the merged forest")
    if y is not None:
        estimator._score_out_of_bag(y)
    return estimator
