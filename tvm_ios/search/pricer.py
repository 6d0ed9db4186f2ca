"""Asks a cost model for prices, each stage once, and refuses answers that are no prices."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.schedule import Stage
from tvm_ios.cost.protocol import (
    CostModel,
    DescribedModel,
    FloorModel,
    LaneModel,
    LowerBoundModel,
)
from tvm_ios.errors import SearchError
from tvm_ios.search.chains import Contraction
from tvm_ios.support.whole_number import as_whole

__all__ = ["LARGEST_PRICE_NS", "Pricer"]

LARGEST_PRICE_NS = 1 << 36
"""More than a minute for one stage is a mistake; so 64 prices and the ties fit 64 bits."""


class Pricer:
    """Everything a search knows of the prices of one graph.

    A search sees units, which may be chains of operators; the cost model sees operators only. All
    that it says carries over. The price of a stage of units is defined as that of the stage of
    their operators, so a lower bound of the one is a lower bound of the other. And where a stage of
    units contains another, each group of it within a group of its own, the same holds for their
    operators, for no operator is in two units: so a floor carries over, too.

    Parameters
    ----------
    contraction
        The units that are searched over; every operator is one where omitted.
    """

    def __init__(
        self, graph: OperatorGraph, cost_model: CostModel, contraction: Contraction | None = None
    ) -> None:
        self._graph = graph
        self._cost_model = cost_model
        self._contraction = contraction
        units = graph if contraction is None else contraction.graph
        self._singles = [Stage(((unit,),)) for unit in range(len(units))]
        self._known_ns: dict[Stage, int] = {}

    @cached_property
    def singles_ns(self) -> list[int]:
        """Price of every unit in a stage of its own."""
        return self.price(self._singles)

    @property
    def count(self) -> int:
        """Stages priced so far."""
        return len(self._known_ns)

    @property
    def description(self) -> str:
        """Where the prices come from, as far as the cost model says it."""
        model = self._cost_model
        return model.description if isinstance(model, DescribedModel) else ""

    @property
    def knows_lower_bounds(self) -> bool:
        """Whether stages have bounds that are more than 0 before anything was priced."""
        return isinstance(self._cost_model, LowerBoundModel)

    def price(self, stages: Sequence[Stage]) -> list[int]:
        """Latency of stages, in nanoseconds; those never asked for before are one batch.

        Raises
        ------
        SearchError
            If the cost model answers with too few prices or with something that is no price.
        """
        if new := [stage for stage in stages if stage not in self._known_ns]:
            answers = self._cost_model.price(self._graph, self._expanded(new))
            self._known_ns.update(zip(new, self._checked("price", new, answers), strict=True))
        return [self._known_ns[stage] for stage in stages]

    def operators_ns(self, lanes: int) -> Sequence[int]:
        """Time of each operator on so many lanes, in nanoseconds; 0 where it needs no kernel.

        Of a model that says nothing of lanes it is the price of a stage of its own. Every operator
        has to be a unit.

        Raises
        ------
        SearchError
            As :meth:`price` does.
        """
        if not isinstance(self._cost_model, LaneModel):
            return self.singles_ns
        answers = self._cost_model.operators_ns(self._graph, lanes=lanes)
        return self._checked("price", self._singles, answers)

    def lower_bounds(self, stages: Sequence[Stage]) -> Sequence[int]:
        """What each stage costs at least, in nanoseconds; 0 where the cost model does not know.

        Raises
        ------
        SearchError
            As :meth:`price` does.
        """
        if not isinstance(self._cost_model, LowerBoundModel):
            return [0] * len(stages)
        answers = self._cost_model.lower_bound(self._graph, self._expanded(stages))
        return self._checked("lower bound", stages, answers)

    def floors(self, stages: Sequence[Stage], prices_ns: Sequence[int]) -> Sequence[int]:
        """What no stage that contains one of these costs less than; their prices as a rule.

        Raises
        ------
        SearchError
            As :meth:`price` does.
        """
        if not isinstance(self._cost_model, FloorModel):
            return prices_ns
        answers = self._cost_model.floors(self._graph, self._expanded(stages), prices_ns)
        return self._checked("floor", stages, answers)

    def _expanded(self, stages: Sequence[Stage]) -> Sequence[Stage]:
        """The stages of operators that stages of units are."""
        if self._contraction is None:
            return stages
        return [self._contraction.expand(stage) for stage in stages]

    def _checked(self, what: str, stages: Sequence[Stage], answers: Sequence[object]) -> list[int]:
        """A price or bound for each stage: the compiled search reads as many as it asked for."""
        if len(answers) != len(stages):
            raise SearchError(
                f"graph {self._graph.name!r}: the cost model was asked for {len(stages)} {what}s "
                f"and gave {len(answers)}; it must give one a stage, in order"
            )
        return [
            answer
            if type(answer) is int and 0 <= answer <= LARGEST_PRICE_NS
            else self._whole(what, stage, answer)
            for stage, answer in zip(stages, answers, strict=True)
        ]

    def _whole(self, what: str, stage: Stage, answer: object) -> int:
        number = as_whole(answer)
        if number is not None and 0 <= number <= LARGEST_PRICE_NS:
            return number
        raise SearchError(
            f"graph {self._graph.name!r}: the cost model gave {answer!r} for the "
            f"{stage.strategy.value} stage {stage.groups}; a {what} is a whole number of "
            f"nanoseconds from 0 to {LARGEST_PRICE_NS}"
        )
