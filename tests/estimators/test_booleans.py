"""Columns of True and False in training: later rows may hold 1 and 0 in their place, but no other codes of the two."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse
from sklearn.datasets import load_breast_cancer

from distforest import RFD, SMERF, Labels, SimForestClassifier, TreeRank, URerF, load
from distforest.errors import InputError
from tests.messages import naming

if TYPE_CHECKING:
    from pathlib import Path

CANCER = load_breast_cancer(as_frame=True)
Y = CANCER.target[::8].to_numpy()
TABLE = CANCER.data.iloc[::8, :3].reset_index(drop=True)
TABLE["is large"] = TABLE["mean radius"] > 14
BITS = (CANCER.data[::8] > CANCER.data.median()).to_numpy()
FEW = {"random_state": 0}
KINDS: dict[str, Any] = {
    "smerf": lambda X: SMERF(4, **FEW).fit(X, Labels(Y)),
    "urerf": lambda X: URerF(4, **FEW).fit(X),
    "rfd": lambda X: RFD(4, n_constraints=20, **FEW).fit(X, Y),
    "treerank": lambda X: TreeRank(2, n_pairs=200, max_depth=2, **FEW).fit(X, Y),
    "linear": lambda X: SimForestClassifier("cosine", n_estimators=4, **FEW).fit(X, Y),
}


def with_codes(zero: float, one: float) -> pd.DataFrame:
    return TABLE.assign(**{"is large": np.where(TABLE["is large"], one, zero)})


@pytest.mark.parametrize("name", KINDS)
def test_other_codes_of_true_and_false_are_refused(name: str, tmp_path: Path) -> None:
    forest = KINDS[name](TABLE)
    forest.save(tmp_path / "forest.zarr")
    known, first = forest.distance(TABLE), int(TABLE["is large"].argmax())
    for one in (forest, load(str(tmp_path / "forest.zarr"))):
        with pytest.raises(InputError, match=naming("X:", "column 'is large'", 2, f"row {first}")):
            one.distance(with_codes(1, 2))
        with pytest.raises(InputError, match=naming("X:", "column 'is large'", -1, "row 0")):
            one.distance(with_codes(-1, 1)[~TABLE["is large"]])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for alike in (TABLE, with_codes(0, 1), with_codes(False, True), TABLE.astype({"is large": "boolean"})):
                np.testing.assert_array_equal(one.distance(alike), known)
            one.distance(pa.Table.from_pandas(TABLE))


@pytest.mark.parametrize("form", [np.asarray, scipy.sparse.csr_array], ids=["dense", "sparse"])
def test_a_matrix_of_booleans_is_one_of_0_and_1(form: Any) -> None:
    forest = SMERF(4, **FEW).fit(form(BITS), Y)
    known = forest.predict(form(BITS))
    np.testing.assert_array_equal(forest.predict(form(BITS.astype(np.int64))), known)
    codes = BITS.astype(np.float32)
    codes[3, 5] = 3
    with pytest.raises(InputError, match=naming("X:", "column 5", 3, "row 3")):
        forest.predict(form(codes))
    forest.fit(form(codes), Y).predict(form(2 * codes))  # no longer of booleans


def test_a_matrix_of_similarities_is_no_matrix_of_features() -> None:
    S = BITS[:, :1] == BITS[:, :1].T
    forest = SimForestClassifier(n_estimators=4, **FEW).fit(S, BITS[:, 0])
    weighed = S.astype(np.float64)
    weighed[:, 3] = 0.5
    assert forest.predict(weighed).tolist() == BITS[:, 0].tolist()
