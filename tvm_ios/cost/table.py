"""A cost model that looks prices up: for tests, and for prices measured elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.schedule import Stage
from tvm_ios.errors import CostError

__all__ = ["TableCostModel"]


@dataclass(frozen=True, slots=True)
class TableCostModel:
    """Prices from a mapping, in nanoseconds."""

    prices_ns: Mapping[Stage, int]

    def price(self, graph: OperatorGraph, stages: Sequence[Stage]) -> list[int]:
        """The stored price of every stage.

        Raises
        ------
        CostError
            If a stage is not in the table.
        """
        try:
            return [self.prices_ns[stage] for stage in stages]
        except KeyError as error:
            stage = error.args[0]
            raise CostError(
                f"graph {graph.name!r}: the table has no price for the {stage.strategy.value} "
                f"stage {stage.groups}; add it, or use a cost model that can measure"
            ) from error
