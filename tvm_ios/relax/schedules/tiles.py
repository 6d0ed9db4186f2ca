"""Sizes of tiles, and loops over whole arrays."""

from __future__ import annotations

import math

from tvm import s_tir

__all__ = ["LEAST_PARALLEL", "divisor", "extents_of", "spread"]

LEAST_PARALLEL = 8192
"""Iterations of a kernel below which one lane is faster than several."""
VECTOR = 32
"""Most elements of a vector: LLVM cuts it into those of the processor."""


def divisor(extent: int, most: int) -> int:
    """Largest divisor of an extent that is no larger than that."""
    return max(each for each in range(1, most + 1) if extent % each == 0)


def extents_of(schedule: s_tir.Schedule, loops: list[s_tir.schedule.LoopRV]) -> list[int]:
    """Numbers of iterations of loops."""
    return [int(schedule.get(loop).extent) for loop in loops]


def spread(schedule: s_tir.Schedule, block: s_tir.schedule.SBlockRV) -> None:
    """Write the array of an injective block in vectors, and its rows in parallel if it is large."""
    loops = schedule.get_loops(block)
    extents = extents_of(schedule, loops)
    *rows, last = loops
    outer, inner = schedule.split(last, [None, divisor(extents[-1], VECTOR)])
    schedule.vectorize(inner)
    if math.prod(extents) >= LEAST_PARALLEL:
        schedule.parallel(schedule.fuse(*rows, outer) if rows else outer)
