"""Axes of a computation along which everything it reads lies side by side in memory.

Loops over such axes are one loop over memory, whatever the shapes of the tensors, and that loop
consists of whole vectors. The facts that a schedule is chosen by; works on TE's operations.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import tvm
from tvm import te, tir
from tvm.tir.stmt_functor import post_order_visit, substitute

__all__ = ["Read", "constant", "extents_of", "flat_suffix", "reads_of"]

IF_THEN_ELSE = tvm.ir.Op.get("tir.if_then_else")


@dataclass(frozen=True, slots=True)
class Read:
    """Access of an iteration to memory, as a function of the axes."""

    expression: tir.PrimExpr
    is_condition: bool
    """True for a condition under which something is read; False for the number of an element,
    counted from the first one of its tensor."""


def reads_of(operation: te.ComputeOp, kept: Sequence[te.Tensor] = ()) -> list[Read] | None:
    """Distinct reads of an operation, with those of all injective ones that it is fused with.

    ``kept`` are tensors in memory of their own. None where a shape is not known.
    """
    found: list[Read] = []
    seen: set[tuple[te.Operation, str]] = set()
    waiting = [_source(body) for body in operation.body]
    while waiting:
        loads, conditions = _loads_and_conditions(waiting.pop())
        found += [Read(condition, is_condition=True) for condition in conditions]
        for load in loads:
            made, indices = load.producer.op, list(load.indices)
            if (made, str(indices)) in seen:
                continue
            seen.add((made, str(indices)))
            if _is_inlined(made) and load.producer not in kept:
                moved = dict(zip((axis.var for axis in made.axis), indices, strict=True))
                waiting.append(substitute(made.body[load.producer.value_index], moved))
                continue
            shape = extents_of(load.producer.shape)
            if shape is None:
                return None
            found.append(Read(_element(indices, shape), is_condition=False))
    return found


def flat_suffix(axes: Sequence[tir.IterVar], reads: Sequence[Read]) -> int:
    """Largest number of last axes in whose joint loop reads go on by one element, or by none."""
    extents = [constant(axis.dom.extent) for axis in axes]
    known = [extent for extent in extents if extent is not None]
    if len(known) < len(extents):
        return 0
    firsts = range(len(axes))
    return next((len(axes) - first for first in firsts if _are_flat(reads, axes, known, first)), 0)


def extents_of(shape: Sequence[tir.PrimExpr]) -> list[int] | None:
    """Extents of a shape; None where one is not known."""
    found = [int(extent) for extent in shape if isinstance(extent, tir.IntImm)]
    return found if len(found) == len(shape) else None


def constant(expression: tir.PrimExpr) -> int | None:
    """Value of an expression that is constant once it is simplified, None of another one."""
    plain = tvm.arith.Analyzer().simplify(expression)
    return int(plain) if isinstance(plain, tir.IntImm) else None


def _source(body: tir.PrimExpr) -> tir.PrimExpr:
    return body.source[0] if isinstance(body, tir.Reduce) else body


def _is_inlined(operation: te.Operation) -> bool:
    return isinstance(operation, te.ComputeOp) and not operation.reduce_axis


def _loads_and_conditions(
    body: tir.PrimExpr,
) -> tuple[list[tir.ProducerLoad], list[tir.PrimExpr]]:
    nodes: list[tir.PrimExpr] = []
    post_order_visit(body, nodes.append)
    loads = [node for node in nodes if isinstance(node, tir.ProducerLoad)]
    calls = [node for node in nodes if isinstance(node, tir.Call)]
    return loads, [call.args[0] for call in calls if call.op.same_as(IF_THEN_ELSE)]


def _element(indices: Sequence[tir.PrimExpr], shape: Sequence[int]) -> tir.PrimExpr:
    element: tir.PrimExpr = tir.IntImm("int32", 0)
    for index, extent in zip(indices, shape, strict=True):
        element = element * extent + index
    return element


def _are_flat(
    reads: Sequence[Read], axes: Sequence[tir.IterVar], extents: Sequence[int], first: int
) -> bool:
    """True if the axes from ``first`` on are one loop over memory."""
    loop = tir.Var("loop", axes[first].var.dtype)
    analyzer = tvm.arith.Analyzer()
    analyzer.bind(loop, tvm.ir.Range(0, math.prod(extents[first:])))
    moved = {}
    for number, (axis, extent) in enumerate(zip(axes, extents, strict=True)):
        if number < first:
            analyzer.bind(axis.var, tvm.ir.Range(0, extent))
        else:
            moved[axis.var] = (loop // math.prod(extents[number + 1 :])) % extent
    return all(_is_flat(read, moved, loop, analyzer) for read in reads)


def _is_flat(
    read: Read,
    moved: dict[tir.Var, tir.PrimExpr],
    loop: tir.Var,
    analyzer: tvm.arith.Analyzer,
) -> bool:
    # Sums of divisions and remainders become one variable in the second round, or the third.
    plain = analyzer.simplify(substitute(read.expression, moved), 3)
    if not _mentions(plain, loop):
        return True
    line = tvm.arith.detect_linear_equation(plain, [loop])
    return not read.is_condition and bool(line) and constant(line[0]) == 1


def _mentions(expression: tir.PrimExpr, variable: tir.Var) -> bool:
    free = tir.analysis.undefined_vars(tir.Evaluate(expression), [])
    return any(each.same_as(variable) for each in free)
