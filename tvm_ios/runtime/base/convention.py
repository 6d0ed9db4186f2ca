"""Protocol of a calling convention of kernels, and the one that this process has."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, Protocol

from tvm_ios.runtime.base.ffi_abi import FfiConvention
from tvm_ios.runtime.base.loaded_plan import Kernel
from tvm_ios.runtime.base.native_runtime import NativeLaunch, NativeRuntime
from tvm_ios.runtime.base.tvm_abi import PackedConvention
from tvm_ios.runtime.base.tvm_names import IS_FFI

__all__ = ["CONVENTION", "CallingConvention"]


class CallingConvention(Protocol):
    """Calling convention of a TVM: finds kernels, makes launches of them and takes their errors."""

    def kernel(
        self,
        runtime: NativeRuntime,
        code: ctypes.CDLL,
        name: str,
        function: Callable[[], Any],
    ) -> Kernel:
        """The kernel of a name in a loaded library; ``function`` gives that of TVM's module.

        ``function`` raises ArtifactError where there is none.
        """
        ...

    def launch(self, runtime: NativeRuntime, function: Any) -> NativeLaunch:
        """A launch of a function of TVM without arguments; valid as long as the function."""
        ...

    def last_error(self, runtime: NativeRuntime) -> int:
        """Address of a C function that returns the text of the calling thread's last error."""
        ...

    def set_stream(self) -> int:
        """Address of a C function that sets the stream on which kernels of a thread run.

        It takes type and number of the device, the stream, and a pointer that is null.
        """
        ...

    def current_stream(self, device: int) -> int:
        """Stream on which kernels of this thread run on a GPU of a number; 0 is the default one."""
        ...


CONVENTION: CallingConvention = FfiConvention() if IS_FFI else PackedConvention()
"""Convention of the kernels that TVM of this process compiles and loads."""
