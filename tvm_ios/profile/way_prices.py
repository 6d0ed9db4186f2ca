"""What single operators take by each way to compute them: own kernels or a library, whole or split.

All ways of an operator are priced next to each other, since the fastest one is chosen.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from tvm_ios.core.schedule import Stage
from tvm_ios.cost.measured import MeasuredCostModel
from tvm_ios.measure.sampling import HOPELESS
from tvm_ios.profile.kernel_variant import VariantGraph, by_library, without_help
from tvm_ios.profile.stage_kernels import RelayStageRunner

__all__ = ["LONG_NS", "SLOWEST_HOP_NS", "PricedWay", "WayPrices", "is_short"]

FETCHES_AT_ONCE = 10
"""Cache lines a core waits for together when it reads what another core wrote."""
LINE_BYTES = 64
SLOWEST_HOP_NS = 200.0
"""A core-to-core hand-off above this is the machine's slow mode."""
MOST_BYTES_MOVED = 65536
"""The cost of moving more is hidden: prefetchers follow, and the arithmetic takes longer."""
LONG_NS = 50_000
"""What takes longer on one lane is always split: half of it is many times what moving its data to
another core costs. Prices that say otherwise are of a moment in which others had that core."""


def is_short(alone_ns: int) -> bool:
    """Whether help may cost an operator of that price on one lane more than it brings."""
    return alone_ns < LONG_NS


@dataclass(frozen=True, slots=True, kw_only=True)
class PricedWay:
    """What an operator takes by one of its kernels, in nanoseconds."""

    price_ns: int
    """As it would run: on one lane, or with help."""
    alone_ns: int
    whole: bool
    """Whether help gains too little."""


class WayPrices:
    """Prices of the operators of one built module, by each way.

    Parameters
    ----------
    runner
        What runs them, and knows which of them libraries can compute.
    whole
        The graph with own kernels.
    measured
        What prices stages.
    """

    def __init__(
        self, runner: RelayStageRunner, whole: VariantGraph, measured: MeasuredCostModel
    ) -> None:
        self._runner = runner
        self._whole = whole
        self._measured = measured
        self._ways: dict[str | None, dict[int, PricedWay]] = {}
        """By own kernels (None) and by each library."""

    def measure(self) -> None:
        """Price every operator by each way, with and without the help of idle lanes.

        Short operators that gain too little from help are left whole: help has to gain more than it
        costs to move half of what the operator reads and writes between the caches of two cores,
        which the price of one operator run again and again does not show. On a GPU nothing helps.

        Raises
        ------
        CostError
            If an operator cannot be run.
        """
        able = self._runner.library_names
        graphs: dict[str | None, tuple[VariantGraph, Collection[int]]] = {
            None: (self._whole, range(len(self._whole))),
            **{name: (by_library(self._whole, name, able[name]), able[name]) for name in able},
        }
        if len(graphs) > 1:
            self._measure_in_turns(list(graphs.values()))
        self._ways = {
            by: self._priced(graph, sorted(operators)) for by, (graph, operators) in graphs.items()
        }

    def way(self, index: int, library: str | None) -> PricedWay:
        """What an operator takes by a library that computes it, or by its own kernel (None)."""
        return self._ways[library][index]

    def fastest_by(self, index: int) -> str | None:
        """The library that computes an operator fastest; None for own kernels."""
        able = [by for by, ways in self._ways.items() if index in ways]
        return min(able, key=lambda by: self._ways[by][index].price_ns)

    def is_promising(self, index: int, library: str | None) -> bool:
        """Whether a library, or an own kernel, computes an operator, and nothing is far faster."""
        asked = self._ways[library].get(index)
        fastest = self.way(index, self.fastest_by(index))
        return asked is not None and asked.price_ns <= HOPELESS * fastest.price_ns

    def _measure_in_turns(self, ways: list[tuple[VariantGraph, Collection[int]]]) -> None:
        """Measure all ways to run an operator at one time; with help and without are two questions.

        On many lanes a kernel without help takes many times as long, and is no worse for that.
        """
        questions = [ways]
        if self._runner.idle_lanes_help:
            questions.append([(without_help(graph, each), each) for graph, each in ways])
        self._measured.price_ways(
            [
                [(graph, Stage(((index,),))) for graph, operators in asked if index in operators]
                for index in range(len(self._whole))
                for asked in questions
            ]
        )

    def _priced(self, graph: VariantGraph, operators: Sequence[int]) -> dict[int, PricedWay]:
        """Operators by the kernels of a graph, with and without help where there is any."""
        stages = [Stage(((index,),)) for index in operators]
        helped_ns = self._measured.price(graph, stages)
        if not self._runner.idle_lanes_help:
            return {
                index: PricedWay(price_ns=price_ns, alone_ns=price_ns, whole=False)
                for index, price_ns in zip(operators, helped_ns, strict=True)
            }
        alone_ns = self._measured.price(without_help(graph, operators), stages)
        # The best of a few, and never the slow mode's: the choice must not depend on the moment.
        hop_ns = min(SLOWEST_HOP_NS, *(self._runner.ping_pong_ns() for _ in range(5)))
        fetch_ns = hop_ns / (LINE_BYTES * FETCHES_AT_ONCE)
        found = {}
        for index, helped, alone in zip(operators, helped_ns, alone_ns, strict=True):
            moved_bytes = min(graph.operators[index].memory_bytes / 2, MOST_BYTES_MOVED)
            whole = is_short(alone) and alone - helped <= moved_bytes * fetch_ns
            found[index] = PricedWay(
                price_ns=alone if whole else helped, alone_ns=alone, whole=whole
            )
        return found
