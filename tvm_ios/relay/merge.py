"""Kernels of a merge stage: one convolution of all members, and slices of it.

The geometry comes from :mod:`tvm_ios.core.merge_rule`. Weights are padded with zeros to the merged
kernel and laid one after another along the output channels, per-channel arguments likewise, in a
blocked layout by whole blocks. At batch one each slice is contiguous, so the memory plan can make
it a view. A concatenation of exactly the members is the merged convolution itself, and a member
that only it reads needs no slice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import tvm
from tvm import relay

from tvm_ios.core.convolution_pattern import IN_BLOCKS, ConvolutionPattern
from tvm_ios.core.merge_outputs import MergeOutputs
from tvm_ios.core.merge_rule import MergedConvolution
from tvm_ios.core.precision.low_precision import BFLOAT16, FLOAT32
from tvm_ios.core.precision.stored_type import IN_BFLOAT16
from tvm_ios.plan.merge_effects import stage_outputs
from tvm_ios.plan.merged_convolution import merged_arguments, merged_geometry, pattern_of
from tvm_ios.relay.constants import constant, values_of
from tvm_ios.relay.dataflow import is_call_of, rebuild
from tvm_ios.relay.extract import Extraction
from tvm_ios.relay.functions.primitive import call_attribute
from tvm_ios.relay.functions.stored_types import computed_in_float32, with_stored_types
from tvm_ios.relay.transforms.bfloat16 import rounded_constant

__all__ = [
    "MergedKernels",
    "merge_stage_module",
    "merged_kernels",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedKernels:
    """Calls that compute one merge stage."""

    convolution: relay.Call
    slices: dict[int, relay.Call]
    """Slice of each member that needs one, by member."""


def merged_kernels(
    extraction: Extraction, outputs: MergeOutputs, operand: relay.Expr
) -> MergedKernels:
    """Kernels of a merge stage that read ``operand``."""
    members, graph = outputs.members, extraction.graph
    geometry = merged_geometry(graph, members)
    calls = [extraction.calls[index] for index in members]
    patterns = [pattern_of(graph, extraction.patterns, index) for index in members]
    convolution = _merged_call(calls, patterns, geometry, operand)
    block, axis = patterns[0].block, patterns[0].channel_axis
    output = _with_channels(calls[0].checked_type, axis, geometry.out_channels // block)
    slices = {
        index: _slice_call(
            convolution,
            output,
            axis,
            place.out_channel_begin // block,
            place.out_channel_end // block,
        )
        for index, place in zip(members, geometry.members, strict=True)
        if index in outputs.sliced
    }
    return MergedKernels(convolution=convolution, slices=slices)


def merge_stage_module(extraction: Extraction, members: Sequence[int]) -> tvm.IRModule:
    """Module that computes exactly one merge stage, to be built and priced by itself.

    ``main`` takes the shared operand and returns what others in the network read: the concatenation
    that the merged convolution computes, if any, then slices for members, in order.
    """
    data = pattern_of(extraction.graph, extraction.patterns, members[0]).data
    operand = relay.Var("operand", extraction.calls[members[0]].args[data].checked_type)
    outputs = stage_outputs(extraction, members)
    kernels = merged_kernels(extraction, outputs, operand)
    whole = [] if outputs.whole is None else [kernels.convolution]
    main = relay.Function([operand], relay.Tuple([*whole, *kernels.slices.values()]))
    return relay.transform.InferType()(tvm.IRModule.from_expr(main))


def _merged_call(
    calls: Sequence[relay.Call],
    patterns: Sequence[ConvolutionPattern],
    geometry: MergedConvolution,
    operand: relay.Expr,
) -> relay.Call:
    """Call of a fused function like the first member's, with wider weights."""
    first, data = calls[0], patterns[0].data
    stored = computed_in_float32(first.op)
    function = stored.computed
    arguments = list(first.args)
    parameters = [relay.Var(old.name_hint, old.checked_type) for old in function.params]
    arguments[data] = operand
    fixed = [
        {index: values_of(call.args[index]) for index in (pattern.weight, *pattern.channelwise)}
        for call, pattern in zip(calls, patterns, strict=True)
    ]
    for position, array in merged_arguments(patterns, fixed, geometry).items():
        made = constant(array)
        low = stored.parameters.get(position) == IN_BFLOAT16
        arguments[position] = rounded_constant(made) if low else made
        old = function.params[position]
        type_ = relay.TensorType(array.shape, old.checked_type.dtype)
        parameters[position] = relay.Var(old.name_hint, type_)
    body = _merged_body(function, parameters, geometry)
    whole = with_stored_types(_fused(parameters, body), stored.parameters, stored.result)
    return relay.Call(whole, arguments)


def _merged_body(
    function: relay.Function, parameters: list[relay.Var], geometry: MergedConvolution
) -> relay.Expr:
    def widen(call: relay.Call, arguments: list[relay.Expr]) -> relay.Expr:
        if not is_call_of(call, "nn.conv2d", IN_BLOCKS):
            return relay.Call(call.op, arguments, call.attrs, call.type_args)
        make = relay.nn.conv2d if is_call_of(call, "nn.conv2d") else relay.nn.contrib_conv2d_nchwc
        kept = ("strides", "dilation", "data_layout", "kernel_layout", "out_layout", "out_dtype")
        return make(
            *arguments,
            padding=geometry.padding,
            groups=1,
            channels=geometry.out_channels,
            kernel_size=geometry.kernel,
            **{name: call_attribute(call, name) for name in kept},
        )

    return rebuild(function.body, dict(zip(function.params, parameters, strict=True)), widen)


def _with_channels(type_: tvm.ir.TensorType, axis: int, channels: int) -> tvm.ir.TensorType:
    shape = [int(extent) for extent in type_.shape]
    shape[axis] = channels
    return relay.TensorType(shape, type_.dtype)


def _slice_call(
    convolution: relay.Call, output: tvm.ir.TensorType, axis: int, begin: int, end: int
) -> relay.Call:
    low = str(output.dtype) == BFLOAT16
    source = relay.Var("merged", relay.TensorType(output.shape, FLOAT32) if low else output)
    body = relay.strided_slice(source, begin=[begin], end=[end], strides=[1], axes=[axis])
    stored = IN_BFLOAT16 if low else None
    function = with_stored_types(_fused([source], body), {0: stored} if stored else {}, stored)
    return relay.Call(function, [convolution])


def _fused(parameters: list[relay.Var], body: relay.Expr) -> relay.Function:
    # A fused function wants its result type written down before types are inferred around it.
    typed = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function(parameters, body)))
    function = typed["main"]
    return function.with_attr("Primitive", tvm.tir.IntImm("int32", 1))
