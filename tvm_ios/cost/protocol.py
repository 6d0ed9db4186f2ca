"""Seams around prices: a cost model prices candidate stages for a search, a runner runs them.

Prices are whole nanoseconds, so sums and ties are exact and a search is reproducible. A cost model
has to price. Optional protocols for further knowledge are declared here too, and used in one place,
:class:`tvm_ios.search.pricer.Pricer`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.schedule import Stage

__all__ = [
    "CostModel",
    "DescribedModel",
    "FloorModel",
    "LaneModel",
    "LowerBoundModel",
    "PredictingModel",
    "StageRunner",
    "TimedStage",
]


class CostModel(Protocol):
    """A cost model: prices stages of a graph."""

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
    """A cost model with lower bounds that are cheaper to have than prices."""

    def lower_bound(self, graph: OperatorGraph, stages: Sequence[Stage]) -> Sequence[int]:
        """Lower bound of the price of each stage, in nanoseconds."""
        ...


@runtime_checkable
class PredictingModel(Protocol):
    """A cost model that predicts prices, which is cheaper than to price."""

    def predicted(self, graph: OperatorGraph, stages: Sequence[Stage]) -> Sequence[int]:
        """Likely price of each stage in nanoseconds; 0 where nothing is known but its bound."""
        ...


@runtime_checkable
class FloorModel(Protocol):
    """A cost model under which a stage may cost less than a part of it."""

    def floors(
        self, graph: OperatorGraph, stages: Sequence[Stage], prices_ns: Sequence[int]
    ) -> Sequence[int]:
        """Floor in nanoseconds of each stage: no stage that contains it costs less; may be 0."""
        ...


@runtime_checkable
class LaneModel(Protocol):
    """A cost model in whose prices idle lanes help."""

    def operators_ns(self, graph: OperatorGraph, *, lanes: int) -> Sequence[int]:
        """Nanoseconds of each operator on a number of lanes; 0 where it needs no kernel."""
        ...


@runtime_checkable
class DescribedModel(Protocol):
    """A cost model that describes the source of its prices; for those that do not measure."""

    @property
    def description(self) -> str:
        """Source of the prices, for the schedule and every report of it."""
        ...


class TimedStage(Protocol):
    """A stage that is ready to run; freed when it is dropped."""

    def time_ns(self, number: int, /) -> int:
        """Nanoseconds of ``number`` back-to-back runs."""
        ...


class StageRunner(Protocol):
    """A runner of single stages of a graph, with kernels and buffers in place."""

    def prepare(self, graph: OperatorGraph, stage: Stage) -> TimedStage:
        """Make a stage ready to run."""
        ...

    def ping_pong_ns(self) -> float:
        """Nanoseconds of a core-to-core hand-off between two lanes; 0 with one lane."""
        ...

    def waited_ns(self) -> int | None:
        """Nanoseconds that lanes waited for a core while timed; None where nobody counts them."""
        ...
