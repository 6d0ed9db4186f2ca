"""Functions of the CUDA driver for streams, events and graphs, through ctypes. No TVM.

Needs no installation, and NVIDIA keeps the interface: libcuda only adds versions of a function.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from ctypes import (
    POINTER,
    c_char_p,
    c_float,
    c_int,
    c_size_t,
    c_uint,
    c_uint64,
    c_ulonglong,
    c_void_p,
)
from functools import cache
from types import MappingProxyType
from typing import Any

from tvm_ios.errors import ExecutionError, HostError
from tvm_ios.runtime.base.status_library import StatusLibrary

__all__ = [
    "CudaCallError",
    "CudaDriver",
    "call_failed",
    "is_of_capture",
    "load_driver",
    "next_step",
]

LIBRARIES = ("libcuda.so.1", "/usr/local/nvidia/lib64/libcuda.so.1")

_HANDLE_OUT = POINTER(c_void_p)
# Names end as the macros of cuda.h have it: without `_v2`, libcuda has an older function, with
# other arguments.
_FUNCTIONS: Mapping[str, tuple[Any, ...]] = MappingProxyType(
    {
        "cuInit": (c_uint,),
        "cuDriverGetVersion": (POINTER(c_int),),
        "cuGetErrorName": (c_int, POINTER(c_char_p)),
        "cuGetErrorString": (c_int, POINTER(c_char_p)),
        "cuDeviceGetCount": (POINTER(c_int),),
        "cuDeviceGet": (POINTER(c_int), c_int),
        "cuDeviceGetName": (c_char_p, c_int, c_int),
        "cuDeviceGetPCIBusId": (c_char_p, c_int, c_int),
        "cuDeviceGetAttribute": (POINTER(c_int), c_int, c_int),
        "cuDeviceTotalMem_v2": (POINTER(c_size_t), c_int),
        "cuDevicePrimaryCtxRetain": (_HANDLE_OUT, c_int),
        "cuDevicePrimaryCtxRelease_v2": (c_int,),
        "cuCtxSetCurrent": (c_void_p,),
        "cuCtxSynchronize": (),
        "cuMemGetInfo_v2": (POINTER(c_size_t), POINTER(c_size_t)),
        "cuMemAlloc_v2": (POINTER(c_uint64), c_size_t),
        "cuMemFree_v2": (c_uint64,),
        "cuMemsetD32_v2": (c_uint64, c_uint, c_size_t),
        "cuStreamCreate": (_HANDLE_OUT, c_uint),
        "cuStreamDestroy_v2": (c_void_p,),
        "cuStreamSynchronize": (c_void_p,),
        "cuStreamWaitEvent": (c_void_p, c_void_p, c_uint),
        "cuStreamBeginCapture_v2": (c_void_p, c_int),
        "cuStreamEndCapture": (c_void_p, _HANDLE_OUT),
        "cuEventCreate": (_HANDLE_OUT, c_uint),
        "cuEventDestroy_v2": (c_void_p,),
        "cuEventRecord": (c_void_p, c_void_p),
        "cuEventSynchronize": (c_void_p,),
        "cuEventElapsedTime": (POINTER(c_float), c_void_p, c_void_p),
        "cuGraphInstantiateWithFlags": (_HANDLE_OUT, c_void_p, c_ulonglong),
        "cuGraphUpload": (c_void_p, c_void_p),
        "cuGraphLaunch": (c_void_p, c_void_p),
        "cuGraphDestroy": (c_void_p,),
        "cuGraphExecDestroy": (c_void_p,),
    }
)

_OUT_OF_MEMORY = (
    "lower the batch size or the number of streams, or end what else uses this GPU (nvidia-smi)"
)
_OTHER_GPU = "compile for this GPU: target='cuda -arch=sm_XY' with its compute capability X.Y"
_LOST = (
    "the GPU's context is lost, so start this process anew, with CUDA_LAUNCH_BLOCKING=1 and "
    "streams in place of a graph to have the operator named, or under compute-sanitizer"
)
_CAPTURE = (
    "what waits or allocates cannot be captured; cuda_graph=False runs on streams without trying"
)
_NEXT_STEPS: Mapping[str, str] = MappingProxyType(
    {
        "CUDA_ERROR_OUT_OF_MEMORY": _OUT_OF_MEMORY,
        "CUDA_ERROR_DEINITIALIZED": "the process is ending; close executors before it does",
        "CUDA_ERROR_NO_DEVICE": "see whether nvidia-smi lists a GPU, and CUDA_VISIBLE_DEVICES",
        "CUDA_ERROR_INVALID_IMAGE": _OTHER_GPU,
        "CUDA_ERROR_NO_BINARY_FOR_GPU": _OTHER_GPU,
        "CUDA_ERROR_INVALID_PTX": _OTHER_GPU,
        "CUDA_ERROR_UNSUPPORTED_PTX_VERSION": "install a driver as new as nvcc, see nvidia-smi",
        "CUDA_ERROR_ILLEGAL_ADDRESS": _LOST,
        "CUDA_ERROR_ILLEGAL_INSTRUCTION": _LOST,
        "CUDA_ERROR_MISALIGNED_ADDRESS": _LOST,
        "CUDA_ERROR_LAUNCH_FAILED": _LOST,
        "CUDA_ERROR_LAUNCH_TIMEOUT": _LOST,
        "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES": "tune the operator for this GPU, or untune it",
    }
)
_CAPTURE_ERROR = "CUDA_ERROR_STREAM_CAPTURE"


class CudaCallError(ExecutionError):
    """A failed call of the driver; ``name`` is the driver's name of the error."""

    def __init__(self, message: str, *, call: str, name: str) -> None:
        super().__init__(message)
        self.call = call
        self.name = name


def is_of_capture(error: ExecutionError) -> bool:
    """True if an error says that a function was called that a capture does not allow."""
    return isinstance(error, CudaCallError) and error.name.startswith(_CAPTURE_ERROR)


def next_step(name: str) -> str:
    """Advice on a CUDA error, by the driver's name of it."""
    if name.startswith(_CAPTURE_ERROR):
        return _CAPTURE
    return _NEXT_STEPS.get(name, "see `tvm-ios doctor`, and the CUDA driver API on this error")


def call_failed(call: str, *, name: str, text: str, where: str = "") -> CudaCallError:
    """Error that says which call failed, why, for whom, and what to do."""
    place = f"{where}: " if where else ""
    message = f"{place}{call} failed: {name} ({text}); {next_step(name)}"
    return CudaCallError(message, call=call, name=name)


class CudaDriver(StatusLibrary):
    """The functions of a loaded libcuda; each raises where it fails."""

    def __init__(self, library: ctypes.CDLL) -> None:
        super().__init__(library, _FUNCTIONS)

    def failed(self, call: str, code: int, where: str = "") -> CudaCallError:
        """The error of a call that returned `code`."""
        name, text = self._text("cuGetErrorName", code), self._text("cuGetErrorString", code)
        return call_failed(call, name=name, text=text, where=where)

    def integer(self, name: str, *arguments: Any, type_: Any = c_int) -> int:
        """The number that a function writes to its first argument."""
        number = type_()
        self.call(name, ctypes.byref(number), *arguments)
        return int(number.value)

    def _lacking(self, name: str) -> str:
        return (
            f"the CUDA driver has no {name}: it is older than CUDA 12, or stands in for "
            "one; install NVIDIA's driver for CUDA 12 or newer (nvidia-smi shows it)"
        )

    def _text(self, function: str, code: int) -> str:
        text = c_char_p()
        if self._functions[function](code, ctypes.byref(text)) or text.value is None:
            return f"error {code}"
        return text.value.decode(errors="replace")


@cache
def load_driver() -> CudaDriver:
    """The driver of this process, initialized."""
    driver = CudaDriver(_library())
    code = driver.status("cuInit", 0)
    if code:
        failure = driver.failed("cuInit", code)
        raise HostError(f"no GPU can be used: {failure}")
    return driver


def _library() -> ctypes.CDLL:
    reason = ""
    for name in LIBRARIES:
        try:
            return ctypes.CDLL(name)
        except OSError as error:
            reason = reason or str(error)
    raise HostError(
        f"no CUDA driver: {reason}; install NVIDIA's driver for CUDA 12 or newer, or run this "
        "model on tvm.cpu()"
    )
