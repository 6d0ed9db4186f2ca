"""The memory plan: packs buffers into one arena and names the order that the packing relies on.

Packing uses the order of the stages: a buffer may take the bytes of another one if every access to
the other comes in an earlier stage, or earlier in the same group. :func:`reuse_dependencies` then
spells this out between groups, so an executor needs no barrier between stages. No TVM here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvm_ios.runtime.plan import ALIGNMENT_BYTES

__all__ = ["Access", "Lifetime", "pack_buffers", "reuse_dependencies"]


@dataclass(frozen=True, slots=True, order=True)
class Access:
    """One launch that touches a buffer."""

    stage: int
    group: int
    launch: int


@dataclass(frozen=True, slots=True)
class Lifetime:
    """Who writes and who touches one buffer; writers are among the accesses, which ascend."""

    size_bytes: int
    writers: tuple[Access, ...]
    accesses: tuple[Access, ...]

    def ends_before(self, other: Lifetime) -> bool:
        """True if, stage after stage, every access here comes before every write of the other."""
        last, first = self.accesses[-1].stage, other.writers[0].stage
        if last != first:
            return last < first
        mine = [access for access in self.accesses if access.stage == last]
        theirs = [writer for writer in other.writers if writer.stage == first]
        one_group = {access.group for access in (*mine, *theirs)}
        return len(one_group) == 1 and mine[-1].launch < theirs[0].launch


def pack_buffers(lifetimes: Sequence[Lifetime]) -> tuple[list[int], int]:
    """Place buffers, the largest first, each in the smallest gap that fits.

    Returns
    -------
    offsets, arena_bytes
        Byte offset of each buffer, aligned, and the size of the arena. Quadratic in the number of
        buffers.
    """
    sizes = [_align(lifetime.size_bytes) for lifetime in lifetimes]
    offsets = [0] * len(lifetimes)
    placed: list[int] = []
    order = sorted(range(len(lifetimes)), key=lambda b: (-sizes[b], lifetimes[b].writers[0].launch))
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


def reuse_dependencies(
    lifetimes: Sequence[Lifetime], offsets: Sequence[int]
) -> set[tuple[int, int]]:
    """Pairs of groups (earlier, later) whose order keeps shared bytes safe.

    Buffers are visited in the order of their first write; each waits for the last owner of each of
    its bytes. Earlier owners are covered, since the last owner waited for them.
    """
    pairs: set[tuple[int, int]] = set()
    owners: list[tuple[int, int, int]] = []
    for buffer in sorted(range(len(lifetimes)), key=lambda b: lifetimes[b].writers[0].launch):
        begin = offsets[buffer]
        end = begin + _align(lifetimes[buffer].size_bytes)
        kept = []
        for low, high, owner in owners:
            if high <= begin or end <= low:
                kept.append((low, high, owner))
                continue
            pairs.update(
                (access.group, writer.group)
                for access in lifetimes[owner].accesses
                for writer in lifetimes[buffer].writers
                if access.group != writer.group
            )
            if low < begin:
                kept.append((low, begin, owner))
            if end < high:
                kept.append((end, high, owner))
        owners = [*kept, (begin, end, buffer)]
    return pairs


def _align(size: int) -> int:
    return max(-(-size // ALIGNMENT_BYTES), 1) * ALIGNMENT_BYTES


def _smallest_gap(taken: Sequence[tuple[int, int]], size: int) -> int:
    """Start of the smallest gap between taken ranges (sorted) that holds `size`, else the end."""
    best: tuple[int, int] | None = None
    cursor = 0
    for begin, end in taken:
        gap = begin - cursor
        if gap >= size and (best is None or gap < best[0]):
            best = (gap, cursor)
        cursor = max(cursor, end)
    return cursor if best is None else best[1]
