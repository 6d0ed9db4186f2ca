"""What single operators take by each way to compute them: own kernels or a library, whole or split.

All ways of an operator are priced next to each other, since the fastest one is chosen.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from tvm_ios.core.schedule import Stage
from tvm_ios.cost.measured import MeasuredCostModel
from tvm_ios.measure.sampling import HOPELESS
from tvm_ios.profile.kernel_variant import VariantGraph, by_library, without_help
from tvm_ios.profile.stage_kernels import RelayStageRunner

__all__ = ["LONG_NS", "SLOWEST_HOP_NS", "PricedWay", "WayPrices", "is_short"]

_Ways = Mapping[str | None, tuple[VariantGraph, Collection[int]]]
"""By own kernels (None) and by each library: the graph with them, and the operators they can run.
"""
FETCHES_AT_ONCE = 10
"""Cache lines a core waits for together when it reads what another core wrote."""
LINE_BYTES = 64
AT_ONCE = 8
"""Operators priced next to each other, by all ways, before those that are of interest still are
priced without help: few enough to have both at one time."""
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
        A way that is far slower than another one with help is not run without: its price on one
        lane is that of all its lanes together.

        Raises
        ------
        CostError
            If an operator cannot be run.
        """
        able = self._runner.library_names
        graphs: _Ways = {
            None: (self._whole, range(len(self._whole))),
            **{name: (by_library(self._whole, name, able[name]), able[name]) for name in able},
        }
        promising = graphs
        if len(graphs) > 1:
            promising = self._measure_in_turns(graphs)
        self._ways = {
            by: self._priced(graph, sorted(operators), promising[by][1])
            for by, (graph, operators) in graphs.items()
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

    def _measure_in_turns(self, ways: _Ways) -> _Ways:
        """Measure all ways to run an operator at one time; with help and without are two questions.

        On many lanes a kernel without help takes many times as long, and is no worse for that.

        Returns
        -------
        _Ways
            Those that are not far slower than another one with help; only they run without.
        """
        alone = {by: (without_help(graph, each), each) for by, (graph, each) in ways.items()}
        promising: dict[str | None, set[int]] = {by: set() for by in ways}
        for first in range(0, len(self._whole), AT_ONCE):
            operators = range(len(self._whole))[first : first + AT_ONCE]
            prices_ns = self._price_ways(ways, operators)
            for (by, index), price_ns in prices_ns.items():
                others_ns = (prices_ns.get((other, index), price_ns) for other in ways)
                if price_ns <= HOPELESS * min(others_ns):
                    promising[by].add(index)
            if self._runner.idle_lanes_help:
                asked = {by: (graph, promising[by]) for by, (graph, _) in alone.items()}
                self._price_ways(asked, operators)
        return {by: (graph, promising[by]) for by, (graph, _) in ways.items()}

    def _price_ways(
        self, ways: _Ways, operators: Iterable[int]
    ) -> dict[tuple[str | None, int], int]:
        """Nanoseconds of operators by each way that can run them; the ways of one compete."""
        asked = [
            [(by, index) for by, (_, able) in ways.items() if index in able] for index in operators
        ]
        prices_ns = self._measured.price_ways(
            [[(ways[by][0], Stage(((index,),))) for by, index in each] for each in asked]
        )
        return dict(zip(chain.from_iterable(asked), prices_ns, strict=True))

    def _priced(
        self, graph: VariantGraph, operators: Sequence[int], promising: Collection[int]
    ) -> dict[int, PricedWay]:
        """Operators by the kernels of a graph, with help where there is any, and some without."""
        stages = [Stage(((index,),)) for index in operators]
        helped_ns = self._measured.price(graph, stages)
        if not self._runner.idle_lanes_help:
            return {
                index: PricedWay(price_ns=price_ns, alone_ns=price_ns, whole=False)
                for index, price_ns in zip(operators, helped_ns, strict=True)
            }
        hopeful = [index for index in operators if index in promising]
        alone_ns = dict(
            zip(
                hopeful,
                self._measured.price(
                    without_help(graph, operators), [Stage(((index,),)) for index in hopeful]
                ),
                strict=True,
            )
        )
        # The best of a few, and never the slow mode's: the choice must not depend on the moment.
        hop_ns = min(SLOWEST_HOP_NS, *(self._runner.ping_pong_ns() for _ in range(5)))
        fetch_ns = hop_ns / (LINE_BYTES * FETCHES_AT_ONCE)
        found = {}
        for index, helped in zip(operators, helped_ns, strict=True):
            alone = alone_ns.get(index, self._runner.lanes * helped)
            moved_bytes = min(graph.operators[index].memory_bytes / 2, MOST_BYTES_MOVED)
            whole = is_short(alone) and alone - helped <= moved_bytes * fetch_ns
            found[index] = PricedWay(
                price_ns=alone if whole else helped, alone_ns=alone, whole=whole
            )
        return found
