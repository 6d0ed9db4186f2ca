"""Which devices a plan can run on."""

from __future__ import annotations

from typing import Any

import tvm

from tvm_ios.errors import OptionError

__all__ = ["require_cpu"]


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
    try:
        given = tvm.device(device) if isinstance(device, str) else device
        is_cpu = given.device_type == tvm.cpu().device_type
    except (ValueError, AttributeError) as error:
        raise OptionError(
            f"device is {device!r}, which TVM does not know; pass tvm.cpu()"
        ) from error
    if not is_cpu:
        raise OptionError(f"device is {device}; this version runs on tvm.cpu() only")
