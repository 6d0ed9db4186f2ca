"""Operators of the networks in Relax, under the names and with the arguments of Relay's.

Relax names every value, so an expression here is a variable with the call that gives it; a network
is the calls that its result needs, in order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import tvm
from tvm import relax

__all__ = ["Value", "module_of"]


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """Value of a network under construction."""

    variable: relax.Var
    call: relax.Call | None = None
    """The call that gives it; None of an input."""
    reads: tuple[Value, ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents of the tensor."""
        return tuple(int(extent) for extent in self.variable.ty.shape.values)


def module_of(variables: Sequence[Value], output: Value) -> tvm.IRModule:
    """Module whose ``main`` takes variables and gives a value."""
    bindings, made = [], set()
    waiting = [(output, False)]
    while waiting:
        value, is_read = waiting.pop()
        if value.call is None or value in made:
            continue
        if is_read:
            made.add(value)
            bindings.append(relax.VarBinding(value.variable, value.call))
        else:
            waiting += [(value, True), *((each, False) for each in reversed(value.reads))]
    body = relax.SeqExpr([relax.BindingBlock(bindings)], output.variable)
    inputs = [each.variable for each in variables]
    main = relax.Function(inputs, body, output.variable.ty)
    module = tvm.IRModule({"main": main.with_attr("global_symbol", "main")})
    return relax.transform.Normalize()(module)


def var(name: str, *, shape: Sequence[int], dtype: str = "float32") -> Value:
    """Input of the network, or one of its weights."""
    return Value(relax.Var(name, relax.TensorType(tuple(shape), dtype)))


def const(value: float) -> relax.Expr:
    """Constant of a number in float32."""
    return relax.const(value, "float32")


def _made(make: Callable[..., relax.Expr], *operands: Any, **attributes: Any) -> Value:
    """Value of a call; operands are values, constants, or lists of values."""
    values = [value for each in operands for value in (each if isinstance(each, list) else [each])]
    given = [
        [value.variable for value in each]
        if isinstance(each, list)
        else getattr(each, "variable", each)
        for each in operands
    ]
    call = relax.BlockBuilder().normalize(make(*given, **attributes))
    reads = tuple(value for value in values if isinstance(value, Value))
    return Value(relax.Var("value", call.ty), call, reads)


def _elementwise(make: Callable[..., relax.Expr]) -> Callable[..., Value]:
    return lambda *operands: _made(make, *operands)


add, multiply = _elementwise(relax.op.add), _elementwise(relax.op.multiply)
erf = _elementwise(relax.op.erf)


def clip(data: Value, low: float, high: float) -> Value:
    """Elements, none below or above a bound."""
    return _made(relax.op.clip, data, min=low, max=high)


def concatenate(data: list[Value], axis: int) -> Value:
    """Tensors one behind another."""
    return _made(relax.op.concat, list(data), axis=axis)


def take(data: Value, indices: Value, axis: int) -> Value:
    """Rows by number."""
    return _made(relax.op.take, data, indices, axis=axis)


def transpose(data: Value, axes: Sequence[int]) -> Value:
    """Tensor with its axes in another order."""
    return _made(relax.op.permute_dims, data, axes=list(axes))


def reshape(data: Value, shape: Sequence[int]) -> Value:
    """Elements in another shape; -3 joins the first two extents, and -2 after it keeps the rest."""
    if tuple(shape) == (-3, -2):
        first, second, *rest = data.shape
        shape = (first * second, *rest)
    return _made(relax.op.reshape, data, shape=tuple(shape))


def _dense(data: Value, weight: Value) -> Value:
    return _made(relax.op.matmul, data, transpose(weight, (1, 0)))


def _batch_matmul(first: Value, second: Value) -> Value:
    return _made(relax.op.matmul, first, transpose(second, (0, 2, 1)))


def _bias_add(data: Value, bias: Value) -> Value:
    return add(data, reshape(bias, (-1, *[1] * (len(data.shape) - 2))))


def _batch_flatten(data: Value) -> Value:
    return reshape(data, (data.shape[0], math.prod(data.shape[1:])))


def _convolution(make: Callable[..., relax.Expr]) -> Callable[..., Value]:
    def convolve(
        data: Value,
        weight: Value,
        *,
        channels: int,
        kernel_size: Sequence[int],
        **attributes: Any,
    ) -> Value:
        del channels, kernel_size  # the weight says them
        return _made(make, data, weight, **attributes)

    return convolve


def _pool(make: Callable[..., relax.Expr]) -> Callable[..., Value]:
    return lambda data, size, strides, **attributes: _made(
        make, data, pool_size=size, strides=strides, **attributes
    )


def _layer_norm(data: Value, scale: Value, shift: Value, *, axis: int, epsilon: float) -> Value:
    return _made(relax.op.nn.layer_norm, data, scale, shift, axes=axis, epsilon=epsilon)


nn = SimpleNamespace(
    avg_pool2d=_pool(relax.op.nn.avg_pool2d),
    batch_flatten=_batch_flatten,
    batch_matmul=_batch_matmul,
    bias_add=_bias_add,
    conv2d=_convolution(relax.op.nn.conv2d),
    conv2d_transpose=_convolution(relax.op.nn.conv2d_transpose),
    dense=_dense,
    global_avg_pool2d=lambda data: _made(relax.op.mean, data, axis=[2, 3], keepdims=True),
    layer_norm=_layer_norm,
    max_pool2d=_pool(relax.op.nn.max_pool2d),
    relu=_elementwise(relax.op.nn.relu),
    softmax=lambda data, axis: _made(relax.op.nn.softmax, data, axis=axis),
)
