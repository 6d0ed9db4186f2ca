"""Records of a traced run: operator, lane and times of each launch; never a source of latencies."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["TraceEvent"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceEvent:
    """A launch of one operator in one run; the times are nanoseconds since the run began."""

    operator: str
    stage: int
    group: int
    lane: int
    start_ns: int
    end_ns: int
