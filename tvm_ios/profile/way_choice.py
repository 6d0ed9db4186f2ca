"""Choice of each operator's maker and lanes: by whole networks, once prices are known."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from tvm_ios.cost.known_choices import BuildChoice
from tvm_ios.profile.prices import KernelPrices
from tvm_ios.profile.race import VARIANT_RACE, race
from tvm_ios.profile.way_prices import SLOWEST_HOP_NS
from tvm_ios.profile.ways_in_network import (
    OperatorWays,
    ways_by_price,
    ways_in_network,
    with_ways,
)

__all__ = ["settle_ways"]

CLEARLY_FASTER = 1.02
LONG_OPERATOR_NS = 10_000_000
"""Average nanoseconds of an operator from which on prices decide alone: such operators meet the
same caches anywhere, and whole networks of them take seconds a run."""
BUSY = "while the machine was in its slow mode"

_LOG = logging.getLogger(__name__)


def settle_ways(prices: KernelPrices) -> None:
    """Price the operators; if they are short, let whole networks decide how each is computed.

    Each operator's times in the network choose its kernel or call, and whether idle lanes help.
    Then sequential order is timed in that way, in the way of the prices, with all operators split,
    and with no short ones split. The first is kept unless another one is clearly faster. A choice
    on a quiet machine is stored, and with it the keys of all prices that follow.
    """
    prices.price_operators()
    if prices.runner.lanes == 1 or not prices.runner.idle_lanes_help:
        return
    if sum(prices.operator_ns) >= LONG_OPERATOR_NS * len(prices.graph):
        _use(prices, ways_by_price(prices))
        return
    question = f"ways of operators in {prices.identity}"
    # A choice of busy times holds while times are busy: with another one, prices would have other
    # keys, and all would be measured anew.
    busy = prices.runner.ping_pong_ns() > SLOWEST_HOP_NS
    known = _known(prices, question)
    if known is None and busy:
        known = _known(prices, f"{question}, {BUSY}")
    if known is not None:
        _use(prices, known)
        return
    in_network = ways_in_network(prices)
    ways = {"in the network": in_network}
    for name, way in (
        ("by price", ways_by_price(prices)),
        ("all split", OperatorWays(in_network.libraries, ())),
        ("none of the short ones split", OperatorWays(in_network.libraries, prices.short)),
    ):
        if way not in ways.values():
            ways[name] = way
    kept, busy = _fastest(ways, prices) if len(ways) > 1 else ("in the network", busy)
    _use(prices, ways[kept])
    prices.choices.keep(
        f"{question}, {BUSY}" if busy else question,
        BuildChoice(
            kept=kept,
            notes=(),
            certain=True,
            operators=ways[kept].unsplit,
            libraries=ways[kept].rows(tuple(prices.runner.library_names)),
        ),
    )


def _fastest(ways: Mapping[str, OperatorWays], prices: KernelPrices) -> tuple[str, bool]:
    """First way, or another one if clearly faster; and True if the machine was busy."""
    models = {name: with_ways(prices, way) for name, way in ways.items()}
    comparison = race(
        models, options=VARIANT_RACE, until_decided=True, session=prices.runner.session
    )
    first, *others = ways
    best = comparison.fastest(others)
    kept = best if comparison.speedup(best, over=first).low > CLEARLY_FASTER else first
    return kept, not comparison.is_quiet


def _use(prices: KernelPrices, ways: OperatorWays) -> None:
    prices.use(ways.libraries, ways.unsplit)
    own = len(prices.graph) - len(ways.libraries)
    by = {name: list(ways.libraries.values()).count(name) for name in prices.runner.library_names}
    told = [f"TVM's kernels {own}", *(f"{name} {count}" for name, count in by.items())]
    _LOG.info(
        "operators are computed by %s; %d stay on one lane", ", ".join(told), len(ways.unsplit)
    )


def _known(prices: KernelPrices, question: str) -> OperatorWays | None:
    """Choice of an earlier call; None without one, or where it does not fit these kernels."""
    choice = prices.choices.known(question)
    if choice is None or not set(choice.operators) <= set(range(len(prices.graph))):
        return None
    able = prices.runner.library_names
    libraries = {index: row.library for row in choice.libraries for index in row.operators}
    if any(index not in able.get(library, ()) for index, library in libraries.items()):
        return None
    return OperatorWays(libraries, choice.operators)
