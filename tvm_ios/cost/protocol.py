"""The seam between search and prices: a cost model prices candidate stages, in nanoseconds.

Prices are whole nanoseconds, so sums and ties are exact and a search is reproducible.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.schedule import Stage

__all__ = ["CostModel"]


class CostModel(Protocol):
    """Prices stages of a graph."""

    def price(self, graph: OperatorGraph, stages: Sequence[Stage]) -> Sequence[int]:
        """Latency of each stage, run by itself, in nanoseconds.

        Raises
        ------
        CostError
            If a stage cannot be priced.
        """
        ...
