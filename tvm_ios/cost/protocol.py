"""The seam between search and prices: a cost model prices candidate stages, in nanoseconds.

Prices are whole nanoseconds, so sums and ties are exact and a search is reproducible. A cost model
has to price; what else it may know of its prices is declared here too, and asked for in one place,
:class:`tvm_ios.search.pricer.Pricer`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.schedule import Stage

__all__ = ["CostModel", "DescribedModel", "FloorModel", "LaneModel", "LowerBoundModel"]


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


@runtime_checkable
class LowerBoundModel(Protocol):
    """What a cost model may offer whose bounds are cheaper to have than its prices."""

    def lower_bound(self, graph: OperatorGraph, stages: Sequence[Stage]) -> Sequence[int]:
        """Nanoseconds that the price of each stage is never below."""
        ...


@runtime_checkable
class FloorModel(Protocol):
    """What a cost model has to offer under which a stage may cost less than a part of it."""

    def floors(
        self, graph: OperatorGraph, stages: Sequence[Stage], prices_ns: Sequence[int]
    ) -> Sequence[int]:
        """Nanoseconds that no stage costs less than that contains the stage of this price; or 0."""
        ...


@runtime_checkable
class LaneModel(Protocol):
    """What a cost model may offer in whose prices idle lanes help."""

    def operators_ns(self, graph: OperatorGraph, *, lanes: int) -> Sequence[int]:
        """Time of each operator on so many lanes, in nanoseconds; 0 where it needs no kernel."""
        ...


@runtime_checkable
class DescribedModel(Protocol):
    """What a cost model that does not measure may offer."""

    @property
    def description(self) -> str:
        """Where its prices come from; goes into the schedule and every report of it."""
        ...
