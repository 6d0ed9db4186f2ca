"""A fused function that begins with a product by packed weights as one kernel."""

from __future__ import annotations

import math

import tvm
from tvm import relay, tir

from tvm_ios.kernels.packed_products import Product, tile_for
from tvm_ios.relay.dataflow import all_calls, is_call_of
from tvm_ios.relay.functions.packed_product import PACKED_DENSE, packing_of
from tvm_ios.relay.grouped.following import Followed
from tvm_ios.relay.row_kernels.calling_convention import lowered_kernel
from tvm_ios.relay.row_kernels.values import UnsuitableError

__all__ = ["packed_kernel", "packed_product"]


def packed_kernel(function: relay.Function, target: tvm.target.Target) -> tir.PrimFunc | None:
    """Lowered kernel of a fused, typed function; None where these loops do not suit.

    The function is a product by packed weights, and element-wise operators after it. Uses the
    PassContext in force. What it calls is left for
    :func:`~tvm_ios.kernels.vector_math.with_arithmetic`.
    """
    found = packed_product(function, target)
    if found is None:
        return None
    buffers, product = found
    return lowered_kernel("packed_kernel", buffers, product.statement(), target)


def packed_product(
    function: relay.Function, target: tvm.target.Target
) -> tuple[list[tir.Buffer], Product] | None:
    """Buffers of a kernel's arguments, the result last, and its product; None without kernel."""
    products = [each for each in all_calls(function.body) if is_call_of(each, PACKED_DENSE)]
    if len(products) != 1 or not set(products[0].args) <= set(function.params):
        return None
    try:
        return _product(function, products[0], target)
    except UnsuitableError:
        return None


def _product(
    function: relay.Function, call: relay.Call, target: tvm.target.Target
) -> tuple[list[tir.Buffer], Product]:
    followed = Followed.of(function, call, target)
    *above, inputs_of_row = (int(extent) for extent in call.args[0].checked_type.shape)
    count, packing = math.prod(above), packing_of(call.attrs)

    def write(value: tir.PrimExpr, row: tir.PrimExpr, column: tir.PrimExpr) -> tir.Stmt:
        indices = [column]
        for extent in reversed(above):
            indices.insert(0, tir.indexmod(row, extent))
            row = tir.indexdiv(row, extent)
        return followed.write(value, indices)

    data, weight, scales, *zeros = (followed.rows[argument.name_hint] for argument in call.args)
    product = Product(
        rows=count,
        inputs=inputs_of_row,
        packing=packing,
        tile=tile_for(count, packing.outputs, target),
        data=data,
        weight=weight,
        scales=scales,
        zeros=zeros[0] if zeros else None,
        write=write,
    )
    return list(followed.buffers), product
