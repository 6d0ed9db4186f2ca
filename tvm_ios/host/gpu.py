"""The GPU side of this machine: devices, driver, nvcc and cuDNN, found without TVM."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from dataclasses import dataclass

from tvm_ios.host.cudnn_files import cudnn_libraries, cudnn_version_text

__all__ = ["GpuClocks", "GpuReport", "describe_gpu", "read_clocks"]

_QUERY = ("--query-gpu=name,memory.total,compute_cap", "--format=csv,noheader")
_CLOCKS = "--query-gpu=clocks.sm,clocks.max.sm,clocks.mem,temperature.gpu"
_TIMEOUT_S = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuReport:
    """GPUs and their tools on this machine; None or empty for what is missing.

    ``devices`` are nvidia-smi's lines (name, memory, compute capability), ``driver_cuda`` the
    newest CUDA version that the driver serves, ``nvcc`` and ``cudnn`` a version and a path.
    """

    devices: tuple[str, ...] = ()
    driver_cuda: str | None = None
    nvcc: str | None = None
    cudnn: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuClocks:
    """Clock rates and temperature of a GPU."""

    sm_mhz: int
    max_sm_mhz: int
    memory_mhz: int
    celsius: int

    def as_text(self) -> str:
        """GPU clocks as one line of text."""
        return (
            f"SM clock {self.sm_mhz} of {self.max_sm_mhz} MHz, memory {self.memory_mhz} MHz, "
            f"{self.celsius} degrees Celsius"
        )


def read_clocks(bus_id: str) -> GpuClocks | None:
    """Present clocks of the GPU in a slot (``0000:3B:00.0``); None if nvidia-smi tells none."""
    line = _output("nvidia-smi", "-i", bus_id, _CLOCKS, "--format=csv,noheader,nounits")
    try:
        sm, max_sm, memory, celsius = (int(field) for field in (line or "").split(","))
    except ValueError:
        return None
    return GpuClocks(sm_mhz=sm, max_sm_mhz=max_sm, memory_mhz=memory, celsius=celsius)


def describe_gpu() -> GpuReport:
    """Report on NVIDIA GPUs and their tools; never fails."""
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
    for library in cudnn_libraries():
        try:
            version = int(ctypes.CDLL(library).cudnnGetVersion())
        except (OSError, AttributeError):
            continue
        return f"{cudnn_version_text(version)} at {library}"
    return None
