"""The native side of cuDNN's calls (``native/cudnn_calls.c``), bound by ctypes. No TVM here."""

from __future__ import annotations

import ctypes
from ctypes import Structure, c_int32, c_uint64, c_void_p
from pathlib import Path

from tvm_ios.errors import ExecutionError
from tvm_ios.runtime.base.native_runtime import address_of
from tvm_ios.runtime.libraries.cudnn.library import Cudnn
from tvm_ios.support.c_compiler import NativeSource

__all__ = [
    "CALLS_SOURCE",
    "CUDNN_CALLS",
    "CudnnPreparedCall",
    "NativeCall",
    "NativeFunctions",
    "convolve_address",
]

# The order is that of CudnnFunctions, and of the enum below it, in cudnn_calls.c.
CUDNN_CALLS = (
    "cudnnConvolutionForward",
    "cudnnConvolutionBiasActivationForward",
    "cudnnAddTensor",
)
"""Functions of cuDNN that an operator calls."""
CALLS_SOURCE = NativeSource(Path(__file__).parent / "native" / "cudnn_calls.c")
_CONVOLVE = "tvm_ios_cudnn_convolve"


class NativeFunctions(Structure):
    """``CudnnFunctions``: functions of cuDNN that native code calls."""

    _fields_ = [(name, c_void_p) for name in CUDNN_CALLS]


class NativeCall(Structure):
    """``CudnnCall``: a prepared call on one stream, and why it last failed."""

    _fields_ = [
        *((name, c_void_p) for name in ("functions", "handle", "take", "give")),
        *((name, c_void_p) for name in ("x", "w", "y", "bias")),
        *((name, c_void_p) for name in ("convolution", "activation", "no_bias")),
        ("workspace_bytes", c_uint64),
        *((name, c_int32) for name in ("algorithm", "activates", "data", "weight")),
        *((name, c_int32) for name in ("bias_argument", "status", "failed_call", "unused")),
    ]
    status: int
    """Status that cuDNN returned; 0 unless the last call failed in cuDNN."""
    failed_call: int
    """Position in :data:`CUDNN_CALLS` of the function that returned the status."""


class CudnnPreparedCall:
    """A convolution on one stream, ready to be made from C; keeps its native form alive.

    ``function`` is the address of the function that makes it.
    """

    def __init__(self, native: NativeCall, function: int, library: Cudnn) -> None:
        self.function = function
        self._native = native
        self._library = library

    @property
    def resource(self) -> int:
        """Address of the native call."""
        return ctypes.addressof(self._native)

    def constants_changed(self) -> None:
        """Do nothing: a call of cuDNN stores nothing that was made of constants."""

    def failure(self, where: str) -> ExecutionError | None:
        """Error of the call of cuDNN that failed, once; None if no call of cuDNN failed."""
        status, self._native.status = self._native.status, 0
        if not status:
            return None
        return self._library.failed(CUDNN_CALLS[self._native.failed_call], status, where)


def convolve_address(code: ctypes.CDLL | None) -> int:
    """Address of the function that makes a call, in the model's own code where that has it."""
    brings = code is not None and hasattr(code, _CONVOLVE)
    return address_of(code if code is not None and brings else CALLS_SOURCE.library, _CONVOLVE)
