"""Stored values are read as what they are, or refused in one line with their place."""

from __future__ import annotations

from enum import Enum

import pytest

from tvm_ios.support.stored_value import StoredValue, UnreadableValueError, parse_json


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


def stored(value):
    return StoredValue(value, "a[1].b")


def test_values_of_the_right_kind_are_read():
    data = parse_json('{"n": 3, "x": 2, "t": "s", "f": true, "c": "blue", "r": [1, 2]}', "it")
    assert data.field("n").whole(3, 3) == 3
    assert data.field("x").number() == 2.0
    assert data.field("t").text() == "s"
    assert data.field("f").flag() is True
    assert data.field("c").member(Colour) is Colour.BLUE
    assert data.field("r").wholes() == (1, 2)
    assert [row.where for row in data.field("r").rows(2)] == ["r[0]", "r[1]"]
    assert data.optional_field("more") is None
    assert stored(None).or_none(StoredValue.whole) is None
    assert list(data.fields()) == ["n", "x", "t", "f", "c", "r"]


@pytest.mark.parametrize(
    "value", [True, False, 0.9, 1.0, "1", None, [], {}, float("inf"), float("nan"), -1, 8]
)
def test_only_whole_numbers_within_bounds_are_whole(value):
    with pytest.raises(
        UnreadableValueError, match=r"^a\[1\]\.b is .*; expected a whole number from"
    ):
        stored(value).whole(0, 7)


@pytest.mark.parametrize(
    "value", [True, "1", None, [], float("inf"), float("-inf"), float("nan"), 10**400]
)
def test_only_finite_numbers_are_numbers(value):
    with pytest.raises(UnreadableValueError, match="expected a finite number"):
        stored(value).number()


@pytest.mark.parametrize(
    ("value", "read", "expected"),
    [
        (1, StoredValue.text, "text"),
        (b"bytes", StoredValue.text, "text"),
        (1, StoredValue.flag, "true or false"),
        ("red", StoredValue.flag, "true or false"),
        ("green", lambda v: v.member(Colour), "one of 'red', 'blue'"),
        (["red"], lambda v: v.member(Colour), "one of"),
        ("ab", StoredValue.rows, "a list"),
        ("ab", StoredValue.texts, "a list"),
        ([1], lambda v: v.rows(2), "2 entries"),
        ([], lambda v: v.field("x"), "an object"),
        ("x", StoredValue.fields, "an object"),
    ],
)
def test_what_was_expected_is_said(value, read, expected):
    with pytest.raises(UnreadableValueError, match=rf"^a\[1\]\.b is .*; expected {expected}"):
        read(stored(value))


def test_places_are_paths():
    data = parse_json('{"a": [{"b": {"c": "x"}}]}', "the file")
    (row,) = data.field("a").rows()
    with pytest.raises(UnreadableValueError, match=r"^a\[0\]\.b\.c is 'x'"):
        row.field("b").field("c").whole()
    with pytest.raises(UnreadableValueError, match="^the file lacks the field 'z'; add it"):
        data.field("z")


@pytest.mark.parametrize("value", ["x" * 10_000, "a\nb", [[[[0] * 99] * 99] * 99], {"k" * 99: 1}])
def test_values_are_shown_on_one_short_line(value):
    text = str(stored(value))
    assert len(text) <= 60
    assert "\n" not in text


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "9" * 5000, "\0", None])
def test_what_is_no_json_is_refused_in_one_line(text):
    with pytest.raises(UnreadableValueError, match="^the file is no JSON") as caught:
        parse_json(text, "the file")
    assert "\n" not in str(caught.value)
