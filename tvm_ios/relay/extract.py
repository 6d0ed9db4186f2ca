"""Extraction of the operator graph that the search works on from a fused Relay module."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import tvm
from tvm import relay

from tvm_ios.core.convolution_pattern import IN_BLOCKS, ConvolutionPattern, match_convolution
from tvm_ios.core.graph import (
    Convolution,
    Coverage,
    Obstacle,
    Operator,
    OperatorGraph,
    unique_names,
)
from tvm_ios.errors import ModelError
from tvm_ios.plan.placement import ConcatView, SliceView
from tvm_ios.relay.constants import is_array
from tvm_ios.relay.dataflow import (
    all_calls,
    callee,
    copy_call,
    has_main,
    is_call_of,
    kernel_calls,
    producers_of,
    rebuild,
    resolve_field,
    with_body,
)
from tvm_ios.relay.functions.fused_function import describe_function
from tvm_ios.relay.functions.primitive import (
    PrimitiveFacts,
    analyse_primitive,
    kernel_digest,
    unlabelled,
)
from tvm_ios.relay.functions.stored_types import computed_in_float32
from tvm_ios.relay.functions.views import joined_arguments, view_of
from tvm_ios.relay.obstacles import is_dynamic, is_primitive, obstacles_of
from tvm_ios.relay.stage_ir import flatten, is_partitioned

__all__ = [
    "Extraction",
    "convolution_pattern",
    "extract",
    "is_prepared",
    "unlabelled_calls",
    "unlabelled_module",
]

POINTWISE = frozenset({0, 1})
"""Values of TVM's operator patterns kElemWise and kBroadcast."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extraction:
    """An operator graph and the IR that each operator stands for."""

    module: tvm.IRModule
    """Fused, typed module that the operators were taken from."""
    graph: OperatorGraph
    calls: tuple[relay.Call, ...]
    """Kernel call of every operator, in graph order."""
    views: tuple[SliceView | ConcatView | None, ...]
    patterns: tuple[ConvolutionPattern | None, ...]
    """Parts of each mergeable convolution; None for other operators."""
    outputs: tuple[int, ...]
    """Operators whose results ``main`` returns, ascending."""
    joins: tuple[tuple[int, ...], ...]
    """Mergeable convolutions whose channels an operator concatenates, in order; empty for operators
    that are no such concatenation."""
    coverage: Coverage


def is_prepared(module: tvm.IRModule) -> bool:
    """True if ``main`` is straight-line code of fused functions, as ``prepare`` leaves it."""
    if not has_main(module):
        return False
    main = module["main"]
    try:
        calls = kernel_calls(main.body) if isinstance(main, relay.Function) else []
    except ModelError:
        return False
    return bool(calls) and all(_is_kernel(module, call) for call in calls)


def extract(module: tvm.IRModule, *, name: str = "main") -> Extraction:
    """Operator graph of a prepared module, with its IR.

    A module that no graph executor runs (control flow, dynamic shapes) gives a graph without
    operators, and a coverage that says why. A partitioned module is read with its stages inlined.

    Raises
    ------
    ModelError
        If ``main`` is missing or not fused.
    """
    if not has_main(module):
        raise ModelError("the module has no function 'main'; name the model's function 'main'")
    whole = flatten(module).module if is_partitioned(module) else module
    typed = relay.transform.InferType()(whole)
    obstacles = obstacles_of(typed)
    if obstacles:
        return _nothing(typed, name, obstacles)
    typed = unlabelled_module(typed)
    calls = tuple(kernel_calls(typed["main"].body))
    for call in calls:
        if not _is_kernel(typed, call) and not is_call_of(call, "device_copy"):
            raise ModelError(
                f"main calls {_call_name(call)}, which is not fused; "
                "prepare the module first with tvm_ios.relay.prepare"
            )
    return _extraction(typed, name, calls)


def unlabelled_module(module: tvm.IRModule) -> tvm.IRModule:
    """Typed module with its kernels as they are before TVM labels them."""
    main = module["main"]
    functions = {call.op for call in kernel_calls(main.body) if isinstance(call.op, relay.Function)}
    if all(unlabelled(function).same_as(function) for function in functions):
        return module
    return with_body(module, rebuild(main.body, {}, unlabelled_calls()))


def unlabelled_calls() -> Callable[[relay.Call, list[relay.Expr]], relay.Call]:
    """Function that copies calls on other arguments, with kernels as before TVM labels them."""
    known: dict[relay.Function, relay.Function] = {}

    def copy(call: relay.Call, arguments: list[relay.Expr]) -> relay.Call:
        if not isinstance(call.op, relay.Function):
            return copy_call(call, arguments)
        if call.op not in known:
            known[call.op] = unlabelled(call.op)
        return relay.Call(known[call.op], arguments, call.attrs, call.type_args, call.span)

    return copy


def _extraction(module: tvm.IRModule, name: str, calls: tuple[relay.Call, ...]) -> Extraction:
    known: dict[str, PrimitiveFacts] = {}
    facts = [_facts(module, call, known) for call in calls]
    reasons = [_barrier_reason(module, call) for call in calls]
    names = unique_names([fact.kind for fact in facts])
    index_of = {call: index for index, call in enumerate(calls)}
    patterns = [
        convolution_pattern(call) if reason is None else None
        for call, reason in zip(calls, reasons, strict=True)
    ]
    views = tuple(
        view_of(call.op, list(call.args)) if reason is None else None
        for call, reason in zip(calls, reasons, strict=True)
    )
    operators = [
        Operator(
            name=names[index],
            kind=facts[index].kind,
            predecessors=_predecessors(call, index_of),
            workload=facts[index].workload,
            flops=facts[index].flops,
            memory_bytes=facts[index].memory_bytes,
            output_elements=facts[index].output_elements,
            view=views[index] is not None,
            whole=facts[index].whole,
            convolution=_convolution(patterns[index], call, index_of, names),
            schedulable=reasons[index] is None,
        )
        for index, call in enumerate(calls)
    ]
    mergeable = tuple(
        pattern if operator.convolution is not None else None
        for pattern, operator in zip(patterns, operators, strict=True)
    )
    return Extraction(
        module=module,
        graph=OperatorGraph(name, tuple(operators)),
        calls=calls,
        views=views,
        patterns=mergeable,
        outputs=tuple(sorted({index_of[made] for made in producers_of(module["main"].body)})),
        joins=tuple(
            () if reason is not None else _joined_convolutions(call, index_of, mergeable)
            for call, reason in zip(calls, reasons, strict=True)
        ),
        coverage=Coverage.of(
            operators,
            (Obstacle(own, reason) for own, reason in zip(names, reasons, strict=True) if reason),
        ),
    )


def _nothing(module: tvm.IRModule, name: str, obstacles: tuple[Obstacle, ...]) -> Extraction:
    coverage = Coverage(
        scheduled_operators=0,
        total_operators=len(all_calls(module["main"])),
        scheduled_flops=0,
        total_flops=0,
        barriers=obstacles,
    )
    return Extraction(
        module=module,
        graph=OperatorGraph(name, ()),
        calls=(),
        views=(),
        patterns=(),
        outputs=(),
        joins=(),
        coverage=coverage,
    )


def _is_kernel(module: tvm.IRModule, call: relay.Call) -> bool:
    function = callee(module, call)
    return function is not None and is_primitive(function)


def _call_name(call: relay.Call) -> str:
    if isinstance(call.op, tvm.ir.Op):
        return f"operator {call.op.name!r}"
    return str(call.op) if isinstance(call.op, relay.GlobalVar) else "a local function"


def _facts(
    module: tvm.IRModule, call: relay.Call, known: dict[str, PrimitiveFacts]
) -> PrimitiveFacts:
    """Facts on an operator; equal functions, by their digest in ``known``, are read once."""
    function = callee(module, call)
    if function is None:
        kind = call.op.name
        digest = tvm.ir.structural_hash(call.checked_type) & (2**64 - 1)
        return PrimitiveFacts(
            kind=kind,
            flops=0,
            memory_bytes=0,
            output_elements=0,
            whole=False,
            workload=f"{kind}-{digest:016x}",
        )
    digest = kernel_digest(function)
    if digest not in known:
        known[digest] = analyse_primitive(function, digest)
    return known[digest]


def _barrier_reason(module: tvm.IRModule, call: relay.Call) -> str | None:
    """Reason why an operator is not understood; None where it is."""
    function = callee(module, call)
    if function is None:
        return "a copy between devices"
    if not isinstance(call.op, relay.Function) or "Compiler" in function.attrs:
        return "compiled by an external code generator"
    if not isinstance(call.checked_type, tvm.ir.TensorType):
        return "several outputs"
    if is_dynamic(call.checked_type):
        return "a dynamic shape"
    for inner in all_calls(function.body):
        if isinstance(inner.op, tvm.ir.Op) and inner.op.name.startswith("qnn."):
            return f"the quantised operator {inner.op.name}"
    return None


def _predecessors(call: relay.Call, index_of: dict[relay.Call, int]) -> tuple[int, ...]:
    indices = {index_of[made] for argument in call.args for made in producers_of(argument)}
    return tuple(sorted(indices))


def _joined_convolutions(
    call: relay.Call,
    index_of: dict[relay.Call, int],
    patterns: Sequence[ConvolutionPattern | None],
) -> tuple[int, ...]:
    """Mergeable convolutions whose channels a call concatenates, if it does just that."""
    found = joined_arguments(call.op, list(call.args))
    if found is None:
        return ()
    axis, pieces = found
    sources = [index_of.get(resolve_field(piece)) for piece in pieces]
    joined = tuple(source for source in sources if source is not None)
    own = [patterns[source] for source in joined]
    along = all(pattern is not None and pattern.channel_axis == axis for pattern in own)
    return joined if along and len(joined) == len(pieces) else ()


def convolution_pattern(call: relay.Call) -> ConvolutionPattern | None:
    """Pattern of a call whose weights and per-channel values are constants, else None."""
    function = describe_function(call.op)
    pattern = None if function is None else match_convolution(function, _is_pointwise)
    if pattern is None:
        return None
    if pattern.convolution.operator != IN_BLOCKS and pattern.block > 1:
        return None  # TVM lowers it in another way than those that merging makes
    fixed = {index: call.args[index] for index in (pattern.weight, *pattern.channelwise)}
    stored = computed_in_float32(call.op).parameters
    known = all(
        is_array(each) or (index in stored and isinstance(each, relay.Constant))
        for index, each in fixed.items()
    )
    return pattern if known else None


def _is_pointwise(operator: str) -> bool:
    return tvm.ir.Op.get(operator).get_attr("TOpPattern") in POINTWISE


def _convolution(
    pattern: ConvolutionPattern | None,
    call: relay.Call,
    index_of: dict[relay.Call, int],
    names: list[str],
) -> Convolution | None:
    if pattern is None:
        return None
    operand = _operand_name(call.args[pattern.data], index_of, names)
    return None if operand is None else pattern.described(operand)


def _operand_name(
    argument: relay.Expr, index_of: dict[relay.Call, int], names: list[str]
) -> str | None:
    """Text that names a tensor; None where it is not the plain output of an operator or input."""
    source = resolve_field(argument)
    if isinstance(source, relay.Var):
        return f"input {source.name_hint}"
    if isinstance(source, relay.Call):
        return names[index_of[source]]
    if isinstance(source, relay.TupleGetItem) and isinstance(source.tuple_value, relay.Call):
        return f"{names[index_of[source.tuple_value]]}.{source.index}"
    return None
