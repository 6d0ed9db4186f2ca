"""Loops of kernels without sums: element-wise operators with broadcasting, and moved elements."""

from __future__ import annotations

import tvm
from tvm import s_tir
from tvm.s_tir.dlight import normalize_prim_func

from tvm_ios.relax.schedules.tiles import spread

__all__ = ["injective", "inlined"]


def injective(schedule: s_tir.Schedule, lanes: int) -> bool:  # noqa: ARG001 - LLVM cuts vectors
    """Schedule a kernel each of whose elements depends on single elements; False for others.

    What is computed on the way is computed where it is read, and results are written in vectors.
    """
    blocks = normalize_prim_func(schedule)
    if not blocks or not all(each.is_injective() for each in blocks):
        return False
    outputs = schedule.get_output_blocks(schedule.get_sblock("root"))
    written = [schedule.get(block) for block in outputs]
    # Inlining makes another block of each reader, so all are told apart before.
    inner = [
        each.block_rv
        for each in blocks
        if not any(schedule.get(each.block_rv).same_as(output) for output in written)
    ]
    for block in inner:
        schedule.compute_inline(block)
    if not all(schedule.get_loops(block) for block in outputs):
        return False
    for block in outputs:
        spread(schedule, block)
    return True


def inlined(function: tvm.tirx.PrimFunc) -> s_tir.SBlock | None:
    """Only block of a kernel with one result, once the others are inlined; None for others."""
    schedule = s_tir.Schedule(function)
    blocks = normalize_prim_func(schedule) or []
    outputs = schedule.get_output_blocks(schedule.get_sblock("root"))
    if not blocks or len(outputs) != 1 or not all(each.is_injective() for each in blocks):
        return None
    try:
        for each in blocks[:-1]:
            schedule.compute_inline(each.block_rv)
    except s_tir.ScheduleError:
        return None
    return schedule.get(blocks[-1].block_rv)
