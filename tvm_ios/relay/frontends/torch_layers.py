"""Converters for layers of PyTorch: poolings, activations, products, attention and GRUs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import pi
from typing import Any

from tvm import relay
from tvm.relay.frontend.pytorch import PyTorchOpConverter

from tvm_ios.relay.frontends.pooling import within_data

__all__ = ["Converter", "layer_converters"]

Converter = Callable[[list[Any], Sequence[str]], Any]
"""Takes inputs, which may be numbers, lists and None, and torch's data types; gives outputs."""


def layer_converters(tvms: PyTorchOpConverter) -> dict[str, Converter]:
    """Converters by operator, on top of TVM's."""
    return {
        "aten::addmm": _without_beta(tvms, "aten::addmm"),
        "aten::baddbmm": _without_beta(tvms, "aten::baddbmm"),
        "aten::gelu": lambda inputs, types: _gelu(tvms, inputs, types),
        "aten::gru": lambda inputs, types: _gru(tvms, inputs, types),
        # The argument beyond these is one that TVM's takes for a sign of an older torch.
        "aten::scaled_dot_product_attention": lambda inputs, types: (
            tvms.scaled_dot_product_attention(inputs[:7], types)
        ),
        "aten::softplus": _softplus,
        **{f"aten::{name}": _pooling(tvms, f"aten::{name}") for name in _POOLINGS},
    }


def _without_beta(tvms: PyTorchOpConverter, name: str) -> Converter:
    """A product added to a first input, which counts for nothing, NaN or not, ``beta`` times 0."""

    def convert(inputs: list[Any], types: Sequence[str]) -> Any:
        if not isinstance(inputs[3], relay.Expr) and inputs[3] == 0:
            inputs = [relay.zeros_like(inputs[0]), *inputs[1:]]
        return tvms.convert_map[name](inputs, types)

    return convert


def _gelu(tvms: PyTorchOpConverter, inputs: list[Any], types: Sequence[str]) -> Any:
    """GELU, by ``tanh`` where torch is asked for that."""
    if len(inputs) < 2 or inputs[1] == "none":
        return tvms.gelu(inputs, types)
    x = inputs[0]
    half, one, slope, cubic = (
        relay.const(number, types[0]) for number in (0.5, 1.0, (2 / pi) ** 0.5, 0.044715)
    )
    return half * x * (one + relay.tanh(slope * (x + cubic * x * x * x)))


def _gru(tvms: PyTorchOpConverter, inputs: list[Any], types: Sequence[str]) -> Any:
    """Converter of GRUs; TVM's own gives last states of both directions an axis of their own."""
    output, state = tvms.gru(inputs, types)
    return output, relay.reshape(state, (-1, *tvms.infer_shape(state)[-2:]))


_POOLINGS = {
    "avg_pool1d": 4,
    "avg_pool2d": 4,
    "avg_pool3d": 4,
    "max_pool1d": 5,
    "max_pool2d": 5,
    "max_pool2d_with_indices": 5,
    "max_pool3d": 5,
}
"""Places of the input that says whether the output is rounded up, by pooling."""


def _pooling(tvms: PyTorchOpConverter, name: str) -> Converter:
    """A pooling without windows that begin beyond the data."""
    rounds_up = _POOLINGS[name.removeprefix("aten::")]

    def convert(inputs: list[Any], types: Sequence[str]) -> Any:
        found = tvms.convert_map[name](inputs, types)
        if not inputs[rounds_up]:
            return found
        value, *rest = found if isinstance(found, tuple) else (found,)
        strides = inputs[2] or inputs[1]
        shape, made = tvms.infer_shape(inputs[0]), tvms.infer_shape(value)
        value = within_data(value, shape, made, strides, inputs[3])
        return (value, *rest) if rest else value

    return convert


def _softplus(inputs: list[Any], types: Sequence[str]) -> Any:
    """The logarithm of one and an exponential; the value itself above a threshold."""
    x = inputs[0]
    beta, threshold, one = (relay.const(float(each), types[0]) for each in (*inputs[1:3], 1))
    smooth = relay.log(relay.exp(x * beta) + one) / beta
    return relay.where(relay.greater(x * beta, threshold), x, smooth)
