"""Cells of the experiment batch size and what is found in them."""

from __future__ import annotations

from dataclasses import dataclass

from tvm_ios.measure.comparison import Comparison

__all__ = ["TimedBatch"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedBatch:
    """Latencies of a run of the whole batch."""

    sequential_ms: float
    ios_ms: float
    speedup: float
    """Speedup of IOS over sequential order; where measured, the median of the rounds' ratios."""
    race: Comparison | None
    """Race with all rounds; None where nothing was measured."""
    peer: str = ""
    """The fastest of the other frameworks; empty where none raced."""
    peer_ms: float | None = None
    over_peer: tuple[float, float, float] | None = None
    """Speedup of IOS over that peer, and its interval."""
    same: bool = False
    """Whether what IOS found is sequential order, which raced once."""
    left_out: tuple[str, ...] = ()
    """Contestants that took no part, and why."""
