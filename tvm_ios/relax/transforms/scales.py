"""Scales of channels that a run tells, multiplied into the weights that read them.

Comes after layouts are changed. The gate of a squeeze-and-excite block multiplies a whole image in
front of a convolution of one pixel, whose weights are often far fewer.
"""

from __future__ import annotations

import math
from collections import Counter

import tvm
from tvm import relax

from tvm_ios.relax.ir import (
    Constant,
    call_name,
    main_of,
    operator_calls,
    rebound_main,
    shape_of,
    variables_in,
)

__all__ = ["with_scales_in_weights"]

SCALING = 2
"""Elements of an image that cost as much as one of weights, which is scaled in every run."""


@tvm.transform.module_pass(opt_level=0, name="WithScalesInWeights")  # type: ignore[untyped-decorator]
def with_scales_in_weights(
    module: tvm.IRModule, context: tvm.transform.PassContext
) -> tvm.IRModule:
    """Pass after which convolutions read images that gates multiplied, by weights of that gate."""
    del context
    main = main_of(module)
    if main is None:
        return module
    made: dict[relax.Expr, relax.Call] = {}
    read = Counter(each for call in operator_calls(main) for each in variables_in(call))
    read.update(variables_in(main.body.body))

    def new(variable: relax.Var, call: relax.Call) -> relax.Expr:
        made[variable] = call
        product = made.get(call.args[0]) if call.args else None
        if call_name(call) != "relax.nn.conv2d" or product is None or read[call.args[0]] != 1:
            return call
        found = _image_and_gate(product, call)
        if found is None:
            return call
        image, gate = found
        weights = relax.op.multiply(call.args[1], gate)
        return relax.Call(call.op, [image, weights], call.attrs, call.ty_args)

    return rebound_main(module, new)


def _image_and_gate(
    product: relax.Call, convolution: relax.Call
) -> tuple[relax.Expr, relax.Expr] | None:
    """Image, and gate in the shape of weights, of a product that is worth it; None for others."""
    attrs, weights = convolution.attrs, convolution.args[1]
    shape = shape_of(product)
    data, kernel = attrs.data_layout, attrs.kernel_layout
    if call_name(product) != "relax.multiply" or attrs.groups != 1 or not shape or shape[0] != 1:
        return None
    if len(data) != len(shape) or len(kernel) != len(shape):
        return None  # blocks of channels
    if not isinstance(weights, Constant) or SCALING * weights.value.numpy().size > math.prod(shape):
        return None
    channel = tuple(extent if axis == "C" else 1 for axis, extent in zip(data, shape, strict=True))
    gates = [each for each in product.args if shape_of(each) == channel != shape]
    images = [each for each in product.args if shape_of(each) == shape]
    if len(gates) != 1 or len(images) != 1 or isinstance(gates[0], Constant):
        return None
    summed = [shape[data.index("C")] if axis == "I" else 1 for axis in kernel]
    return images[0], relax.op.reshape(gates[0], summed)
