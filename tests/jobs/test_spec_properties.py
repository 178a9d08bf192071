"""Whatever is written, a spec is read and survives, or is refused with a SpecError."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distforest.errors import SpecError
from distforest.growth.methods import METHODS
from distforest.growth.parameters import Parameter
from distforest.jobs.spec import Spec
from distforest.jobs.spec_models import ADDRESS_KEYS, INPUTS, OF_DISTANCES_KINDS, SIMILARITY_KINDS, Run, kinds_of
from tests.jobs.test_spec import LAZEGA

if TYPE_CHECKING:
    from collections.abc import Callable

ADDRESSES = st.text(st.characters(categories=("L", "N", "P", "S")), min_size=1, max_size=12).filter(
    lambda address: bool(address.split("://")[-1].strip("./"))  # a folder that holds the output is no input
)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(["lazy", "dense"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
NAMES = st.sampled_from(
    [
        "feature_weights",
        "kind",
        "matrix",
        "values",
        "features",
        "distances",
        "similarity",
        "labels",
        "targets",
        "gamma",
        "measure",
    ]
    + [*Run.model_fields]
    + [row.name for name in ("smerf", "simforest", "urerf") for row in METHODS[name].parameters]
)


def parameter_values(row: Parameter, nulls: bool) -> st.SearchStrategy[object]:
    choices = [st.just("none" if word is None and not nulls else word) for word in (*row.words, row.default)]
    if row.integer is not None:
        choices.append(st.integers(int(row.integer[0]), int(min(row.integer[1], 2**63 - 1))))
    if row.real is not None:
        choices.append(st.floats(*row.real))
    if row.table:
        positive = st.floats(min_value=0, exclude_min=True, allow_infinity=False) | st.integers(1, 2**63 - 1)
        choices.append(st.dictionaries(ADDRESSES, positive, max_size=3))
    return st.one_of(choices)


def relations(name: str, nulls: bool) -> st.SearchStrategy[object]:
    options = {
        "measure": st.sampled_from(["similarity", "distance"]),
        **dict.fromkeys(
            ("gamma", "timeout", "absent"), st.floats(0, exclude_min=True, allow_infinity=False) | st.integers(1, 2**62)
        ),
        **dict.fromkeys(("objects", "ledger", "costs"), ADDRESSES),
        "symmetric": st.booleans(),
        "diagonal": st.floats(0, allow_infinity=False),
        "directed": st.sampled_from(["mean", "either", "both"]),
        **dict.fromkeys(("batch_size", "concurrency"), st.integers(1, 2**63 - 1)),
        **dict.fromkeys(("retries", "budget"), st.integers(0, 2**63 - 1)),
        "share": st.sampled_from(["all", "worker"]),
    }
    metrics = {"targets": ["squared", "absolute"], "embedding": ["sqeuclidean", "cosine"]}
    tables = [
        st.fixed_dictionaries(
            {"kind": st.just(kind), ADDRESS_KEYS[kind]: ADDRESSES},
            optional={
                key: {**options, "metric": st.sampled_from(metrics.get(kind, [""]))}[key]
                | (st.none() if nulls and field.default is None else st.nothing())
                for key, field in table.model_fields.items()
                if not field.is_required()
            },
        )
        for table in {"distances": OF_DISTANCES_KINDS, "similarity": SIMILARITY_KINDS}[name]
        for kind in kinds_of(table)
    ]
    return st.one_of(ADDRESSES, *tables)


@st.composite
def valid_tables(draw: st.DrawFn, nulls: bool = True) -> dict[str, Any]:
    """A spec without a fault; a TOML text has no null."""
    method = draw(st.sampled_from(sorted(INPUTS)))
    keys = INPUTS[method].model_fields
    given = {name: draw(relations(name, nulls)) for name in ("distances", "similarity") if name in keys}
    given |= {"features": draw(ADDRESSES)} if "features" in keys else {}
    if truths := [name for name in ("labels", "targets", "similar") if name in keys]:
        given[draw(st.sampled_from(truths))] = draw(ADDRESSES)
    weights = [name for name in ("feature_weights", "sample_weight") if name in keys]
    given |= draw(st.fixed_dictionaries({}, optional=dict.fromkeys(weights, ADDRESSES)))
    if "similar" in given:
        given |= draw(st.fixed_dictionaries({"pairs": ADDRESSES}, optional={"pair_weight": ADDRESSES}))
    count, none = st.integers(1, 2**63 - 1), st.none() if nulls else st.nothing()
    run = {
        **dict.fromkeys(("workers", "batch"), count | none),
        "threads_per_worker": count,
        "memory_limit": st.sampled_from(["4GiB", "100 MB"]) | count | none,
        "scratch_limit": st.sampled_from(["200GiB", "100 MB"]) | count | none,
        **dict.fromkeys(("scheduler", "scratch"), ADDRESSES | none),
        "retries": st.integers(0, 2**63 - 1),
        "priority": st.integers(-1000, 2**63 - 1),
        **dict.fromkeys(("overwrite", "keep_shards", "grow_on", "strict"), st.booleans()),
    }
    params = {parameter.name: parameter_values(parameter, nulls) for parameter in METHODS[method].parameters}
    if "feature_weights" in params:
        named = "feature_weights" in given
        params["feature_weights"] = params["feature_weights"].filter(lambda word: (word == "given") == named)
    head = {"format": 1, "method": method, "output": "out/" + draw(ADDRESSES).replace("/", "") + ".zarr"}
    tables = {
        "seed": st.integers(0, 2**63 - 1),
        "params": st.fixed_dictionaries({}, optional=params),
        "run": st.fixed_dictionaries({}, optional=run),
    }
    rest = draw(st.fixed_dictionaries({}, optional=tables))
    return dict(draw(st.permutations([*head.items(), ("input", given), *rest.items()])))


def as_toml(table: dict[str, Any], inline: bool) -> str:
    """A TOML text of a spec, its tables under headers or inline."""

    def value(held: object) -> str:
        if isinstance(held, dict):
            return "{ " + ", ".join(f"{value(name)} = {value(inner)}" for name, inner in held.items()) + " }"
        return json.dumps(held, ensure_ascii=False)

    plain = [f"{name} = {value(held)}" for name, held in table.items() if inline or not isinstance(held, dict)]
    headed = [
        "\n".join([f"[{name}]", *(f"{key} = {value(inner)}" for key, inner in held.items())])
        for name, held in table.items()
        if not inline and isinstance(held, dict)
    ]
    return "\n".join([*plain, *headed])


@pytest.mark.slow
@settings(deadline=None)
@given(valid_tables())
def test_every_valid_spec_survives_its_dict_and_its_json(table: dict[str, Any]) -> None:
    spec = Spec.from_dict(table)
    assert Spec.from_dict(spec.to_dict()) == spec
    assert Spec.from_json(spec.to_json()) == spec
    assert Spec.from_json(spec.to_json()).to_json() == spec.to_json()


@pytest.mark.slow
@settings(deadline=None)
@given(valid_tables(nulls=False), st.booleans())
def test_every_valid_spec_survives_toml(table: dict[str, Any], inline: bool) -> None:
    spec = Spec.from_dict(table)
    assert Spec.from_toml(as_toml(table, inline)) == spec


def told(read: Callable[[Any], Spec], source: object) -> tuple[str, ...]:
    """The faults of a spec; none if it can be read and survives its JSON. Nothing else is caught."""
    try:
        spec = read(source)
    except SpecError as error:
        return error.faults or ("no fault is told",)
    return () if Spec.from_json(spec.to_json()) == spec else ("does not survive",)


def sound(faults: tuple[str, ...]) -> bool:
    """Whether each fault is one line that says where and what."""
    return all(": " in fault and "\n" not in fault for fault in faults)


@pytest.mark.slow
@settings(deadline=None)
@given(st.data())
def test_nothing_but_a_spec_error_comes_of_a_spoilt_dict(data: st.DataObject) -> None:
    table = data.draw(valid_tables())
    tables = [table, *(held for held in table.values() if isinstance(held, dict))]
    for _ in range(data.draw(st.integers(1, 3))):
        spoilt = data.draw(st.sampled_from(tables))
        names = st.sampled_from(sorted(spoilt)) | NAMES if spoilt else NAMES
        spoilt[data.draw(names)] = data.draw(JSON_VALUES)
    assert sound(told(Spec.from_dict, table))


@pytest.mark.slow
@settings(deadline=None)
@given(st.dictionaries(NAMES | st.text(max_size=8), JSON_VALUES, max_size=6) | JSON_VALUES)
def test_nothing_but_a_spec_error_comes_of_any_dict(table: object) -> None:
    assert sound(told(Spec.from_dict, table))


@settings(deadline=None)
@given(st.data())
def test_nothing_but_a_spec_error_comes_of_a_spoilt_text(data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(LAZEGA)))
    end = data.draw(st.integers(start, min(start + 5, len(LAZEGA))))
    junk = data.draw(st.text(st.sampled_from("\"'[]{}=,.#\\\n\r ab1\ud800é"), max_size=6))
    assert sound(told(Spec.from_toml, LAZEGA[:start] + junk + LAZEGA[end:]))
