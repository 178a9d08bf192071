"""Keys are found on their lines, whatever TOML they are written in."""

from __future__ import annotations

import tomllib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distforest.jobs.reader import key_lines, refusal, shown


def all_places(table: object, place: tuple[str, ...] = ()) -> set[tuple[str, ...]]:
    """The places of all keys, as tomllib sees them."""
    if isinstance(table, list):
        return set().union(*(all_places(held, place) for held in table))
    if not isinstance(table, dict):
        return set()
    return set().union(*({(*place, name)} | all_places(held, (*place, name)) for name, held in table.items()))


TEXT = '''\
# a = 1
title = "x = 1 # [no]"  # b = 2
"quoted \\u00e9 = key" = 1
'literal.key' . "b" = 2
3.14 = "pi"
date = 1979-05-27T07:32:00Z

[ server . "a]b" ]   # a comment = 1
many = """
no = 1
"quotes" \\""" ""\\" still """""
lines = \'\'\'
nor = "1"
\'\'\'\'
list = [ [1, 2], # x = [
  "a = 1", { in_list = { deep = 1 }, other = 2 },
  3 ]
empty = {}
inline = { a.b = 1, "c" = [ 1, {} ], d = { e = "}" }, f = 2 }

[[array]]
one = 1
[[array]]
one = 1
two = 2
[server.later]
'''


def test_every_way_to_write_a_key() -> None:
    lines = key_lines(TEXT)
    assert set(lines) == all_places(tomllib.loads(TEXT))
    expected = {
        ("title",): 2,
        ("quoted é = key",): 3,
        ("literal.key", "b"): 4,
        ("3", "14"): 5,
        ("date",): 6,
        ("server",): 8,
        ("server", "a]b"): 8,
        ("server", "a]b", "many"): 9,
        ("server", "a]b", "lines"): 12,
        ("server", "a]b", "list"): 15,
        ("server", "a]b", "list", "in_list", "deep"): 16,
        ("server", "a]b", "list", "other"): 16,
        ("server", "a]b", "inline", "a", "b"): 19,
        ("server", "a]b", "inline", "d", "e"): 19,
        ("server", "a]b", "inline", "f"): 19,
        ("array",): 21,
        ("array", "one"): 22,
        ("array", "two"): 25,
        ("server", "later"): 26,
    }
    assert {place: lines[place] for place in expected} == expected


PIECES = st.sampled_from(
    [
        "a",
        "b",
        ".",
        " = ",
        "1",
        "[",
        "]",
        "{",
        "}",
        ", ",
        "\n",
        '"',
        "'",
        '"""',
        "'''",
        "\\",
        "#",
        "[a.b]\n",
        "x.y = 1\n",
    ]
)


@pytest.mark.slow
@settings(deadline=None, max_examples=300)
@given(st.lists(PIECES, max_size=25).map("".join))
def test_it_sees_the_keys_that_tomllib_sees(text: str) -> None:
    lines = key_lines(text)
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        assert all(1 <= line <= text.count("\n") + 1 for line in lines.values())
    else:
        assert set(lines) == all_places(table)


def test_a_fault_has_the_line_of_the_nearest_table() -> None:
    error = refusal([(("run", "a b", "c"), "is bad")], {("run",): 4})
    assert error.faults == ("run.'a b'.c (line 4): is bad",)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([10**5000], "[an integer of 16610 bits]"),
        ([[[[[[[[1]]]]]]]], "[[[[[[[...]]]]]]]"),
        (True, "True"),
        (-3, "-3"),
    ],
)
def test_a_value_is_shown_short(value: object, expected: str) -> None:
    assert shown(value) == expected
