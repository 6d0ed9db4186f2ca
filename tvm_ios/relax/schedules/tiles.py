"""Sizes of tiles, and loops over whole arrays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import tvm
import tvm_ffi
from tvm import s_tir

__all__ = [
    "LEAST_PARALLEL",
    "divisor",
    "extents_of",
    "spread",
    "substituted",
    "uses",
    "vectors_along",
]

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
    outer = vectors_along(schedule, last)
    if math.prod(extents) >= LEAST_PARALLEL:
        schedule.parallel(schedule.fuse(*rows, outer) if rows else outer)


def vectors_along(schedule: s_tir.Schedule, loop: s_tir.schedule.LoopRV) -> s_tir.schedule.LoopRV:
    """Loop over vectors that a loop over elements becomes."""
    (extent,) = extents_of(schedule, [loop])
    outer, inner = schedule.split(loop, [None, divisor(extent, VECTOR)])
    schedule.vectorize(inner)
    return outer


def uses(expression: Any, variable: tvm.tirx.Var) -> bool:
    """True if an expression depends on a variable."""
    found = tvm.tirx.analysis.undefined_vars(expression, [])
    return any(each.same_as(variable) for each in found)


def substituted(expression: Any, places: Sequence[tuple[tvm.tirx.Var, Any]]) -> Any:
    """Expression with others in the place of variables."""

    def other(variable: tvm.tirx.Var) -> Any:
        return next((new for old, new in places if old.same_as(variable)), variable)

    return tvm_ffi.structural_map(expression, (tvm.tirx.Var, other), order="post")
