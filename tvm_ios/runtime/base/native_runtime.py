"""The native lane executor (``native/lane_executor.c``), bound through ctypes. No TVM here.

The same source is a shared library of its own (pricing, tests) or part of an exported model.
"""

from __future__ import annotations

import ctypes
from ctypes import (
    POINTER,
    Structure,
    c_char_p,
    c_int,
    c_int32,
    c_int64,
    c_size_t,
    c_uint8,
    c_uint16,
    c_uint64,
    c_void_p,
)
from functools import cache
from pathlib import Path
from typing import Any

from tvm_ios.errors import ArtifactError
from tvm_ios.support.c_compiler import NativeSource

__all__ = [
    "C_API_FOLDER",
    "LANE_EXECUTOR",
    "NATIVE_ABI_VERSION",
    "REMOTE_LANES",
    "BoundKernel",
    "DLTensor",
    "NativeLaunch",
    "NativeRuntime",
    "NativeTraceRow",
    "PoolOptions",
    "address_of",
    "shared_runtime",
]

# The same number is EXECUTOR_VERSION in lane_executor.h.
NATIVE_ABI_VERSION = 7
C_API_FOLDER = Path(__file__).parent / "native"
"""Folder of ``tvm_ios.h`` and ``tvm_ios_model.c``, with which C programs are built."""
LANE_EXECUTOR = NativeSource(C_API_FOLDER / "lane_executor.c")
REMOTE_LANES = NativeSource(C_API_FOLDER / "remote_lanes.c")
"""The lane executor as a library that TVM's RPC server can load."""


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


class NativeLaunch(Structure):
    """``Launch`` of ``plan_image.h``: a prepared kernel call."""

    _fields_ = [
        ("kernel", c_void_p),
        ("arguments", c_void_p),
        ("type_codes", c_void_p),
        ("resource", c_void_p),
        ("num_arguments", c_int32),
        ("serial", c_int32),
    ]


class BoundKernel(Structure):
    """``BoundKernel`` of ``plan_image.h``: a kernel of a launch, or a call in place of it."""

    _fields_ = [("kernel", c_void_p), ("resource", c_void_p), ("serial", c_int64)]


class NativeTraceRow(Structure):
    """``TraceRow`` of ``lane_executor.h``: when and where a launch ran."""

    _fields_ = [
        ("start_ns", c_int64),
        ("end_ns", c_int64),
        ("lane", c_int32),
        ("unused", c_int32),
    ]


class PoolOptions(Structure):
    """``PoolOptions`` of ``lane_executor.h``: number of lanes, and how they wait."""

    _fields_ = [
        ("lanes", c_int32),
        ("tasks_per_lane", c_int32),
        ("spin_ns", c_int64),
        ("jitter_seed", c_uint64),
        ("get_last_error", c_void_p),
        ("cpus", c_void_p),
        ("num_cpus", c_int32),
    ]


class NativeRuntime:
    """The functions of one copy of the lane executor.

    Whoever loaded its library may unload it once this is gone. The library is one of ctypes, or
    like one.
    """

    def __init__(self, library: Any) -> None:
        self.library = library
        try:
            version = library.tvm_ios_abi_version()
        except AttributeError:
            version = None
        if version != NATIVE_ABI_VERSION:
            raise ArtifactError(
                f"{library}: native runtime has interface version {version}, this tvm-ios "
                f"needs {NATIVE_ABI_VERSION}; export the model again with the installed version"
            )
        self.pool_create = _function(library, "pool_create", c_void_p, POINTER(PoolOptions))
        self.pool_close = _function(library, "pool_close", None, c_void_p)
        self.pool_free = _function(library, "pool_free", None, c_void_p)
        self.pool_threads = _function(library, "pool_threads", None, c_void_p, c_void_p)
        self.program_create = _function(
            library, "program_create", c_void_p, c_int32, *[c_void_p] * 5, c_int32, c_void_p
        )
        self.plan_load = _function(
            library, "plan_load", c_void_p, c_char_p, c_size_t, c_int32, c_int32
        )
        self.plan_free = _function(library, "plan_free", None, c_void_p)
        self.plan_place = _function(library, "plan_place", None, c_void_p, c_int32, c_void_p)
        self.plan_place_all = _function(
            library, "plan_place_all", c_size_t, c_void_p, c_void_p, c_void_p
        )
        self.plan_bind_all = _function(library, "plan_bind_all", None, c_void_p, c_void_p)
        self.plan_launches = _function(library, "plan_launches", c_void_p, c_void_p)
        self.plan_tensors = _function(library, "plan_tensors", c_void_p, c_void_p)
        self.plan_program = _function(
            library, "plan_program", c_void_p, c_void_p, *[c_int32] * 3, c_void_p
        )
        self.program_free = _function(library, "program_free", None, c_void_p)
        self.run = _function(
            library,
            "run",
            c_int,
            c_void_p,
            c_void_p,
            c_int64,
            c_int64,
            c_int,
            c_void_p,
            c_void_p,
        )
        self.failed_position = _function(library, "failed_position", c_int32)
        self.failed_text = _function(library, "failed_text", c_char_p)
        self.ping_pong = _function(library, "ping_pong", c_int, c_void_p, c_int32, c_void_p)
        self.hook = _function(library, "hook", None, c_void_p, c_void_p)
        self.set_func_call = _function(library, "set_func_call", None, c_void_p)
        self.set_ffi = _function(library, "set_ffi", None, c_void_p, c_void_p)

    @property
    def parallel_launch(self) -> int:
        """Address of the function that splits a parallel region into tasks for idle lanes."""
        return address_of(self.library, "tvm_ios_parallel_launch")

    @property
    def call_packed(self) -> int:
        """Address of the kernel that calls a packed function by handle."""
        return address_of(self.library, "tvm_ios_call_packed")

    @property
    def call_ffi(self) -> int:
        """Address of the kernel that calls a function of TVM-FFI by address."""
        return address_of(self.library, "tvm_ios_call_ffi")

    @property
    def ffi_error(self) -> int:
        """Address of the function that gives the error of TVM-FFI of the calling thread."""
        return address_of(self.library, "tvm_ios_ffi_error")


def address_of(library: Any, symbol: str) -> int:
    """Address of a function in a loaded library; AttributeError if it has none of this name.

    A library like those of ctypes has functions that know their address.
    """
    function = getattr(library, symbol)
    return getattr(function, "address", None) or ctypes.cast(function, c_void_p).value or 0


def _function(library: Any, name: str, result: Any, *arguments: Any) -> Any:
    function = library[f"tvm_ios_{name}"]  # indexing gives a function object of its own
    function.restype = result
    function.argtypes = list(arguments)
    return function


@cache
def shared_runtime() -> NativeRuntime:
    """The lane executor as a library of its own, compiled on first use."""
    return NativeRuntime(LANE_EXECUTOR.library)
