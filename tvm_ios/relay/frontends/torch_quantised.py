"""Converters for what ``prepare_pt2e`` and ``convert_pt2e`` of torchao make of a model of PyTorch.

Steps to whole numbers and back are around operators of float32, as in ONNX. Scales and zero points
are numbers, tensors with one for each channel, or chosen while the model runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import relay
from tvm.relay.frontend.pytorch import PyTorchOpConverter, _convert_dtype_value

from tvm_ios.core.precision.stored_type import LIMITS, StoredType
from tvm_ios.relay.dataflow import is_call_of
from tvm_ios.relay.frontends.exact_arithmetic import limited_steps
from tvm_ios.relay.frontends.torch_layers import Converter
from tvm_ios.relay.functions.quantised import DEQUANTIZE, dequantize, quantize

__all__ = ["quantised_converters"]


def quantised_converters(tvms: PyTorchOpConverter) -> dict[str, Converter]:
    """Converters by operator, on top of TVM's."""
    return {
        "aten::linear": lambda inputs, types: _linear(tvms, inputs, types),
        "quantized_decomposed::choose_qparams": _chosen,
        "quantized_decomposed::choose_qparams_symmetric": _chosen_around_zero,
        "quantized_decomposed::dequantize_per_channel": lambda inputs, _: _channels(tvms, inputs),
        "quantized_decomposed::dequantize_per_tensor": lambda inputs, _: _numbers(inputs),
        "quantized_decomposed::quantize_per_channel": lambda inputs, _: _whole_channels(
            tvms, inputs
        ),
        "quantized_decomposed::quantize_per_tensor": lambda inputs, _: _whole(inputs),
    }


def _whole(inputs: list[Any]) -> relay.Expr:
    """Whole numbers for numbers, within limits that may be narrower than those of the type."""
    data, scale, zero, low, high, code = inputs
    dtype = _convert_dtype_value(code)
    if isinstance(scale, relay.Expr) or dtype not in LIMITS:
        inverse = relay.const(1.0) / _scalar(scale, "float32")
        return limited_steps(data * inverse, _scalar(zero, "int32"), (low, high), dtype)
    if (low, high) != LIMITS[dtype]:
        data = relay.clip(data, (low - zero) * scale, (high - zero) * scale)
    return quantize(data, StoredType(dtype=dtype, scale=scale, zero_point=zero))


def _numbers(inputs: list[Any]) -> relay.Expr:
    """Numbers that whole numbers stand for."""
    data, scale, zero, _, _, code = inputs[:6]
    dtype = _convert_dtype_value(code)
    if not isinstance(scale, relay.Expr) and dtype in LIMITS:
        return dequantize(data, StoredType(dtype=dtype, scale=scale, zero_point=zero))
    own = StoredType(dtype=dtype)
    number = dequantize(data, own) if own.is_whole else relay.cast(data, "float32")
    return (number - _scalar(zero, "float32")) * _scalar(scale, "float32")


def _whole_channels(tvms: PyTorchOpConverter, inputs: list[Any]) -> relay.Expr:
    """Whole numbers for numbers, by a scale for each place of an axis."""
    data, scales, zeros, axis, low, high, code = inputs
    scale, zero = (_along(tvms, data, each, axis) for each in (scales, zeros))
    steps = data * (relay.const(1.0) / relay.cast(scale, "float32"))
    return limited_steps(steps, zero, (low, high), _convert_dtype_value(code))


def _channels(tvms: PyTorchOpConverter, inputs: list[Any]) -> relay.Expr:
    """Numbers that whole numbers stand for, by a scale for each place of an axis."""
    data, scales, zeros, axis = inputs[:4]
    made = relay.cast(data, "float32")
    if zeros is not None:
        made = made - relay.cast(_along(tvms, data, zeros, axis), "float32")
    return made * relay.cast(_along(tvms, data, scales, axis), "float32")


def _chosen(inputs: list[Any], _types: Sequence[str]) -> tuple[relay.Expr, relay.Expr]:
    """Scale and zero point by the least and the greatest number."""
    data, low, high, epsilon, _ = inputs
    none = relay.const(0.0)
    least = relay.minimum(relay.min(data), none)
    spread = relay.maximum(relay.max(data), none) - least
    scale = relay.maximum(spread / relay.const(float(high - low)), relay.const(epsilon, "float32"))
    return scale, limited_steps(none - least / scale, relay.const(low), (low, high), "int32")


def _chosen_around_zero(inputs: list[Any], _types: Sequence[str]) -> tuple[relay.Expr, relay.Expr]:
    """Scale by the greatest absolute number; 0 is 0, or in the middle of unsigned numbers."""
    data, low, high, epsilon, code = inputs
    scale = relay.max(relay.abs(data)) / relay.const((high - low) / 2, "float32")
    zero = 128 if _convert_dtype_value(code) == "uint8" else 0
    scale = relay.maximum(scale, relay.const(epsilon, "float32"))
    return scale, relay.const(zero, "int32")


def _linear(tvms: PyTorchOpConverter, inputs: list[Any], types: Sequence[str]) -> relay.Expr:
    """A product of rows, of whole numbers themselves where a run chooses their steps.

    Then scale and zero point of the data are applied to the sums, so that the product reads bytes.
    """
    data, weight, bias = inputs
    if not isinstance(weight, relay.Call) or len(tvms.infer_shape(weight)) != 2:
        return tvms.linear(inputs, types)
    shape = tvms.infer_shape(data)
    chosen = is_call_of(data, "multiply") and is_call_of(data.args[0], "subtract")
    chosen = chosen and is_call_of(data.args[0].args[0], DEQUANTIZE)
    rows = relay.reshape(data.args[0].args[0] if chosen else data, (-1, shape[-1]))
    made = relay.nn.dense(rows, weight)
    if chosen:
        made = (made - data.args[0].args[1] * relay.sum(weight, axis=1)) * data.args[1]
    if bias is not None:
        made = relay.nn.bias_add(made, bias)
    return relay.reshape(made, (*shape[:-1], -1))


def _scalar(value: Any, dtype: str) -> relay.Expr:
    """A number, or a tensor of one, as a scalar of a data type."""
    if not isinstance(value, relay.Expr):
        return relay.const(value, dtype)
    return relay.cast(relay.reshape(value, ()), dtype)


def _along(tvms: PyTorchOpConverter, data: relay.Expr, values: relay.Expr, axis: int) -> relay.Expr:
    """Values along an axis of data, in a shape that broadcasts."""
    rank = len(tvms.infer_shape(data))
    return relay.reshape(values, [-1 if place == axis % rank else 1 for place in range(rank)])
