"""Report on the whole machine, with remedies for what is missing."""

from __future__ import annotations

import os
import platform
import shlex
import sys
from dataclasses import dataclass

from tvm_ios.errors import HostError
from tvm_ios.host.gpu import GpuReport, describe_gpu
from tvm_ios.host.lane_speeds import LaneSpeeds, lane_speeds
from tvm_ios.host.latency import LatencyMode, core_to_core_ns, latency_mode
from tvm_ios.host.onednn_files import find_onednn
from tvm_ios.host.processor import default_lanes, processor_name
from tvm_ios.host.run_delay import counts_run_delay
from tvm_ios.host.tvm_probe import TvmReport, describe_tvm
from tvm_ios.support.c_compiler import find_c_compiler
from tvm_ios.support.extras import install_command

__all__ = ["HostReport", "describe_host", "other_choice"]


@dataclass(frozen=True, slots=True, kw_only=True)
class HostReport:
    """Facts of this machine that tvm-ios needs.

    ``problems`` stop the CPU path, ``hints`` are worth knowing; each line names the next step.
    ``hop_ns`` is the core-to-core latency, None where it could not be measured.
    """

    python: str
    platform: str
    processor: str
    cores: int
    lanes: int
    tvm_num_threads: str | None
    c_compiler: str | None
    hop_ns: float | None
    lane_speeds: LaneSpeeds | None
    """Speeds of a lane as kept, measured now where none were; None without a C compiler."""
    counts_run_delay: bool
    """True if samples that waited for a core are told from slow ones."""
    tvm: TvmReport
    other_tvm: TvmReport | None
    """The TVM that another value of ``TVM_IOS_TVM`` imports; None without one."""
    gpu: GpuReport
    onednn: str | None
    """Version and path of oneDNN; None where none fits."""
    problems: tuple[str, ...]
    hints: tuple[str, ...]

    @property
    def latency_mode(self) -> LatencyMode | None:
        """Mode of the machine that ``hop_ns`` means."""
        return None if self.hop_ns is None else latency_mode(self.hop_ns)


def describe_host() -> HostReport:
    """Report on this machine; takes some seconds and never fails."""
    problems, hints = [], []
    compiler = hop_ns = None
    try:
        compiler = shlex.join(find_c_compiler())
        hop_ns = core_to_core_ns()
    except (HostError, OSError) as error:
        problems.append(str(error))
    tvm, gpu, lanes = describe_tvm(), describe_gpu(), default_lanes()
    if tvm.problem is not None:
        problems.append(tvm.problem)
    elif "llvm" not in tvm.targets:
        problems.append("this TVM cannot compile for the CPU; run `tvm-ios install-tvm --force`")
    other_tvm = _other_tvm(tvm)
    hints.extend(_thread_hints(tvm, lanes))
    if hop_ns is not None and latency_mode(hop_ns) is LatencyMode.SLOW:
        hints.append(
            f"a hop from core to core takes {hop_ns:.0f} ns: a virtual machine in slow mode; "
            "lanes gain little now, measure again in some minutes"
        )
    if tvm.uses_ctypes and tvm.origin == "wheel" and os.environ.get("TVM_FFI") != "ctypes":
        hints.append(
            "TVM is called through ctypes, and builds take a third longer; `tvm-ios install-tvm` "
            "compiles what calls it, or says what that needs"
        )
    hints.extend(_gpu_hints(tvm, gpu))
    onednn = find_onednn()
    if onednn.version is None:
        hints.append(
            f"no oneDNN 3 ({onednn.reason}): {install_command('onednn')}, if its kernels are wanted"
        )
    return HostReport(
        python=platform.python_version(),
        platform=f"{sys.platform} {platform.machine()}",
        processor=processor_name(),
        cores=os.cpu_count() or 1,
        lanes=lanes,
        tvm_num_threads=os.environ.get("TVM_NUM_THREADS"),
        c_compiler=compiler,
        hop_ns=hop_ns,
        lane_speeds=lane_speeds(),
        counts_run_delay=counts_run_delay(),
        tvm=tvm,
        other_tvm=other_tvm,
        gpu=gpu,
        onednn=None if onednn.version is None else f"{onednn.version.as_text()} at {onednn.path}",
        problems=tuple(problems),
        hints=tuple(hints),
    )


def _other_tvm(tvm: TvmReport) -> TvmReport | None:
    """The TVM that the other choice imports, if it is another one and fit."""
    other = describe_tvm(other_choice(tvm))
    found = other.location is not None and other.location != tvm.location
    return other if found and other.problem is None else None


def other_choice(tvm: TvmReport) -> str:
    """The value of ``TVM_IOS_TVM`` that imports another TVM than this, if there is one."""
    return "path" if tvm.origin == "wheel" else "wheel"


def _thread_hints(tvm: TvmReport, lanes: int) -> list[str]:
    if tvm.threads is None or tvm.threads == lanes:
        return []
    why = (
        "its guess is half of the cores"
        if tvm.threads < lanes
        else "more than the cores it may use"
    )
    return [
        f"stock TVM runs {tvm.threads} thread{'s' * (tvm.threads > 1)}, {why}; for all {lanes}: "
        f"export TVM_NUM_THREADS={lanes} before Python starts"
    ]


def _gpu_hints(tvm: TvmReport, gpu: GpuReport) -> list[str]:
    hints = []
    if gpu.driver_cuda is not None and int(gpu.driver_cuda.split(".")[0]) < 12:
        hints.append(f"the driver serves CUDA {gpu.driver_cuda}, TVM needs 12; update the driver")
    elif gpu.devices and not tvm.gpu_visible and tvm.problem is None:
        hints.append("there is a GPU that TVM does not see; check CUDA_VISIBLE_DEVICES")
    if gpu.devices and gpu.nvcc is None:
        hints.append("no nvcc: TVM compiles CUDA with it; install a CUDA toolkit, put it on PATH")
    if gpu.devices and gpu.cudnn is None:
        hints.append("no cuDNN: pip install nvidia-cudnn-cu12, if its kernels are wanted")
    return hints
