"""docs/spec.md tells the parameters and keys that there are, and its samples are specs."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from distforest.growth.methods import METHODS
from distforest.jobs.answers import ANSWERS
from distforest.jobs.any_spec import kind_of_job, spec_from_dict
from distforest.jobs.reader import read_toml
from distforest.jobs.score_spec import ScoreInput, ScoreParams, ScoreSpec
from distforest.jobs.spec import Spec
from distforest.jobs.spec_models import INPUTS, AskedDecision, Run

TEXT = (Path(__file__).parents[2] / "docs" / "spec.md").read_text()


def tables() -> list[list[list[str]]]:
    """The cells of all tables, row by row, each with its head first."""
    found = re.findall(r"(?:^\|.*\|\n)+", TEXT, re.MULTILINE)
    rows = [[line.strip("|").split("|") for line in table.splitlines()] for table in found]
    return [[[cell.strip() for cell in row] for row in (table[0], *table[2:])] for table in rows]


def default(cell: str) -> Any:
    """A default as a cell tells it."""
    word = cell.strip("`")
    return None if word == "none" else json.loads(word)


def rows_of(method: str) -> list[tuple[str, str, str]]:
    """Name, default and meaning of the parameters of a method, from all tables that have a column for it."""
    found = [table for table in tables() if table[0][0] == "parameter" and method in table[0]]
    return [
        (row[0].strip("`"), row[head.index(method)], row[-1])
        for head, *rows in found
        for row in rows
        if row[head.index(method)]
    ]


@pytest.mark.parametrize("method", INPUTS)
def test_parameters_and_their_defaults(method: str) -> None:
    told = [(name, default(cell)) for name, cell, _ in rows_of(method)]
    assert sorted(told, key=str) == sorted([(row.name, row.default) for row in METHODS[method].parameters], key=str)


@pytest.mark.parametrize("method", INPUTS)
def test_the_words_of_parameters(method: str) -> None:
    told = {name: f"{cell} {meaning}" for name, cell, meaning in rows_of(method)}
    for parameter in METHODS[method].parameters:
        for word in parameter.words:
            assert not isinstance(word, str) or f'"{word}"' in told[parameter.name], (parameter.name, word)


def test_keys_of_run() -> None:
    head, *rows = next(table for table in tables() if table[0][0] == "key" and "`workers`" in str(table))
    assert head[:2] == ["key", "default"]
    assert {row[0].strip("`") for row in rows} == set(Run.model_fields)


def test_keys_of_decision() -> None:
    _, *rows = next(table for table in tables() if "`false_positive_rate`" in str(table))
    assert [row[0].strip("`") for row in rows] == list(AskedDecision.model_fields)


def test_the_methods() -> None:
    told = next(line for line in TEXT.splitlines() if line.startswith('method = "smerf"'))
    assert re.findall(r'"(\w+)"', told) == list(INPUTS)


def test_keys_of_input() -> None:
    _, *rows = next(table for table in tables() if table[0][:2] == ["method", "key"])
    for name, keys in INPUTS.items():
        told = {key for row in rows if name in row[0].split(", ") for key in re.findall(r"`(\w+)`", row[1])}
        assert told == set(keys.model_fields), name


def test_keys_of_a_scoring_job() -> None:
    head, *rows = next(table for table in tables() if table[0][:2] == ["table", "key"])
    assert head[2] == "default"
    for name, keys in (("input", ScoreInput), ("params", ScoreParams)):
        told = {row[1].strip("`"): row[2] for row in rows if row[0] == name}
        assert set(told) == set(keys.model_fields)
        for key, field in keys.model_fields.items():
            if field.is_required():
                assert told[key] == "required"
            elif name == "params":
                assert default(told[key]) == field.default
    answers = next(row[3] for row in rows if row[1] == "`answer`")
    assert re.findall(r'"(\w+)"', answers) == list(ANSWERS)


def test_samples_are_specs() -> None:
    texts = re.findall(r"```toml\n(.*?)```", TEXT, re.DOTALL)
    samples = [spec_from_dict(*read_toml(text)) for text in texts if not text.startswith("[columns]")]
    assert [spec.method for spec in samples if isinstance(spec, Spec)] == [
        "smerf",
        "simforest",
        "treerank",
        "smerf",
    ]
    assert [kind_of_job(spec) for spec in samples if isinstance(spec, Spec)][-1] == "tune"
    assert [spec.params["answer"] for spec in samples if isinstance(spec, ScoreSpec)] == ["neighbors"]
