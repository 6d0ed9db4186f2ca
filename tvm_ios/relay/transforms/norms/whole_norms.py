"""Norms kept whole: each becomes one fused function, which one kernel computes row by row.

Goes behind the choice of layouts and in front of fusion. TVM fuses nothing across a reduction, so a
layer norm would be three kernels, each of which reads the tensor once more. Found is any group of
element-wise operators and reductions with one result as large as what is reduced: layer, group,
instance, RMS and L2 norms with their neighbours, however they were written.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import tvm
from tvm import relay
from tvm.relay.op import OpPattern

from tvm_ios.relay.constants import is_scalar
from tvm_ios.relay.dataflow import (
    children,
    copy_call,
    fusion_pattern,
    graph_order,
    is_call_of,
    rebuild,
    with_body,
)
from tvm_ios.relay.row_kernels import has_row_kernel
from tvm_ios.relay.transforms.norms.sums import SUMS, as_einsum
from tvm_ios.support.exact_bits import bits_may_change

__all__ = ["keep_norms_whole"]

MOVES = ("expand_dims", "layout_transform", "reshape", "squeeze", "transpose")
MOST_OPERATORS = 48
"""Most operators of a group, so that long chains behind a norm are not tried one by one."""

Readers = Mapping[relay.Expr, Sequence[relay.Expr]]


def keep_norms_whole(module: tvm.IRModule, target: tvm.target.Target) -> tuple[tvm.IRModule, int]:
    """Module in which each norm is one fused function, and their number.

    Only for CPUs, and where bits may change.
    """
    if target.kind.name != "llvm" or not bits_may_change():
        return module, 0
    order = graph_order(module["main"].body)
    readers = _readers(order)
    place = {expression: number for number, expression in enumerate(order)}
    taken: set[relay.Expr] = set()
    known_kernels: dict[int, bool] = {}
    wholes: dict[relay.Call, tuple[relay.Function, list[relay.Expr]]] = {}
    for begin in order:
        if begin in taken or not is_call_of(begin, *SUMS):
            continue
        for behind in reversed(list(_groups(begin, order[place[begin] :], readers))):
            if not taken.isdisjoint(behind):
                continue
            for moves in (True, False):
                group = _with_what_comes_before(behind, readers, taken, moves=moves)
                members = sorted(group, key=place.__getitem__)
                found = _function(members, target, known_kernels)
                if found is not None:
                    break
            if found is not None:
                wholes[members[-1]] = found
                taken.update(group)
                break
    if not wholes:
        return module, 0
    known: dict[relay.Expr, relay.Expr] = {}

    def called(call: relay.Call, arguments: list[relay.Expr]) -> relay.Expr:
        if call not in wholes:
            return copy_call(call, arguments)
        function, inputs = wholes[call]
        return relay.Call(function, [known[each] for each in inputs], span=call.span)

    return with_body(module, rebuild(module["main"].body, known, called)), len(wholes)


def _readers(order: Sequence[relay.Expr]) -> Readers:
    """Expressions that read each expression; the result is read by nobody that can join a group."""
    readers: dict[relay.Expr, list[relay.Expr]] = defaultdict(list)
    for expression in order:
        for child in children(expression):
            readers[child].append(expression)
    readers[order[-1]].append(relay.Tuple([]))
    return readers


def _groups(
    begin: relay.Call, order: Sequence[relay.Expr], readers: Readers
) -> Iterator[set[relay.Expr]]:
    """Groups of operators behind a reduction with one result, a whole tensor; the smallest first.

    ``order`` begins with the reduction.
    """
    group: set[relay.Expr] = set()
    size = _size(begin.args[0])
    for expression in order:
        if expression is not begin:
            if not any(child in group for child in children(expression)):
                continue
            if not _may_join(expression) or len(group) == MOST_OPERATORS:
                return
        group.add(expression)
        ends = [each for each in group if any(reader not in group for reader in readers[each])]
        if ends == [expression] and _size(expression) == size:
            yield set(group)


def _may_join(expression: relay.Expr) -> bool:
    return is_call_of(expression, *SUMS, *MOVES) or _is_element_wise(expression)


def _is_element_wise(expression: relay.Expr) -> bool:
    return fusion_pattern(expression) <= int(OpPattern.BROADCAST)


def _size(expression: relay.Expr) -> int:
    type_ = expression.checked_type
    if not isinstance(type_, tvm.ir.TensorType):
        return -1
    if not all(isinstance(extent, tvm.tir.IntImm) for extent in type_.shape):
        return -1
    return math.prod(int(extent) for extent in type_.shape)


def _with_what_comes_before(
    group: set[relay.Expr], readers: Readers, taken: set[relay.Expr], *, moves: bool
) -> set[relay.Expr]:
    """Group with the element-wise operators, and moves of data, whose results only it reads."""
    whole = set(group)
    pending = list(group)
    while pending:
        for child in children(pending.pop()):
            if (
                child not in whole
                and child not in taken
                and all(reader in whole for reader in readers[child])
                and (
                    (_is_element_wise(child) and not _ends_a_product(child, readers))
                    or (moves and is_call_of(child, *MOVES))
                )
            ):
                whole.add(child)
                pending.append(child)
    return whole


def _ends_a_product(expression: relay.Expr, readers: Readers) -> bool:
    """True if TVM would compute an element-wise operator in the kernel of a product."""
    pending = [expression]
    while pending:
        for child in children(pending.pop()):
            if len(readers[child]) > 1:
                continue
            if fusion_pattern(child) == int(OpPattern.OUT_ELEMWISE_FUSABLE):
                return True
            if _is_element_wise(child):
                pending.append(child)
    return False


def _function(
    members: Sequence[relay.Call], target: tvm.target.Target, known_kernels: dict[int, bool]
) -> tuple[relay.Function, list[relay.Expr]] | None:
    """Fused function of a group, and what it is called with; None if no row kernel computes it.

    ``known_kernels`` says by hash whether one computes a function; networks repeat their norms.
    """
    inputs: dict[relay.Expr, relay.Var] = {}
    for member in members:
        for child in children(member):
            if child in members or child in inputs or is_scalar(child):
                continue
            inputs[child] = relay.Var(f"p{len(inputs)}", child.checked_type)
    known: dict[relay.Expr, relay.Expr] = dict(inputs)
    for member in members:
        arguments = [known.get(each, each) for each in member.args]
        make = as_einsum if is_call_of(member, *SUMS) else copy_call
        known[member] = make(member, arguments)
    function = relay.Function(list(inputs.values()), known[members[-1]])
    typed = relay.transform.InferType()(tvm.IRModule.from_expr(function))["main"]
    key = tvm.ir.structural_hash(typed)
    if key not in known_kernels:
        known_kernels[key] = has_row_kernel(typed, target)
    if not known_kernels[key]:
        return None
    return function.with_attr("Primitive", tvm.tir.IntImm("int32", 1)), list(inputs)
