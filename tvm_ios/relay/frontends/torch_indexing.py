"""Converters for operators of PyTorch that read or write at places, or cut at them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvm import relay
from tvm.relay.frontend.pytorch import PyTorchOpConverter

__all__ = ["indexing_converters"]


def indexing_converters(tvms: PyTorchOpConverter) -> dict[str, Callable[..., Any]]:
    """Converters by operator, on top of TVM's."""
    return {
        "aten::chunk": lambda inputs, _: _chunk(tvms, inputs),
        "aten::index": lambda inputs, types: _index(tvms, inputs, types),
        "aten::index_put": lambda inputs, _: _index_put(tvms, inputs),
        "aten::tensor_split": lambda inputs, types: _tensor_split(tvms, inputs, types),
        "aten::unsafe_chunk": lambda inputs, _: _chunk(tvms, inputs),
        **{name: _scatter(tvms, name) for name in _SCATTERS},
    }


_SCATTERS = ("aten::scatter", "aten::scatter_add", "aten::scatter_reduce")


def _from_the_front(tvms: PyTorchOpConverter, data: Any, indices: Sequence[Any]) -> list[Any]:
    """Indices, those below zero counted from the end, where TVM would leave the tensor."""
    found = []
    for extent, index in zip(tvms.infer_shape(data), indices, strict=False):
        dtype = "bool" if index is None else str(tvms.infer_type(index).dtype)
        if dtype != "bool":
            zero, length = relay.const(0, dtype), relay.const(extent, dtype)
            index = relay.where(relay.less(index, zero), index + length, index)  # noqa: PLW2901
        found.append(index)
    return found


def _index(tvms: PyTorchOpConverter, inputs: list[Any], types: Sequence[str]) -> Any:
    indices = _from_the_front(tvms, inputs[0], inputs[1])
    return tvms.index([inputs[0], indices], types)


def _index_put(tvms: PyTorchOpConverter, inputs: list[Any]) -> Any:
    """A tensor written to at places; places, and values for them, are broadcast."""
    data, indices, values, accumulate = inputs[:4]
    indices = tvms.broadcast_tensors([_from_the_front(tvms, data, indices)], ())
    places = tuple(tvms.infer_shape(indices[0]))
    rest = tuple(tvms.infer_shape(data))[len(indices) :]
    if not isinstance(values, relay.Expr):
        values = relay.const(values, str(tvms.infer_type(data).dtype))
    values = relay.broadcast_to(values, (*places, *rest))
    mode = "add" if accumulate else "update"
    return relay.scatter_nd(data, relay.stack(indices, axis=0), values, mode)


def _scatter(tvms: PyTorchOpConverter, name: str) -> Callable[..., Any]:
    """Values written to places, as many as there are places; TVM's own takes all there are."""

    def convert(inputs: list[Any], types: Sequence[str]) -> Any:
        data, axis, index, values, *rest = inputs
        shape = tvms.infer_shape(index)
        if isinstance(values, relay.Expr):
            values = relay.strided_slice(values, [0] * len(shape), shape)
        else:
            dtype = str(tvms.infer_type(data).dtype)
            values = relay.full(relay.const(values, dtype), shape, dtype)
        axis %= len(shape)
        return tvms.convert_map[name]([data, axis, index, values, *rest], types)

    return convert


def _chunk(tvms: PyTorchOpConverter, inputs: list[Any]) -> Any:
    """Parts of one size, rounded up, of which there may be fewer than asked for."""
    data, count, axis = inputs
    extent = int(tvms.infer_shape(data)[axis])
    size = -(-extent // count)
    return relay.split(data, list(range(size, extent, size)), axis)


def _tensor_split(tvms: PyTorchOpConverter, inputs: list[Any], types: Sequence[str]) -> Any:
    """Parts of which the first ones may be longer by one."""
    data, count, axis = inputs
    if not isinstance(count, int):
        return tvms.tensor_split(inputs, types)
    size, longer = divmod(int(tvms.infer_shape(data)[axis]), count)
    return relay.split(data, [size * part + min(part, longer) for part in range(1, count)], axis)
