"""Models of float32 that round as those of bfloat16 do: by operators of their own."""

from __future__ import annotations

import numpy as np
import tvm
from tvm import relay

from tvm_ios.relay.constants import constant, values_of
from tvm_ios.relay.dataflow import rebuild, with_body
from tvm_ios.relay.extract import Extraction

__all__ = ["rounded_in_float32"]


def rounded_in_float32(exact: Extraction, low: Extraction) -> tvm.IRModule:
    """The prepared module in float32, with the values that are bfloat16 in another one rounded."""
    index_of = {call: index for index, call in enumerate(exact.calls)}

    def call_of(call: relay.Call, arguments: list[relay.Expr]) -> relay.Call:
        other = low.calls[index_of[call]]
        for number, given in enumerate(other.args):
            if isinstance(given, relay.Constant) and str(given.data.dtype) == "bfloat16":
                arguments[number] = constant(values_of(given))
        made = relay.Call(call.op, arguments, call.attrs, call.type_args, call.span)
        type_ = other.checked_type
        if isinstance(type_, tvm.ir.TensorType) and str(type_.dtype) == "bfloat16":
            return relay.Call(_rounding(call.checked_type), [made])
        return made

    return with_body(exact.module, rebuild(exact.module["main"].body, {}, call_of))


def _rounding(type_: tvm.ir.TensorType) -> relay.Function:
    """Fused function to the nearest number of bfloat16, the even one of two; NaN stays NaN."""
    data = relay.Var("data", type_)
    bits = relay.reinterpret(data, "int32")
    half, last, rest, quiet = (
        relay.const(np.int32(each), "int32") for each in (16, 1, 0x7FFF, 0x40)
    )
    upper = relay.right_shift(bits, half)
    nearest = relay.right_shift(bits + relay.bitwise_and(upper, last) + rest, half)
    chosen = relay.where(relay.isnan(data), relay.bitwise_or(upper, quiet), nearest)
    body = relay.reinterpret(relay.left_shift(chosen, half), "float32")
    typed = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([data], body)))
    return typed["main"].with_attr("Primitive", tvm.tir.IntImm("int32", 1))
