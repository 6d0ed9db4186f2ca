"""Prices of stages from a cost model, each asked for once; other answers are refused."""

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
    PredictingModel,
)
from tvm_ios.errors import SearchError
from tvm_ios.search.chains import Contraction
from tvm_ios.support.whole_number import as_whole

__all__ = ["LARGEST_PRICE_NS", "Pricer"]

LARGEST_PRICE_NS = 1 << 36
"""Limit of a price of one stage in nanoseconds: a minute. With it 64 prices and ties fit 64
bits."""


class Pricer:
    """Prices of one graph, as far as a search knows them.

    A search sees units, which may be chains of operators; the cost model sees operators only. All
    its answers carry over. The price of a stage of units is defined as that of the stage of their
    operators, so lower bounds of the two agree. If a stage of units contains another, with each
    group of it within one of its own groups, the same holds for their operators, since no operator
    is in two units: so a floor carries over, too. Without a contraction every operator is a unit.
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
        """Price of every unit in a stage of its own, in nanoseconds."""
        return self.price(self._singles)

    @property
    def count(self) -> int:
        """Number of stages priced so far."""
        return len(self._known_ns)

    @property
    def description(self) -> str:
        """Source of the prices, as the cost model describes it; may be empty."""
        model = self._cost_model
        return model.description if isinstance(model, DescribedModel) else ""

    @property
    def knows_lower_bounds(self) -> bool:
        """True if stages have bounds above 0 before anything is priced."""
        return isinstance(self._cost_model, LowerBoundModel)

    def price(self, stages: Sequence[Stage]) -> list[int]:
        """Latency of stages in nanoseconds; all stages not asked for before are one batch."""
        if new := [stage for stage in stages if stage not in self._known_ns]:
            answers = self._cost_model.price(self._graph, self._expanded(new))
            self._known_ns.update(zip(new, self._checked("price", new, answers), strict=True))
        return [self._known_ns[stage] for stage in stages]

    def operators_ns(self, lanes: int) -> Sequence[int]:
        """Nanoseconds of each operator on a number of lanes; 0 where it needs no kernel.

        A cost model without lanes answers with the price of a stage of its own. Every operator has
        to be a unit.
        """
        if not isinstance(self._cost_model, LaneModel):
            return self.singles_ns
        answers = self._cost_model.operators_ns(self._graph, lanes=lanes)
        return self._checked("price", self._singles, answers)

    def lower_bounds(self, stages: Sequence[Stage]) -> Sequence[int]:
        """Lower bound of each stage's price in nanoseconds; 0 where the cost model has none."""
        if not isinstance(self._cost_model, LowerBoundModel):
            return [0] * len(stages)
        answers = self._cost_model.lower_bound(self._graph, self._expanded(stages))
        return self._checked("lower bound", stages, answers)

    @property
    def predicts(self) -> bool:
        """True if the cost model predicts prices."""
        return isinstance(self._cost_model, PredictingModel)

    def predicted(self, stages: Sequence[Stage]) -> Sequence[int]:
        """Likely price of each stage in nanoseconds; 0 where the cost model predicts none."""
        if not isinstance(self._cost_model, PredictingModel):
            return [0] * len(stages)
        answers = self._cost_model.predicted(self._graph, self._expanded(stages))
        return self._checked("prediction", stages, answers)

    def floors(self, stages: Sequence[Stage], prices_ns: Sequence[int]) -> Sequence[int]:
        """Floor of each stage in nanoseconds: no stage that contains it costs less."""
        if not isinstance(self._cost_model, FloorModel):
            return prices_ns
        answers = self._cost_model.floors(self._graph, self._expanded(stages), prices_ns)
        return self._checked("floor", stages, answers)

    def _expanded(self, stages: Sequence[Stage]) -> Sequence[Stage]:
        """Stages of operators for stages of units."""
        if self._contraction is None:
            return stages
        return [self._contraction.expand(stage) for stage in stages]

    def _checked(self, what: str, stages: Sequence[Stage], answers: Sequence[object]) -> list[int]:
        """Checked prices or bounds, one a stage: the compiled search reads one for each."""
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
