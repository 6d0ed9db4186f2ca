"""Cells of the experiment batch specialization and what is found in them."""

from __future__ import annotations

from dataclasses import dataclass

from tvm_ios.measure.comparison import Comparison

__all__ = ["RunAtBatch"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunAtBatch:
    """Latencies at one batch, by the batch that a schedule was found for."""

    found_for: tuple[int, ...]
    ms: tuple[float, ...]
    picture: str
    """File of a picture of the last block's schedule for this batch; empty where there is none."""
    race: Comparison | None
    """Race with all rounds; None where nothing was measured."""
