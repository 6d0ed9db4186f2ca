"""Shapes of one model: their names, and which fits the inputs of a run."""

from __future__ import annotations

import pytest

from tvm_ios.core.parts import Part
from tvm_ios.core.shapes import fitting_shape, shape_names
from tvm_ios.errors import ExecutionError, OptionError


def shape(name, **inputs):
    return Part(name=name, inputs=tuple(inputs), outputs=(0,), shapes=tuple(inputs.values()))


SHORT = shape("short", ids=(1, 8), mask=(1, 8), scale=(1,))
LONG = shape("long", ids=(1, 16), mask=(1, 16), scale=(1,))
WIDE = shape("wide", ids=(1, 8), mask=(2, 8), scale=(1,))
ALL = (SHORT, LONG, WIDE)


def test_names_tell_the_inputs_that_differ():
    names = shape_names([{"x": (1, 3), "scale": ()}, {"x": (2, 3), "scale": ()}])
    assert names == ["x:[1,3]", "x:[2,3]"]
    both = shape_names([{"a": (1,), "b": (2,)}, {"a": (2,), "b": (2,)}, {"a": (1,), "b": (3,)}])
    assert both == ["a:[1] b:[2]", "a:[2] b:[2]", "a:[1] b:[3]"]


@pytest.mark.parametrize(
    ("shapes", "told"),
    [
        ([{"x": (1,)}, {"x": (2,)}, {"x": (1,)}], r"the shape x:\[1\] is given twice"),
        ([{"x": (1,)}, {"y": (2,)}], "inputs are x here and y there"),
        ([{"x": (1,)}], "there are 1 shapes; give 2 to 31"),
        ([{}, {}], "is given twice"),
    ],
)
def test_what_is_no_set_of_shapes_is_one_line(shapes, told):
    with pytest.raises(OptionError, match=told):
        shape_names(shapes)


def test_the_present_shape_stays_where_it_fits():
    assert fitting_shape(ALL, {"ids": (1, 16)}, SHORT) == LONG
    assert fitting_shape(ALL, {"ids": (1, 8)}, LONG) == SHORT
    assert fitting_shape(ALL, {"ids": (1, 8)}, WIDE) == WIDE
    assert fitting_shape(ALL, {"scale": (1,)}, LONG) == LONG
    assert fitting_shape(ALL, {"ids": (1, 8), "mask": (2, 8)}, SHORT) == WIDE
    assert fitting_shape(ALL, {}, WIDE) == WIDE


@pytest.mark.parametrize("given", [{"ids": (1, 9)}, {"ids": (1, 16), "mask": (1, 8)}, {"id": ()}])
def test_an_unknown_shape_is_one_line_with_those_that_are_there(given):
    with pytest.raises(ExecutionError, match=r"no shape of this model fits id.*; it has short or"):
        fitting_shape(ALL, given, SHORT)
