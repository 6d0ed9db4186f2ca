"""The GPU side of this machine: devices, driver, nvcc and cuDNN, as found without TVM."""

from __future__ import annotations

import ctypes
import ctypes.util
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

__all__ = ["GpuReport", "describe_gpu"]

_QUERY = ("--query-gpu=name,memory.total,compute_cap", "--format=csv,noheader")
_TIMEOUT_S = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuReport:
    """What was found; None or an empty tuple where nothing was.

    ``devices`` are nvidia-smi's lines (name, memory, compute capability), ``driver_cuda`` the
    newest CUDA version that the driver serves, ``nvcc`` and ``cudnn`` a version and a path.
    """

    devices: tuple[str, ...] = ()
    driver_cuda: str | None = None
    nvcc: str | None = None
    cudnn: str | None = None


def describe_gpu() -> GpuReport:
    """Look for an NVIDIA GPU and its tools; never fails."""
    return GpuReport(
        devices=tuple((_output("nvidia-smi", *_QUERY) or "").splitlines()),
        driver_cuda=_driver_cuda(),
        nvcc=_nvcc(),
        cudnn=_cudnn(),
    )


def _output(program: str, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            [program, *arguments], capture_output=True, text=True, check=False, timeout=_TIMEOUT_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _driver_cuda() -> str | None:
    for library in ("libcuda.so.1", "/usr/local/nvidia/lib64/libcuda.so.1"):
        version = ctypes.c_int(0)
        try:
            driver = ctypes.CDLL(library)
            answer = driver.cuDriverGetVersion(ctypes.byref(version))
        except (OSError, AttributeError):
            continue
        if answer == 0:
            return f"{version.value // 1000}.{version.value % 1000 // 10}"
    return None


def _nvcc() -> str | None:
    program = shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")
    if program is None:
        return None
    release = re.search(r"release ([\d.]+)", _output(program, "--version") or "")
    return f"{release.group(1) if release else 'unknown version'} at {program}"


def _cudnn() -> str | None:
    folders = [Path(entry) / "nvidia" / "cudnn" / "lib" for entry in sys.path if entry]
    wheels = [str(path) for folder in folders for path in sorted(folder.glob("libcudnn.so.*"))]
    for library in (*wheels, ctypes.util.find_library("cudnn"), "libcudnn.so.9"):
        if library is None:
            continue
        try:
            version = int(ctypes.CDLL(library).cudnnGetVersion())
        except (OSError, AttributeError):
            continue
        # From cuDNN 9 on the major version is worth 10,000.
        major = version // (10_000 if version >= 90_000 else 1_000)
        minor = version // 100 % (100 if version >= 90_000 else 10)
        return f"{major}.{minor}.{version % 100} at {library}"
    return None
