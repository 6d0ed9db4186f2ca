"""Kernels of our own for fused functions on CPUs, in place of those that TVM lowers."""

from __future__ import annotations

import tvm
from tvm import relay, tir

from tvm_ios.relay.attention.kernel import attention_kernel
from tvm_ios.relay.dataflow import all_calls
from tvm_ios.relay.functions.packed_product import PACKED_DENSE
from tvm_ios.relay.grouped.convolution import OPERATORS
from tvm_ios.relay.grouped.kernel import grouped_kernel
from tvm_ios.relay.packed_products.kernel import packed_kernel
from tvm_ios.relay.row_kernels.kernel import row_kernel

__all__ = ["own_kernel"]

NORMS = frozenset({"einsum", "nn.l2_normalize", "nn.log_softmax", "nn.softmax"})
"""Operators whose functions may be computed row by row; norms and attention kept whole sum by
``einsum``."""
LONGEST_NAME = 80


def own_kernel(
    function: relay.Function, target: tvm.target.Target
) -> tuple[str, tir.PrimFunc] | None:
    """Name and code that replace TVM's for a fused, typed function; None where TVM's stay.

    Only for CPUs, and where bits may change.
    """
    calls = all_calls(function.body)
    names = [call.op.name for call in calls if isinstance(call.op, tvm.ir.Op)]
    if not NORMS.isdisjoint(names):
        kernel = attention_kernel(function, target) or row_kernel(function, target)
    elif PACKED_DENSE in names:
        kernel = packed_kernel(function, target)
    else:
        kernel = None if OPERATORS.isdisjoint(names) else grouped_kernel(function, target)
    if kernel is None:
        return None
    stem = "_".join(["tvmgen_default_fused", *(name.replace(".", "_") for name in names)])
    return stem[:LONGEST_NAME], kernel
