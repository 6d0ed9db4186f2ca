"""Asks a cost model for prices, each stage once, and refuses answers that are no prices."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral

from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.schedule import Stage
from tvm_ios.cost.protocol import CostModel
from tvm_ios.errors import SearchError

__all__ = ["LARGEST_PRICE_NS", "Pricer"]

LARGEST_PRICE_NS = 1 << 36
"""More than a minute for one stage is a mistake; so sums of prices fit 64 bits with room for ties."""


class Pricer:
    """Prices of one graph, remembered."""

    def __init__(self, graph: OperatorGraph, cost_model: CostModel) -> None:
        self._graph = graph
        self._cost_model = cost_model
        self._prices: dict[Stage, int] = {}

    @property
    def count(self) -> int:
        """Stages priced so far."""
        return len(self._prices)

    def price(self, stages: Sequence[Stage]) -> list[int]:
        """Latency of every stage in nanoseconds; the cost model sees only new ones, in one batch.

        Raises
        ------
        SearchError
            If the cost model answers with too few prices or with something that is no price.
        """
        unknown = [stage for stage in dict.fromkeys(stages) if stage not in self._prices]
        if unknown:
            answers = self._cost_model.price(self._graph, unknown)
            if len(answers) != len(unknown):
                raise SearchError(
                    f"graph {self._graph.name!r}: the cost model was asked for {len(unknown)} "
                    f"prices and gave {len(answers)}; it must give one a stage, in order"
                )
            for stage, answer in zip(unknown, answers, strict=True):
                self._prices[stage] = self._checked(stage, answer)
        return [self._prices[stage] for stage in stages]

    def _checked(self, stage: Stage, answer: object) -> int:
        if type(answer) is int or (isinstance(answer, Integral) and not isinstance(answer, bool)):
            price = int(answer)
            if 0 <= price <= LARGEST_PRICE_NS:
                return price
        raise SearchError(
            f"graph {self._graph.name!r}: the cost model gave {answer!r} for the "
            f"{stage.strategy.value} stage {stage.groups}; a price is a whole number of "
            f"nanoseconds from 0 to {LARGEST_PRICE_NS}"
        )
