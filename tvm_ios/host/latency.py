"""Core-to-core latency: the time one core waits for what another one wrote.

Virtual machines change mode: a hop takes 40 to 70 ns, then 350 to 400 ns for minutes (the cores
were moved to other sockets); meanwhile several lanes gain nothing.
"""

from __future__ import annotations

import ctypes
from enum import Enum
from pathlib import Path

from tvm_ios.host.processor import usable_cores
from tvm_ios.support.c_compiler import NativeSource

__all__ = ["PING_PONG", "LatencyMode", "core_to_core_ns", "latency_mode"]

PING_PONG = NativeSource(Path(__file__).with_name("native") / "ping_pong.c")
_SLOW_NS = 150.0
_BATCHES = 40
_BATCH_HOPS = 1000
_LIMIT_NS = 1_000_000_000


class LatencyMode(Enum):
    """Cost of handing over work between lanes: ``fast`` under 150 ns a hop, else ``slow``."""

    FAST = "fast"
    SLOW = "slow"


def core_to_core_ns() -> float | None:
    """Nanoseconds of one hop between two of this process's cores, best of 40 batches.

    None if this process has only one core, or two threads cannot be held on two cores. Takes
    milliseconds, a second at most.
    """
    cores = usable_cores()
    if len(cores) < 2:
        return None
    measure = PING_PONG.library.tvm_ios_ping_pong_ns
    measure.restype = ctypes.c_double
    measure.argtypes = [ctypes.c_int] * 4 + [ctypes.c_int64]
    hop_ns = float(measure(cores[0], cores[1], _BATCHES, _BATCH_HOPS, _LIMIT_NS))
    return hop_ns if hop_ns > 0 else None


def latency_mode(hop_ns: float) -> LatencyMode:
    """Mode for a hop of a number of nanoseconds."""
    return LatencyMode.FAST if hop_ns < _SLOW_NS else LatencyMode.SLOW
