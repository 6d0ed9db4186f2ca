"""Rules for operators that give a tensor other extents: all become ``Reshape`` and ``Expand``."""

from __future__ import annotations

from itertools import chain

import numpy as np
import onnx_ir as ir

from tvm_ios.errors import ModelError
from tvm_ios.onnx.axes import nonnegative, rank_of
from tvm_ios.onnx.builder import Builder
from tvm_ios.onnx.rule import Outputs, rule
from tvm_ios.onnx.values import extents, require_constant, required

__all__ = [
    "constant_of_shape",
    "expand",
    "flatten",
    "range_",
    "reshape",
    "squeeze",
    "tile",
    "unsqueeze",
]


@rule("Reshape")
def reshape(node: ir.Node, op: Builder) -> Outputs:
    """The shape is a constant with all extents, and of two in a row only the last one is left."""
    value, told = required(node), require_constant(node, 1, "a shape")
    assert told is not None
    wanted = _reshaped(extents(value), told.ravel().tolist(), node)
    if wanted == extents(value):
        return value
    before = value.producer()
    again = before is not None and before.op_type == "Reshape"
    if again or told.tolist() != list(wanted):
        return op.reshape(required(before) if before is not None and again else value, wanted)
    return None


def _reshaped(shape: tuple[int, ...], told: list[int], node: ir.Node) -> tuple[int, ...]:
    """Extents that a shape tells, in which 0 may mean the same as before, and -1 the rest."""
    if not node.attributes.get_int("allowzero", 0):
        copied = [place for place, each in enumerate(told) if each == 0]
        if copied and copied[-1] >= len(shape):
            raise ModelError(f"copies axis {copied[-1]}, of {len(shape)} axes; give its extent")
        told = [shape[place] if each == 0 else each for place, each in enumerate(told)]
    size, rest = int(np.prod(shape)), int(np.prod([each for each in told if each != -1]))
    wanted = tuple(size // max(rest, 1) if each == -1 else each for each in told)
    if int(np.prod(wanted)) != size or min(wanted, default=0) < 0:
        raise ModelError(f"makes {told} of {list(shape)}; give a shape of {size} elements")
    return wanted


@rule("Flatten")
def flatten(node: ir.Node, op: Builder) -> Outputs:
    """Two axes are other extents of the same elements."""
    value = required(node)
    shape, axis = extents(value), node.attributes.get_int("axis", 1)
    if axis != len(shape):
        axis = nonnegative(axis, len(shape))
    return op.reshape(value, [int(np.prod(shape[:axis])), int(np.prod(shape[axis:]))])


@rule("Unsqueeze")
def unsqueeze(node: ir.Node, op: Builder) -> Outputs:
    """More axes of extent one are other extents of the same elements."""
    value, given = required(node), require_constant(node, 1, "axes")
    said = node.attributes.get_ints("axes", ()) if given is None else given.ravel().tolist()
    rank = rank_of(value) + len(said)
    new = {nonnegative(axis, rank) for axis in said}
    left = iter(extents(value))
    return op.reshape(value, [1 if axis in new else next(left) for axis in range(rank)])


@rule("Squeeze")
def squeeze(node: ir.Node, op: Builder) -> Outputs:
    """Fewer axes of extent one are other extents of the same elements."""
    value, given = required(node), require_constant(node, 1, "axes")
    shape = extents(value)
    said = node.attributes.get_ints("axes", None) if given is None else given.ravel().tolist()
    gone = {nonnegative(axis, len(shape)) for axis in said or ()}
    if said is None:
        gone = {axis for axis, extent in enumerate(shape) if extent == 1}
    if any(shape[axis] != 1 for axis in gone):
        raise ModelError(f"leaves out axes {sorted(gone)} of {list(shape)}; give those of extent 1")
    return op.reshape(value, [shape[axis] for axis in range(len(shape)) if axis not in gone])


@rule("Expand")
def expand(node: ir.Node, op: Builder) -> Outputs:
    """The shape is a constant and that of the result."""
    value, told = required(node), require_constant(node, 1, "a shape")
    assert told is not None
    try:
        wanted = np.broadcast_shapes(extents(value), tuple(told.ravel().tolist()))
    except ValueError as error:
        raise ModelError(
            f"makes {told.tolist()} of {list(extents(value))}; give extents that broadcast"
        ) from error
    if wanted == extents(value):
        return value
    if wanted == tuple(told.ravel().tolist()):
        return None
    return op.op("Expand", value, op.const(np.array(wanted, "int64")))


@rule("Tile")
def tile(node: ir.Node, op: Builder) -> Outputs:
    """Repeated parts are elements expanded along new axes, which are joined with the old ones."""
    value, repeats = required(node), require_constant(node, 1, "repeats")
    assert repeats is not None
    shape, counts = extents(value), repeats.ravel().tolist()
    pairs = [
        (extent, count) if 1 not in (extent, count) else (extent * count,)
        for extent, count in zip(shape, counts, strict=True)
    ]
    apart = [
        (1, extent) if len(pair) > 1 else (extent,)
        for pair, extent in zip(pairs, shape, strict=True)
    ]
    repeated = [pair[::-1] for pair in pairs]
    value = op.reshape(value, list(chain(*apart)))
    value = op.op("Expand", value, op.const(np.array(list(chain(*repeated)), "int64")))
    return op.reshape(value, [int(np.prod(pair)) for pair in pairs])


@rule("ConstantOfShape")
def constant_of_shape(node: ir.Node, op: Builder) -> Outputs:
    """A number that fills a tensor is expanded, or folded where that is small."""
    shape = require_constant(node, 0, "a shape")
    assert shape is not None
    told = node.attributes.get_tensor("value", None)
    number = np.zeros((), "float32") if told is None else told.numpy().reshape(())
    return op.op("Expand", op.const(number), op.const(shape.astype("int64").ravel()))


@rule("Range")
def range_(node: ir.Node, op: Builder) -> Outputs:
    """Numbers at equal distances are constants."""
    begin, limit, step = (
        require_constant(node, place, what)
        for place, what in enumerate(("its first number", "its limit", "its step"))
    )
    assert begin is not None
    assert limit is not None
    assert step is not None
    count = max(0, int(np.ceil((limit - begin).item() / step.item())))
    numbers = begin.reshape(()) + np.arange(count).astype(begin.dtype) * step.reshape(())
    return op.const(numbers.astype(begin.dtype))
