"""Stolen time: nanoseconds in which the hypervisor ran others on the cores of this machine."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["stolen_ns"]

_STAT = Path("/proc/stat")
_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
_STEAL = 8
"""Place of stolen ticks in the line of all cores, after its name."""


def stolen_ns(stat: Path = _STAT) -> int:
    """Nanoseconds stolen from the average core so far; 0 where Linux does not tell.

    A virtual machine's clock goes on meanwhile, and no thread of it waits. Ticks are 10 ms long, so
    this tells of rounds, not of samples.
    """
    try:
        with stat.open("rb") as file:
            ticks = int(file.readline().split()[_STEAL])
    except (OSError, IndexError, ValueError):
        return 0
    return ticks * 1_000_000_000 // _TICKS_A_SECOND // (os.cpu_count() or 1)
