"""The packed calling convention, that of kernels of TVM 0.11 to 0.19; only this file knows it.

A kernel takes an array of addresses of :class:`DLTensor`, their type codes, and a resource handle.
It reaches functions of TVM through pointers that lie in its library, one for each that it needs, so
they can be turned to functions of ours. ``native/tvm_abi.h`` is the twin for C. Launches and calls
of operator libraries are packed with every TVM; ``ffi_abi.py`` has what is else with TVM-FFI.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import c_void_p
from enum import Enum
from functools import cache
from typing import Any

import tvm

from tvm_ios.runtime.base.loaded_plan import Kernel
from tvm_ios.runtime.base.native_runtime import NativeLaunch, NativeRuntime, address_of
from tvm_ios.runtime.base.tvm_names import runtime_library

__all__ = [
    "TENSOR_CODE",
    "PackedConvention",
    "TvmFunction",
    "packed_handle",
    "symbol_in",
]

TENSOR_CODE = 7
"""Type code of an argument that is the address of a ``DLTensor`` (``kTVMDLTensorHandle``)."""


class TvmFunction(Enum):
    """A function of TVM's runtime that kernels, or we, call by address."""

    PARALLEL_LAUNCH = "TVMBackendParallelLaunch"
    PARALLEL_BARRIER = "TVMBackendParallelBarrier"
    TAKE_WORKSPACE = "TVMBackendAllocWorkspace"
    GIVE_WORKSPACE = "TVMBackendFreeWorkspace"
    # TVM-FFI has none of these.
    CALL_PACKED = "TVMFuncCall"
    LAST_ERROR = "TVMGetLastError"
    SET_STREAM = "TVMSetStream"

    @property
    def address(self) -> int:
        """The function's address in TVM's runtime."""
        return address_of(runtime_library(), self.value)

    def slot_in(self, library: ctypes.CDLL) -> c_void_p | None:
        """Pointer through which a library's kernels call the function; None if none does."""
        return symbol_in(library, f"__{self.value}")


def symbol_in(library: ctypes.CDLL, name: str) -> c_void_p | None:
    """First bytes of a library's symbol, as a pointer that can be set; None without the symbol."""
    try:
        return c_void_p.in_dll(library, name)
    except ValueError:
        return None


def packed_handle(function: Any) -> int:
    """Handle by which ``CALL_PACKED`` calls a packed function."""
    return ctypes.cast(function.handle, c_void_p).value or 0


class PackedConvention:
    """Calling convention of packed kernels; a :class:`~.convention.CallingConvention`."""

    def kernel(
        self,
        runtime: NativeRuntime,
        code: ctypes.CDLL,
        name: str,
        function: Callable[[], Any],
    ) -> Kernel:
        """The kernel of a name; without a symbol (of an imported module) a function of TVM."""
        if symbol_in(code, name) is not None:
            return Kernel(address_of(code, name))
        launch = self.launch(runtime, function())
        return Kernel(launch.kernel, launch.resource)

    def launch(self, runtime: NativeRuntime, function: Any) -> NativeLaunch:
        """A launch of a packed function without arguments; valid as long as the function."""
        runtime.set_func_call(TvmFunction.CALL_PACKED.address)
        return NativeLaunch(kernel=runtime.call_packed, resource=packed_handle(function))

    def last_error(self, runtime: NativeRuntime) -> int:  # noqa: ARG002 - TVM's runtime has it
        """Address of a C function with the text of the last error of a thread."""
        return TvmFunction.LAST_ERROR.address

    def set_stream(self) -> int:
        """Address of the C function that sets the stream of a thread; it takes no pointer."""
        return TvmFunction.SET_STREAM.address

    def current_stream(self, device: int) -> int:  # noqa: ARG002 - TVM has one for all
        """Stream of this thread for GPUs."""
        return _cuda_stream()().value or 0


@cache
def _cuda_stream() -> Callable[[], c_void_p]:
    function: Callable[[], c_void_p] = tvm.get_global_func("runtime.get_cuda_stream")
    return function
