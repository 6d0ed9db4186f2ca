"""Devices that a plan can run on, and the targets that belong to them."""

from __future__ import annotations

from typing import Any

import tvm

from tvm_ios.errors import OptionError
from tvm_ios.runtime.base.tvm_names import CPU_TYPE, CUDA_TYPE, device_place

__all__ = ["is_gpu_target", "require_cpu", "require_cuda"]


def is_gpu_target(target: tvm.target.Target) -> bool:
    """True if a target is a GPU of NVIDIA."""
    return str(target.kind.name) == "cuda"


def require_cpu(device: Any) -> None:
    """Refuse every device (a :class:`tvm.runtime.Device`, its name, or None) but the CPU."""
    if device is None:
        return
    if _known(device, "tvm.cpu()")[0] != CPU_TYPE:
        raise OptionError(f"device is {device}, but this model is compiled for tvm.cpu()")


def require_cuda(device: Any) -> int:
    """The number of a GPU, 0 for None; every other device is refused as by :func:`require_cpu`."""
    if device is None:
        return 0
    kind, number = _known(device, "tvm.cuda()")
    if kind != CUDA_TYPE:
        raise OptionError(f"device is {device}, but this model is compiled for tvm.cuda()")
    return number


def _known(device: Any, example: str) -> tuple[int, int]:
    """DLPack's type and number of a device."""
    try:
        return device_place(tvm.device(device) if isinstance(device, str) else device)
    except (ValueError, AttributeError) as error:
        raise OptionError(
            f"device is {device!r}, which TVM does not know; pass {example}"
        ) from error
