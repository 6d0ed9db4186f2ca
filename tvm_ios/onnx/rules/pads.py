"""Rules for ``Pad``: constant pads for all axes, none of them negative, and what is put there."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from tvm_ios.onnx.axes import nonnegative, rank_of
from tvm_ios.onnx.builder import Builder
from tvm_ios.onnx.rule import Outputs, rule
from tvm_ios.onnx.values import constant, dtype_of, extents, optional, require_constant, required

__all__ = [
    "pad",
]

_BY_INPUT = 11
"""The opset from which pads and the number that is put there are inputs."""


@rule("Pad")
def pad(node: ir.Node, op: Builder) -> Outputs:
    """Pads are a constant input, and a number is the other one; negative pads are slices.

    Repeated data, and mirrors of more than there is, are gathers.
    """
    value, pads = required(node), _pads(node)
    if not pads.any():
        return value
    if (pads < 0).any():
        value = _cut(value, np.maximum(-pads, 0), op)
    mode = node.attributes.get_string("mode", "constant")
    shape = np.array(extents(required(node))) + np.minimum(pads, 0).sum(0)
    if mode == "constant":
        return _with_number(node, value, pads, op)
    pads = np.maximum(pads, 0)
    if mode == "wrap" or (mode == "reflect" and (pads >= shape).any()):
        return _gathered(value, shape, pads, mode, op)
    if _is_plain(node, value, 2):
        return None
    return op.op("Pad", value, op.const(pads.ravel()), mode=mode)


def _pads(node: ir.Node) -> np.ndarray:
    """Pads before and behind each axis, in two rows."""
    rank = rank_of(required(node))
    given = require_constant(node, 1, "pads")
    said = np.array(node.attributes.get_ints("pads", ())) if given is None else given
    chosen = require_constant(node, 3, "axes")
    axes = np.arange(rank) if chosen is None else chosen.ravel()
    pads = np.zeros((2, rank), "int64")
    pads[:, [nonnegative(int(axis), rank) for axis in axes]] = said.reshape(2, -1)
    return pads


def _is_plain(node: ir.Node, value: ir.Value, most: int) -> bool:
    """Whether a node pads a value as it is, has its pads as an input, and at most these inputs."""
    return (
        value is node.inputs[0] and 2 <= len(node.inputs) <= most and "pads" not in node.attributes
    )


def _cut(value: ir.Value, pads: np.ndarray, op: Builder) -> ir.Value:
    """Slice of a tensor that negative pads, of which these are the amounts, leave over."""
    shape = np.array(extents(value))
    axes = np.arange(len(shape))
    given = (op.const(each) for each in (pads[0], shape - pads[1], axes, np.ones_like(axes)))
    return op.op("Slice", value, *given)


def _gathered(
    value: ir.Value, shape: np.ndarray, pads: np.ndarray, mode: str, op: Builder
) -> ir.Value:
    """A tensor that goes on beyond its ends by what lies within."""
    for axis, widths in enumerate(pads.T):
        if widths.any():
            places = np.pad(np.arange(shape[axis]), widths, mode)  # type: ignore[call-overload]
            value = op.op("Gather", value, op.const(places), axis=axis)
    return value


def _with_number(node: ir.Node, value: ir.Value, pads: np.ndarray, op: Builder) -> Outputs:
    """A tensor within a constant; one that the run tells is put where a mask says so."""
    number, dtype = optional(node, 2), dtype_of(required(node))
    known = constant(number)
    widths = np.maximum(pads, 0)
    zero = np.zeros((), dtype)
    if number is None and (node.version or 0) < _BY_INPUT:
        known = np.array(node.attributes.get_float("value", 0.0)).astype(dtype)
    if known is not None and known.ndim == 0 and _is_plain(node, value, 3) and number is not None:
        return None
    used = zero if known is None else known.reshape(())
    padded = op.op("Pad", value, op.const(widths.ravel()), op.const(used), mode="constant")
    if number is None or known is not None:
        return padded
    shape = np.array(extents(required(node))) + np.minimum(pads, 0).sum(0)
    return op.op("Where", op.const(np.pad(np.ones(shape, bool), widths.T)), padded, number)
