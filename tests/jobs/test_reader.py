"""Keys are found on their lines, whatever TOML they are written in."""

from __future__ import annotations

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distforest.jobs.reader import MAX_DEPTH, key_lines, refusal, shown

TEXT = """\
# a = 1
title = "x = 1 # [no]"  # b = 2
"quoted é = key" = 1
'literal.key' . "b" = 2
3.14 = "pi"

[ server . "a]b" ]   # a comment = 1
list = [ [1, 2], # x = [
  { in_list = { deep = 1 }, other = 2 },
  3 ]
  inline = { a.b = 1, f = 2 }

[[array]]
one = 1
[[array]]
one = 1
two = 2
[server.later]
"""


def test_every_way_to_write_a_key() -> None:
    assert tomllib.loads(TEXT)
    assert key_lines(TEXT) == {
        ("title",): 2,
        ("quoted é = key",): 3,
        ("literal.key",): 4,
        ("literal.key", "b"): 4,
        ("3",): 5,
        ("3", "14"): 5,
        ("server",): 7,
        ("server", "a]b"): 7,
        ("server", "a]b", "list"): 8,
        ("server", "a]b", "inline"): 11,
        ("array",): 13,
        ("array", "one"): 14,
        ("array", "two"): 17,
        ("server", "later"): 18,
    }


def test_blank_lines_deep_tables_and_ends_of_windows_are_counted() -> None:
    text = "\n\t\n  a = 1\r\n\n[b]\r\n\n c\n= 2\nd . e = 3\n" + ".".join("x" * 20) + " = 4\n"
    found = key_lines(text)
    deep = {("b", *"x" * n): 10 for n in range(1, MAX_DEPTH)}
    assert found == {("a",): 3, ("b",): 5, ("b", "d"): 9, ("b", "d", "e"): 9, **deep}


@given(st.text("ab.=1[]{},\n\"'\\# "))
def test_any_text_has_lines(text: str) -> None:
    assert all(1 <= line <= text.count("\n") + 1 for line in key_lines(text).values())


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
