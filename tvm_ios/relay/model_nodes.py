"""Nodes of a Relay module as its author wrote it, with their operations and bytes."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

import tvm
from tvm import relay
from tvm.relay.op import OpPattern

from tvm_ios.core.fusing import ModelNode, NodeRole
from tvm_ios.errors import ModelError
from tvm_ios.relay.dataflow import (
    children,
    computed_values,
    fusion_pattern,
    graph_order,
    has_main,
    is_call_of,
    producers_of,
    resolve_field,
)
from tvm_ios.relay.functions.primitive import flops_of, type_bytes, type_elements
from tvm_ios.relay.functions.quantised import DEQUANTIZE, FAKE_QUANTIZE
from tvm_ios.relay.transforms.bfloat16 import PRODUCTS

__all__ = ["model_nodes", "typed_if_plain"]

_VIEWS = (
    "concatenate",
    "copy",
    "expand_dims",
    "nn.batch_flatten",
    "nn.dropout",
    "reshape",
    "split",
    "squeeze",
    "strided_slice",
)


def typed_if_plain(mod: Any) -> tvm.IRModule | None:
    """Typed module whose ``main`` is straight-line code of TVM's operators; None for others.

    Much is left out that :func:`~tvm_ios.relay.inputs.check_module` checks, which takes longer.
    """
    if not isinstance(mod, tvm.IRModule) or not has_main(mod):
        return None
    try:
        typed = relay.transform.InferType()(mod)
        order = graph_order(typed["main"].body)
    except (tvm.TVMError, AttributeError, ModelError):  # what main is if it is no function
        return None
    calls = [each for each in order if isinstance(each, relay.Call)]
    return typed if all(isinstance(call.op, tvm.ir.Op) for call in calls) else None


def model_nodes(typed: tvm.IRModule, params: Container[str] = ()) -> tuple[ModelNode, ...]:
    """Nodes of a typed module whose ``main`` is straight-line code, in TVM's order.

    Nodes that depend on no input are constants, and left out; ``params`` are inputs that are none.
    """
    body = typed["main"].body
    order = graph_order(body)
    computed = computed_values(order, params)
    calls = [each for each in order if isinstance(each, relay.Call) and each in computed]
    number = {call: place for place, call in enumerate(calls)}
    results = set(producers_of(body))
    sizes = {each: type_bytes(each.checked_type) for each in order}
    return tuple(_described(call, number, sizes, is_output=call in results) for call in calls)


def _described(
    call: relay.Call,
    number: Mapping[relay.Call, int],
    sizes: Mapping[relay.Expr, int],
    *,
    is_output: bool,
) -> ModelNode:
    inputs: dict[int, int] = {}
    own_bytes = 0
    for argument in _tensors(call):
        size = sizes[argument]
        makers = [number[each] for each in producers_of(argument) if each in number]
        own_bytes += 0 if makers else size
        inputs |= dict.fromkeys(makers, size)
    return ModelNode(
        kind=call.op.name.removeprefix("nn."),
        role=_role(call),
        inputs=inputs,
        flops=flops_of(call),
        own_bytes=own_bytes,
        output_bytes=sizes[call],
        output_elements=_largest(call.checked_type),
        whole=_is_whole(call, number),
        is_output=is_output,
    )


def _is_whole(call: relay.Call, number: Mapping[relay.Call, int]) -> bool:
    """True for a product of whole numbers by constants, which are those of a quantised model."""
    if not is_call_of(call, *PRODUCTS) or not is_call_of(call.args[0], DEQUANTIZE, FAKE_QUANTIZE):
        return False
    return call.args[0] in number and call.args[1] not in number


def _tensors(call: relay.Call) -> list[relay.Expr]:
    """Arguments of a call, of which tuples that are built on the spot are their fields."""
    arguments = [resolve_field(each) for each in call.args]
    return [
        field
        for each in arguments
        for field in (children(each) if isinstance(each, relay.Tuple) else [each])
    ]


def _role(call: relay.Call) -> NodeRole:
    if is_call_of(call, *_VIEWS):
        return NodeRole.VIEW
    # TVM makes multiplications and additions of a norm by known statistics.
    if is_call_of(call, "nn.batch_norm") or fusion_pattern(call) <= OpPattern.BROADCAST:
        return NodeRole.FOLLOWS
    return NodeRole.COMPUTES


def _largest(type_: tvm.ir.Type) -> int:
    """Elements of a tensor, or of the largest one in a tuple."""
    fields = type_.fields if isinstance(type_, tvm.ir.TupleType) else [type_]
    return max(map(type_elements, fields), default=0)
