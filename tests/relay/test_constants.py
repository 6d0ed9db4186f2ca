from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relay

from tvm_ios.relay.constants import constant, is_array, values_of


@pytest.mark.parametrize("dtype", ["float64", "float16", "int64", "uint8", "bool"])
def test_constants_keep_their_type_and_values(dtype):
    array = np.arange(6).reshape(2, 3).astype(dtype).T
    made = constant(array)
    assert is_array(made)
    assert made.data.dtype == dtype
    np.testing.assert_array_equal(made.data.numpy(), array)


def test_inputs_are_no_arrays_and_bfloat16_is_none():
    assert not is_array(relay.var("data", shape=(2,)))
    assert not is_array(relay.Constant(tvm.nd.empty((2,), "bfloat16")))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_numbers_of_constants_of_every_type(dtype):
    made = relay.const(np.array([-2, 0.5], "float32"), dtype)
    np.testing.assert_array_equal(values_of(made), np.array([-2, 0.5], "float32"))
