"""Patterns: loops over memory that read in an order which repeats, further on each time.

Channels of two groups that take turns, blocks of four channels that become blocks of twelve, and
every second column are such. The offsets of one period are known numbers, so a vector is made from
few vectors of what it reads, by shuffles. Works on TE's operations and on lowered loops.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import tvm
from tvm import tir
from tvm.tir.stmt_functor import substitute

from tvm_ios.relay.row_kernels.tensors import constant, mentions
from tvm_ios.relay.schedules.flat_axes import Loops, Read, extents_of

__all__ = ["LANES", "Pattern", "offsets_of", "pattern_suffix", "windows_of"]

LANES = 16
"""Elements of a vector: as many float32 as AVX-512 has; LLVM cuts it where vectors are shorter."""
LONGEST = 256
"""Iterations of a period, which are all written out."""
MOST_WINDOWS = 6
"""Vectors that one is made from on average, up to which this is faster than element by element."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """Loop at the end of a computation whose reads repeat."""

    axes: int
    """Number of last axes that are the loop."""
    period: int
    """Iterations after which all reads are the same, further on."""


def pattern_suffix(axes: Sequence[tir.IterVar], reads: Sequence[Read]) -> Pattern | None:
    """The fewest last axes that read in a pattern; None without any."""
    extents = extents_of([axis.dom.extent for axis in axes]) or []
    for count in range(1, len(extents) + 1):
        extent = math.prod(extents[-count:])
        inner = [math.prod(extents[len(extents) - each :]) for each in range(count)]
        periods = dict.fromkeys(min(math.lcm(LANES, each), extent) for each in inner)
        for period in periods if extent >= LANES else ():
            if period <= LONGEST and _repeats(axes, reads, count, period):
                return Pattern(count, period)
    return None


def _repeats(axes: Sequence[tir.IterVar], reads: Sequence[Read], count: int, period: int) -> bool:
    loops = Loops.over(axes, [slice(len(axes) - count, None)])
    if loops is None or any(read.is_condition and not loops.always(read) for read in reads):
        return False
    (loop,) = loops.variables
    part = tir.Var("part", loop.dtype)
    extent = math.prod(int(axis.dom.extent) for axis in axes[-count:])
    loops.analyzer.bind(part, tvm.ir.Range(0, extent // period))
    for read in reads:
        index = substitute(read.expression, loops.moved)
        if read.is_condition or not mentions(index, loop):
            continue
        places = range(period)
        offsets = offsets_of(index, loop, part * period, places, loops.analyzer)
        if offsets is None:
            return False
        starts = range(0, period, LANES)
        windows = sum(len(windows_of(offsets[at : at + LANES], offsets)) for at in starts)
        if windows > MOST_WINDOWS * len(starts):
            return False
    return True


def offsets_of(
    index: tir.PrimExpr,
    loop: tir.Var,
    begin: tir.PrimExpr,
    places: Iterable[int],
    analyzer: tvm.arith.Analyzer,
) -> list[int] | None:
    """Elements from that of one iteration to those of others; None where these are no numbers."""
    first = substitute(index, {loop: begin})
    found = []
    for place in places:
        there = substitute(index, {loop: begin + place})
        offset = constant(analyzer.simplify(there - first, 3))
        if offset is None:
            return None
        found.append(offset)
    return found


def windows_of(wanted: Sequence[int], known: Sequence[int]) -> list[int]:
    """Begins of vectors that hold all wanted elements; none lies outside of the known ones."""
    last = max(max(known) + 1 - LANES, min(known))
    windows: list[int] = []
    for offset in sorted(wanted):
        if not windows or offset >= windows[-1] + LANES:
            windows.append(min(offset, last))
    return windows
