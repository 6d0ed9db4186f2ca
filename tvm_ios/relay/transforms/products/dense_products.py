"""Dense products in place of ``nn.matmul``, whose kernel for CPUs TVM has not scheduled.

It is hundreds of times slower than that of ``nn.dense``, for which weights are also packed.
"""

from __future__ import annotations

import tvm
from tvm import relay

from tvm_ios.relay.dataflow import all_calls, copy_call, is_call_of, rebuild, with_body

__all__ = ["multiply_by_dense"]


def multiply_by_dense(module: tvm.IRModule) -> tvm.IRModule:
    """Module with ``nn.dense`` for each ``nn.matmul`` of two matrices, transposed where needed.

    Sums are taken over the same products, so only the order of additions may differ. Without such a
    product the module itself is returned.
    """

    def multiply(call: relay.Call, arguments: list[relay.Expr]) -> relay.Expr:
        if not _is_of_matrices(call):
            return copy_call(call, arguments)
        left, right = arguments
        rows = relay.transpose(left, (1, 0)) if call.attrs.transpose_a else left
        columns = right if call.attrs.transpose_b else relay.transpose(right, (1, 0))
        return relay.nn.dense(rows, columns, out_dtype=call.attrs.out_dtype or None)

    body = module["main"].body
    found = any(map(_is_of_matrices, all_calls(body)))
    return with_body(module, rebuild(body, {}, multiply)) if found else module


def _is_of_matrices(call: relay.Call) -> bool:
    return is_call_of(call, "nn.matmul") and all(
        len(each.checked_type.shape) == 2 for each in call.args
    )
