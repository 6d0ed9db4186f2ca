"""Code of one kernel: TVM lowers it once more, and leaves its buffers as they are."""

from __future__ import annotations

import pytest
import tvm
from tvm import tir

from tvm_ios.kernels.code_generation import generate
from tvm_ios.kernels.lowered import LoweredKernel

TARGET = tvm.target.Target("llvm -opt-level=0")
SIXTEEN = tir.Ramp(tir.const(0, "int32"), tir.const(1, "int32"), 16)
VECTOR, NUMBERS = ("float32x16", 1, tir.const(0, "int32")), ("float32", 16, SIXTEEN)


def through(kind, value, use):
    """Statement that stores a value in a buffer of its own, and uses what is read there."""
    dtype, length, index = kind
    buffer = tir.decl_buffer((length,), dtype, "kept", scope="global")
    body = tir.SeqStmt(
        [tir.BufferStore(buffer, value, [index]), use(tir.BufferLoad(buffer, [index]))]
    )
    return tir.Allocate(buffer.data, dtype, [length], tir.const(True, "bool"), body)


@pytest.mark.parametrize("kinds", [(VECTOR, NUMBERS), (NUMBERS, VECTOR)])
def test_buffers_of_vectors_and_of_numbers_do_not_share_memory(kinds):
    x, y = (tir.decl_buffer((16,), "float32", name) for name in "xy")
    first, second = kinds
    one = tir.const(1.0, "float32x16")

    def put(value):
        return tir.BufferStore(y, value, [SIXTEEN])

    both = [
        through(first, tir.BufferLoad(x, [SIXTEEN]), put),
        through(second, tir.BufferLoad(y, [SIXTEEN]) + one, put),
    ]
    handles = [tir.Var(name, "handle") for name in "xy"]
    kernel = tir.PrimFunc(
        handles, tir.SeqStmt(both), buffer_map=dict(zip(handles, (x, y), strict=True))
    )
    assert generate(LoweredKernel("kernel", kernel, ""), TARGET)
