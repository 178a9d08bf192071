"""How messages read: the one place where tests hold whole sentences."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from distforest import RFD, SMERF, Distances, SimForestClassifier, URerF, load
from distforest.errors import ArtifactError, DistforestWarning, InputError, SpecError
from distforest.jobs.any_spec import spec_from_dict

X = np.random.default_rng(0).normal(size=(30, 3))
LABELS = np.arange(30) % 3
Z = np.abs(X[:, :1] - X[:, 0])
SPEC = {"format": 1, "method": "smerf", "output": "x.forest.zarr", "input": {"features": "x.zarr/X"}}

REFUSED: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (
        lambda: SMERF(0).fit(X, LABELS),
        InputError,
        "n_estimators must be an integer in [1, 1000000], found 0",
    ),
    (
        lambda: URerF(criterion="bic").fit(X),
        InputError,
        "criterion must be 'equal_bic' or 'fast_bic' or 'two_means' or 'mclust_bic', found 'bic'",
    ),
    (
        lambda: SMERF(5).fit(X, LABELS[1:]),
        InputError,
        "found 30 rows of features and 29 of labels: inconsistent numbers of samples",
    ),
    (
        lambda: SMERF(5).fit(np.where(X > 2.0, np.inf, X), LABELS),
        InputError,
        (
            "features must be finite or NaN for missing: found 1 value infinite (or beyond float32) in rows 0..29, "
            "the first at row 26, column 1 (inf); remove or impute them"
        ),
    ),
    (
        lambda: SMERF(5).fit(X, Distances(Z[:, :5])),
        InputError,
        "distances: a square matrix was expected, found shape (30, 5)",
    ),
    (
        lambda: SMERF(5).fit(X, LABELS, sample_weight=-np.ones(30)),
        InputError,
        "sample_weight: numbers that are not negative were expected, found -1.0 in row 0",
    ),
    (
        lambda: SimForestClassifier().fit(X, LABELS),
        InputError,
        (
            "a training matrix (similarity) must be square, a precomputed metric; found shape (30, 3); if these are "
            "features, choose a similarity that reads them, such as 'manhattan'"
        ),
    ),
    (
        lambda: RFD(5).fit_pairs(X, [[0, 99]], [1]),
        InputError,
        "pairs: numbers must be in 0..29, found 99 in pair 0",
    ),
    (
        lambda: load("/nowhere/x.forest.zarr"),
        ArtifactError,
        (
            "/nowhere/x.forest.zarr: no sealed forest here (there is no manifest.json; give the folder, or the .zip, "
            "that a fit or `save` has written)"
        ),
    ),
    (
        lambda: spec_from_dict({**SPEC, "seed": -1, "params": {"n_tree": 5}}),
        SpecError,
        (
            "seed: must be greater than or equal to 0, found -1; seed of all random numbers\n"
            "input.distances: is missing; it must be an address, or a table with a kind of 'dense', 'labels', "
            "'targets', 'embedding', 'graph', 'observed', 'lazy'\n"
            "params.n_tree: unknown key 'n_tree'; known here are 'n_estimators', 'max_features', "
            "'feature_combinations', 'coefficients', 'feature_weights', 'splitter', 'criterion', 'max_bins', "
            "'min_samples_leaf', "
            "'min_samples_split', 'max_depth', 'bootstrap', 'max_samples', 'oob_score'"
        ),
    ),
]
"""A call, the class of its error, and the whole message."""

WARNED: list[tuple[Callable[[], Any], str]] = [
    (
        lambda: SMERF(5, random_state=0).fit(X, Distances(Z + np.triu(np.ones((30, 30)), 1))),
        "DF004 distances: z_ij and z_ji differ by up to 1; their mean is used",
    ),
    (
        lambda: SMERF(5, random_state=0).fit(X, np.zeros(30)),
        (
            "DF012 no tree has a split, so every distance is the same, and every prediction: all labels are 0.0 (give "
            "rows of a second class)"
        ),
    ),
    (
        lambda: SMERF(5, random_state=0, min_samples_split=50).fit(X, LABELS),
        (
            "DF012 no tree has a split, so every distance is the same, and every prediction: a tree draws 30 rows, "
            "and min_samples_split=50 makes them one leaf (lower it)"
        ),
    ),
]


@pytest.mark.parametrize(("call", "kind", "message"), REFUSED)
def test_a_refusal_reads(call: Callable[[], Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=f"^{re.escape(message)}$"):
        call()


@pytest.mark.parametrize(("call", "message"), WARNED)
def test_a_warning_reads(call: Callable[[], Any], message: str) -> None:
    with pytest.warns(DistforestWarning, match=f"^{re.escape(message)}$"):
        call()
