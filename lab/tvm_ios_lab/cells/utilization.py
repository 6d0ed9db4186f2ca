"""Cells of the experiment utilization and what is found in them."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["SCHEDULES", "BusyTime", "Busyness"]

SCHEDULES = ("sequential", "IOS-both")


@dataclass(frozen=True, slots=True, kw_only=True)
class BusyTime:
    """Busy time in one run of one schedule."""

    schedule: str
    run_us: float
    spans: tuple[tuple[float, float, float], ...]
    """Begin and end in microseconds, and how much of the device is busy in between: 1 for a lane,
    the share of its arithmetic for a GPU."""
    instructions_per_us: float | None = None
    """Instructions of all lanes in a microsecond of timed runs; None where they are not counted."""

    @property
    def mean(self) -> float:
        """Mean of what is busy at a time."""
        return sum((end - begin) * share for begin, end, share in self.spans) / self.run_us


@dataclass(frozen=True, slots=True, kw_only=True)
class Busyness:
    """Runs of all schedules on one device."""

    unit: str
    """Unit of what is counted."""
    runs: tuple[BusyTime, ...]
    uncounted: str = ""
    """Reason why instructions are not counted, where they could be."""
