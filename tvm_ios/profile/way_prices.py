"""Prices of single operators by each way: own kernel or operator library, with or without help.

Since the fastest way is chosen, all ways of an operator are priced next to each other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from tvm_ios.core.schedule import Stage
from tvm_ios.cost.measured import MeasureCounters, MeasuredStages
from tvm_ios.measure.sampling import HOPELESS, LONG_SAMPLE_NS
from tvm_ios.profile.kernel_variant import VariantGraph, by_library, without_help
from tvm_ios.profile.stage_kernels import RelayStageRunner

__all__ = ["LONG_FLOPS", "LONG_NS", "SLOWEST_HOP_NS", "PricedWay", "WayPrices", "is_short"]

_Ways = Mapping[str | None, tuple[VariantGraph, Collection[int]]]
"""Graph with own kernels (None) and with each library's, and the operators that each can run."""
FETCHES_AT_ONCE = 10
"""Cache lines that a core waits for together when it reads what another core wrote."""
LINE_BYTES = 64
SLOWEST_HOP_NS = 200.0
"""Nanoseconds of a core-to-core hand-off above which the machine is in its slow mode."""
MOST_BYTES_MOVED = 65536
"""Bytes beyond which moving costs nothing more: prefetchers follow, and arithmetic is longer."""
LONG_FLOPS = 20_000_000
"""Floating-point operations that no core does within :data:`LONG_NS`."""
LONG_NS = 50_000
"""Nanoseconds on one lane from which on an operator is always split: half of it is many times the
cost of moving its data. Prices that say otherwise are of a moment when others had that core."""


def is_short(alone_ns: int) -> bool:
    """True if help may cost an operator of this price on one lane more than it gains."""
    return alone_ns < LONG_NS


@dataclass(frozen=True, slots=True, kw_only=True)
class PricedWay:
    """Price of an operator by one of its kernels."""

    price_ns: int
    """Nanoseconds as it would run: on one lane, or with help."""
    alone_ns: int
    """Nanoseconds on one lane; an upper bound for a way that is far slower than another with
    help."""
    whole: bool
    """True if help gains too little."""


class WayPrices:
    """Prices of the operators of one built module in each way; ``whole`` has TVM's own kernels."""

    def __init__(
        self,
        runner: RelayStageRunner,
        whole: VariantGraph,
        measured: MeasuredStages,
        on_batch: Callable[[MeasureCounters], None] | None = None,
    ) -> None:
        self._runner = runner
        self._whole = whole
        self._measured = measured
        self._on_batch = on_batch
        self._ways: dict[str | None, dict[int, PricedWay]] = {}
        """Prices with own kernels (None) and with each library, by operator."""

    def measure(self) -> None:
        """Price every operator in each way, with and without the help of idle lanes.

        Short operators that gain too little from help are kept on one lane. Help has to gain more
        than it costs to move half of the operator's data between the caches of two cores, a cost
        that prices of a repeated operator do not show. On a GPU nothing helps. A way that takes
        long with help, and far longer than another one, is not run without help.
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
        """Price of an operator by a library that computes it, or by its own kernel (None)."""
        return self._ways[library][index]

    def fastest_by(self, index: int) -> str | None:
        """Key of the operator library that computes an operator fastest; None for own kernels."""
        able = [by for by, ways in self._ways.items() if index in ways]
        return min(able, key=lambda by: self._ways[by][index].price_ns)

    def is_promising(self, index: int, library: str | None) -> bool:
        """True if a library (None: own kernel) can compute an operator and is not far slower."""
        asked = self._ways[library].get(index)
        fastest = self.way(index, self.fastest_by(index))
        return asked is not None and asked.price_ns <= HOPELESS * fastest.price_ns

    def _measure_in_turns(self, ways: _Ways) -> Mapping[str | None, Collection[int]]:
        """Operators of each way that have a price without help, too, where lanes help.

        All ways are measured at one time, as two questions: with help and without. On many lanes a
        kernel without help takes many times as long, and is no worse for that. Both questions are
        asked at one time where help may not pay. Left out are operators that take long, and far
        longer than in another way.
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
        """Nanoseconds of operators in each way that can run them, from the last question."""
        asked = [
            [(by, graph, index) for by, (graph, able) in ways.items() if index in able]
            for index in operators
            for ways in questions
        ]
        prices_ns = self._measured.price(
            [[(graph, Stage(((index,),))) for _, graph, index in each] for each in asked],
            on_batch=self._on_batch,
        )
        flat = chain.from_iterable(asked)
        return {(by, i): ns for (by, _, i), ns in zip(flat, prices_ns, strict=True)}

    def _priced(
        self, graph: VariantGraph, operators: Sequence[int], hopeful: Sequence[int]
    ) -> dict[int, PricedWay]:
        """Prices of operators with a graph's kernels: with help if any, some without, too."""
        singles = [[(graph, Stage(((index,),)))] for index in operators]
        helped_ns = self._measured.price(singles, on_batch=self._on_batch)
        if not self._runner.idle_lanes_help:
            return {
                index: PricedWay(price_ns=price_ns, alone_ns=price_ns, whole=False)
                for index, price_ns in zip(operators, helped_ns, strict=True)
            }
        alone = without_help(graph, operators)
        singles = [[(alone, Stage(((index,),)))] for index in hopeful]
        measured_ns = self._measured.price(singles, on_batch=self._on_batch)
        alone_ns = dict(zip(hopeful, measured_ns, strict=True))
        # The best of a few, and never the slow mode's: the choice must not depend on the moment.
        hop_ns = min(SLOWEST_HOP_NS, *(self._runner.ping_pong_ns() for _ in range(5)))
        fetch_ns = hop_ns / (LINE_BYTES * FETCHES_AT_ONCE)
        found = {}
        for index, helped in zip(operators, helped_ns, strict=True):
            one_lane_ns = alone_ns.get(index, self._runner.lanes * helped)
            moved_bytes = min(graph.operators[index].memory_bytes / 2, MOST_BYTES_MOVED)
            whole = is_short(one_lane_ns) and one_lane_ns - helped <= moved_bytes * fetch_ns
            found[index] = PricedWay(
                price_ns=one_lane_ns if whole else helped, alone_ns=one_lane_ns, whole=whole
            )
        return found
