"""What is given for open dimensions, and the error that says what to give."""

from __future__ import annotations

import pytest

from tvm_ios.driver.input_shapes import InputShapes
from tvm_ios.driver.open_dimensions import ANY_RANK, OpenInput, static_shapes
from tvm_ios.errors import OptionError

X = OpenInput(name="x", extents=("batch", 3, "height", 8))
MASK = OpenInput(name="mask", extents=("batch", "height"))
BARE = OpenInput(name="bare", extents=("", 4))
FIXED = OpenInput(name="fixed", extents=(1, 4))
UNKNOWN = OpenInput(name="any", extents=(ANY_RANK,))


def test_one_shape_tells_dimensions_of_the_same_name():
    given = InputShapes(shapes={"x": (2, 3, 5, 8)})
    assert static_shapes("net", [X, MASK], given) == {"x": (2, 3, 5, 8), "mask": (2, 5)}


def test_a_batch_is_for_every_open_first_dimension():
    given = InputShapes(batch_size=7)
    assert static_shapes("net", [BARE, FIXED], given) == {"bare": (7, 4), "fixed": (1, 4)}
    with_x = InputShapes(shapes={"x": (2, 3, 5, 8)}, batch_size=7)
    assert static_shapes("net", [X, BARE], with_x) == {"x": (2, 3, 5, 8), "bare": (7, 4)}


def test_a_shape_is_all_that_an_input_of_unknown_rank_needs():
    given = InputShapes(shapes={"any": (2, 2)})
    assert static_shapes("net", [UNKNOWN], given) == {"any": (2, 2)}


@pytest.mark.parametrize(
    ("inputs", "given", "message"),
    [
        (
            [X, BARE],
            InputShapes(),
            r"^net leaves open dimension 0 of 'x' \(batch\), dimension 2 of 'x' \(height\), "
            r"dimension 0 of 'bare'; give --input-shapes 'x:\[batch,3,height,8\] bare:\[\?,4\]' "
            r"with a number in place of every name \(in Python: batch_size, shapes\)$",
        ),
        ([BARE], InputShapes(), r"give --batch-size N, or --input-shapes 'bare:\[\?,4\]'"),
        ([X], InputShapes(batch_size=2), r"leaves open dimension 2 of 'x' \(height\); give --inp"),
        (
            [UNKNOWN],
            InputShapes(batch_size=2),
            r"leaves open dimension 0 of 'any' \(\.\.\.\); give --input-shapes 'any:\[\.\.\.\]'",
        ),
        (
            [X, MASK],
            InputShapes(shapes={"x": (1, 3, 5, 8)}, batch_size=4),
            r"^net: the batch size is 4, but shapes of inputs say all first dimensions, "
            r"x:\[1,3,5,8\] mask:\[1,5\]; leave out one of both$",
        ),
        ([FIXED], InputShapes(batch_size=2), r"no first dimension open.*fixed:\[1,4\]"),
        (
            [FIXED, BARE],
            InputShapes(shapes={"y": (1,)}),
            r"^net has no input 'y'; its inputs are fixed:\[1,4\] bare:\[\?,4\]$",
        ),
        (
            [FIXED],
            InputShapes(shapes={"fixed": (2, 4)}),
            r"input 'fixed' cannot have the shape \[2,4\]; the file says \[1,4\]",
        ),
        (
            [BARE],
            InputShapes(shapes={"bare": (2, 4, 1)}),
            r"input 'bare' cannot have the shape \[2,4,1\]; the file says \[\?,4\]",
        ),
        (
            [X, MASK],
            InputShapes(shapes={"x": (2, 3, 5, 8), "mask": (2, 6)}),
            r"dimension 'height' is 5 in one input and 6 in 'mask'; give both the same extent",
        ),
    ],
)
def test_what_is_missing_or_wrong_is_named(inputs, given, message):
    with pytest.raises(OptionError, match=message):
        static_shapes("net", inputs, given)
