"""Cells of the experiment pruning and what is found in them."""

from __future__ import annotations

from dataclasses import dataclass

from tvm_ios.measure.comparison import Comparison

__all__ = ["LIMITS", "PrunedNetwork", "PrunedSearch", "limits_text"]

LIMITS = tuple((r, s) for r in (1, 2, 3) for s in (3, 8))
"""The paper's r and s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrunedSearch:
    """A search within one pair of limits."""

    max_group_size: int
    max_num_groups: int
    lazy: bool
    """Whether only stages are priced that can win; else all of them."""
    ms: float
    """Milliseconds of the schedule; both kinds of search find equally good ones, and where measured
    only that of the lazy one is raced."""
    seconds: float
    """Seconds of the search, pricing included; no price is known before, but all merges are
    compiled."""
    priced: int
    """Number of stages that were priced."""
    possible: int
    states: int
    transitions: int
    """Counted as the paper does, without merges of one operator."""

    @property
    def limits(self) -> tuple[int, int]:
        """The pair, as in :data:`LIMITS`."""
        return self.max_group_size, self.max_num_groups


@dataclass(frozen=True, slots=True, kw_only=True)
class PrunedNetwork:
    """Searches of a network with all limits."""

    searches: tuple[PrunedSearch, ...]
    race: Comparison | None
    """Race of the schedules, one for each pair of limits; None where nothing was measured."""


def limits_text(limits: tuple[int, int]) -> str:
    """A pair of limits as a name."""
    return f"r={limits[0]} s={limits[1]}"
