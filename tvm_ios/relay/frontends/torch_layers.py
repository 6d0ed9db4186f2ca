"""Converters for layers of PyTorch: poolings, activations, products, attention and GRUs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import pi
from typing import Any

import numpy as np
from tvm import relay
from tvm.relay.frontend.pytorch import PyTorchOpConverter

__all__ = ["Converter", "layer_converters"]

Converter = Callable[[list[Any], Sequence[str]], Any]
"""Takes inputs, which may be numbers, lists and None, and torch's data types; gives outputs."""


def layer_converters(tvms: PyTorchOpConverter) -> dict[str, Converter]:
    """Converters by operator, on top of TVM's."""
    return {
        "aten::_transformer_encoder_layer_fwd": lambda inputs, types: _encoder_layer(
            tvms, inputs, types
        ),
        "aten::addmm": _without_beta(tvms, "aten::addmm"),
        "aten::baddbmm": _without_beta(tvms, "aten::baddbmm"),
        "aten::gelu": lambda inputs, types: _gelu(tvms, inputs, types),
        "aten::gru": lambda inputs, types: _gru(tvms, inputs, types),
        "aten::scaled_dot_product_attention": lambda inputs, types: _attention(tvms, inputs, types),
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


def _attention(tvms: PyTorchOpConverter, inputs: list[Any], types: Sequence[str]) -> Any:
    """Attention, to whose scores nothing is added where there is no mask; TVM's adds zeros."""
    query, key, value, mask, dropout, causal, scale = inputs[:7]
    if dropout or types[0] not in ("float32", "float64"):
        return tvms.scaled_dot_product_attention(inputs[:7], types)  # which refuses them
    shapes = [tuple(map(int, tvms.infer_shape(each))) for each in (query, key, value)]
    batch = np.broadcast_shapes(*(shape[:-2] for shape in shapes))
    query, key, value = (
        relay.reshape(relay.broadcast_to(each, (*batch, *shape[-2:])), (-1, *shape[-2:]))
        for each, shape in zip((query, key, value), shapes, strict=True)
    )
    rows, columns = shapes[0][-2], shapes[1][-2]
    factor = shapes[0][-1] ** -0.5 if scale is None else scale
    scores = relay.nn.batch_matmul(query, key) * relay.const(factor, types[0])
    scores = relay.reshape(scores, (*batch, rows, columns))
    if causal:
        mask, types = relay.const(np.tri(rows, columns, dtype=bool)), [*types[:3], "bool"]
    if mask is not None and types[3] == "bool":
        ends = relay.const(0.0, types[0]), relay.const(float("-inf"), types[0])
        mask = relay.where(mask, *ends)
    shares = relay.nn.softmax(scores if mask is None else scores + mask)
    shares = relay.reshape(shares, (-1, rows, columns))
    read = relay.nn.batch_matmul(shares, relay.transpose(value, (0, 2, 1)))
    return relay.reshape(read, (*batch, rows, shapes[2][-1]))


def _encoder_layer(tvms: PyTorchOpConverter, inputs: list[Any], types: Sequence[str]) -> Any:
    """Layer of ``nn.TransformerEncoderLayer``, which torch calls as one operator in inference."""
    x, features, heads, *weights, bends, norm_first, epsilon = inputs[:10]
    norms, wide, narrow, masks = inputs[10:14], inputs[14:16], inputs[16:18], inputs[18:]
    if any(mask is not None for mask in masks[:1]):
        raise ValueError("aten::_transformer_encoder_layer_fwd with a mask")
    into, out = weights[:2], weights[2:]
    batch, tokens, _ = shape = tvms.infer_shape(x)

    def norm(value: Any, scale: Any, shift: Any) -> Any:
        return relay.nn.layer_norm(value, scale, shift, epsilon=epsilon)

    def linear(value: Any, weight: Any, bias: Any) -> Any:
        rows = relay.reshape(value, (batch * tokens, -1))
        made = relay.nn.bias_add(relay.nn.dense(rows, weight), bias)
        return relay.reshape(made, (batch, tokens, -1))

    def attend(value: Any) -> Any:
        split = relay.reshape(linear(value, *into), (batch, tokens, 3, heads, features // heads))
        parts = relay.split(relay.transpose(split, (2, 0, 3, 1, 4)), 3)
        query, key, value = (relay.squeeze(part, [0]) for part in parts)
        read = _attention(tvms, [query, key, value, None, 0.0, False, None], types)
        return linear(relay.reshape(relay.transpose(read, (0, 2, 1, 3)), shape), *out)

    def expand(value: Any) -> Any:
        made = linear(value, *wide)
        bent = _gelu(tvms, [made, "none"], types) if bends else relay.nn.relu(made)
        return linear(bent, *narrow)

    if norm_first:
        x = x + attend(norm(x, *norms[:2]))
        return x + expand(norm(x, *norms[2:]))
    x = norm(x + attend(x), *norms[:2])
    return norm(x + expand(x), *norms[2:])


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
        value = _within_data(value, shape, made, strides, inputs[3])
        return (value, *rest) if rest else value

    return convert


def _softplus(inputs: list[Any], types: Sequence[str]) -> Any:
    """The logarithm of one and an exponential; the value itself above a threshold."""
    x = inputs[0]
    beta, threshold, one = (relay.const(float(each), types[0]) for each in (*inputs[1:3], 1))
    smooth = relay.log(relay.exp(x * beta) + one) / beta
    return relay.where(relay.greater(x * beta, threshold), x, smooth)


def _within_data(
    value: relay.Expr,
    data_shape: Sequence[int],
    value_shape: Sequence[int],
    strides: Sequence[int],
    begins: Sequence[int],
) -> relay.Expr:
    """A pooling without windows that begin beyond the data, which TVM's have, and no framework's.

    Parameters
    ----------
    value
        A pooling of TVM with ``ceil_mode``.
    data_shape, value_shape
        Of what is pooled, and of the pooling, the dimensions of the window last.
    strides, begins
        Steps of the window, and how far before the data it begins, by dimension of the window.
    """
    count = len(strides)
    data, made = data_shape[-count:], value_shape[-count:]
    rows = list(zip(data, made, strides, begins, strict=True))
    if not all(isinstance(extent, int) for extent, *_ in rows):
        return value  # known once shapes are
    # A window more than there is place to begin, counted from the first one.
    ends = [min(ours, (extent + begin - 1) // step + 1) for extent, ours, step, begin in rows]
    if ends == list(made):
        return value
    return relay.strided_slice(value, [0] * len(value_shape), [*value_shape[:-count], *ends])
