"""The table of answers: what a row says is all that there is to say of an answer."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from distforest.forest.forest import Forest
from distforest.forest.sealed.artifact import open_forest
from distforest.jobs.answers import ANSWERS, Answer, Array
from distforest.jobs.cluster import Threads
from distforest.jobs.outline import OPTIONS, unused
from distforest.jobs.question import Question
from distforest.jobs.score import score
from distforest.sources.arrays import open_array, write_array
from distforest.stores.outputs import ANSWERS_KIND, ARRAYS_OF_ANSWERS, look
from tests import samples


@pytest.mark.parametrize("row", ANSWERS.values(), ids=list(ANSWERS))
def test_what_an_answer_writes_is_known_for_an_answer(row: Answer) -> None:
    assert {array.name for array in row.arrays} <= {*ARRAYS_OF_ANSWERS, row.name}
    assert set(row.takes) <= set(Question.__dataclass_fields__)


def test_what_an_answer_does_not_take_is_reported_with_those_that_do() -> None:
    given = {"reference": "r.zarr", "pairs": "p.zarr", "n_neighbors": 3, "without_self": True}
    given |= {"share": 0.1, "training_ids": "t.zarr", "sides": "one", "distances": "Z.zarr"}
    assert set(given) == OPTIONS
    told = {
        "reference": "'distance' or 'proximity'",
        "pairs": "'pairs' or 'standard_error' or 'decision' or 'probability'",
        "n_neighbors": "'neighbors' or 'graph'",
        "without_self": "'neighbors' or 'graph'",
        "share": "'probability'",
        "training_ids": "'neighbors'",
        **dict.fromkeys(("sides", "distances"), "'distance'"),
    }
    assert unused("apply", given) == told
    assert list(unused("apply", given)) == list(told)
    for name, row in ANSWERS.items():
        assert unused(name, given) == {option: words for option, words in told.items() if option not in row.takes}


def test_a_row_is_enough_for_a_further_answer(
    sealed_of: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is answered in blocks, written under its own name, and replaced like any other."""
    array = Array("halves", lambda of: ("int32", (of.forest.n_trees,)))
    row = Answer("halves", (array,), lambda asked: (asked.nodes.T // 2,))
    monkeypatch.setitem(ANSWERS, row.name, row)
    monkeypatch.setattr("distforest.jobs.score.ANSWERS_PER_TASK", 100)
    rows, sealed, output = samples.features(), sealed_of("labels"), f"{tmp_path}/halves.zarr"
    write_array(f"{tmp_path}/rows.zarr", "X", rows.shape, rows.dtype, [rows])
    for _ in range(2):
        score(Question(str(sealed), f"{tmp_path}/rows.zarr/X", row.name), output, Threads(2), overwrite=True)
    forest: Forest = open_forest(str(sealed))
    np.testing.assert_array_equal(open_array(f"{output}/halves")[...], forest.training_nodes.T // 2)
    found = look(output)
    assert found is not None
    assert (found.kind, found.beside) == (ANSWERS_KIND, ())


def test_the_table_is_read_without_what_answers_are_worked_out_with() -> None:
    code = "import sys; sys.modules['numpy'] = None; from distforest.jobs.answers import ANSWERS; print(*ANSWERS)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == list(ANSWERS)
