"""Rules for convolutions: pads in place of ``auto_pad``, all attributes, no input by no name."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from tvm_ios.onnx.builder import Builder
from tvm_ios.onnx.rule import Outputs, rule
from tvm_ios.onnx.rules.images.windows import Window, window_of
from tvm_ios.onnx.values import dtype_of, extents, optional, required

__all__ = [
    "pads",
    "transposed",
]

_SAID = ("kernel_shape", "strides", "dilations", "pads")


@rule("Conv", "ConvInteger")
def pads(node: ir.Node, op: Builder) -> Outputs:
    """Pads are numbers; those of integers have a zero point each."""
    inputs = list(node.inputs)
    while inputs[-1] is None:
        inputs.pop()
    if node.op_type == "ConvInteger":
        inputs = [*inputs[:2], *(_zero_point(node, place, op) for place in (0, 1))]
    mode = node.attributes.get_string("auto_pad", "NOTSET")
    window = window_of(node, extents(required(node, 1))[2:])
    if mode.startswith("SAME"):
        window = window.same(upper=mode == "SAME_UPPER")
    window.require_within()
    if mode == "NOTSET" and inputs == list(node.inputs) and _is_said(node):
        return None
    group = node.attributes.get_int("group", 1)
    return op.op(node.op_type, *inputs, **window.attributes, group=group, auto_pad="NOTSET")


def _is_said(node: ir.Node) -> bool:
    return all(name in node.attributes for name in _SAID)


def _zero_point(node: ir.Node, place: int, op: Builder) -> ir.Value:
    given = optional(node, place + 2)
    return op.const(0, dtype_of(required(node, place))) if given is None else given


@rule("ConvTranspose")
def transposed(node: ir.Node, op: Builder) -> Outputs:
    """Pads and ``output_padding`` tell the size of the result, and nothing else does."""
    weights, bias = required(node, 1), optional(node, 2)
    mode = node.attributes.get_string("auto_pad", "NOTSET")
    wanted = node.attributes.get_ints("output_shape", ())
    plain = mode == "NOTSET" and not wanted
    named = len(node.inputs) == (2 if bias is None else 3)
    if plain and named and _is_said(node) and "output_padding" in node.attributes:
        return None
    window = window_of(node, extents(weights)[2:])
    padding = np.array(node.attributes.get_ints("output_padding", [0] * len(window.kernel)))
    missing = 0 * padding
    if wanted:
        window, missing = _cut(window, padding, np.array(wanted)[-len(padding) :], mode)
    elif mode.startswith("SAME"):
        # What is less than as many steps as the image has stays less, as in onnxruntime.
        window, _ = _cut(window, padding, window.image * window.strides, mode)
    attributes: dict[str, Any] = {
        **window.attributes,
        "output_padding": padding.tolist(),
        "group": node.attributes.get_int("group", 1),
        "auto_pad": "NOTSET",
    }
    inputs = [required(node), weights]
    if not missing.any():
        inputs += [] if bias is None else [bias]
        return op.op("ConvTranspose", *inputs, **attributes)
    made = op.op("ConvTranspose", *inputs, **attributes)
    made = op.op("Pad", made, op.const([0] * (len(padding) + 4) + missing.tolist()))
    if bias is None:
        return made
    column = op.op("Reshape", bias, op.const([-1, *[1] * len(padding)]))
    return op.op("Add", made, column)


def _cut(
    window: Window, padding: np.ndarray, size: np.ndarray, mode: str
) -> tuple[Window, np.ndarray]:
    """Pads that cut a transposed convolution to a size, and elements that it lacks at its ends."""
    full = window.strides * (window.image - 1) + window.reach + padding
    total = full - size
    cut = np.maximum(total, 0)
    less, more = cut // 2, cut - cut // 2
    begins, ends = (less, more) if mode == "SAME_UPPER" else (more, less)
    values = {name: getattr(window, name) for name in ("image", "kernel", "strides", "dilations")}
    return Window(**values, begins=begins, ends=ends), np.maximum(-total, 0)
