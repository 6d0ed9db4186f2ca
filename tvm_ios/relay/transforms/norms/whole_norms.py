"""Norms kept whole: each becomes one fused function, which one kernel computes row by row.

Goes behind the choice of layouts and in front of fusion. TVM fuses nothing across a reduction, so a
layer norm would be three kernels, each of which reads the tensor once more. Found is any group of
element-wise operators and reductions with one result as large as what is reduced: layer, group,
instance, RMS and L2 norms with their neighbours, however they were written.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial

import tvm
from tvm import relay
from tvm.relay.op import OpPattern

from tvm_ios.relay.dataflow import (
    children,
    copy_call,
    fusion_pattern,
    graph_order,
    is_call_of,
)
from tvm_ios.relay.functions.shapes import RESHAPES, static_shape
from tvm_ios.relay.row_kernels.kernel import has_row_kernel
from tvm_ios.relay.transforms.norms.sums import SUMS, as_einsum
from tvm_ios.relay.transforms.whole_functions import Readers, WholeFunctions, readers_and_result
from tvm_ios.support.exact_bits import bits_may_change

__all__ = ["keep_norms_whole"]

MOVES = (*RESHAPES, "layout_transform", "transpose")
MOST_OPERATORS = 48
"""Most operators of a group, so that long chains behind a norm are not tried one by one."""


def keep_norms_whole(module: tvm.IRModule, target: tvm.target.Target) -> tuple[tvm.IRModule, int]:
    """Module in which each norm is one fused function, and their number.

    Only for CPUs, and where bits may change.
    """
    if target.kind.name != "llvm" or not bits_may_change():
        return module, 0
    order = graph_order(module["main"].body)
    readers = readers_and_result(order)
    place = {expression: number for number, expression in enumerate(order)}
    taken: set[relay.Expr] = set()
    wholes = WholeFunctions(_copied, partial(has_row_kernel, target=target))
    for begin in order:
        if begin in taken or not is_call_of(begin, *SUMS):
            continue
        for behind in reversed(list(_groups(begin, order[place[begin] :], readers))):
            if not taken.isdisjoint(behind):
                continue
            for moves in (True, False):
                group = _with_what_comes_before(behind, readers, taken, moves=moves)
                found = wholes.take(sorted(group, key=place.__getitem__))
                if found:
                    break
            if found:
                taken.update(group)
                break
    return wholes.called_in(module)


def _copied(member: relay.Expr, arguments: list[relay.Expr]) -> relay.Expr:
    make = as_einsum if is_call_of(member, *SUMS) else copy_call
    return make(member, arguments)


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
            may_join = is_call_of(expression, *SUMS, *MOVES) or _is_element_wise(expression)
            if not may_join or len(group) == MOST_OPERATORS:
                return
        group.add(expression)
        ends = [each for each in group if any(reader not in group for reader in readers[each])]
        if ends == [expression] and _size(expression) == size:
            yield set(group)


def _is_element_wise(expression: relay.Expr) -> bool:
    return fusion_pattern(expression) <= int(OpPattern.BROADCAST)


def _size(expression: relay.Expr) -> int:
    shape = static_shape(expression)
    return -1 if shape is None else math.prod(shape)


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
