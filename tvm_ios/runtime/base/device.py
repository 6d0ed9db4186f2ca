"""Devices that a plan can run on, and the targets that belong to them."""

from __future__ import annotations

from typing import Any

import tvm

from tvm_ios.errors import OptionError

__all__ = ["is_gpu_target", "require_cpu", "require_cuda"]


def is_gpu_target(target: tvm.target.Target) -> bool:
    """True if a target is a GPU of NVIDIA."""
    return str(target.kind.name) == "cuda"


def require_cpu(device: Any) -> None:
    """Refuse every device (a :class:`tvm.runtime.Device`, its name, or None) but the CPU."""
    if device is None:
        return
    given = _known(device, "tvm.cpu()")
    if given.device_type != tvm.cpu().device_type:
        raise OptionError(f"device is {device}, but this model is compiled for tvm.cpu()")


def require_cuda(device: Any) -> int:
    """The number of a GPU, 0 for None; every other device is refused as by :func:`require_cpu`."""
    if device is None:
        return 0
    given = _known(device, "tvm.cuda()")
    if given.device_type != tvm.cuda().device_type:
        raise OptionError(f"device is {device}, but this model is compiled for tvm.cuda()")
    return int(given.device_id)


def _known(device: Any, example: str) -> Any:
    try:
        given = tvm.device(device) if isinstance(device, str) else device
        given.device_type  # noqa: B018 - what every device has
    except (ValueError, AttributeError) as error:
        raise OptionError(
            f"device is {device!r}, which TVM does not know; pass {example}"
        ) from error
    return given
