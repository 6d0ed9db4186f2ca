"""Memory for tensors: where it begins, what is in it, and which pages it asks for."""

from __future__ import annotations

import ctypes

import pytest

from tvm_ios.plan.plan import ALIGNMENT_BYTES
from tvm_ios.runtime.base import host_memory
from tvm_ios.runtime.base.host_memory import (
    HUGE_PAGE_BYTES,
    allocate_aligned,
    allocate_pages,
    collapse_pages,
)


@pytest.mark.parametrize("size_bytes", [0, 1, 100, HUGE_PAGE_BYTES - 1, 3 * HUGE_PAGE_BYTES + 5])
@pytest.mark.parametrize("allocate", [allocate_aligned, allocate_pages])
def test_memory_is_zeroed_aligned_and_ones_own(allocate, size_bytes: int) -> None:
    (kept, address), (_other, elsewhere) = allocate(size_bytes), allocate(size_bytes)
    assert address % ALIGNMENT_BYTES == elsewhere % ALIGNMENT_BYTES == 0
    assert ctypes.string_at(address, size_bytes) == bytes(size_bytes)
    ctypes.memset(address, 0xA5, size_bytes)
    ctypes.memset(elsewhere, 0x5A, size_bytes)
    assert ctypes.string_at(address, size_bytes) == b"\xa5" * size_bytes
    assert kept is not None


def test_memory_that_fills_huge_pages_begins_with_one_and_asks_for_them() -> None:
    kept, address = allocate_pages(2 * HUGE_PAGE_BYTES)
    assert address % HUGE_PAGE_BYTES == 0
    assert "hg" in flags_at(address)
    assert kept is not None


def flags_at(address: int) -> list[str]:
    """What the kernel says of the mapping at an address."""
    inside = False
    with open("/proc/self/smaps") as lines:
        for line in lines:
            first = line.split()[0]
            if "-" in first:
                begin, end = (int(part, 16) for part in first.split("-"))
                inside = begin <= address < end
            elif inside and first == "VmFlags:":
                return line.split()[1:]
    return []


@pytest.mark.parametrize("setting", ["always madvise [never]", "always [madvise] never", None])
@pytest.mark.slow
def test_collapsing_pages_changes_no_byte(tmp_path, monkeypatch, setting: str | None) -> None:
    path = tmp_path / "enabled"
    if setting is not None:
        path.write_text(setting)
    monkeypatch.setattr(host_memory, "_SETTING", path)
    count = HUGE_PAGE_BYTES // 2
    array = (ctypes.c_int32 * (3 * count))(*range(3 * count))
    begin = ctypes.addressof(array)
    collapse_pages([(begin, begin + ctypes.sizeof(array)), (1 << 40, (1 << 40) + 9), (8, 8)])
    assert array[:] == list(range(3 * count))


def test_who_wants_no_huge_pages_is_heard(tmp_path, monkeypatch) -> None:
    path = tmp_path / "enabled"
    path.write_text("always madvise [never]\n")
    monkeypatch.setattr(host_memory, "_SETTING", path)
    monkeypatch.setattr(ctypes, "CDLL", lambda _: pytest.fail("the kernel was asked"))
    collapse_pages([(0, HUGE_PAGE_BYTES)])
