"""Axes that are joined, and reads that would have to be gathered."""

from __future__ import annotations

import pytest
import tvm
from tvm import relay

from tests.relay.row_kernels.norm_cases import typed
from tvm_ios.relay.row_kernels.merging import with_long_axes
from tvm_ios.relay.row_kernels.reader import read_computation
from tvm_ios.relay.row_kernels.values import UnsuitableError

TARGET = tvm.target.Target("llvm")


def merged(result):
    return with_long_axes(read_computation(typed(result), TARGET))


def test_axes_that_no_tensor_tells_apart_are_joined():
    x, scale = relay.var("x", shape=(2, 8, 5, 7)), relay.var("scale", shape=(8, 1, 1))
    found = merged((x - relay.mean(x, [2, 3], keepdims=True)) * scale)
    assert found.extents == (2, 8, 35)
    assert found.reduced == (False, False, True)
    whole = merged(x - relay.mean(x, [2, 3], keepdims=True))
    assert whole.extents == (16, 35)


def test_a_transposed_read_is_unsuitable():
    x = relay.transpose(relay.var("x", shape=(6, 4)), (1, 0))
    with pytest.raises(UnsuitableError):
        merged(x - relay.mean(x, 1, keepdims=True))
