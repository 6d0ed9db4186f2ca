"""Converters of our own, for operators that TVM's importer gets wrong or cannot read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
from tvm import relay
from tvm.relay.frontend import onnx as frontend

from tvm_ios.errors import ModelError

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
    return _pooling("LpPool")([relay.abs(inputs[0])], attributes, params)


def _global_lp_pool(inputs: Any, attributes: Any, params: Any) -> Any:
    """The same over the whole image."""
    original = frontend.GlobalLpPool.get_converter(frontend.GraphProto.current.opset)
    return original([relay.abs(inputs[0])], attributes, params)


def _pooling(name: str) -> Converter:
    """A pooling; with ``ceil_mode`` TVM's own has windows that begin beyond the data, ONNX none."""

    def convert(inputs: Any, attributes: Any, params: Any) -> Any:
        count = len(attributes["kernel_shape"])
        strides = attributes.get("strides", [1] * count)
        begins = attributes.get("pads", [0] * count)[:count]
        rounds_up = attributes.get("ceil_mode", 0)
        attributes.pop("storage_order", 0)  # of places, which TVM's own takes for a layout
        original = getattr(frontend, name).get_converter(frontend.GraphProto.current.opset)
        value = original(inputs, attributes, params)
        if not rounds_up:
            return value
        data, made = (frontend.infer_shape(each) for each in (inputs[0], value))
        rows = list(zip(data[-count:], made[-count:], strides, begins, strict=True))
        if not all(isinstance(extent, int) for extent, *_ in rows):
            return value  # known once shapes are
        # A window more than there is place to begin, counted from the first one.
        ends = [min(ours, (extent + begin - 1) // step + 1) for extent, ours, step, begin in rows]
        if ends == list(made[-count:]):
            return value
        whole = list(made[:-count])
        return relay.strided_slice(value, [0] * len(made), [*whole, *ends])

    return convert


def _mod(inputs: Any, attributes: Any, params: Any) -> Any:
    """The remainder with the sign of the divisor; TVM's own makes NaN of infinite divisors."""
    left, right = inputs
    dtype = frontend.infer_type(left).checked_type.dtype
    if attributes.get("fmod", 0) or not dtype.startswith("float"):
        original = frontend.Mod.get_converter(frontend.GraphProto.current.opset)
        return original(inputs, attributes, params)
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
    opset = frontend.GraphProto.current.opset
    if opset >= DFT_BY_INPUT and len(inputs) < 3:
        attributes["axis"] = -2  # TVM's own takes the first one, as before
    return frontend.DFT.get_converter(opset)(inputs, attributes, params)


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
        held = [value]  # a scalar becomes one number along an axis, in place
        found = getattr(frontend, name)._impl_v1(held, attributes, params)  # noqa: SLF001
        return _infinite(name, held[0], found, attributes) if name in _LEAST else found

    return convert


_LEAST = {"ReduceMax": -np.inf, "ReduceMin": np.inf}
"""What nothing is beyond; TVM begins with the last finite number before it."""


def _infinite(name: str, value: Any, found: Any, attributes: Any) -> Any:
    """The greatest or the least value, which may be infinite: as of a row that is masked whole."""
    dtype = frontend.infer_type(value).checked_type.dtype
    if not dtype.startswith("float"):
        return found
    least = relay.const(_LEAST[name], dtype)
    axes, keep = attributes.get("axes"), bool(attributes.get("keepdims", 1))
    return relay.where(relay.all(relay.equal(value, least), axes, keep), least, found)


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
    "AveragePool": _pooling("AveragePool"),
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
    **{name: _reduction(name) for name in _REDUCTIONS},
}
"""Converters by operator, for all opsets."""
