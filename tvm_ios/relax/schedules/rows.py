"""Loops of kernels that sum along their rows: softmax, norms, means, sums and maxima.

A row stays in the nearest cache until all is done with it. It is summed in several vectors of
partial sums, since an addition waits for the one before; so sums are not in TVM's order.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tvm import s_tir
from tvm.s_tir.dlight import SBlockInfo, normalize_prim_func
from tvm.s_tir.schedule import SBlockRV as Block

from tvm_ios.relax.schedules.arithmetic import calls_dear
from tvm_ios.relax.schedules.gathered import LANES, MARK
from tvm_ios.relax.schedules.tiles import (
    LEAST_PARALLEL,
    divisor,
    extents_of,
    lies_together,
    uses,
    vectors_along,
)
from tvm_ios.support.exact_bits import bits_may_change

__all__ = ["rows"]

PARTIAL = 64
"""Most partial sums of a row."""
FEW = 4
"""Least number of partial sums."""
TOGETHER = (4, 2, 3, 5, 7)
"""Numbers of partial sums of which a vector makes one each, by preference."""


def rows(schedule: s_tir.Schedule, lanes: int) -> bool:  # noqa: ARG001 - LLVM cuts vectors
    """Schedule a kernel whose sums all go along the same rows; False for others."""
    blocks = normalize_prim_func(schedule) or []
    sums = [each for each in blocks if not each.is_injective()]
    counts = {_rows_of(each) for each in sums}
    outputs = schedule.get_output_blocks(schedule.get_sblock("root"))
    if len(outputs) != 1 or len(counts) != 1 or counts <= {0} or not bits_may_change():
        return False
    (count,), last = counts, blocks[-1]
    kept = [each for each in blocks[:-1] if not _is_cheap(schedule, each, count)]
    for each in blocks[:-1]:
        if each not in kept:
            schedule.compute_inline(each.block_rv)
    if not all(_lies_along(schedule.get(each.block_rv)) for each in sums):
        return False
    inner: list[Block] = []
    finish: list[Callable[[s_tir.Schedule, Block], None]] = []
    for each in (*kept, last):
        parts = _in_parts(schedule, each.block_rv, count) if each in sums else []
        inner += [*parts, each.block_rv]
        finish += [_sum_in_vectors] * len(parts)
        finish.append(_gather if each in sums else _write_in_vectors)
    outer = schedule.get_loops(last.block_rv)[:count]
    elements = max(math.prod(iteration.dom for iteration in each.iters) for each in blocks)
    row = schedule.fuse(*outer) if count > 1 else outer[0]
    for block in reversed(inner[:-1]):
        schedule.compute_at(block, row)
    # Only whole reductions may be made parallel, so they are cut behind this.
    if elements >= LEAST_PARALLEL:
        schedule.parallel(row)
    for block, cut in zip(inner, finish, strict=True):
        cut(schedule, block)
    return True


def _rows_of(found: SBlockInfo) -> int:
    """Loops over rows of a sum, behind which are those along a row; 0 of any other sum."""
    kinds = "".join(each.kind for each in found.iters)
    rows = kinds.count("S")
    return rows if kinds == "S" * rows + "R" * (len(kinds) - rows) else 0


def _is_cheap(schedule: s_tir.Schedule, found: SBlockInfo, count: int) -> bool:
    """True if elements take less time to compute again than to keep."""
    block = schedule.get(found.block_rv)
    return found.is_injective() and len(found.iters) > count and not calls_dear(block.body)


def _lies_along(block: s_tir.SBlock) -> bool:
    """True if a sum goes along what it reads: its last variable is in the last place alone."""
    along = block.iter_vars[-1].var
    places = [[uses(piece.min, along) for piece in region.region] for region in block.reads]
    return any(place[-1] for place in places) and not any(any(place[:-1]) for place in places)


def _in_parts(schedule: s_tir.Schedule, block: Block, count: int) -> list[Block]:
    """Blocks of the partial sums of a block, each summed up in the next one, the last in itself."""
    along = schedule.get_loops(block)[count:]
    if len(along) > 1 and lies_together(schedule.get(block), len(along)):
        along = [schedule.fuse(*along)]
    extents = extents_of(schedule, along)
    if len(schedule.get(block).writes) > 1:
        return []  # a place and a number, which are gathered
    # LLVM takes sums in vectors of other lengths apart.
    most = min(PARTIAL, math.prod(extents) // 2)
    width = math.gcd(extents[-1], 1 << most.bit_length() - 1)
    if width < LANES:
        width = 0 if len(along) == 1 and extents[-1] >= 4 * LANES else divisor(extents[-1], most)
    parts: list[Block] = []
    while width >= FEW:
        _, inner = schedule.split(schedule.get_loops(block)[-1], [None, width])
        parts.append(schedule.rfactor(inner, -1))
        width //= next((each for each in TOGETHER if width % each == 0), width)
    return parts


def _write_in_vectors(schedule: s_tir.Schedule, block: Block) -> None:
    """Make vectors of the elements of a row that a block writes, if it writes any."""
    loops = schedule.get_loops(block)[1:]
    if loops:
        vectors_along(schedule, loops[-1])


def _sum_in_vectors(schedule: s_tir.Schedule, block: Block) -> None:
    """Sum up vectors of partial sums; where these are few, at places that become registers."""
    vector, *summed = schedule.get_loops(block)[1:]
    schedule.reorder(*summed, vector)
    schedule.vectorize(vector)
    first = schedule.decompose_reduction(block, summed[0])
    schedule.vectorize(schedule.get_loops(first)[-1])
    _unroll_short(schedule, summed)


def _gather(schedule: s_tir.Schedule, block: Block) -> None:
    """Sum up what is left of a row, by :mod:`tvm_ios.relax.schedules.gathered` if it is much."""
    summed = schedule.get_loops(block)[1:]
    if len(summed) > 1 and lies_together(schedule.get(block), len(summed)):
        summed = [schedule.fuse(*summed)]
    if extents_of(schedule, summed)[-1] >= 2 * LANES:
        schedule.decompose_reduction(block, summed[0])
        schedule.annotate(summed[-1], MARK, 1)
    _unroll_short(schedule, summed)


def _unroll_short(schedule: s_tir.Schedule, loops: list[s_tir.schedule.LoopRV]) -> None:
    for loop, extent in zip(loops, extents_of(schedule, loops), strict=True):
        if extent <= max(TOGETHER):
            schedule.unroll(loop)
