"""Segments of a loop in which conditions do not change: pieces of a row, and what pads it.

A concatenation asks for each element which piece it is of, and a padded row whether there is one.
Where the answers change at known places, each segment between them is a loop that asks nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import tvm
from tvm import tir
from tvm.tir.stmt_functor import ir_transform, post_order_visit

from tvm_ios.relay.row_kernels.tensors import constant, mentions

__all__ = ["MOST_CUTS", "conditions_of", "cuts_of", "segments_of", "within_segment"]

IF_THEN_ELSE = tvm.ir.Op.get("tir.if_then_else")
AT, BEHIND = {0}, {1}
CHANGES = {
    tir.LT: (AT, BEHIND),
    tir.GE: (AT, BEHIND),
    tir.LE: (BEHIND, AT),
    tir.GT: (BEHIND, AT),
    tir.EQ: (AT | BEHIND,) * 2,
    tir.NE: (AT | BEHIND,) * 2,
}
"""Iterations at which a comparison changes, by its kind, for sides whose difference rises and for
those whose difference falls: the first one whose sides have met, or the first one behind."""
MOST_CUTS = 24
"""Cuts up to which the code of each segment is worth its length."""


def conditions_of(body: tir.PrimExpr | tir.Stmt) -> list[tir.PrimExpr]:
    """Conditions under which parts of an expression are read."""
    nodes: list[object] = []
    post_order_visit(body, nodes.append)
    calls = [node for node in nodes if isinstance(node, tir.Call)]
    return [call.args[0] for call in calls if call.op.same_as(IF_THEN_ELSE)]


def cuts_of(condition: tir.PrimExpr, loop: tir.Var) -> set[int] | None:
    """Iterations of a loop at which a condition may change; None where they are not known."""
    if not mentions(condition, loop):
        return set()
    if isinstance(condition, tir.And | tir.Or):
        first, second = cuts_of(condition.a, loop), cuts_of(condition.b, loop)
        return None if first is None or second is None else first | second
    if isinstance(condition, tir.Not):
        return cuts_of(condition.a, loop)
    return _cuts_of_comparison(condition, loop) if type(condition) in CHANGES else None


def _cuts_of_comparison(comparison: tir.PrimExpr, loop: tir.Var) -> set[int] | None:
    line = tvm.arith.detect_linear_equation(comparison.a - comparison.b, [loop])
    step, base = map(constant, line) if line else (None, None)
    if not step or base is None:
        return None
    rises, falls = CHANGES[type(comparison)]
    is_met = base % step == 0
    return {-(base // step) + (behind and is_met) for behind in (rises if step > 0 else falls)}


def segments_of(body: tir.Stmt, loop: tir.Var, extent: int) -> list[tuple[int, int]]:
    """Begin and end of each segment of a loop from 0; one where nothing changes."""
    found = [cuts_of(condition, loop) for condition in conditions_of(body)]
    cuts = {cut for each in found for cut in each or () if 0 < cut < extent}
    edges = [0, *sorted(cuts), extent] if len(cuts) <= MOST_CUTS else [0, extent]
    return list(itertools.pairwise(edges))


def within_segment(body: tir.Stmt, loop: tir.Var, segment: Sequence[int]) -> tir.Stmt:
    """Body of a loop without conditions that are the same in all of a segment."""
    begin, end = segment
    analyzer = tvm.arith.Analyzer()
    analyzer.bind(loop, tvm.ir.Range(begin, end))

    def answered(call: tir.Call) -> tir.PrimExpr | None:
        if not call.op.same_as(IF_THEN_ELSE):
            return None
        condition, yes, no = call.args
        answer = analyzer.simplify(condition)
        if isinstance(answer, tir.IntImm):
            return yes if int(answer) else no
        # TVM makes no vector of a condition that differs between its elements.
        return tir.if_then_else(answer, yes, no)

    return ir_transform(body, None, answered, ["tir.Call"])
