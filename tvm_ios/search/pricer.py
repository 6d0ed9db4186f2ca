"""Asks a cost model for prices, each stage once, and refuses answers that are no prices."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Protocol, runtime_checkable

from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.schedule import Stage
from tvm_ios.cost.protocol import CostModel
from tvm_ios.errors import SearchError

__all__ = ["LARGEST_PRICE_NS", "FloorModel", "Pricer"]

LARGEST_PRICE_NS = 1 << 36
"""More than a minute for one stage is a mistake; so 64 prices and the ties fit 64 bits."""


@runtime_checkable
class FloorModel(Protocol):
    """What a cost model offers on top of prices where a stage may cost less than a part of it."""

    def floors(
        self, graph: OperatorGraph, stages: Sequence[Stage], prices_ns: Sequence[int]
    ) -> Sequence[int]:
        """Nanoseconds that no stage costs less than that contains the stage of this price."""
        ...


class Pricer:
    """The prices of one graph; single operators are priced at once, in one batch.

    Raises
    ------
    SearchError
        If the cost model answers with too few prices or with something that is no price.
    """

    def __init__(self, graph: OperatorGraph, cost_model: CostModel) -> None:
        self._graph = graph
        self._cost_model = cost_model
        self.count = 0
        """Stages priced so far."""
        self.singles_ns = self.price([Stage(((index,),)) for index in range(len(graph))])
        """Price of every operator in a stage of its own, by graph index."""

    def price(self, stages: Sequence[Stage]) -> list[int]:
        """Latency of stages never asked for before, in nanoseconds; one batch.

        Raises
        ------
        SearchError
            If the cost model answers with too few prices or with something that is no price.
        """
        if not stages:
            return []
        answers = self._cost_model.price(self._graph, stages)
        if len(answers) != len(stages):
            raise SearchError(
                f"graph {self._graph.name!r}: the cost model was asked for {len(stages)} prices "
                f"and gave {len(answers)}; it must give one a stage, in order"
            )
        self.count += len(stages)
        return [
            answer
            if type(answer) is int and 0 <= answer <= LARGEST_PRICE_NS
            else self._checked(stage, answer)
            for stage, answer in zip(stages, answers, strict=True)
        ]

    def floors(self, stages: Sequence[Stage], prices_ns: Sequence[int]) -> Sequence[int]:
        """What no stage that contains one of these costs less than; their prices as a rule."""
        if isinstance(self._cost_model, FloorModel):
            return self._cost_model.floors(self._graph, stages, prices_ns)
        return prices_ns

    def _checked(self, stage: Stage, answer: object) -> int:
        # NumPy integers are Integral; so is bool, and True is no price.
        if not isinstance(answer, bool) and isinstance(answer, Integral):
            price = int(answer)
            if 0 <= price <= LARGEST_PRICE_NS:
                return price
        raise SearchError(
            f"graph {self._graph.name!r}: the cost model gave {answer!r} for the "
            f"{stage.strategy.value} stage {stage.groups}; a price is a whole number of "
            f"nanoseconds from 0 to {LARGEST_PRICE_NS}"
        )
