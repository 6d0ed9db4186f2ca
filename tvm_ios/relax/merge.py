"""Kernels of a merge stage: one convolution of all members, and slices of it.

The geometry comes from :mod:`tvm_ios.core.merge_rule`. What the members compute stands in their
notes: the merged convolution is written as operators of Relax and prepared as a model is, so it has
a note, loops and a workload as well. At batch one in NCHW each slice is contiguous, so the memory
plan can make it a view. A concatenation of exactly the members is the merged convolution itself,
and a member that only it reads needs no slice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tvm
from tvm import relax, te, topi

from tvm_ios.core.convolution_pattern import ConvolutionPattern
from tvm_ios.core.fused_function import PrimitiveCall
from tvm_ios.core.merge_outputs import MergeOutputs
from tvm_ios.core.merge_rule import MergedConvolution
from tvm_ios.errors import ScheduleError
from tvm_ios.plan.merge_effects import stage_outputs
from tvm_ios.plan.merged_convolution import merged_arguments, merged_geometry, pattern_of
from tvm_ios.relax.element_wise import ELEMENT_WISE
from tvm_ios.relax.extract import Extraction, extract
from tvm_ios.relax.prepare import PreparedModule, prepare
from tvm_ios.relax.schedules.in_force import with_own_loops

__all__ = ["emit_merged", "merge_stage_module"]


def emit_merged(
    builder: relax.BlockBuilder,
    extraction: Extraction,
    outputs: MergeOutputs,
    operand: relax.Var,
    target: tvm.target.Target,
) -> list[relax.Var]:
    """Results of a merge stage that reads ``operand``, whose kernels a builder gets.

    They are the concatenation that the merged convolution computes, if any, then slices of members,
    in the order of their channels.
    """
    graph, members = extraction.graph, outputs.members
    patterns = [pattern_of(graph, extraction.patterns, index) for index in members]
    geometry = merged_geometry(graph, members)
    fixed = [
        {n: array for n, array in enumerate(extraction.constants_of(index)) if array is not None}
        for index in members
    ]
    arguments = merged_arguments(patterns, fixed, geometry)
    merged = prepare(_as_model(patterns[0], arguments, geometry), None, target)
    whole = builder.emit(_call(builder, merged, [operand]))
    made = [] if outputs.whole is None else [whole]
    axis = patterns[0].channel_axis
    for index, place in zip(members, geometry.members, strict=True):
        if index in outputs.sliced:
            begin, end = (
                channel // patterns[0].block
                for channel in (place.out_channel_begin, place.out_channel_end)
            )
            piece = _slice(whole.ty, axis, begin, end, target)
            made.append(builder.emit(_call(builder, piece, [whole])))
    return made


def merge_stage_module(
    extraction: Extraction, members: Sequence[int], target: tvm.target.Target
) -> tvm.IRModule:
    """Prepared module that computes exactly one merge stage, to be built and priced by itself.

    ``main`` takes the shared operand and returns what others in the network read, as
    :func:`emit_merged` has it.
    """
    outputs = stage_outputs(extraction, members)
    pattern = pattern_of(extraction.graph, extraction.patterns, members[0])
    builder = relax.BlockBuilder()
    given = pattern.function.parameters[pattern.data]
    operand = relax.Var("operand", relax.TensorType(given.shape, given.dtype))
    with builder.function("main", [operand]):
        with builder.dataflow():
            made = emit_merged(builder, extraction, outputs, operand, target)
            result = builder.emit_output(relax.Tuple(made))
        builder.emit_func_output(result)
    return builder.finalize()


def _as_model(
    pattern: ConvolutionPattern,
    arguments: Mapping[int, np.ndarray],
    geometry: MergedConvolution,
) -> tvm.IRModule:
    """Model in operators of Relax, of a function like the pattern's with other constants."""
    function = pattern.function
    given = function.parameters[pattern.data]
    operand = relax.Var("operand", relax.TensorType(given.shape, given.dtype))
    values: list[relax.Expr] = [
        relax.const(arguments[index], each.dtype) if index in arguments else operand
        for index, each in enumerate(function.parameters)
    ]
    builder = relax.BlockBuilder()
    with builder.function("main", [operand]):
        with builder.dataflow():
            for call in function.calls:
                made = _expression(call, [values[each] for each in call.operands], geometry)
                values.append(made if call.operator == "constant" else builder.emit(made))
            result = builder.emit_output(values[-1])
        builder.emit_func_output(result)
    return builder.finalize()


def _expression(
    call: PrimitiveCall, operands: Sequence[relax.Expr], geometry: MergedConvolution
) -> relax.Expr:
    attributes: dict[str, Any] = dict(call.attributes)
    if call.operator == "constant":
        return relax.const(attributes["value"], call.result.dtype)
    if call.operator == "nn.conv2d":
        padding = geometry.padding
        attributes |= {"padding": padding, "out_dtype": call.result.dtype}
        return relax.op.nn.conv2d(*operands, **attributes)
    return ELEMENT_WISE[call.operator](*operands, **attributes)


def _slice(
    whole: relax.TensorType, axis: int, begin: int, end: int, target: tvm.target.Target
) -> PreparedModule:
    """Module of one kernel that copies a range of channels."""
    shape, dtype = list(whole.shape.values), str(whole.dtype)
    source = te.placeholder(shape, dtype, "merged")
    copied = topi.strided_slice(source, [begin], [end], [1], [axis])
    kernel = te.create_prim_func([source, copied]).without_attr("global_symbol")
    builder = relax.BlockBuilder()
    operand = relax.Var("merged", whole)
    variable = builder.add_func(kernel, "strided_slice")
    shape[axis] = end - begin
    with builder.function("main", [operand]):
        with builder.dataflow():
            call = relax.call_tir(variable, [operand], relax.TensorType(shape, dtype))
            made = builder.emit_output(call)
        builder.emit_func_output(made)
    module = with_own_loops(extract(builder.finalize()), target)
    return PreparedModule(module=module, target=target)


def _call(
    builder: relax.BlockBuilder, prepared: PreparedModule, operands: Sequence[relax.Expr]
) -> relax.Call:
    """Call of the only kernel of a prepared model, which a builder gets, on other operands."""
    line = prepared.extraction.line
    if len(line.calls) != 1:
        found = ", ".join(operator.name for operator in prepared.extraction.graph.operators)
        raise ScheduleError(
            f"TVM makes several kernels of one merged convolution: {found}; search without merges"
        )
    (read,) = line.calls
    variable = read.call.args[0]
    kernel = builder.add_func(prepared.module[variable], variable.name_hint)
    new = dict(zip(prepared.extraction.main.params, operands, strict=True))
    arguments = [new.get(each, each) for each in read.call.args[1].fields]
    return relax.Call(read.call.op, [kernel, relax.Tuple(arguments)], None, read.call.ty_args)
