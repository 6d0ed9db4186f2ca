"""The memory plan: packs buffers into one arena without adding any order between launches.

A buffer takes the bytes of another one only if every access to the other comes before every write
of it, in any order the data allow. Then no launch waits for memory, and a buffer is seldom written
on another core than the one that last used its bytes. No TVM here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvm_ios.plan.plan import ALIGNMENT_BYTES

__all__ = ["Lifetime", "pack_buffers"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifetime:
    """Launches that touch a buffer, as bit masks."""

    size_bytes: int
    first_write: int
    """First launch that writes the buffer."""
    accesses: int
    """Launches that write or read the buffer."""
    before: int
    """Launches that are complete before any byte of the buffer is written."""

    def ends_before(self, other: Lifetime) -> bool:
        """True if every access to this buffer comes before every write of the other."""
        return not self.accesses & ~other.before


def pack_buffers(lifetimes: Sequence[Lifetime]) -> tuple[list[int], int]:
    """Byte offset of each buffer, aligned, and size of the arena.

    The largest buffer is placed first, each in the smallest gap that fits; O(buffers²).
    """
    sizes = [_align(lifetime.size_bytes) for lifetime in lifetimes]
    offsets = [0] * len(lifetimes)
    placed: list[int] = []
    order = sorted(range(len(lifetimes)), key=lambda b: (-sizes[b], lifetimes[b].first_write))
    for buffer in order:
        mine = lifetimes[buffer]
        taken = sorted(
            (offsets[other], offsets[other] + sizes[other])
            for other in placed
            if not mine.ends_before(lifetimes[other]) and not lifetimes[other].ends_before(mine)
        )
        offsets[buffer] = _smallest_gap(taken, sizes[buffer])
        placed.append(buffer)
    return offsets, max(
        (offset + size for offset, size in zip(offsets, sizes, strict=True)), default=0
    )


def _align(size: int) -> int:
    return max(-(-size // ALIGNMENT_BYTES), 1) * ALIGNMENT_BYTES


def _smallest_gap(taken: Sequence[tuple[int, int]], size: int) -> int:
    """Start of the smallest gap between sorted ranges that holds `size`, else the last end."""
    best: tuple[int, int] | None = None
    cursor = 0
    for begin, end in taken:
        gap = begin - cursor
        if gap >= size and (best is None or gap < best[0]):
            best = (gap, cursor)
        cursor = max(cursor, end)
    return cursor if best is None else best[1]
