"""The calling convention of kernels, as TVM itself lays it out, and the same in Python and C."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm._ffi.runtime_ctypes import TVMArray

from tests.runtime.reference_executor import array_at
from tvm_ios.plan.data_type import dlpack_fields
from tvm_ios.runtime.base import tvm_abi
from tvm_ios.runtime.base.native_runtime import DLTensor
from tvm_ios.runtime.base.tvm_abi import (
    TENSOR_CODE,
    TvmFunction,
    packed_handle,
    symbol_in,
)

_HEADER = Path(tvm_abi.__file__).with_name("native") / "tvm_abi.h"


def test_a_tensor_is_laid_out_as_tvm_does():
    array = tvm.nd.array(np.arange(6, dtype="float32").reshape(2, 3))
    stock = DLTensor.from_address(ctypes.addressof(array.handle.contents))
    assert ctypes.sizeof(DLTensor) == ctypes.sizeof(TVMArray)
    assert (stock.ndim, stock.code, stock.bits, stock.vector_lanes) == (2, 2, 32, 1)
    ours = DLTensor(data=stock.data, device_type=1, ndim=2, shape=stock.shape)
    ours.code, ours.bits, ours.vector_lanes = dlpack_fields("float32")
    np.testing.assert_array_equal(array_at(ctypes.addressof(ours)).numpy(), array.numpy())


def test_c_and_python_name_the_same_fields():
    text = _HEADER.read_text(encoding="utf-8")
    (body,) = re.findall(
        r"typedef struct \{ /\* a tensor as DLPack lays it out \*/(.*?)\} DLTensor;",
        text,
        re.DOTALL,
    )
    assert re.findall(r"(\w+);", body) == [name for name, _ in DLTensor._fields_]
    assert f"TYPE_TENSOR = {TENSOR_CODE} " in text


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "uint8", "int64", "bool"])
def test_data_types_have_dlpacks_numbers(dtype):
    array = tvm.nd.empty((1,), dtype)
    stock = DLTensor.from_address(ctypes.addressof(array.handle.contents))
    assert dlpack_fields(dtype) == (stock.code, stock.bits, stock.vector_lanes)


def test_vectors_and_brain_floats_have_numbers():
    assert dlpack_fields("float32x4") == (2, 32, 4)
    assert dlpack_fields("bfloat16") == (4, 16, 1)


@pytest.mark.parametrize("function", TvmFunction)
def test_functions_lie_in_tvms_runtime(function):
    assert function.address > 0


def test_what_a_library_lacks_is_none():
    program = ctypes.CDLL(None)
    assert symbol_in(program, "there_is_no_such_symbol") is None
    assert TvmFunction.PARALLEL_LAUNCH.slot_in(program) is None


def test_a_packed_function_is_called_by_its_handle():
    function = tvm.get_global_func("runtime.SystemLib")
    assert packed_handle(function) == ctypes.cast(function.handle, ctypes.c_void_p).value
