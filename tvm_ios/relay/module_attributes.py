"""The rest of an ONNX model, which goes with the Relay module of its front as an attribute."""

from __future__ import annotations

import numpy as np
import tvm

from tvm_ios.onnx.rest import Rest

__all__ = ["rest_of", "with_rest"]

_KEY = "tvm_ios_rest"


def with_rest(module: tvm.IRModule, rest: Rest) -> tvm.IRModule:
    """The module of a front, with what onnxruntime runs after it."""
    return module.with_attr(_KEY, tvm.nd.array(np.frombuffer(rest.to_bytes(), "uint8")))


def rest_of(module: tvm.IRModule) -> Rest | None:
    """Return the rest that onnxruntime runs after a module; None without one."""
    packed = None if module.attrs is None else module.attrs.get(_KEY)
    return None if packed is None else Rest.from_bytes(packed.numpy().tobytes())
