"""Records of a traced run: who ran what, when, on which lane. Never the source of a latency."""

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
