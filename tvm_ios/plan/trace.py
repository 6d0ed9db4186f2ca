"""What a traced run records: who ran what, when, on which lane. Never the source of a latency."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["TraceEvent"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceEvent:
    """One operator launch of one run."""

    operator: str
    stage: int
    group: int
    lane: int
    start_ns: int
    """Since the run began."""
    end_ns: int
