"""Values for inputs: arrays as they are, lists where they fit, one clear line otherwise."""

from __future__ import annotations

import numpy as np
import pytest
import tvm

from tvm_ios.errors import ExecutionError
from tvm_ios.plan.plan import Tensor
from tvm_ios.runtime.base.input_value import input_value


def tensor(dtype, shape=(2, 2)):
    return Tensor(buffer=0, byte_offset=0, shape=shape, dtype=dtype)


@pytest.mark.parametrize(
    ("dtype", "rows"),
    [
        ("bool", [[True, False], [False, True]]),
        ("bool", [[1, 0], [0, 1]]),
        ("float32", [[0.1, 2], [3, 4]]),
        ("float16", ((1, 2), (3, 4))),
        ("uint8", [[0, 255], [1, 2]]),
        ("int64", [[1.0, -2.0], [3, 4]]),
        ("float32", [[float("inf"), 0], [0, 0]]),
    ],
)
def test_lists_become_what_numpy_makes_of_them(dtype, rows):
    array = input_value("input 'x'", tensor(dtype), rows)
    assert array.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(array, np.array(rows, dtype))


@pytest.mark.parametrize("dtype", ["bool", "float32"])
def test_arrays_are_taken_as_they_are(dtype):
    array = np.zeros((2, 2), dtype)
    assert input_value("input 'x'", tensor(dtype), array) is array
    ours = tvm.nd.array(array)
    assert input_value("input 'x'", tensor(dtype), ours).same_as(ours)


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("float32", [[1, 2], [3]]),
        ("float32", [["1", "2"], ["3", "4"]]),
        ("float32", [[None, 1], [2, 3]]),
        ("float32", [[1e300, 1], [2, 3]]),
        ("float32", [[2**80, 1], [2, 3]]),
        ("float32", [[1j, 1], [2, 3]]),
        ("bool", [[2, 0], [0, 1]]),
        ("bool", [[0.5, 0], [0, 1]]),
        ("int32", [[0.5, 0], [0, 1]]),
        ("int32", [[float("nan"), 0], [0, 1]]),
        ("uint8", [[256, 0], [0, 1]]),
        ("uint8", [[-1, 0], [0, 1]]),
        ("float32", [1.0, 2.0]),
        ("float32", 1.0),
        ("float32", np.zeros((2, 2))),
        ("bool", np.zeros((2, 2), "uint8")),
        ("bool", np.zeros((2, 2), "float32")),
        ("float32", object()),
        ("float32", {}),
        ("float32", None),
        ("bfloat16", [[1, 2], [3, 4]]),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(dtype, value):
    with pytest.raises(ExecutionError, match=rf"'x' is {dtype}\(2, 2\)|'{dtype}'") as caught:
        input_value("input 'x'", tensor(dtype), value)
    assert "\n" not in str(caught.value)


class OfAnotherLibrary:
    """What PyTorch does with a tensor that needs a gradient."""

    def __init__(self, values: np.ndarray) -> None:
        self._values = values

    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("Can't call numpy() on a tensor that requires grad")

    def detach(self):
        return self

    clone = detach

    def contiguous(self) -> tvm.nd.NDArray:
        return tvm.nd.array(self._values)


def test_tensors_that_numpy_cannot_read_go_by_dlpack():
    values = np.arange(4, dtype="float32").reshape(2, 2)
    array = input_value("input 'x'", tensor("float32"), OfAnotherLibrary(values))
    np.testing.assert_array_equal(array.numpy(), values)


def test_what_nothing_can_read_is_refused():
    class Nothing(OfAnotherLibrary):
        detach = None

    with pytest.raises(ExecutionError, match="the Nothing given: Can't call"):
        input_value("input 'x'", tensor("float32"), Nothing(np.zeros(4)))
