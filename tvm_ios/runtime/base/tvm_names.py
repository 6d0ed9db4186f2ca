"""Names of the same things in TVM with Relay (0.11 to 0.19) and TVM 0.27, for all other files.

One process imports one of them. ``IS_FFI`` says whether that is a TVM whose kernels and objects are
those of TVM-FFI.
"""

from __future__ import annotations

import ctypes
from typing import Any

import tvm

from tvm_ios.errors import HostError
from tvm_ios.runtime.base.native_runtime import DLTensor

__all__ = [
    "CPU_TYPE",
    "CUDA_TYPE",
    "DIALECT",
    "IS_FFI",
    "Array",
    "TvmError",
    "data_address",
    "device_place",
    "empty",
    "ffi_library",
    "filled",
    "from_dlpack",
    "imported_modules",
    "in_words",
    "linkers",
    "load_library",
    "require_packed",
    "runtime_library",
]

IS_FFI = not hasattr(tvm, "nd")
"""True for TVM 0.27."""
DIALECT = "relax" if IS_FFI else "relay"
"""Name of the dialect that this TVM has, and of the rooms and modules for it."""
Array: Any = tvm.runtime.Tensor if IS_FFI else tvm.nd.NDArray
"""Class of arrays that users get."""
TvmError: type[Exception] = RuntimeError if IS_FFI else tvm.TVMError
"""Class of errors that TVM's own C++ raises."""
CPU_TYPE = 1
"""DLPack's type of the CPU."""
CUDA_TYPE = 2
"""DLPack's type of GPUs of NVIDIA."""
_OBJECT_BYTES = 24
"""Bytes of the header of an object of TVM-FFI, behind which a tensor's ``DLTensor`` lies."""


def filled(values: Any) -> Any:
    """A new array on the CPU with the values of one of NumPy's."""
    return tvm.runtime.tensor(values) if IS_FFI else tvm.nd.array(values)


def empty(shape: tuple[int, ...], dtype: str, device: Any) -> Any:
    """A new array whose values are whatever was in memory."""
    return (tvm.runtime if IS_FFI else tvm.nd).empty(shape, dtype, device)


def from_dlpack(value: Any) -> Any:
    """An array over the bytes of a tensor of another library."""
    return (tvm.runtime if IS_FFI else tvm.nd).from_dlpack(value)


def in_words(text: str) -> str:
    """A message about ``tvm.nd.NDArray`` or ``tvm.nd.empty`` in the names of this TVM."""
    if not IS_FFI:
        return text
    return text.replace("tvm.nd.NDArray", "tvm.runtime.Tensor").replace("tvm.nd.", "tvm.runtime.")


def data_address(array: Any) -> int:
    """Address of the first value of an array."""
    tensor = (
        array.__chandle__() + _OBJECT_BYTES if IS_FFI else ctypes.addressof(array.handle.contents)
    )
    native = DLTensor.from_address(tensor)
    return int(native.data or 0) + int(native.byte_offset)


def device_place(device: Any) -> tuple[int, int]:
    """DLPack's type and number of a device; AttributeError where it is none."""
    if IS_FFI:
        return device.dlpack_device_type(), device.index
    return device.device_type, device.device_id


def load_library(path: str) -> Any:
    """TVM's module of a shared library; RuntimeError or ValueError if it is none."""
    if IS_FFI:
        return tvm.runtime.load_module(path)
    return tvm.get_global_func("runtime.ModuleLoadFromFile")(path, "so")


def imported_modules(module: Any) -> list[Any]:
    """Modules that a module of TVM imports."""
    return list(module.imports if IS_FFI else module.imported_modules)


def linkers() -> Any:
    """TVM's module of functions that link shared libraries, for ``export_library``."""
    if IS_FFI:
        from tvm.support import cc  # noqa: PLC0415 - each TVM has its own
    else:
        from tvm.contrib import cc  # noqa: PLC0415
    return cc


def require_packed(what: str) -> None:
    """Refuse what works with kernels of TVM with Relay only; ``what`` is a sentence about it."""
    if IS_FFI:
        raise HostError(
            f"{what}, which needs a TVM with Relay: tvm-ios install-tvm; the TVM here is "
            f"{tvm.__version__}"
        )


def runtime_library() -> Any:
    """TVM's runtime, whose C functions kernels call; a library of ctypes."""
    if IS_FFI:
        from tvm.base import _LOADED_LIBS  # noqa: PLC0415

        return _LOADED_LIBS["tvm_runtime"]
    from tvm._ffi.base import _LIB  # noqa: PLC0415

    return _LIB


def ffi_library() -> ctypes.CDLL:
    """The library of TVM-FFI, which has the errors of its kernels; only where there is one."""
    from tvm_ffi.libinfo import find_libtvm_ffi  # noqa: PLC0415

    return ctypes.CDLL(find_libtvm_ffi())
