"""Loops of kernels without sums: element-wise operators with broadcasting, and moved elements."""

from __future__ import annotations

from tvm import s_tir
from tvm.s_tir.dlight import normalize_prim_func

from tvm_ios.relax.schedules.tiles import spread

__all__ = ["injective"]


def injective(schedule: s_tir.Schedule, lanes: int) -> bool:  # noqa: ARG001 - LLVM cuts vectors
    """Schedule a kernel each of whose elements depends on single elements; False for others.

    What is computed on the way is computed where it is read, and the result written in vectors.
    """
    blocks = normalize_prim_func(schedule)
    outputs = schedule.get_output_blocks(schedule.get_sblock("root"))
    if not blocks or len(outputs) > 1 or not all(each.is_injective() for each in blocks):
        return False
    *inner, last = (each.block_rv for each in blocks)
    for block in inner:
        schedule.compute_inline(block)
    if not schedule.get_loops(last):
        return False
    spread(schedule, last)
    return True
