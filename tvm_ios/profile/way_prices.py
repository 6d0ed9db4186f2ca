"""What single operators take by each way to compute them: own kernels or a library, whole or split.

All ways of an operator are priced next to each other, since the fastest one is chosen.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from tvm_ios.core.schedule import Stage
from tvm_ios.cost.measured import MeasuredCostModel
from tvm_ios.measure.sampling import HOPELESS, LONG_SAMPLE_NS
from tvm_ios.profile.kernel_variant import VariantGraph, by_library, without_help
from tvm_ios.profile.stage_kernels import RelayStageRunner

__all__ = ["LONG_FLOPS", "LONG_NS", "SLOWEST_HOP_NS", "PricedWay", "WayPrices", "is_short"]

_Ways = Mapping[str | None, tuple[VariantGraph, Collection[int]]]
"""By own kernels (None) and by each library: the graph with them, and the operators they can run.
"""
FETCHES_AT_ONCE = 10
"""Cache lines a core waits for together when it reads what another core wrote."""
LINE_BYTES = 64
SLOWEST_HOP_NS = 200.0
"""A core-to-core hand-off above this is the machine's slow mode."""
MOST_BYTES_MOVED = 65536
"""The cost of moving more is hidden: prefetchers follow, and the arithmetic takes longer."""
LONG_FLOPS = 20_000_000
"""No core does so many within :data:`LONG_NS`."""
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
    """On one lane; at most so much of a way that is far slower than another one with help."""
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
        A way that takes long with help, and far longer than another one, is not run without.
        """
        able = self._runner.library_names
        graphs: _Ways = {
            None: (self._whole, range(len(self._whole))),
            **{name: (by_library(self._whole, name, able[name]), able[name]) for name in able},
        }
        hopeful: Mapping[str | None, Collection[int]] = {None: range(len(self._whole))}
        if len(graphs) > 1:
            hopeful = self._measure_in_turns(graphs)
        self._ways = {
            by: self._priced(graph, sorted(operators), sorted(hopeful[by]))
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

    def _measure_in_turns(self, ways: _Ways) -> Mapping[str | None, Collection[int]]:
        """Measure all ways to run an operator at one time; with help and without are two questions.

        On many lanes a kernel without help takes many times as long, and is no worse for that. Both
        are asked at one time where help may not pay.

        Returns
        -------
        Mapping[str | None, Collection[int]]
            Operators that a way can run, and that have a price without help, too, where lanes help:
            all but those that take long, and far longer than by another way.
        """
        if not self._runner.idle_lanes_help:
            self._price_ways([ways], range(len(self._whole)))
            return {by: able for by, (_, able) in ways.items()}
        alone = {by: (without_help(graph, each), each) for by, (graph, each) in ways.items()}
        flops = [each.flops for each in self._whole.operators]
        maybe_short = [index for index, each in enumerate(flops) if each <= LONG_FLOPS]
        long = [index for index, each in enumerate(flops) if each > LONG_FLOPS]
        self._price_ways([ways, alone], maybe_short)
        prices_ns = self._price_ways([ways], long)
        hopeless = {
            (by, index)
            for (by, index), price_ns in prices_ns.items()
            if price_ns > LONG_SAMPLE_NS
            and price_ns > HOPELESS * min(prices_ns.get((other, index), price_ns) for other in ways)
        }
        hopeful = {
            by: [index for index in able if (by, index) not in hopeless]
            for by, (_, able) in ways.items()
        }
        self._price_ways([{by: (graph, hopeful[by]) for by, (graph, _) in alone.items()}], long)
        return hopeful

    def _price_ways(
        self, questions: Sequence[_Ways], operators: Iterable[int]
    ) -> dict[tuple[str | None, int], int]:
        """Nanoseconds of operators by each way that can run them, as the last question has it."""
        asked = [
            [(by, graph, index) for by, (graph, able) in ways.items() if index in able]
            for index in operators
            for ways in questions
        ]
        prices_ns = self._measured.price_ways(
            [[(graph, Stage(((index,),))) for _, graph, index in each] for each in asked]
        )
        flat = chain.from_iterable(asked)
        return {(by, i): ns for (by, _, i), ns in zip(flat, prices_ns, strict=True)}

    def _priced(
        self, graph: VariantGraph, operators: Sequence[int], hopeful: Sequence[int]
    ) -> dict[int, PricedWay]:
        """Operators by the kernels of a graph: with help where there is any, some without, too."""
        stages = [Stage(((index,),)) for index in operators]
        helped_ns = self._measured.price(graph, stages)
        if not self._runner.idle_lanes_help:
            return {
                index: PricedWay(price_ns=price_ns, alone_ns=price_ns, whole=False)
                for index, price_ns in zip(operators, helped_ns, strict=True)
            }
        stages = [Stage(((index,),)) for index in hopeful]
        measured_ns = self._measured.price(without_help(graph, operators), stages)
        alone_ns = dict(zip(hopeful, measured_ns, strict=True))
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
