"""Which devices a plan can run on, and which targets are for which."""

from __future__ import annotations

from typing import Any

import tvm

from tvm_ios.errors import OptionError

__all__ = ["is_gpu_target", "require_cpu", "require_cuda"]


def is_gpu_target(target: tvm.target.Target) -> bool:
    """Whether a target is a GPU of NVIDIA."""
    return str(target.kind.name) == "cuda"


def require_cpu(device: Any) -> None:
    """Refuse every device but the CPU.

    Parameters
    ----------
    device
        A :class:`tvm.runtime.Device`, its name, or None for the CPU.

    Raises
    ------
    OptionError
        If it is another device, or none that TVM knows.
    """
    if device is None:
        return
    given = _known(device, "tvm.cpu()")
    if given.device_type != tvm.cpu().device_type:
        raise OptionError(f"device is {device}, but this model is compiled for tvm.cpu()")


def require_cuda(device: Any) -> int:
    """The number of a GPU; every other device is refused.

    Parameters
    ----------
    device
        A :class:`tvm.runtime.Device`, its name, or None for the first GPU.

    Raises
    ------
    OptionError
        If it is another device, or none that TVM knows.
    """
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
