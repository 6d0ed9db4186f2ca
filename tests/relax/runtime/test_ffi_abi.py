"""The calling convention of TVM-FFI: as its own header has it, and the same in Python and C."""

from __future__ import annotations

import subprocess
from pathlib import Path

import tvm_ffi

from tvm_ios.plan.data_type import dlpack_fields
from tvm_ios.runtime.base import ffi_abi
from tvm_ios.runtime.base.native_runtime import C_API_FOLDER, DLTensor
from tvm_ios.runtime.base.tvm_names import empty

INCLUDE = Path(tvm_ffi.__file__).parent / "include"
PROGRAM = """
#define DLTensor OurTensor
#include "ffi_abi.h"
#undef DLTensor
#include <tvm/ffi/c_api.h>
#define SAME(a, b) _Static_assert((a) == (b), #a " is not " #b)
#define PLACE offsetof
SAME(FFI_TENSOR, kTVMFFIDLTensorPtr);
SAME(sizeof(FFIAny), sizeof(TVMFFIAny));
SAME(PLACE(FFIAny, type_index), PLACE(TVMFFIAny, type_index));
SAME(PLACE(FFIAny, padding), PLACE(TVMFFIAny, zero_padding));
SAME(PLACE(FFIAny, object), PLACE(TVMFFIAny, v_ptr));
SAME(sizeof(FFIBytes), sizeof(TVMFFIByteArray));
SAME(PLACE(FFIBytes, size), PLACE(TVMFFIByteArray, size));
SAME(PLACE(FFIError, kind), sizeof(TVMFFIObject) + PLACE(TVMFFIErrorCell, kind));
SAME(PLACE(FFIError, message), sizeof(TVMFFIObject) + PLACE(TVMFFIErrorCell, message));
SAME(sizeof(OurTensor), sizeof(DLTensor));
SAME(PLACE(OurTensor, shape), PLACE(DLTensor, shape));
SAME(PLACE(OurTensor, code), PLACE(DLTensor, dtype));
SAME(PLACE(OurTensor, byte_offset), PLACE(DLTensor, byte_offset));
"""


def test_structures_are_those_of_tvms_header(tmp_path):
    source = tmp_path / "checks.c"
    source.write_text(PROGRAM)
    words = ["cc", "-std=gnu11", "-fsyntax-only", f"-I{C_API_FOLDER}", f"-I{INCLUDE}", str(source)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_c_and_python_have_one_prefix():
    text = (C_API_FOLDER / "ffi_abi.h").read_text(encoding="utf-8")
    assert f'#define FFI_PREFIX "{ffi_abi._PREFIX}"' in text


def test_data_types_have_the_numbers_of_this_tvm():
    for dtype in ("float32", "float16", "bfloat16", "int8", "uint8", "int64", "bool"):
        array = empty((1,), dtype, None)
        stock = DLTensor.from_address(array.__chandle__() + 24)
        wanted = (stock.code, stock.bits, stock.vector_lanes)
        assert dlpack_fields(dtype, is_ffi=True) == wanted, dtype
