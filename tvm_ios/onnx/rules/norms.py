"""Rules for norms: sums, means and element-wise operators, with what they are scaled by."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import onnx_ir as ir

from tvm_ios.errors import ModelError
from tvm_ios.onnx.axes import along, axis_of, rank_of
from tvm_ios.onnx.builder import Builder
from tvm_ios.onnx.rule import Outputs, rule
from tvm_ios.onnx.values import constant, dtype_of, extents, required

__all__ = [
    "batch_normalization",
    "group_normalization",
    "instance_normalization",
    "layer_normalization",
    "local_response_normalization",
    "lp_normalization",
    "mean_variance_normalization",
]

_CHANNELS = 1
"""Axis that has a scale and a bias for each place."""
_IMAGES = 4
"""Rank at which a norm over near channels has kernels of its own."""
_BY_GROUP = 21
"""The opset before which a group norm has a scale for each group, and not for each channel."""


@rule("BatchNormalization")
def batch_normalization(node: ir.Node, op: Builder) -> Outputs:
    """A factor and a summand for each channel, which are constants where all is known."""
    value = required(node)
    wide = np.result_type(*(dtype_of(required(node, place)) for place in range(5)))
    if node.attributes.get_int("training_mode", 0) == 1:
        return _of_a_batch(node, wide, op)
    if any(value.uses() or value.is_graph_output() for value in node.outputs[1:]):
        raise ModelError("computes statistics, as in training; export the model for inference")
    factor, summand = _known_line(node, wide, op) or _line(node, wide, op)
    made = op.op("Add", op.op("Mul", _cast(value, wide, op), factor), summand)
    return [_cast(made, dtype_of(value), op)]


def _of_a_batch(node: ir.Node, wide: np.dtype, op: Builder) -> Sequence[ir.Value]:
    """A batch norm by the mean and variance of its batch, and the statistics that are kept.

    Weights that are standardised when the model runs are written so.
    """
    value = required(node)
    axes = [axis for axis in range(rank_of(value)) if axis != _CHANNELS]
    epsilon = node.attributes.get_float("epsilon", 1e-5)
    mean, off, variance = _moments(_cast(value, wide, op), axes, op)
    deviation = op.op("Sqrt", op.op("Add", variance, op.const(np.array(epsilon, wide))))
    shape = _shape_of_channels(node, value)
    scale, bias = (op.reshape(_cast(required(node, n), wide, op), shape) for n in (1, 2))
    made = op.op("Add", op.op("Mul", op.op("Div", off, deviation), scale), bias)
    part = node.attributes.get_float("momentum", 0.9)
    kept = []
    for place, new in ((3, mean), (4, variance)):
        old = required(node, place)
        before = op.op("Mul", _cast(old, wide, op), op.const(np.array(part, wide)))
        after = op.op("Mul", op.reshape(new, extents(old)), op.const(np.array(1 - part, wide)))
        kept.append(_cast(op.op("Add", before, after), dtype_of(old), op))
    return [_cast(made, dtype_of(value), op), *kept]


def _known_line(node: ir.Node, dtype: np.dtype, op: Builder) -> tuple[ir.Value, ir.Value] | None:
    """Factor and summand of a batch norm as constants; None where the run tells any of them.

    They are computed here because models have hundreds of them, each of which is eight nodes.
    """
    given = [constant(node.inputs[place]) for place in range(1, 5)]
    if any(each is None for each in given):
        return None
    shape = _shape_of_channels(node, required(node))
    scale, bias, mean, variance = (np.asarray(each, dtype).reshape(shape) for each in given)
    epsilon = np.array(node.attributes.get_float("epsilon", 1e-5), dtype)
    factor = scale / np.sqrt(variance + epsilon)
    return op.const(factor), op.const(bias - mean * factor)


def _line(node: ir.Node, dtype: np.dtype, op: Builder) -> tuple[ir.Value, ir.Value]:
    """Factor and summand of a batch norm whose parameters the run tells."""
    scale, bias, mean, variance = (_cast(required(node, n), dtype, op) for n in range(1, 5))
    epsilon = op.const(np.array(node.attributes.get_float("epsilon", 1e-5), dtype))
    factor = op.op("Div", scale, op.op("Sqrt", op.op("Add", variance, epsilon)))
    summand = op.op("Sub", bias, op.op("Mul", mean, factor))
    shape = _shape_of_channels(node, required(node))
    return op.reshape(factor, shape), op.reshape(summand, shape)


def _shape_of_channels(node: ir.Node, value: ir.Value) -> Sequence[int]:
    """Shape in which parameters of a batch norm broadcast; old ones may have one for each place."""
    told, rank = extents(required(node, 1)), rank_of(value)
    if not node.attributes.get_int("spatial", 1):
        return told
    return along(rank, [(_CHANNELS, told[0])]) if rank > 1 else told


def _cast(value: ir.Value, dtype: np.dtype, op: Builder) -> ir.Value:
    """The value in a data type; the same one where it has it."""
    return op.op("Cast", value, to=ir.DataType.from_numpy(np.dtype(dtype)))


@rule("InstanceNormalization")
def instance_normalization(node: ir.Node, op: Builder) -> Outputs:
    """An instance norm is each channel of an image less its mean, over its deviation."""
    value = required(node)
    rank = rank_of(value)
    epsilon = node.attributes.get_float("epsilon", 1e-5)
    made, _, _ = _normalized(value, dtype_of(value), range(2, rank), epsilon, op)
    return _scaled(node, made, along(rank, [(_CHANNELS, extents(value)[_CHANNELS])]), op)


@rule("GroupNormalization")
def group_normalization(node: ir.Node, op: Builder) -> Outputs:
    """A group norm is each group of channels less its mean, over its deviation."""
    value = required(node)
    shape, dtype = extents(value), dtype_of(value)
    groups = node.attributes["num_groups"].as_int()
    wide = np.dtype(ir.DataType(node.attributes.get_int("stash_type", 1)).numpy())
    wide = max(wide, dtype, key=lambda each: each.itemsize)
    grouped = op.reshape(value, [shape[0], groups, int(np.prod(shape[1:])) // max(groups, 1)])
    epsilon = node.attributes.get_float("epsilon", 1e-5)
    made, _, _ = _normalized(_cast(grouped, wide, op), wide, [2], epsilon, op)
    made = _cast(made, dtype, op)
    if (node.version or 0) < _BY_GROUP:
        return op.reshape(_scaled(node, made, [1, groups, 1], op), shape)
    channels = along(len(shape), [(_CHANNELS, shape[_CHANNELS])])
    return _scaled(node, op.reshape(made, shape), channels, op)


@rule("LayerNormalization")
def layer_normalization(node: ir.Node, op: Builder) -> Outputs:
    """The first normalized axis is not negative, and nobody asks for mean and deviation."""
    axis = axis_of(node, -1)
    if any(value.uses() or value.is_graph_output() for value in node.outputs[1:]):
        return _with_statistics(node, axis, op)
    told = node.attributes.get_int("axis", -1)
    if axis == told and len(node.outputs) == 1:
        return None
    rest = {name: each for name, each in node.attributes.items() if name != "axis"}
    return [op.op("LayerNormalization", *node.inputs, axis=axis, **rest)]


def _with_statistics(node: ir.Node, axis: int, op: Builder) -> Sequence[ir.Value]:
    """A layer norm with its mean and the inverse of its deviation."""
    value = required(node)
    dtype = dtype_of(value)
    wide = np.dtype(ir.DataType(node.attributes.get_int("stash_type", 1)).numpy())
    epsilon = node.attributes.get_float("epsilon", 1e-5)
    axes = range(axis, rank_of(value))
    made, mean, deviation = _normalized(_cast(value, wide, op), wide, axes, epsilon, op)
    made = op.op("Mul", _cast(made, dtype, op), required(node, 1))
    if len(node.inputs) > 2 and node.inputs[2] is not None:
        made = op.op("Add", made, node.inputs[2])
    return [made, mean, op.op("Reciprocal", deviation)][: len(node.outputs)]


def _normalized(
    value: ir.Value, dtype: np.dtype, axes: Iterable[int], epsilon: float, op: Builder
) -> tuple[ir.Value, ir.Value, ir.Value]:
    """A tensor less its mean along axes, over its deviation; the mean; the deviation."""
    mean, off, variance = _moments(value, axes, op)
    more = op.op("Add", variance, op.const(np.array(epsilon, dtype)))
    deviation = op.op("Sqrt", more)
    return op.op("Div", off, deviation), mean, deviation


def _moments(
    value: ir.Value, axes: Iterable[int], op: Builder
) -> tuple[ir.Value, ir.Value, ir.Value]:
    """The mean of a tensor along axes, the tensor less that, and its variance."""
    along_axes = op.const(np.array(list(axes), "int64"))
    mean = op.op("ReduceMean", value, along_axes, keepdims=1)
    off = op.op("Sub", value, mean)
    return mean, off, op.op("ReduceMean", op.op("Mul", off, off), along_axes, keepdims=1)


def _scaled(node: ir.Node, value: ir.Value, shape: Sequence[int], op: Builder) -> ir.Value:
    """A norm times its scale, with its bias, which are the node's second and third input."""
    scale, bias = (op.reshape(required(node, place), shape) for place in (1, 2))
    return op.op("Add", op.op("Mul", value, scale), bias)


@rule("LpNormalization")
def lp_normalization(node: ir.Node, op: Builder) -> Outputs:
    """A tensor over its norm along an axis; zeros where that is zero."""
    value, axis = required(node), axis_of(node, -1)
    norm = op.op(
        f"Reduce{'L1' if node.attributes.get_int('p', 2) == 1 else 'L2'}",
        value,
        op.const(np.array([axis])),
        keepdims=1,
    )
    zero, one = (op.const(np.array(number, dtype_of(value))) for number in (0, 1))
    return op.op("Div", value, op.op("Where", op.op("Equal", norm, zero), one, norm))


@rule("LRN")
def local_response_normalization(node: ir.Node, op: Builder) -> Outputs:
    """Channels are averaged by a pooling where they have no middle, or where there is no image."""
    value, size = required(node), node.attributes["size"].as_int()
    if size % 2 and rank_of(value) == _IMAGES:
        return None
    shape, dtype = extents(value), dtype_of(value)
    factors = (node.attributes.get_float(*each) for each in (("alpha", 1e-4), ("bias", 1.0)))
    alpha, bias = (op.const(np.array(each, dtype)) for each in factors)
    power = op.const(np.array(node.attributes.get_float("beta", 0.75), dtype))
    rows = [shape[0], 1, shape[1], int(np.prod(shape[2:]))]
    square = op.reshape(op.op("Mul", value, value), rows)
    how = {"kernel_shape": [size, 1], "pads": [(size - 1) // 2, 0, size // 2, 0]}
    mean = op.op("AveragePool", square, strides=[1, 1], count_include_pad=1, **how)
    scaled = op.op("Add", op.op("Mul", op.reshape(mean, shape), alpha), bias)
    return op.op("Div", value, op.op("Pow", scaled, power))


@rule("MeanVarianceNormalization")
def mean_variance_normalization(node: ir.Node, op: Builder) -> Outputs:
    """A tensor less its mean along axes, over its deviation, to which a little is added."""
    value = required(node)
    _, off, variance = _moments(value, node.attributes.get_ints("axes", (0, 2, 3)), op)
    little = op.const(np.array(1e-9, dtype_of(value)))
    return op.op("Div", off, op.op("Add", op.op("Sqrt", variance), little))
