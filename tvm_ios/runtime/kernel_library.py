"""An exported kernel library, loaded: its kernels by name, its parallel launches sent to our lanes.

The library stays usable by stock TVM: the hook serves only threads that run one of our programs.
"""

from __future__ import annotations

import ctypes
from ctypes import c_void_p
from pathlib import Path

import tvm
from tvm._ffi.base import _LIB

from tvm_ios.errors import ArtifactError
from tvm_ios.runtime.kernel_arguments import Kernel
from tvm_ios.runtime.native_runtime import NativeRuntime, address_of

__all__ = ["KernelLibrary", "last_error_address"]

_LAUNCH_SLOT = "__TVMBackendParallelLaunch"
_BARRIER_SLOT = "__TVMBackendParallelBarrier"


def last_error_address() -> int:
    """Address of ``TVMGetLastError``."""
    return address_of(_LIB, "TVMGetLastError")


class KernelLibrary:
    """The kernels of one exported file.

    Parameters
    ----------
    path
        A shared library that ``export_library`` wrote.
    runtime
        Where its parallel launches go; None leaves them as they are, or, for a file that holds
        the lane executor itself, sends them there.

    Raises
    ------
    ArtifactError
        If the file cannot be loaded.
    """

    def __init__(self, path: Path, runtime: NativeRuntime | None = None) -> None:
        self.path = path
        try:
            self.module = tvm.runtime.load_module(str(path))
            self._library = ctypes.CDLL(str(path))
        except (tvm.TVMError, OSError, ValueError) as error:
            raise ArtifactError(
                f"{path}: cannot be loaded as a kernel library: {_last_line(error)}; "
                "export the model again"
            ) from error
        self.runtime = runtime or NativeRuntime(self._library)
        self._packed: dict[str, object] = {}
        self._serial = hasattr(self._library, _BARRIER_SLOT)
        self._install_hook()

    def kernel(self, name: str) -> Kernel:
        """The kernel of this name.

        Raises
        ------
        ArtifactError
            If there is none.
        """
        try:
            return Kernel(address_of(self._library, name), serial=self._serial)
        except AttributeError:
            return self._packed_kernel(name)

    def function(self, name: str) -> tvm.runtime.PackedFunc:
        """The kernel of this name as a packed function.

        Raises
        ------
        ArtifactError
            If there is none.
        """
        for module in (self.module, *self.module.imported_modules):
            try:
                return module.get_function(name, query_imports=True)
            except AttributeError:
                continue
        raise ArtifactError(
            f"{self.path}: there is no kernel named {name!r}; plan and library do not belong "
            "together, export the model again"
        )

    def _packed_kernel(self, name: str) -> Kernel:
        function = self._packed.setdefault(name, self.function(name))
        handle = ctypes.cast(function.handle, c_void_p).value or 0  # type: ignore[attr-defined]
        self.runtime.set_func_call(address_of(_LIB, "TVMFuncCall"))
        return Kernel(self.runtime.call_packed, handle, self._serial)

    def _install_hook(self) -> None:
        """A library whose kernels open no parallel region has no slot."""
        try:
            slot = c_void_p.in_dll(self._library, _LAUNCH_SLOT)
        except ValueError:
            return
        original = address_of(_LIB, "TVMBackendParallelLaunch")
        self.runtime.hook(ctypes.addressof(slot), original)


def _last_line(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[-1].strip() if lines else type(error).__name__
