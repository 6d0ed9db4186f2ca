"""Extraction of the operator graph that the search works on from a prepared module of Relax."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import tvm
from tvm import relax

from tvm_ios.core.convolution_pattern import ConvolutionPattern, match_convolution
from tvm_ios.core.fused_function import FusedFunction
from tvm_ios.core.graph import (
    Convolution,
    Coverage,
    Obstacle,
    Operator,
    OperatorGraph,
    unique_names,
)
from tvm_ios.errors import ModelError
from tvm_ios.plan.data_type import dtype_bytes
from tvm_ios.plan.kernel_graph import GraphTensor
from tvm_ios.plan.placement import ConcatView, SliceView
from tvm_ios.relax.element_wise import ELEMENT_WISE
from tvm_ios.relax.ir import (
    Constant,
    call_name,
    is_call_tir,
    kind_of,
    main_of,
    operator_calls,
    static_tensors,
)
from tvm_ios.relax.kernel_text import kernel_text
from tvm_ios.relax.notes import noted_function
from tvm_ios.relax.straight_line import Made, ReadCall, StraightLine, Tree, leaves, read_main
from tvm_ios.relax.views import concatenation, is_reshape, view_of

__all__ = [
    "Extraction",
    "convolution_pattern",
    "extract",
    "functions_of",
    "inputs_of",
    "is_prepared",
    "kernel_of",
]

WORKLOAD, FLOPS = "tvm_ios_workload", "tvm_ios_flops"
"""Attributes of kernels whose loops no longer show what they compute."""
WHOLE = "tvm_ios_multiplies_bytes"
"""Attribute of kernels that multiply whole numbers of one byte."""
BY_CALL = ("relax.call_tir", "relax.call_dps_packed", "relax.call_pure_packed")
"""Operators of Relax that a prepared module may still call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extraction:
    """An operator graph and the Relax that each operator stands for."""

    module: tvm.IRModule
    main: relax.Function
    line: StraightLine
    """Calls of ``main``, one for each operator, in graph order."""
    graph: OperatorGraph
    views: tuple[SliceView | ConcatView | None, ...]
    """Slices and concatenations of whole pieces of memory; None for other operators."""
    patterns: tuple[ConvolutionPattern | None, ...]
    """Parts of each mergeable convolution; None for other operators."""
    outputs: tuple[int, ...]
    """Operators whose results ``main`` returns, ascending."""
    joins: tuple[tuple[int, ...], ...]
    """Mergeable convolutions whose channels an operator concatenates, in order; empty for operators
    that are no such concatenation."""
    reshapes: frozenset[int]
    """Operators whose output has the bytes of their input, so that nothing has to run."""
    coverage: Coverage

    def constants_of(self, operator: int) -> list[np.ndarray | None]:
        """Arguments of an operator's kernel: arrays of constants, None for other tensors."""
        return _constants(self.line.calls[operator])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Facts:
    """Properties of a kernel that all its calls share."""

    kind: str
    workload: str
    flops: int
    reshape: bool
    view: SliceView | ConcatView | None
    whole: bool = False


def is_prepared(module: tvm.IRModule) -> bool:
    """True if ``main`` calls kernels, and no operator that has yet to become one."""
    main = main_of(module)
    if main is None:
        return False
    called = [call_name(call) for call in operator_calls(main)]
    return "relax.call_tir" in called and set(called) <= set(BY_CALL)


def extract(module: tvm.IRModule, *, name: str = "main") -> Extraction:
    """Operator graph of a prepared module, with its Relax.

    A call that is no kernel of known shapes is a barrier. A module that is no straight line of such
    calls gives a graph without operators, and a coverage that says why. A partitioned module is
    read with its stages inlined.

    Raises
    ------
    ModelError
        If there is no ``main`` in Relax.
    """
    main = main_of(module)
    if main is None:
        raise ModelError(
            "the module has no function 'main' in Relax; name the model's function 'main'"
        )
    line = read_main(module, main)
    if line.obstacles:
        line = StraightLine(obstacles=line.obstacles)
    known: dict[tvm.ir.GlobalVar, _Facts] = {}
    facts = [_facts(module, call, known) for call in line.calls]
    reasons = [None if kernel_of(module, call) else _barrier_reason(call) for call in line.calls]
    names = unique_names([fact.kind for fact in facts])
    patterns = tuple(_pattern(module, call) for call in line.calls)
    operators = tuple(
        Operator(
            name=own,
            kind=fact.kind,
            predecessors=_predecessors(call),
            workload=fact.workload,
            flops=fact.flops,
            memory_bytes=sum(map(_bytes, (*inputs_of(line, call), *call.outputs))),
            output_elements=sum(math.prod(tensor.shape) for tensor in call.outputs),
            view=fact.reshape or fact.view is not None,
            convolution=_convolution(pattern, line, call, names),
            whole=fact.whole,
            schedulable=reason is None,
        )
        for own, fact, call, reason, pattern in zip(
            names, facts, line.calls, reasons, patterns, strict=True
        )
    )
    barriers = (Obstacle(own, reason) for own, reason in zip(names, reasons, strict=True) if reason)
    return Extraction(
        module=module,
        main=main,
        line=line,
        graph=OperatorGraph(name, operators),
        views=tuple(fact.view for fact in facts),
        patterns=patterns,
        outputs=tuple(sorted({leaf.call for leaf in _made(line.result) if leaf.call >= 0})),
        joins=tuple(
            _joined_convolutions(line, call, fact, patterns)
            for call, fact in zip(line.calls, facts, strict=True)
        ),
        reshapes=frozenset(index for index, fact in enumerate(facts) if fact.reshape),
        coverage=Coverage.of(operators, (*line.obstacles, *barriers)),
    )


def kernel_of(module: tvm.IRModule, call: ReadCall) -> tvm.tirx.PrimFunc | None:
    """Kernel that a call runs; None if it runs anything else."""
    if not is_call_tir(call.call):
        return None
    function = module[call.call.args[0]]
    return function if isinstance(function, tvm.tirx.PrimFunc) else None


def functions_of(extraction: Extraction) -> list[FusedFunction | None]:
    """Function of each operator, in graph order; None of what no library could compute."""
    return [_function_of(extraction, call) for call in extraction.line.calls]


def _function_of(extraction: Extraction, call: ReadCall) -> FusedFunction | None:
    kernel = kernel_of(extraction.module, call)
    noted = None if kernel is None else noted_function(kernel)
    if noted is None:
        return None
    arguments = [call.reads.get(each, each) for each in call.call.args[1].fields]
    constants = [n for n, argument in enumerate(arguments) if isinstance(argument, Constant)]
    return replace(noted, constants=frozenset(constants))


def inputs_of(line: StraightLine, call: ReadCall) -> list[GraphTensor]:
    """Tensors that a call reads, constants included, in the order of its arguments."""
    if not is_call_tir(call.call):
        read = [leaf for tree in call.reads.values() for leaf in leaves(tree)]
    else:
        read = [
            leaf
            for argument in call.call.args[1].fields
            for leaf in leaves(call.reads.get(argument, argument))
        ]
    return [tensor for leaf in read for tensor in _tensors(line, leaf)]


def _tensors(line: StraightLine, leaf: object) -> tuple[GraphTensor, ...]:
    if isinstance(leaf, Made):
        if leaf.call < 0:
            return (line.parameters[leaf.output][1],)
        return (line.calls[leaf.call].outputs[leaf.output],)
    return (static_tensors(leaf.ty) or ()) if isinstance(leaf, Constant) else ()


def _predecessors(call: ReadCall) -> tuple[int, ...]:
    made = {
        leaf.call
        for tree in call.reads.values()
        for leaf in leaves(tree)
        if isinstance(leaf, Made) and leaf.call >= 0
    }
    return tuple(sorted(made))


def _made(tree: Tree) -> list[Made]:
    return [leaf for leaf in leaves(tree) if isinstance(leaf, Made)]


def _constants(call: ReadCall) -> list[np.ndarray | None]:
    arguments = [call.reads.get(each, each) for each in call.call.args[1].fields]
    return [each.value.numpy() if isinstance(each, Constant) else None for each in arguments]


def _pattern(module: tvm.IRModule, call: ReadCall) -> ConvolutionPattern | None:
    kernel = kernel_of(module, call)
    noted = None if kernel is None or len(call.outputs) != 1 else noted_function(kernel)
    return None if noted is None else convolution_pattern(noted, _constants(call))


def convolution_pattern(
    function: FusedFunction, fixed: Sequence[np.ndarray | None]
) -> ConvolutionPattern | None:
    """Pattern of a noted kernel; None where it is anything but a mergeable convolution.

    ``fixed`` are the arguments of the kernel that are constants, None for tensors.
    """
    if any(function.stored) or function.rounded_to is not None:
        return None  # merged weights would have to be stored in these types as well
    pattern = match_convolution(function, ELEMENT_WISE.__contains__)
    if pattern is None or fixed[pattern.data] is not None:
        return None
    known = all(fixed[index] is not None for index in (pattern.weight, *pattern.channelwise))
    return pattern if known else None


def _convolution(
    pattern: ConvolutionPattern | None, line: StraightLine, call: ReadCall, names: list[str]
) -> Convolution | None:
    if pattern is None:
        return None
    argument = call.call.args[1].fields[pattern.data]
    made = call.reads.get(argument)
    if not isinstance(made, Made):
        return None
    if made.call < 0:
        return pattern.described(f"input {line.parameters[made.output][0]}")
    alone = line.calls[made.call].alone
    name = names[made.call] if alone else f"{names[made.call]}.{made.output}"
    return pattern.described(name)


def _joined_convolutions(
    line: StraightLine,
    call: ReadCall,
    fact: _Facts,
    patterns: Sequence[ConvolutionPattern | None],
) -> tuple[int, ...]:
    """Mergeable convolutions whose channels a call concatenates, if it does just that."""
    if not is_call_tir(call.call) or len(call.outputs) != 1:
        return ()
    read = [
        leaf
        for argument in call.call.args[1].fields
        for leaf in leaves(call.reads.get(argument, argument))
    ]
    sources = [leaf.call for leaf in read if isinstance(leaf, Made) and leaf.call >= 0]
    own = [patterns[source] for source in sources]
    axes = {None if pattern is None else pattern.channel_axis for pattern in own}
    if len(sources) != len(read) or len(sources) < 2 or len(axes) != 1:
        return ()
    (axis,) = axes
    if axis is None:
        return ()
    # The loops may be ours by now, and the workload is of TVM's.
    text = concatenation(inputs_of(line, call), axis)
    return tuple(sources) if text and fact.workload == _workload(fact.kind, text) else ()


def _workload(kind: str, text: str) -> str:
    return f"{kind}-{hashlib.sha256(text.encode()).hexdigest()[:32]}"


def _facts(module: tvm.IRModule, call: ReadCall, known: dict[tvm.ir.GlobalVar, _Facts]) -> _Facts:
    """Facts on what a call runs; those of a kernel are found once."""
    function = kernel_of(module, call)
    if function is None:
        kind = call_name(call.call).removeprefix("relax.")
        return _Facts(kind=kind, workload=_opaque(call), flops=0, reshape=False, view=None)
    variable = call.call.args[0]
    if variable not in known and WORKLOAD in function.attrs:
        known[variable] = _Facts(
            kind=kind_of(variable.name_hint),
            workload=str(function.attrs[WORKLOAD]),
            flops=int(function.attrs[FLOPS]),
            reshape=False,
            view=None,
            whole=WHOLE in function.attrs,
        )
    if variable not in known:
        inputs = [tensor for piece in call.call.args[1].fields for tensor in _typed(piece)]
        reshape = is_reshape(function, inputs, call.outputs)
        plain = not reshape and len(call.outputs) == 1
        view = view_of(function, inputs, call.outputs[0]) if plain else None
        kind = kind_of(variable.name_hint)
        known[variable] = _Facts(
            kind=kind,
            workload=_workload(kind, kernel_text(function)),
            flops=_flops(function),
            reshape=reshape,
            view=view,
            whole=WHOLE in function.attrs,
        )
    return known[variable]


def _typed(expression: relax.Expr) -> tuple[GraphTensor, ...]:
    return static_tensors(expression.ty) or ()


def _flops(function: tvm.tirx.PrimFunc) -> int:
    """Floating-point operations of a kernel; 0 where TVM cannot count them."""
    try:
        return int(tvm.s_tir.analysis.estimate_tir_flops(tvm.IRModule({"main": function})))
    except (RuntimeError, ValueError, TypeError):
        return 0


def _opaque(call: ReadCall) -> str:
    """Workload of a call that is no kernel: its text and the shapes of its outputs."""
    pieces = [call_name(call.call), str(call.call.attrs), str(call.outputs)]
    if call.call.args and isinstance(call.call.args[0], relax.ExternFunc):
        pieces.append(str(call.call.args[0].global_symbol))
    return f"opaque-{hashlib.sha256(repr(pieces).encode()).hexdigest()[:32]}"


def _barrier_reason(call: ReadCall) -> str:
    return f"{call_name(call.call)}, which is no kernel of this module"


def _bytes(tensor: GraphTensor) -> int:
    return math.prod(tensor.shape) * dtype_bytes(tensor.dtype)
