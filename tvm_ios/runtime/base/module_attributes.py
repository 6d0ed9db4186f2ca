"""Attributes of a module of either dialect: its parts, and the rest that onnxruntime runs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tvm

from tvm_ios.core.parts import Part
from tvm_ios.onnx.rest import Rest
from tvm_ios.runtime.base.tvm_names import filled

__all__ = ["parts_of", "rest_of", "with_parts", "with_rest"]

_REST = "tvm_ios_rest"
_PARTS = "tvm_ios_parts"


def with_rest(module: tvm.IRModule, rest: Rest) -> tvm.IRModule:
    """The module of a front, with what onnxruntime runs after it."""
    return module.with_attr(_REST, filled(np.frombuffer(rest.to_bytes(), "uint8")))


def rest_of(module: tvm.IRModule) -> Rest | None:
    """Return the rest that onnxruntime runs after a module; None without one."""
    packed = None if module.attrs is None else module.attrs.get(_REST)
    return None if packed is None else Rest.from_bytes(packed.numpy().tobytes())


def with_parts(module: tvm.IRModule, parts: Sequence[Part]) -> tvm.IRModule:
    """The module of a network, with the parts it was joined from."""
    rows = [[part.name, list(part.inputs), list(part.outputs)] for part in parts]
    return module.with_attr(_PARTS, rows)


def parts_of(module: tvm.IRModule) -> tuple[Part, ...]:
    """Return the parts of a module that was joined from several; none of any other."""
    stored = None if module.attrs is None else module.attrs.get(_PARTS)
    return tuple(
        Part(
            name=str(name),
            inputs=tuple(map(str, inputs)),
            outputs=tuple(int(number) for number in outputs),
        )
        for name, inputs, outputs in stored or ()
    )
