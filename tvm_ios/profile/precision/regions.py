"""Choice of the operators that work in bfloat16, by prices of products and bytes of all others.

Comes before anything is compiled in bfloat16: an operator library is asked for the time of each
product in either type. Kernels that TVM compiles convert what they load and store at no cost that
counts beside its bytes; a library's product converts data of the other type before it begins.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tvm_ios.compile.dialects.dialect import dialect_here
from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.least_cut import least_cut
from tvm_ios.core.precision.low_precision import LowPrecision
from tvm_ios.core.precision.low_values import LowValues
from tvm_ios.host.lane_speeds import LaneSpeeds
from tvm_ios.profile.measuring_call import MeasuringCall
from tvm_ios.runtime.libraries.protocol import OperatorLibrary

__all__ = ["RegionCosts", "cheapest_regions", "region_costs"]

CONVERSION_NS = 500
"""Nanoseconds of a conversion of few data in front of a library's product."""


def region_costs(
    prepared: Any, libraries: Iterable[OperatorLibrary], call: MeasuringCall
) -> RegionCosts:
    """Costs of the operators of a prepared model of float32, with all that may be in bfloat16."""
    libraries, dialect = tuple(libraries), dialect_here()
    graph, values = prepared.extraction.graph, dialect.low_values(prepared.extraction)
    whole = values.most()
    lowered = dialect.with_low_precision(prepared, whole).extraction
    return RegionCosts(
        graph=graph,
        values=values,
        results=frozenset(whole.results),
        products=tuple(each.is_product and not each.own_loops for each in values.operators),
        exact_ns=call.library_ns(dialect.describe(prepared.extraction), libraries),
        low_ns=call.library_ns(dialect.describe(lowered), libraries),
        speeds=call.device.speeds,
        lanes=call.lanes,
    )


def cheapest_regions(costs: RegionCosts, *, kept: Collection[int] = ()) -> LowPrecision:
    """Values of a prepared model of float32 that are to be bfloat16, so that it is the fastest.

    Operators ``kept`` write float32, whatever that costs.
    """
    low = replace(
        costs,
        results=frozenset(costs.values.most(kept).results),
        low_ns=[None if index in kept else each for index, each in enumerate(costs.low_ns)],
    ).cheapest()
    slow = {
        index
        for index, is_one in enumerate(costs.products)
        if is_one and costs.low_ns[index] is None and costs.exact_ns[index] is None
    }
    return costs.values.most(
        kept={*kept, *(index for index, is_low in enumerate(low) if not is_low)},
        exact=slow,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionCosts:
    """Costs of operators in float32 and in bfloat16."""

    graph: OperatorGraph
    values: LowValues
    """Values that could be bfloat16."""
    results: frozenset[int]
    """Operators whose results may be bfloat16."""
    products: tuple[bool, ...]
    """True for operators that convert data of the other type before they begin."""
    exact_ns: Sequence[int | None]
    """Nanoseconds of an operator by a library in float32; None where it computes none."""
    low_ns: Sequence[int | None]
    """Such nanoseconds in bfloat16."""
    speeds: LaneSpeeds
    lanes: int

    def cheapest(self) -> tuple[bool, ...]:
        """Whether each operator works in bfloat16, at the least sum of costs."""
        operators = range(len(self.graph))
        return least_cut(
            [self._exact_cost(index) for index in operators],
            [self._low_cost(index) for index in operators],
            self._conversions(),
        )

    def _exact_cost(self, index: int) -> float:
        if not self.products[index]:
            return self.speeds.passed_ns(self.graph.operators[index].memory_bytes, self.lanes)
        found = self.exact_ns[index]
        return (
            self.speeds.bound_ns(self.graph.operators[index].flops, 0) if found is None else found
        )

    def _low_cost(self, index: int) -> float:
        if not self.products[index]:
            if index not in self.results:
                return math.inf
            return self.speeds.passed_ns(self.graph.operators[index].memory_bytes, self.lanes) / 2
        found = self.low_ns[index]
        if found is None:
            return math.inf
        exact = (each for each in self._reads(index) if each not in self.results)
        return found + sum(self._converted_ns(each) for each in exact)

    def _conversions(self) -> dict[tuple[int, int], float]:
        """Costs where one operator works in bfloat16 and the other one of a pair in float32."""
        found: dict[tuple[int, int], float] = {}
        for index, is_product_ in enumerate(self.products):
            for each in self._reads(index) if is_product_ else ():
                if each not in self.results:
                    continue
                has_call = self.exact_ns[index] is not None
                found[each, index] = self._converted_ns(each) if has_call else math.inf
                if self.low_ns[index] is not None:
                    found[index, each] = self._converted_ns(each)
        return found

    def _reads(self, index: int) -> tuple[int, ...]:
        return self.graph.operators[index].predecessors

    def _converted_ns(self, index: int) -> float:
        elements = self.graph.operators[index].output_elements
        return CONVERSION_NS + self.speeds.passed_ns(6 * elements, self.lanes)
