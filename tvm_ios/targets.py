"""What a model is compiled for, where it is measured, and on how many lanes."""

from __future__ import annotations

import tvm

from tvm_ios.core.whole_number import as_whole
from tvm_ios.errors import HostError, OptionError
from tvm_ios.host import default_lanes, host_target
from tvm_ios.runtime.device import is_gpu_target
from tvm_ios.runtime.gpu_session import GpuDevice
from tvm_ios.runtime.libraries.known import cudnn_library
from tvm_ios.runtime.libraries.protocol import OperatorLibrary
from tvm_ios.runtime.measuring import MeasuringDevice

__all__ = [
    "gpu_of",
    "require_cudnn",
    "require_known_target",
    "require_lanes",
    "require_streams",
]

DEFAULT_STREAMS = 8
"""Where nobody says how many; the paper's most groups of a stage."""
MAX_STREAMS = 32
"""Queues that a GPU has at most; the driver gives a process eight unless
``CUDA_DEVICE_MAX_CONNECTIONS`` says more, and streams that share one wait for each other."""
TVM_GUESS = "sm_50"
"""What TVM takes for a GPU's architecture where it finds no GPU; nvcc 13 does not know it."""


def require_known_target(target: tvm.target.Target) -> None:
    """Refuse a target that nothing here runs.

    Raises
    ------
    OptionError
        If it is neither a CPU nor a GPU, or a GPU of an unknown architecture.
    """
    if target.kind.name not in ("llvm", "cuda"):
        raise OptionError(
            f"target is {str(target)!r}; models are compiled for llvm and cuda targets, such as "
            f"{host_target()!r} or 'cuda -arch=sm_90'"
        )
    if is_gpu_target(target) and target.attrs["arch"] == TVM_GUESS and not tvm.cuda().exist:
        raise OptionError(
            f"target is {str(target)!r}, and there is no GPU here to take the architecture from; "
            "name it, such as 'cuda -arch=sm_90' for an H100"
        )


def require_cudnn(
    cudnn: bool, tf32: bool, target: tvm.target.Target | None
) -> tuple[OperatorLibrary, ...]:
    """The libraries that may compute operators: cuDNN, where it is asked for.

    Parameters
    ----------
    cudnn, tf32
        Whether it may compute operators, and with TF32.
    target
        What is compiled for; this machine's processor where omitted.

    Raises
    ------
    OptionError
        If the target is no GPU, or TF32 is asked for without cuDNN.
    """
    for name, value in (("cudnn", cudnn), ("tf32", tf32)):
        if not isinstance(value, bool):
            raise OptionError(f"{name} is {value!r}; give True or False")
    if tf32 and not cudnn:
        raise OptionError(
            "tf32 is True, but only convolutions by cuDNN may use TF32; give cudnn=True as well"
        )
    if not cudnn:
        return ()
    if target is None or not is_gpu_target(target):
        named = "left out, and so this processor" if target is None else repr(str(target))
        raise OptionError(
            f"cudnn is True, but the target is {named}; cuDNN computes for cuda targets only, such "
            "as 'cuda -arch=sm_90'"
        )
    return (cudnn_library(tf32=tf32),)


def gpu_of(target: tvm.target.Target) -> GpuDevice | None:
    """The GPU of this machine that a target is for; None for a CPU.

    Raises
    ------
    OptionError
        If the target is neither, or a GPU of an unknown architecture.
    HostError
        If there is no such GPU.
    """
    require_known_target(target)
    if not is_gpu_target(target):
        return None
    try:
        return GpuDevice.find(str(target.attrs["arch"]))
    except HostError as error:
        raise HostError(
            f"target is {str(target)!r}, whose stages are priced on the GPU itself: {error}. "
            "Without one, tvm_ios.compile_schedule compiles a schedule that is known, and "
            "`tvm-ios solve --gpu` searches one with a model of the GPU"
        ) from error


def require_lanes(lanes: int | None, device: MeasuringDevice | None = None) -> int:
    """The number of lanes, all usable cores where omitted; of a GPU, streams.

    Parameters
    ----------
    lanes
        What was asked for.
    device
        Where they run; this machine where omitted.

    Raises
    ------
    OptionError
        If it is below one or above the cores there are.
    """
    if isinstance(device, GpuDevice):
        return require_streams(lanes) or DEFAULT_STREAMS
    cores = default_lanes() if device is None else device.cores
    if lanes is None:
        return cores
    number = as_whole(lanes)
    if number is None or not 1 <= number <= cores:
        who = "this process may use" if device is None else f"{device.address.as_text()} has"
        raise OptionError(f"lanes is {lanes!r}, but {who} {cores} cores; give 1 to {cores}")
    return number


def require_streams(streams: int | None) -> int | None:
    """The number of streams of a GPU, where one was asked for.

    Raises
    ------
    OptionError
        If it is none that a GPU can have.
    """
    if streams is None:
        return None
    number = as_whole(streams)
    if number is None or not 1 <= number <= MAX_STREAMS:
        raise OptionError(f"lanes is {streams!r}; give 1 to {MAX_STREAMS} streams of a GPU")
    return number
