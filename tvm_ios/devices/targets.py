"""Targets that a model is compiled for, and this machine's devices that run them."""

from __future__ import annotations

import tvm

from tvm_ios.devices.gpu import GpuDevice, require_streams
from tvm_ios.devices.local import LocalCpu
from tvm_ios.devices.protocol import MeasuringDevice
from tvm_ios.devices.traits import CPU, GPU, DeviceTraits
from tvm_ios.errors import HostError, OptionError
from tvm_ios.host import host_target
from tvm_ios.runtime.base.device import is_gpu_target

__all__ = [
    "lanes_for_target",
    "local_device",
    "require_known_target",
    "traits_for_target",
]

TVM_GUESS = "sm_50"
"""Architecture that TVM assumes where it finds no GPU; nvcc 13 does not know it."""


def require_known_target(target: tvm.target.Target) -> None:
    """Refuse a target that no device here runs."""
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


def traits_for_target(target: tvm.target.Target) -> DeviceTraits:
    """Traits of a target's devices."""
    return GPU if is_gpu_target(target) else CPU


def local_device(target: tvm.target.Target) -> MeasuringDevice:
    """Device of this machine for a target."""
    require_known_target(target)
    if not is_gpu_target(target):
        return LocalCpu()
    try:
        return GpuDevice.find(str(target.attrs["arch"]))
    except HostError as error:
        raise HostError(
            f"target is {str(target)!r}, whose stages are priced on the GPU itself: {error}. "
            "Without one, tvm_ios.compile_schedule compiles a schedule that is known, and "
            "`tvm-ios solve --gpu` searches one with a model of the GPU"
        ) from error


def lanes_for_target(lanes: int | None, target: tvm.target.Target | None) -> int | None:
    """Number of lanes of a model that is compiled but not measured, so needs no device here.

    Where omitted, all usable cores for a CPU, and None for a GPU, whose streams are as many as the
    schedule can use. Without a target, that of this machine's processor.
    """
    if target is not None and is_gpu_target(target):
        return require_streams(lanes)
    return LocalCpu().require_lanes(lanes)
