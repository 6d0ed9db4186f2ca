"""Choice of each operator's maker and lanes: by whole networks, once prices are known."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

from tvm_ios.cost.known_choices import BuildChoice, KnownChoices
from tvm_ios.cost.measured import MeasureCounters
from tvm_ios.measure.comparison import Comparison
from tvm_ios.profile.measured_kernels import MeasuredKernels
from tvm_ios.profile.operator_measuring import SLOWEST_HOP_NS, measure_operators
from tvm_ios.profile.operator_prices import TVM, OperatorChoice, OperatorPrices
from tvm_ios.profile.prices import StagePrices
from tvm_ios.profile.race import VARIANT_RACE, race
from tvm_ios.profile.ways_in_network import ways_in_network, with_choice

__all__ = [
    "KnownWays",
    "clearly_fastest",
    "distinct_ways",
    "settled_choice",
    "settled_prices",
]

CLEARLY_FASTER = 1.02
LONG_OPERATOR_NS = 10_000_000
"""Average nanoseconds of an operator from which on prices decide alone: such operators meet the
same caches anywhere, and whole networks of them take seconds a run."""
BUSY = "while the machine was in its slow mode"

_LOG = logging.getLogger(__name__)


def settled_prices(
    kernels: MeasuredKernels, *, on_batch: Callable[[MeasureCounters], None] | None = None
) -> StagePrices:
    """Price the operators, and settle who computes each, and on which lanes.

    ``on_batch`` is called after each measured batch. After Ctrl-C all prices so far are kept, and a
    note on the exception says how to go on.
    """
    with kernels.resumable():
        prices = measure_operators(kernels, on_batch=on_batch)
        choice = settled_choice(kernels, prices)
    told = (f"{maker} {len(choice.made_by(maker))}" for maker in prices.by_maker)
    _LOG.info("operators by maker: %s; %d stay on one lane", ", ".join(told), len(choice.unsplit))
    return StagePrices(kernels, choice)


def settled_choice(kernels: MeasuredKernels, prices: OperatorPrices) -> OperatorChoice:
    """Choice by prices; where operators are short, whole networks decide.

    Each operator's times in the network choose its kernel or call, and whether idle lanes help.
    Then sequential order is timed in that way, in the way of the prices, with all operators split,
    and with no short ones split. The first is kept unless another one is clearly faster. A choice
    on a quiet machine is stored, and with it the keys of all prices that follow.
    """
    runner, by_price = kernels.runner, prices.choice()
    is_long = sum(by_price.alone_ns) >= LONG_OPERATOR_NS * len(prices.graph)
    if runner.lanes == 1 or not runner.idle_lanes_help or is_long:
        return by_price
    known = KnownWays(kernels.choices, kernels.identity)
    busy = runner.ping_pong_ns() > SLOWEST_HOP_NS
    choice = known.choice(prices, busy=busy)
    if choice is not None:
        return choice
    ways = distinct_ways(by_price, ways_in_network(runner, prices))
    kept = next(iter(ways))
    if len(ways) > 1:
        models = {name: with_choice(runner, way) for name, way in ways.items()}
        comparison = race(models, options=VARIANT_RACE, until_decided=True, session=runner.session)
        kept, busy = clearly_fastest(comparison), not comparison.is_quiet
    known.keep(kept, ways[kept], busy=busy)
    return ways[kept]


@dataclass(frozen=True, slots=True)
class KnownWays:
    """Choices for some kernels that whole networks made before."""

    choices: KnownChoices
    identity: str
    """Text that names the kernels, as :attr:`MeasuredKernels.identity`."""

    def choice(self, prices: OperatorPrices, *, busy: bool) -> OperatorChoice | None:
        """Choice of an earlier call; None without one, or where it does not fit these prices.

        A choice of busy times holds while times are busy: with another one, prices would have other
        keys, and all would be measured anew.
        """
        for of_busy_times in (False, True) if busy else (False,):
            known = self.choices.known(self._question(busy=of_busy_times))
            if known is not None:
                choice = OperatorChoice.of_rows(prices, known.libraries, known.operators)
                if choice is not None:
                    return choice
        return None

    def keep(self, kept: str, choice: OperatorChoice, *, busy: bool) -> None:
        """Store a choice and its title."""
        libraries = [maker for maker in choice.prices.by_maker if maker != TVM]
        self.choices.keep(
            self._question(busy=busy),
            BuildChoice(
                kept=kept,
                notes=(),
                certain=True,
                operators=choice.unsplit,
                libraries=choice.rows(libraries),
            ),
        )

    def _question(self, *, busy: bool) -> str:
        question = f"ways of operators in {self.identity}"
        return f"{question}, {BUSY}" if busy else question


def distinct_ways(
    by_price: OperatorChoice, in_network: OperatorChoice
) -> dict[str, OperatorChoice]:
    """Choices that are timed against each other, by title; the first is kept if none is faster."""
    ways = {"in the network": in_network}
    for name, way in (
        ("by price", by_price),
        ("all split", replace(in_network, unsplit=())),
        ("none of the short ones split", replace(in_network, unsplit=by_price.short)),
    ):
        if way not in ways.values():
            ways[name] = way
    return ways


def clearly_fastest(comparison: Comparison) -> str:
    """First contestant, or another one if it is clearly faster."""
    first, *others = comparison.names
    best = comparison.fastest(others)
    return best if comparison.speedup(best, over=first).low > CLEARLY_FASTER else first
