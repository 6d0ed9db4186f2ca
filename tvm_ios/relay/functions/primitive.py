"""Kind and cost of one fused function: floating-point operations, bytes, workload key."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import relay

from tvm_ios.relay.dataflow import all_calls, is_call_of
from tvm_ios.relay.functions.packed_product import PACKED_DENSE
from tvm_ios.relay.functions.quantised import is_whole_weight
from tvm_ios.relay.functions.stored_types import computed_in_float32

__all__ = [
    "PrimitiveFacts",
    "analyse_primitive",
    "call_attribute",
    "flops_of",
    "kernel_digest",
    "type_bytes",
    "type_elements",
    "unlabelled",
]

MOVES = frozenset(
    {
        "annotation.stop_fusion",
        "broadcast_to",
        "cast",
        "concatenate",
        "copy",
        "device_copy",
        "expand_dims",
        "full",
        "gather",
        "layout_transform",
        "nn.batch_flatten",
        "nn.pad",
        "ones",
        "reshape",
        "reverse",
        "split",
        "squeeze",
        "stack",
        "strided_slice",
        "take",
        "tile",
        "transpose",
        "zeros",
    }
)
"""Operators that move data and compute nothing."""
TRANSPOSED = frozenset({"nn.conv1d_transpose", "nn.conv2d_transpose", "nn.conv3d_transpose"})
"""Convolutions that make a window of outputs from each element they read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrimitiveFacts:
    """Facts on one fused function for the operator graph."""

    kind: str
    flops: int
    memory_bytes: int
    output_elements: int
    whole: bool
    """True if it multiplies whole numbers of one byte."""
    workload: str
    """Kind and digest of body, attributes, shapes and types, without names and argument values."""


def analyse_primitive(function: relay.Function, digest: str | None = None) -> PrimitiveFacts:
    """Facts on a fused, typed function; ``digest`` is its :func:`kernel_digest`, where known.

    A multiplication and an addition count as two operations; moving data counts as none.
    """
    calls = all_calls(computed_in_float32(function).computed.body)
    types = [parameter.checked_type for parameter in function.params]
    kind = _kind(calls)
    return PrimitiveFacts(
        kind=kind,
        flops=sum(flops_of(call) for call in calls),
        memory_bytes=sum(map(type_bytes, types)) + type_bytes(function.body.checked_type),
        output_elements=type_elements(function.body.checked_type),
        whole=any(map(is_whole_weight, all_calls(function.body)))
        and not any(is_call_of(call, PACKED_DENSE) for call in calls),
        workload=f"{kind}-{digest or kernel_digest(function)}",
    )


def unlabelled(function: relay.Function) -> relay.Function:
    """Function without the labels TVM derives from its body: hash and layouts.

    TVM keeps a label that is there already, even a wrong one, so labels go before a build.
    """
    names = [] if function.attrs is None else [str(n) for n in function.attrs.keys()]  # noqa: SIM118
    for name in names:
        if name in ("hash", "layout") or name.endswith("_layout"):
            function = function.without_attr(name)
    return function


def kernel_digest(function: relay.Function) -> str:
    """Digest of body, attributes, shapes and types, which TVM labels the function with.

    Names do not count; equal in every process.
    """
    value = int(tvm.ir.structural_hash(unlabelled(function), map_free_vars=False))
    # TVM hands its 64 bits over as a signed number.
    return f"{value & (2**64 - 1):016x}"


def call_attribute(call: relay.Call, name: str, default: Any = None) -> Any:
    """Attribute of an operator call, or the default without such an attribute."""
    return default if call.attrs is None else getattr(call.attrs, name, default)


def type_bytes(type_: tvm.ir.Type) -> int:
    """Bytes of a tensor or of all tensors in a tuple; 0 where a dimension is dynamic."""
    if isinstance(type_, tvm.ir.TupleType):
        return sum(type_bytes(field) for field in type_.fields)
    bits = tvm.DataType(type_.dtype)
    return type_elements(type_) * max(1, (int(bits.bits) * int(bits.lanes) + 7) // 8)


def _operator_name(call: relay.Call) -> str:
    return str(call.op.name) if isinstance(call.op, tvm.ir.Op) else "call"


def _kind(calls: list[relay.Call]) -> str:
    """Heaviest sort of operator in a function, by the name that people use."""
    names = [_operator_name(call) for call in calls]
    for call, name in zip(calls, names, strict=True):
        if name in TRANSPOSED:
            return name.removeprefix("nn.")
        # Winograd's name ends in without_weight_transform, and it is a convolution all the same.
        if "conv2d" in name and "weight_transform" not in name.removesuffix(
            "without_weight_transform"
        ):
            return "depthwise_conv2d" if _is_depthwise(call) else "conv2d"
    if {"einsum", "nn.softmax"} <= {*names}:
        return "attention"
    for part, kind in (
        ("conv1d", "conv1d"),
        ("conv3d", "conv3d"),
        ("conv", "conv"),
        ("dense", "dense"),
        ("matmul", "matmul"),
        ("softmax", "softmax"),
        ("pool", ""),
        ("concatenate", "concatenate"),
    ):
        for name in names:
            if part in name:
                return kind or name.removeprefix("nn.")
    if any(_is_sum_of_norm(call, calls[-1]) for call in calls):
        return "norm"
    return names[-1].removeprefix("nn.") if names else "identity"


def _is_sum_of_norm(call: relay.Call, last: relay.Call) -> bool:
    """True if a call sums up what the last one, as a norm does, makes something as large of."""
    return _operator_name(call) == "einsum" and type_elements(call.checked_type) < type_elements(
        last.checked_type
    )


def _is_depthwise(call: relay.Call) -> bool:
    groups = int(call_attribute(call, "groups", 1))
    return groups > 1 and groups == _channels(call, call.args[0].checked_type)


def _channels(call: relay.Call, tensor: tvm.ir.TensorType) -> int:
    """Channels that a convolution reads or makes, whatever its layout."""
    layout = str(call_attribute(call, "data_layout", "NCHW"))
    letters = [letter for letter in layout if letter.isalpha()]
    extents = zip(letters, tensor.shape, strict=True)
    return math.prod(int(extent) for letter, extent in extents if letter.upper() == "C")


def type_elements(type_: tvm.ir.Type) -> int:
    """Elements of a tensor or of all tensors in a tuple; 0 where a dimension is dynamic."""
    if isinstance(type_, tvm.ir.TupleType):
        return sum(type_elements(field) for field in type_.fields)
    extents = list(type_.shape)  # which TVM hands over one by one
    if not all(isinstance(extent, tvm.tir.IntImm) for extent in extents):
        return 0
    return math.prod(extent.value for extent in extents)


def flops_of(call: relay.Call) -> int:
    """Floating-point operations of a typed call; moving data counts as none."""
    name = _operator_name(call)
    outputs = type_elements(call.checked_type)
    if name in MOVES or "weight_transform" in name.removesuffix("without_weight_transform"):
        return 0
    if name in TRANSPOSED:
        # Every element read goes to a window of every channel made.
        read = type_elements(call.args[0].checked_type)
        groups = int(call_attribute(call, "groups", 1))
        made = _channels(call, call.checked_type)
        return 2 * read * _window(call, "kernel_size") * made // groups
    if "conv" in name and call_attribute(call, "kernel_size") is not None:
        groups = int(call_attribute(call, "groups", 1))
        read = _channels(call, call.args[0].checked_type)
        return 2 * outputs * _window(call, "kernel_size") * read // groups
    if "dense" in name or "matmul" in name:
        axis = -2 if call_attribute(call, "transpose_a", False) else -1
        return 2 * outputs * int(call.args[0].checked_type.shape[axis])
    if name == "einsum":
        return _flops_of_sums(call)
    if "pool" in name:
        whole = call_attribute(call, "pool_size") is None
        inputs = type_elements(call.args[0].checked_type)
        return inputs if whole else outputs * _window(call, "pool_size")
    return outputs


def _flops_of_sums(call: relay.Call) -> int:
    """Operations of an ``einsum``: an addition and, of two operands, a product for each term."""
    sides = str(call.attrs.equation).split("->")[0].split(",")
    extents: dict[str, int] = {}
    for letters, type_ in zip(sides, call.args[0].checked_type.fields, strict=True):
        extents.update(zip(letters, map(int, type_.shape), strict=True))
    return len(sides) * math.prod(extents.values())


def _window(call: relay.Call, attribute: str) -> int:
    return math.prod(int(extent) for extent in call_attribute(call, attribute))
