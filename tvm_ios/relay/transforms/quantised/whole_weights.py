"""Weights of products as whole numbers, where these are what they stand for.

A quantised model's weights came from whole numbers, one scale for each output channel or for all.
Whatever was folded into them since, such as a scale of a norm, a whole number of steps stays one,
so they are found by their values. Then a product of whole numbers is computed, and each channel of
its result is multiplied by the scales of data and weights: what libraries compute in int8.

Unsigned weights less their zero point need nine bits. A channel that reaches 128, but not -128, has
a scale below 0 instead. What does not fit even so is a sum of two weights, and of two products.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import tvm
from tvm import relay

from tvm_ios.core.precision.low_precision import FLOAT32
from tvm_ios.core.precision.stored_type import WHOLE, StoredType
from tvm_ios.core.precision.whole_steps import steps_of_weights
from tvm_ios.relay.constants import constant, values_of
from tvm_ios.relay.dataflow import (
    all_calls,
    copy_call,
    graph_order,
    is_call_of,
    readers_of,
    rebuild,
)
from tvm_ios.relay.functions.primitive import call_attribute
from tvm_ios.relay.functions.quantised import fake_quantize, is_fake_quantize, stored_type_of
from tvm_ios.relay.functions.stored_types import typed, with_stored_types

__all__ = ["WholeWeights", "whole_weights_of"]

CONVOLUTIONS = ("nn.conv2d", "nn.contrib_conv2d_NCHWc", "nn.contrib_depthwise_conv2d_NCHWc")
"""Operators whose weights and data have layouts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeWeights:
    """Product in a fused function of float32 whose constant weights whole numbers stand for."""

    product: relay.Call
    data: int
    """Position of the parameter that is multiplied by the weights."""
    weight: int
    """Position of the weights."""
    shared: bool
    """True if others in the function read the data, too."""
    steps: np.ndarray
    """Weights in int8."""
    rest: np.ndarray | None
    """Numbers in int8 that are added to the weights; None where they fit into int8."""
    scales: np.ndarray
    """Scale of each output channel."""

    def multiplied(
        self, call: relay.Call, types: Mapping[int, StoredType], result: StoredType | None
    ) -> tuple[relay.Call, dict[int, StoredType], StoredType | None]:
        """Call of a fused function that multiplies whole numbers themselves, and its types.

        ``types`` are those in memory of the call's parameters, the data's among them, ``result`` is
        that of its result, if it has one. Factors and bias are in steps of what is rounded to next.
        """
        in_memory, function = types[self.data], call.op
        _, axes = _channels(self.product) or ([], [])
        shape = [
            int(extent) if axis in axes else 1
            for axis, extent in enumerate(self.product.checked_type.shape)
        ]
        ending = _rounding_behind(self.product, call)
        step = 1.0 if ending is None else ending.stored.scale
        factors = (self.scales.astype("float64") * in_memory.scale / step).astype("float32")
        factor = relay.Var("scales", relay.TensorType(shape, FLOAT32))
        parameters, arguments = list(function.params), list(call.args)
        if (factors != 1).any():
            parameters.append(factor)
            arguments.append(constant(factors.reshape(shape)))
        arguments[self.weight] = constant(self.steps)
        made, number = dict(types), self.data
        product = self.product
        if self.shared:  # whose scale others need
            number = len(parameters)
            old = function.params[self.data]
            parameters.append(relay.Var(f"{old.name_hint}_steps", old.checked_type))
            arguments.append(call.args[self.data])
            product = copy_call(product, [parameters[-1], *product.args[1:]])
        made[number] = replace(in_memory, scale=1.0)
        made[self.weight] = WHOLE
        if self.rest is not None:
            others = relay.Var("others", product.checked_type)
            parameters.append(others)
            arguments.append(self._product_of(self.rest, arguments[number], made[number]))
            product = relay.add(product, others)
        if factor in parameters:
            product = relay.multiply(product, factor)
        known: dict[relay.Expr, relay.Expr] = {self.product: product}
        make = copy_call
        if ending is not None:
            zero, result = ending.zero_and_type(function, result)
            make = partial(ending.copied, is_kept=result is None or ending.call != function.body)
            if ending.bias is not None:
                bias = values_of(call.args[ending.bias]).astype("float64") / step + zero
                arguments[ending.bias] = constant(bias.astype("float32"))
        body = rebuild(function.body, known, make)
        whole = typed(relay.Function(parameters, body, attrs=function.attrs))
        return relay.Call(whole, arguments, call.attrs, call.type_args, call.span), made, result

    def _product_of(
        self, weights: np.ndarray, data: relay.Expr, in_memory: StoredType
    ) -> relay.Call:
        """Call of a function of its own that multiplies whole numbers by other weights."""
        operands = [
            relay.Var(name, each.checked_type)
            for name, each in zip(("data", "weight"), self.product.args, strict=True)
        ]
        function = relay.Function(operands, copy_call(self.product, operands))
        fused = typed(function.with_attr("Primitive", tvm.tir.IntImm("int32", 1)))
        whole = with_stored_types(fused, {0: in_memory, 1: WHOLE})
        return relay.Call(whole, [data, constant(weights)])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rounding:
    """Rounding to whole numbers of a product, or of its sum with a constant bias."""

    call: relay.Call
    stored: StoredType
    bias: int | None
    """Position of the bias."""
    bends: bool
    """True if what is below 0 becomes 0 before."""

    def zero_and_type(
        self, function: relay.Function, result: StoredType | None
    ) -> tuple[int, StoredType | None]:
        """Steps to add to the bias, and type in memory of a function's result in such steps."""
        if result is None or self.call != function.body:
            return 0, result
        zero = 0 if self.bias is None or self.bends else result.zero_point
        return zero, replace(result, scale=1.0, zero_point=result.zero_point - zero)

    def copied(self, call: relay.Call, arguments: list[relay.Expr], *, is_kept: bool) -> relay.Expr:
        """Copy of a call behind the product; of the rounding, where it is kept, by steps of 1."""
        if call != self.call or not is_kept:
            return copy_call(call, arguments)
        rounded = fake_quantize(arguments[0], replace(self.stored, scale=1.0))
        return relay.multiply(rounded, relay.const(np.float32(self.stored.scale)))


def _rounding_behind(product: relay.Call, call: relay.Call) -> _Rounding | None:
    """Rounding that follows a fused function's product; None where it is not the next step."""
    places = {parameter: number for number, parameter in enumerate(call.op.params)}
    readers = readers_of(graph_order(call.op.body))
    value, bias, bends = product, None, False
    while len(readers.get(value, ())) == 1:
        (reader,) = readers[value]
        if is_fake_quantize(reader):
            return _Rounding(call=reader, stored=stored_type_of(reader), bias=bias, bends=bends)
        if is_call_of(reader, "nn.relu"):
            bends = True
        elif is_call_of(reader, "add", "nn.bias_add") and bias is None and not bends:
            (other,) = [each for each in reader.args if each != value] or [value]
            bias = places.get(other)
            if bias is None or not isinstance(call.args[bias], relay.Constant):
                return None
            if len(readers[other]) > 1:
                return None
        else:
            return None
        value = reader
    return None


def whole_weights_of(call: relay.Call) -> WholeWeights | None:
    """Whole numbers that stand for the weights of a fused function's product, if some do."""
    function = call.op
    calls = all_calls(function.body)
    products = [each for each in calls if _channels(each) is not None]
    if len(products) != 1:
        return None
    (product,) = products
    places = {parameter: number for number, parameter in enumerate(function.params)}
    data, weight = (places.get(argument) for argument in product.args[:2])
    if data is None or weight is None or not isinstance(call.args[weight], relay.Constant):
        return None
    shared = any(function.params[data] in list(each.args) for each in calls if each != product)
    axes, _ = _channels(product) or ([], [])
    found = steps_of_weights(values_of(call.args[weight]), axes)
    if found is None:
        return None
    steps, scales = found
    limits = np.iinfo("int8")
    near = steps.clip(limits.min, limits.max)
    rest = (steps - near).astype("int8") if (steps != near).any() else None
    if rest is not None and int(call_attribute(product, "groups", 1)) > 1:
        return None  # Loops of our own are as fast in float32: two would take twice as long.
    return WholeWeights(
        product=product,
        data=data,
        weight=weight,
        shared=shared,
        steps=near.astype("int8"),
        rest=rest,
        scales=scales,
    )


def _channels(call: relay.Call) -> tuple[list[int], list[int]] | None:
    """Axes of output channels in weights and result; None of what is no product with weights."""
    if is_call_of(call, "nn.dense", "nn.contrib_dense_pack"):
        packed = is_call_of(call, "nn.contrib_dense_pack")
        return [0, 2] if packed else [0], [len(call.checked_type.shape) - 1]
    if not is_call_of(call, *CONVOLUTIONS):
        return None
    letters = [
        [each for each in str(call_attribute(call, name)) if each.isalpha()]
        for name in ("kernel_layout", "data_layout")
    ]
    groups = int(call_attribute(call, "groups", 1))
    kernel = [axis for axis, letter in enumerate(letters[0]) if letter in "Oo"]
    if letters[0][:4] == ["H", "W", "O", "I"] and groups > 1:
        kernel = [2, 3]
    return kernel, [axis for axis, letter in enumerate(letters[1]) if letter in "Cc"]
