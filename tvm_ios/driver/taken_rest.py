"""The rest of a model that is tuned or compiled, where the options allow one."""

from __future__ import annotations

from typing import Any

import tvm

from tvm_ios.driver.options import TuneOptions
from tvm_ios.errors import OptionError
from tvm_ios.onnx.rest import REFUSE, Rest
from tvm_ios.runtime.base.module_attributes import rest_of

__all__ = ["taken_rest"]


def taken_rest(mod: Any, options: TuneOptions) -> Rest | None:
    """Return the rest that onnxruntime runs after a module; None without one.

    Raises OptionError where it is there, and the options refuse it or measure on another device.
    """
    rest = rest_of(mod) if isinstance(mod, tvm.IRModule) else None
    if rest is None:
        return None
    if options.build.rest == REFUSE:
        raise OptionError(f"{rest.name}: {rest.text}, but rest is {REFUSE!r}; give another")
    if options.device.is_remote:
        raise OptionError(
            f"{rest.name}: {rest.text}, which is not run on devices over RPC; tune on this machine"
        )
    return rest
