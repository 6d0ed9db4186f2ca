"""The calling convention of kernels of TVM-FFI (TVM 0.27), which only this file knows.

A kernel ``name`` is the symbol ``__tvm_ffi_name``: an ``FFIFunction`` of ``native/ffi_abi.h``, the
twin for C. Launches are packed, and one function of the lane executor calls such kernels for them.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import c_int32, c_void_p
from functools import cache
from typing import Any, cast

from tvm_ios.errors import ArtifactError
from tvm_ios.runtime.base.loaded_plan import Kernel
from tvm_ios.runtime.base.native_runtime import NativeLaunch, NativeRuntime, address_of
from tvm_ios.runtime.base.tvm_abi import symbol_in
from tvm_ios.runtime.base.tvm_names import CUDA_TYPE, ffi_library

__all__ = ["FfiConvention"]

_PREFIX = "__tvm_ffi_"


class FfiConvention:
    """Calling convention of TVM-FFI; a :class:`~.convention.CallingConvention`."""

    def kernel(
        self,
        runtime: NativeRuntime,
        code: ctypes.CDLL,
        name: str,
        function: Callable[[], Any],
    ) -> Kernel:
        """The kernel of a name, which has a symbol."""
        symbol = _PREFIX + name
        if symbol_in(code, symbol) is None:
            function()  # raises where nothing has this name
            raise ArtifactError(
                f"{name!r} is a function of TVM and no kernel: there is no symbol {symbol}; plan "
                "and library do not belong together, export the model again"
            )
        return Kernel(runtime.call_ffi, address_of(code, symbol))

    def launch(self, runtime: NativeRuntime, function: Any) -> NativeLaunch:
        """A launch of a function of TVM without arguments; valid as long as the function."""
        return NativeLaunch(
            kernel=runtime.call_ffi,
            type_codes=c_void_p(function.__chandle__()),
            resource=address_of(ffi_library(), "TVMFFIFunctionCall"),
        )

    def last_error(self, runtime: NativeRuntime) -> int:
        """Address of a C function with the text of the last error of a thread."""
        library = ffi_library()
        runtime.set_ffi(
            address_of(library, "TVMFFIErrorMoveFromRaised"),
            address_of(library, "TVMFFIObjectDecRef"),
        )
        return runtime.ffi_error

    def set_stream(self) -> int:
        """Address of the C function that sets the stream of a thread."""
        return address_of(ffi_library(), "TVMFFIEnvSetStream")

    def current_stream(self, device: int) -> int:
        """Stream of this thread for a GPU."""
        return _env_stream()(CUDA_TYPE, device) or 0


@cache
def _env_stream() -> Callable[[int, int], int | None]:
    """Function with the stream of this thread, by DLPack's type and number of a device."""
    function = ffi_library()["TVMFFIEnvGetStream"]
    function.argtypes, function.restype = [c_int32, c_int32], c_void_p
    return cast("Callable[[int, int], int | None]", function)
