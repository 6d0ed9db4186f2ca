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
    """Of IOS over sequential order; where measured, the median of the rounds' ratios."""
    race: Comparison | None
    """All rounds; None where nothing was measured."""
    peer: str = ""
    """The fastest of the other frameworks; empty where none raced."""
    peer_ms: float | None = None
    over_peer: tuple[float, float, float] | None = None
    """How many times as fast as it IOS is, and the interval of that."""
    same: bool = False
    """Whether what IOS found is sequential order, which raced once."""
    left_out: tuple[str, ...] = ()
    """Who took no part, and why."""
