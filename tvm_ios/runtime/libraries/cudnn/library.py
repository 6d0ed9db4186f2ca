"""The functions of cuDNN 9 that convolutions need, through ctypes. No TVM here.

TVM's wheels are built without cuDNN. The functions called here are those that cuDNN 9 has kept from
earlier versions, and they are plain C.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Mapping
from ctypes import POINTER, c_char_p, c_double, c_float, c_int, c_size_t, c_void_p
from functools import cache
from types import MappingProxyType
from typing import Any

from tvm_ios.errors import HostError
from tvm_ios.host.cudnn_files import cudnn_dependencies, cudnn_libraries, cudnn_version_text
from tvm_ios.runtime.base.status_library import StatusLibrary
from tvm_ios.runtime.gpu.driver import CudaCallError
from tvm_ios.support.extras import install_command

__all__ = ["OLDEST_VERSION", "AlgorithmTime", "Cudnn", "load_cudnn"]

OLDEST_VERSION = 90000
PACKAGE = "nvidia-cudnn-cu12"


class AlgorithmTime(ctypes.Structure):
    """``cudnnConvolutionFwdAlgoPerf_t``: an algorithm with time and workspace, from a search."""

    _fields_ = [
        ("number", c_int),
        ("status", c_int),
        ("time_ms", c_float),
        ("workspace_bytes", c_size_t),
        ("deterministic", c_int),
        ("math", c_int),
        ("reserved", c_int * 3),
    ]
    number: int
    status: int
    time_ms: float
    workspace_bytes: int
    deterministic: int
    math: int


_MAKE, _DROP = (POINTER(c_void_p),), (c_void_p,)
_CONVOLVE = (c_void_p,) * 7 + (c_int, c_void_p, c_size_t)
_RANKED = (c_int, POINTER(c_int), POINTER(AlgorithmTime))
_FUNCTIONS: Mapping[str, tuple[Any, ...]] = MappingProxyType(
    {
        "cudnnCreate": _MAKE,
        "cudnnDestroy": _DROP,
        "cudnnSetStream": (c_void_p, c_void_p),
        "cudnnCreateTensorDescriptor": _MAKE,
        "cudnnSetTensor4dDescriptor": (c_void_p, *(c_int,) * 6),
        "cudnnDestroyTensorDescriptor": _DROP,
        "cudnnCreateFilterDescriptor": _MAKE,
        "cudnnSetFilter4dDescriptor": (c_void_p, *(c_int,) * 6),
        "cudnnDestroyFilterDescriptor": _DROP,
        "cudnnCreateConvolutionDescriptor": _MAKE,
        "cudnnSetConvolution2dDescriptor": (c_void_p, *(c_int,) * 8),
        "cudnnSetConvolutionGroupCount": (c_void_p, c_int),
        "cudnnSetConvolutionMathType": (c_void_p, c_int),
        "cudnnDestroyConvolutionDescriptor": _DROP,
        "cudnnCreateActivationDescriptor": _MAKE,
        "cudnnSetActivationDescriptor": (c_void_p, c_int, c_int, c_double),
        "cudnnDestroyActivationDescriptor": _DROP,
        "cudnnGetConvolutionForwardWorkspaceSize": (
            *(c_void_p,) * 5,
            c_int,
            POINTER(c_size_t),
        ),
        "cudnnGetConvolutionForwardAlgorithm_v7": (*(c_void_p,) * 5, *_RANKED),
        "cudnnFindConvolutionForwardAlgorithmEx": (
            *(c_void_p,) * 8,
            *_RANKED,
            c_void_p,
            c_size_t,
        ),
        "cudnnConvolutionForward": (*_CONVOLVE, *(c_void_p,) * 3),
        "cudnnConvolutionBiasActivationForward": (*_CONVOLVE, *(c_void_p,) * 8),
        "cudnnAddTensor": (c_void_p,) * 7,
    }
)


class Cudnn(StatusLibrary):
    """Functions of a loaded libcudnn; each raises where it fails. The path is for messages."""

    def __init__(self, library: ctypes.CDLL, path: str) -> None:
        self.path = path
        self._text = library["cudnnGetErrorString"]
        self._text.restype, self._text.argtypes = c_char_p, [c_int]
        version = library["cudnnGetVersion"]
        version.restype = c_size_t
        # The version comes first: the message on a function that is missing has it.
        self.version = int(version())
        super().__init__(library, _FUNCTIONS)
        if self.version < OLDEST_VERSION:
            raise HostError(self._unfit("cuDNN 9 is needed"))

    @property
    def version_text(self) -> str:
        """The version, such as ``9.10.2``."""
        return cudnn_version_text(self.version)

    def failed(self, call: str, code: int, where: str = "") -> CudaCallError:
        """The error of a call that returned `code`."""
        name = (self._text(code) or b"").decode(errors="replace") or f"error {code}"
        place = f"{where}: " if where else ""
        return CudaCallError(
            f"{place}{call} failed: {name} (cuDNN {self.version_text}); update the driver and "
            f"{PACKAGE}, or compile with libraries=()",
            call=call,
            name=name,
        )

    def _lacking(self, name: str) -> str:
        return self._unfit(f"it has no {name}")

    def _unfit(self, reason: str) -> str:
        return (
            f"{self.path} is cuDNN {self.version_text}, but {reason}; "
            f"{install_command('cudnn')}, or {PACKAGE} of version 9"
        )


@cache
def load_cudnn() -> Cudnn:
    """The cuDNN of this process, loaded once."""
    for path in cudnn_dependencies():
        # cuDNN opens these by name when it first needs them; wheels are on no search path.
        with contextlib.suppress(OSError):
            ctypes.CDLL(path, ctypes.RTLD_GLOBAL)
    reason = ""
    for name in cudnn_libraries():
        try:
            return Cudnn(ctypes.CDLL(name), name)
        except (OSError, AttributeError) as error:
            reason = reason or str(error)
    raise HostError(
        f"no cuDNN: {reason}; run {install_command('cudnn')}, or leave it out (libraries=(), or "
        "--libraries none)"
    )
