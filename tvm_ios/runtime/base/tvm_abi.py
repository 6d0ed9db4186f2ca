"""The calling convention of kernels of TVM 0.11 to 0.19, which only this file knows.

A kernel takes an array of addresses of :class:`DLTensor`, their type codes, and a resource handle.
It reaches functions of TVM through pointers that lie in its library, one for each that it needs, so
they can be turned to functions of ours. ``native/tvm_abi.h`` is the twin for C; another convention
needs another pair of these.
"""

from __future__ import annotations

import ctypes
from ctypes import Structure, c_int32, c_uint8, c_uint16, c_uint64, c_void_p
from enum import Enum

import tvm
from tvm._ffi.base import _LIB, py_str

from tvm_ios.runtime.base.native_runtime import address_of

__all__ = [
    "TENSOR_CODE",
    "DLTensor",
    "TvmFunction",
    "last_error_text",
    "packed_handle",
    "symbol_in",
]

TENSOR_CODE = 7
"""Type code of an argument that is the address of a ``DLTensor`` (``kTVMDLTensorHandle``)."""


class DLTensor(Structure):
    """DLPack's tensor, as TVM lays it out."""

    _fields_ = [
        ("data", c_void_p),
        ("device_type", c_int32),
        ("device_id", c_int32),
        ("ndim", c_int32),
        ("code", c_uint8),
        ("bits", c_uint8),
        ("vector_lanes", c_uint16),
        ("shape", c_void_p),
        ("strides", c_void_p),
        ("byte_offset", c_uint64),
    ]


class TvmFunction(Enum):
    """A function of TVM's runtime that kernels, or we, call by address."""

    CALL_PACKED = "TVMFuncCall"
    LAST_ERROR = "TVMGetLastError"
    PARALLEL_LAUNCH = "TVMBackendParallelLaunch"
    PARALLEL_BARRIER = "TVMBackendParallelBarrier"
    SET_STREAM = "TVMSetStream"
    TAKE_WORKSPACE = "TVMBackendAllocWorkspace"
    GIVE_WORKSPACE = "TVMBackendFreeWorkspace"

    @property
    def address(self) -> int:
        """The function's address in TVM's runtime."""
        return address_of(_LIB, self.value)

    def slot_in(self, library: ctypes.CDLL) -> c_void_p | None:
        """Pointer through which a library's kernels call the function; None if none does."""
        return symbol_in(library, f"__{self.value}")


def symbol_in(library: ctypes.CDLL, name: str) -> c_void_p | None:
    """First bytes of a library's symbol, as a pointer that can be set; None without the symbol."""
    try:
        return c_void_p.in_dll(library, name)
    except ValueError:
        return None


def packed_handle(function: tvm.runtime.PackedFunc) -> int:
    """Handle by which ``CALL_PACKED`` calls a packed function."""
    return ctypes.cast(function.handle, c_void_p).value or 0


def last_error_text() -> str:
    """The text of TVM's last failure on this thread."""
    get_text = ctypes.CFUNCTYPE(ctypes.c_char_p)(TvmFunction.LAST_ERROR.address)
    return str(py_str(get_text() or b""))
