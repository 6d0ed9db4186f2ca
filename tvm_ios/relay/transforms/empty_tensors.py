"""Removal of operators that compute no element: their results become constants without bytes.

Goes before TVM's pipeline. Zeros in shapes come from slices and splits of nothing, and from models
of detection on an image with no box. TVM divides by them in kernels of some operators
(``batch_flatten``, ``argmax``, seen in TVM 0.17), which have nothing to compute.
"""

from __future__ import annotations

import tvm
from tvm import relay

from tvm_ios.relay.dataflow import copy_call, graph_order, rebuild, with_body

__all__ = ["fold_empty_tensors"]


def fold_empty_tensors(module: tvm.IRModule) -> tvm.IRModule:
    """Module in which expressions with a zero in their shape are constants.

    Inputs stay, and so do operators with elements that read empty tensors, such as a sum.
    """
    main = module["main"]
    known: dict[relay.Expr, relay.Expr] = {
        expression: _nothing(expression.checked_type)
        for expression in graph_order(main.body)
        if isinstance(expression, (relay.Call, relay.TupleGetItem))
        and _is_empty(expression.checked_type)
    }
    return with_body(module, rebuild(main.body, known, copy_call)) if known else module


def _is_empty(type_: tvm.ir.Type) -> bool:
    return isinstance(type_, tvm.ir.TensorType) and any(
        isinstance(extent, tvm.tir.IntImm) and int(extent) == 0 for extent in type_.shape
    )


def _nothing(type_: tvm.ir.TensorType) -> relay.Constant:
    return relay.Constant(tvm.nd.empty([int(extent) for extent in type_.shape], str(type_.dtype)))
