"""Shapes as tvmc writes them, and one line for those that nobody can have."""

from __future__ import annotations

import pytest

from tvm_ios.driver.input_shapes import AS_IN_FILE, InputShapes
from tvm_ios.errors import OptionError


def test_shapes_are_written_as_in_tvmc():
    given = InputShapes.parse("x:[1,3,224,224] in:0: [ 2, 7 ] flag:[]", batch_size=4)
    assert given.shapes == {"x": (1, 3, 224, 224), "in:0": (2, 7), "flag": ()}
    assert given.batch_size == 4
    assert InputShapes.parse(None) == InputShapes.parse(" ") == AS_IN_FILE


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x", r"--input-shapes has 'x'; give such as 'x:\[1,3,224,224\] mask:\[1,128\]'"),
        ("x:1,3", r"--input-shapes has 'x:1,3'; give such as"),
        ("x:[1] y[2]", r"--input-shapes has 'y\[2\]'; give such as"),
        ("x:[1,b]", r"has \[1,b\] for input 'x'; give whole numbers"),
        ("x:[1,-1]", r"an extent of input 'x' is -1; give a whole number of 1 or more"),
        ("x:[1] x:[2]", r"has input 'x' twice; leave out one of both"),
    ],
)
def test_other_shapes_are_refused(text, message):
    with pytest.raises(OptionError, match=message):
        InputShapes.parse(text)


def test_a_batch_is_a_whole_number():
    with pytest.raises(OptionError, match="batch_size is 0; give a whole number of 1 or more"):
        InputShapes(batch_size=0)
    with pytest.raises(OptionError, match=r"an extent of input 'x' is 2\.5"):
        InputShapes(shapes={"x": (1, 2.5)})
