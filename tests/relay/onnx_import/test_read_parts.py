"""Inputs and attributes remember what of them was looked at, whichever way it was."""

from __future__ import annotations

import pytest

from tvm_ios.relay.frontends.onnx.read_parts import ReadAttributes, ReadInputs


@pytest.mark.parametrize(
    ("read", "left"),
    [
        (lambda given: given["a"], {"b"}),
        (lambda given: given.get("a"), {"b"}),
        (lambda given: given.get("c", 3), {"a", "b"}),
        (lambda given: given.pop("a"), {"b"}),
        (lambda given: "a" in given, {"b"}),
        (lambda given: dict(**given), set()),
        (list, set()),
        (lambda given: given.items(), set()),
        (lambda given: given.values(), set()),
        (lambda given: given.copy(), set()),
    ],
)
def test_attributes(read, left):
    given = ReadAttributes({"a": 1, "b": 2})
    read(given)
    assert given.unread == left


@pytest.mark.parametrize(
    ("read", "left"),
    [
        (lambda given: given[0], {2}),
        (lambda given: given[-1], {0}),
        (lambda given: given[1:], {0}),
        (lambda given: given[:1], {2}),
        (lambda given: given[7], {0, 2}),
        (len, {0, 2}),
        (list, set()),
        (lambda given: max(0, *(each or 0 for each in given)), set()),
    ],
)
def test_inputs(read, left):
    given = ReadInputs([5, None, 7])
    read(given)
    assert given.unread == left


def test_inputs_that_are_not_there_are_none():
    given = ReadInputs([5, None, 7])
    assert (given[0], given[1], given[7], given[1:], given[-1]) == (5, None, None, [None, 7], 7)
