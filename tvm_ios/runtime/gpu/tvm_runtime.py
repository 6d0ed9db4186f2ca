"""The CUDA runtime of TVM 0.27, a library beside TVM's own that is needed to compile, too.

TVM loads it when it is imported, and says nothing where that fails. With Relay it is part of TVM.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import tvm

from tvm_ios.errors import HostError
from tvm_ios.host.cudnn_files import cuda_runtimes
from tvm_ios.install.hook import driver_stub
from tvm_ios.runtime.base.tvm_names import IS_FFI, runtime_library
from tvm_ios.runtime.gpu.driver import LIBRARIES as DRIVERS

__all__ = ["require_tvm_runtime"]

_LIBRARY = "libtvm_runtime_cuda.so"


def require_tvm_runtime() -> None:
    """Load TVM's CUDA runtime unless it is there; TVM with Relay has it.

    A machine that only compiles needs no driver: where there is none, a stand-in takes its place.

    Raises
    ------
    HostError
        If the runtime cannot be loaded, most often for want of CUDA's own runtime.
    """
    if not IS_FFI or tvm.get_global_func("device_api.cuda", allow_missing=True) is not None:
        return
    path = Path(runtime_library()._name).resolve().with_name(_LIBRARY)  # noqa: SLF001
    if not _load(DRIVERS):
        _load([str(driver_stub())])
    _load(_places())
    try:
        ctypes.CDLL(str(path))
    except OSError as error:
        raise HostError(
            f"TVM {tvm.__version__} cannot work with GPUs here: {error}; install the toolkit of "
            "CUDA 13 (or pip install nvidia-cuda-runtime), or give a target of kind llvm"
        ) from error


def _load(names: Iterable[str]) -> bool:
    """True if one of some libraries is loaded, under whose name others then find it."""
    for name in names:
        with contextlib.suppress(OSError):
            ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)
            return True
    return False


def _places() -> Iterator[str]:
    """Names and paths of CUDA's runtime: what the loader knows, the toolkit, installed wheels."""
    yield "libcudart.so.13"
    for folder in (os.environ.get("CUDA_HOME"), "/usr/local/cuda"):
        if folder:
            yield str(Path(folder, "lib64", "libcudart.so.13"))
    yield from cuda_runtimes()
