"""The compiler of CUDA source that TVM 0.27 calls: nvcc, or NVRTC."""

from __future__ import annotations

import os
import shutil
from functools import cache
from importlib.util import find_spec

from tvm.support import nvcc

from tvm_ios.errors import HostError
from tvm_ios.runtime.gpu.tvm_runtime import require_tvm_runtime

__all__ = ["cuda_compiler", "require_cuda_compiler"]

_CHOICE = "TVM_CUDA_COMPILE_MODE"


def require_cuda_compiler() -> None:
    """Let TVM compile for GPUs from now on: by nvcc, unless the environment says otherwise.

    Raises
    ------
    HostError
        If CUDA's runtime, or nvcc and the package of NVRTC, are missing.
    """
    require_tvm_runtime()
    if shutil.which("nvcc") is not None:
        os.environ.setdefault(_CHOICE, "nvcc")
    elif find_spec("cuda") is None or find_spec("cuda.bindings") is None:
        raise HostError(
            "nothing here compiles CUDA source: nvcc is not on PATH, and NVRTC needs the package "
            "cuda-bindings; install the toolkit of CUDA 13, or pip install cuda-bindings "
            "nvidia-cuda-nvrtc"
        )


def cuda_compiler() -> str:
    """Compiler by path and version, and what the environment asks of it."""
    place = shutil.which("nvcc")
    asked = {_CHOICE: "nvrtc" if place is None else "nvcc"} | {
        name: value for name, value in os.environ.items() if name.startswith("TVM_CUDA_")
    }
    told = " ".join(f"{name}={value}" for name, value in sorted(asked.items()))
    return told if place is None else f"{told} {place} {_version_of(place)}"


@cache
def _version_of(_compiler: str) -> str:
    # The argument is the key of the cache alone: another compiler on PATH is asked anew.
    return ".".join(map(str, nvcc.get_cuda_version()))
