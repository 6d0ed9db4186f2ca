"""Aligned memory of this machine for tensors, in huge pages where it fills at least one."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterable
from contextlib import suppress
from ctypes import c_int, c_size_t, c_void_p
from pathlib import Path

from tvm_ios.plan.plan import ALIGNMENT_BYTES

__all__ = ["HUGE_PAGE_BYTES", "allocate_aligned", "allocate_pages", "collapse_pages"]

HUGE_PAGE_BYTES = 2 << 20
_SETTING = Path("/sys/kernel/mm/transparent_hugepage/enabled")
# Linux has it since 6.1, and Python's mmap has no name for it.
_MADV_COLLAPSE = 25


def allocate_aligned(size_bytes: int) -> tuple[object, int]:
    """Zeroed memory on a cache-line boundary: the object that keeps it alive, and its address."""
    memory = ctypes.create_string_buffer(max(size_bytes, 1) + ALIGNMENT_BYTES)
    return memory, _aligned(ctypes.addressof(memory), ALIGNMENT_BYTES)


def allocate_pages(size_bytes: int) -> tuple[object, int]:
    """Zeroed memory, in huge pages where it fills one: what keeps it alive, and its address.

    In pages of 4 KiB a network spends some per cent of its time on page look-ups. Linux is asked
    before any page is touched; a kernel without huge pages gives small ones.
    """
    if size_bytes < HUGE_PAGE_BYTES:
        return allocate_aligned(size_bytes)
    # Private: huge pages of shared memory are a setting of their own, which is off.
    # One page may be lost to alignment; the other makes the last one whole.
    mapped = mmap.mmap(
        -1, size_bytes + 2 * HUGE_PAGE_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    )
    with suppress(OSError):
        mapped.madvise(mmap.MADV_HUGEPAGE)
    memory = (ctypes.c_char * len(mapped)).from_buffer(mapped)  # keeps the mapping
    return memory, _aligned(ctypes.addressof(memory), HUGE_PAGE_BYTES)


def collapse_pages(ranges: Iterable[tuple[int, int]]) -> None:
    """Have Linux move memory that others allocated into huge pages, without a new address.

    A range is the addresses of its first byte, and of the byte after its last. Other data in the
    same pages move along. Nothing happens with a kernel before 6.1, where an administrator forbids
    huge pages, and for pages that are not of one mapping.
    """
    try:
        if "[never]" in _SETTING.read_text():
            return
    except OSError:
        return
    pages = {
        page
        for begin, end in ranges
        for page in range(begin // HUGE_PAGE_BYTES, -(-end // HUGE_PAGE_BYTES))
    }
    advise = ctypes.CDLL(None).madvise
    advise.restype, advise.argtypes = c_int, [c_void_p, c_size_t, c_int]
    for page in sorted(pages):
        advise(page * HUGE_PAGE_BYTES, HUGE_PAGE_BYTES, _MADV_COLLAPSE)


def _aligned(address: int, boundary: int) -> int:
    return address + -address % boundary
