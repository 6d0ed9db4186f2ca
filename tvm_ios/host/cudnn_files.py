"""Places of libraries of CUDA and cuDNN: wheels on Python's path, or where the loader looks."""

from __future__ import annotations

import ctypes.util
import sys
from pathlib import Path

__all__ = ["cuda_runtimes", "cudnn_dependencies", "cudnn_libraries", "cudnn_version_text"]


def cudnn_libraries() -> tuple[str, ...]:
    """Names or paths of libcudnn to try, the libraries of installed wheels first."""
    found = (*_in_wheels("cudnn", "libcudnn.so.*"), ctypes.util.find_library("cudnn"))
    return tuple(name for name in (*found, "libcudnn.so.9") if name is not None)


def cudnn_dependencies() -> tuple[str, ...]:
    """Paths of libraries of installed wheels that cuDNN opens by bare names when it needs them."""
    # The order counts: cublas needs cublasLt, and nvrtc its builtins.
    return (
        *_in_toolkit("cublas", "libcublasLt.so.*"),
        *_in_toolkit("cublas", "libcublas.so.*"),
        *_in_toolkit("cuda_nvrtc", "libnvrtc-builtins.so.*"),
        *_in_toolkit("cuda_nvrtc", "libnvrtc.so.*"),
    )


def cuda_runtimes() -> tuple[str, ...]:
    """Paths of CUDA 13's runtime in installed wheels."""
    return tuple(_in_toolkit("cuda_runtime", "libcudart.so.13"))


def cudnn_version_text(version: int) -> str:
    """Text of a cuDNN version number, such as ``9.10.2`` for 91002."""
    # From cuDNN 9 on the major version is worth 10,000.
    major = version // (10_000 if version >= 90_000 else 1_000)
    minor = version // 100 % (100 if version >= 90_000 else 10)
    return f"{major}.{minor}.{version % 100}"


def _in_toolkit(package: str, pattern: str) -> list[str]:
    """Files of a CUDA wheel; from CUDA 13 on the wheels share a folder, ``nvidia/cu13``."""
    return [*_in_wheels(package, pattern), *_in_wheels("cu[0-9]*", pattern)]


def _in_wheels(package: str, pattern: str) -> list[str]:
    folders = [Path(entry) / "nvidia" for entry in sys.path if entry]
    files = f"{package}/lib/{pattern}"
    return [str(path) for folder in folders for path in sorted(folder.glob(files))]
