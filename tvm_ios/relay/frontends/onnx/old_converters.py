"""Converters of our own, for operators that TVM's importer gets wrong or cannot read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
from tvm import relay
from tvm.relay.frontend import onnx as frontend

from tvm_ios.errors import ModelError
from tvm_ios.relay.frontends.exact_arithmetic import extreme, round_to_even
from tvm_ios.relay.frontends.onnx.extent_converters import EXTENT_CONVERTERS, original
from tvm_ios.relay.frontends.pooling import within_data

__all__ = ["CONVERTERS"]

Converter = Callable[[Any, Any, Any], Any]
"""Takes a node's inputs, its attributes by name, and parameters by name; gives its outputs."""


def _prelu(inputs: Any, attributes: Any, params: Any) -> Any:  # noqa: ARG001
    """A slope below zero that broadcasts; TVM's own flattens it by a shape it cannot infer."""
    value, slope = inputs
    zero = relay.const(0, relay.frontend.common.infer_type(value).checked_type.dtype)
    return relay.where(relay.less(value, zero), relay.multiply(value, slope), value)


def _if(inputs: Any, attributes: Any, params: Any) -> Any:  # noqa: ARG001
    """The branch that a constant condition takes; the other one is not even read."""
    (condition,) = inputs
    if not isinstance(condition, relay.Constant):
        raise ModelError("takes one of two branches by a value that only the run tells")
    branches = attributes["else_branch"], attributes["then_branch"]
    branch = branches[bool(condition.data.numpy().any())]
    scope = frontend.GraphProto.current
    inner = scope.inside()
    with inner:
        outputs = inner.from_onnx(branch, scope.opset, get_output_expr=True)
    if isinstance(outputs, relay.Tuple):
        return relay.TupleWrapper(outputs, len(outputs.fields))
    return outputs


def _constant(inputs: Any, attributes: Any, params: Any) -> Any:  # noqa: ARG001
    """A constant in each of its forms; TVM's own knows the tensor only."""
    if "value" in attributes:
        value = onnx.numpy_helper.to_array(attributes["value"])
        # Without a type relay.const would make 32 bits of 64.
        return relay.const(value, str(value.dtype))
    for name, dtype in _PLAIN_CONSTANTS.items():
        if name in attributes:
            return relay.const(np.asarray(attributes[name], dtype), dtype)
    raise ModelError("is a constant of text, or one that is sparse; give a tensor of numbers")


_PLAIN_CONSTANTS = {
    "value_float": "float32",
    "value_floats": "float32",
    "value_int": "int64",
    "value_ints": "int64",
}


CLIP_BY_INPUT = 11
"""The opset from which the bounds are inputs."""


def _clip(inputs: Any, attributes: Any, params: Any) -> Any:
    """Values within bounds; TVM's own forgets a constant bound where the other one is none."""
    opset = frontend.GraphProto.current.opset
    value, bounds = inputs[0], (inputs[1], inputs[2])
    known = [each.data.numpy() for each in bounds if isinstance(each, relay.Constant)]
    if opset < CLIP_BY_INPUT or (len(known) == 2 and known[0] <= known[1]):
        return original("Clip")(inputs, attributes, params)
    for bound, limited in zip(bounds, (relay.maximum, relay.minimum), strict=True):
        value = value if bound is None else limited(value, bound)
    return value


def _dropout(inputs: Any, attributes: Any, params: Any) -> Any:  # noqa: ARG001
    """The input itself, as in inference; TVM's own takes neither a seed nor a ratio."""
    value, _, training = inputs[0], inputs[1], inputs[2]
    attributes.copy()  # ratio, seed and is_test are for training
    if training is not None and not (
        isinstance(training, relay.Constant) and not training.data.numpy().any()
    ):
        raise ModelError("drops values at random, as in training; export the model for inference")
    return value


def _lp_pool(inputs: Any, attributes: Any, params: Any) -> Any:
    """Pooling by a norm; TVM's own leaves out the absolute value, which odd powers need."""
    mode, kernel = attributes.get("auto_pad", b"NOTSET").decode(), attributes["kernel_shape"]
    strides = attributes.get("strides", kernel)
    gaps = mode.startswith("SAME") and any(np.greater(strides, kernel))
    if gaps or (mode != "NOTSET" and attributes.get("ceil_mode", 0)):
        raise ModelError(
            f"has auto_pad={mode} with strides above kernel_shape or with ceil_mode, of which "
            "runtimes give different results; give pads in place of auto_pad"
        )
    return _pooling("LpPool")([relay.abs(inputs[0])], attributes, params)


def _global_lp_pool(inputs: Any, attributes: Any, params: Any) -> Any:
    """Pooling by a norm over the whole image; as :func:`_lp_pool`."""
    return original("GlobalLpPool")([relay.abs(inputs[0])], attributes, params)


def _pooling(name: str) -> Converter:
    """Converter of poolings; with ``ceil_mode`` windows of TVM's own may begin beyond the data."""

    def convert(inputs: Any, attributes: Any, params: Any) -> Any:
        count = len(attributes["kernel_shape"])
        strides = attributes.get("strides", [1] * count)
        begins = attributes.get("pads", [0] * count)[:count]
        rounds_up = attributes.get("ceil_mode", 0)
        attributes.pop("storage_order", 0)  # of places, which TVM's own takes for a layout
        value = original(name)(inputs, attributes, params)
        if not rounds_up:
            return value
        shape, made = (frontend.infer_shape(each) for each in (inputs[0], value))
        return within_data(value, shape, made, strides, begins)

    return convert


def _mod(inputs: Any, attributes: Any, params: Any) -> Any:
    """The remainder with the sign of the divisor; TVM's own makes NaN of infinite divisors."""
    left, right = inputs
    dtype = frontend.infer_type(left).checked_type.dtype
    if attributes.get("fmod", 0) or not dtype.startswith("float"):
        return original("Mod")(inputs, attributes, params)
    zero = relay.const(0, dtype)
    rest = relay.mod(left, right)
    other = relay.not_equal(relay.less(rest, zero), relay.less(right, zero))
    moved = relay.logical_and(relay.not_equal(rest, zero), other)
    return relay.where(moved, rest + right, rest)


DFT_BY_INPUT = 20
"""The opset from which the axis is an input."""


def _dft(inputs: Any, attributes: Any, params: Any) -> Any:
    """A Fourier transform; TVM's own takes half a spectrum for a whole one."""
    if attributes.get("inverse", 0) and attributes.get("onesided", 0):
        raise ModelError("inverts a one-sided transform (inverse=1, onesided=1); give both sides")
    if frontend.GraphProto.current.opset >= DFT_BY_INPUT and len(inputs) < 3:
        attributes["axis"] = -2  # TVM's own takes the first one, as before
    return original("DFT")(inputs, attributes, params)


def _loop(inputs: Any, attributes: Any, params: Any) -> Any:  # noqa: ARG001
    raise ModelError("is a loop, which straight-line code of static shapes has no room for")


def _reduction(name: str) -> Converter:
    """A reduction over all of its axes; TVM's own takes the first one where they are an input."""

    def convert(inputs: Any, attributes: Any, params: Any) -> Any:
        value, axes = inputs[0], inputs[1]
        noop = attributes.get("noop_with_empty_axes", 0)
        if axes is not None:
            if not isinstance(axes, relay.Constant):
                raise ModelError("reduces over axes that only the run tells")
            given = tuple(int(axis) for axis in axes.data.numpy().ravel())
            if given:
                attributes["axes"] = given
        if noop and "axes" not in attributes:
            raise ModelError("reduces over no axis (noop_with_empty_axes); leave the node out")

        def reduce(value: Any) -> Any:
            return getattr(frontend, name)._impl_v1([value], attributes, params)  # noqa: SLF001

        if name not in _EXTREMES:
            return reduce(value)
        return extreme(reduce, value, frontend.infer_type(value).checked_type.dtype)

    return convert


_EXTREMES = ("ReduceMax", "ReduceMin")


def _round(inputs: Any, attributes: Any, params: Any) -> Any:  # noqa: ARG001
    """The nearest whole numbers, the even one of two; TVM's own makes NaN of infinity."""
    (value,) = inputs
    return round_to_even(value, frontend.infer_type(value).checked_type.dtype)


def _quantize_linear(inputs: Any, attributes: Any, params: Any) -> Any:  # noqa: ARG001
    """A quantization that rounds ties to the even number; TVM's own rounds them away from zero."""
    data, scale, zero = inputs[0], inputs[1], inputs[2]
    if zero is None:
        raise ModelError("has no zero point, which tells the data type; give one")
    rank = len(frontend.infer_shape(data))
    axis = attributes.get("axis", 1) % rank if rank > 1 else 0
    scale, zero = (_along(each, rank - axis) for each in (scale, zero))
    dtype = frontend.infer_type(zero).checked_type.dtype
    real = frontend.infer_type(scale).checked_type.dtype
    whole = round_to_even(relay.cast(data, real) / scale, real) + relay.cast(zero, real)
    limits = np.iinfo(dtype)
    return relay.cast(relay.clip(whole, limits.min, limits.max), dtype)


def _along(value: Any, places: int) -> Any:
    """Scale of one number, or with one for each place of an axis so many places from the end."""
    shape = frontend.infer_shape(value)
    if len(shape) > 1:
        raise ModelError("has scales for blocks; give one, or one for each place of an axis")
    return relay.reshape(value, (-1, *[1] * (places - 1))) if shape and places else value


_REDUCTIONS = (
    "ReduceL1",
    "ReduceL2",
    "ReduceLogSum",
    "ReduceLogSumExp",
    "ReduceMax",
    "ReduceMean",
    "ReduceMin",
    "ReduceProd",
    "ReduceSum",
    "ReduceSumSquare",
)

CONVERTERS: Mapping[str, Converter] = {
    **EXTENT_CONVERTERS,
    "AveragePool": _pooling("AveragePool"),
    "Clip": _clip,
    "Constant": _constant,
    "DFT": _dft,
    "Dropout": _dropout,
    "GlobalLpPool": _global_lp_pool,
    "If": _if,
    "Loop": _loop,
    "LpPool": _lp_pool,
    "MaxPool": _pooling("MaxPool"),
    "Mod": _mod,
    "PRelu": _prelu,
    "QuantizeLinear": _quantize_linear,
    "Round": _round,
    **{name: _reduction(name) for name in _REDUCTIONS},
}
"""Converters by operator, for all opsets."""
