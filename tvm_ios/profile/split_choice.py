"""The operators that run on one lane: whole networks decide, once their prices are known."""

from __future__ import annotations

from dataclasses import replace

from tvm_ios.compile.model import lower_schedule
from tvm_ios.cost.known_choices import BuildChoice
from tvm_ios.profile.prices import SLOWEST_HOP_NS, KernelPrices
from tvm_ios.profile.race import VARIANT_RACE, race
from tvm_ios.search.baselines import sequential_schedule

__all__ = ["settle_splits"]

CLEARLY_FASTER = 1.02
BUSY = "while the machine was in its slow mode"


def settle_splits(prices: KernelPrices) -> None:
    """Price the operators, then let whole networks decide which of them idle lanes help with.

    Sequential order is timed three times: with the operators that gain by themselves split, with
    all of them, and with none. The first is kept unless another is clearly faster. What was chosen
    on a quiet machine is kept, and with it the keys of all prices that follow.
    """
    prices.price_operators()
    built, lanes = prices.runner.built, prices.runner.lanes
    if lanes == 1 or not prices.runner.idle_lanes_help:
        return
    question = f"operators on one lane in {prices.identity}"
    # A choice of busy times holds while times are busy: with another one, prices would have other
    # keys, and all would be measured anew.
    busy = prices.runner.ping_pong_ns() > SLOWEST_HOP_NS
    known = prices.choices.known(question)
    if known is None and busy:
        known = prices.choices.known(f"{question}, {BUSY}")
    if known is not None and set(known.operators) <= set(range(len(prices.graph))):
        prices.keep_whole(known.operators)
        return
    choices = {
        "by price": prices.unsplit,
        "all split": (),
        "none split": tuple(range(len(prices.graph))),
    }
    in_order = prices.annotate(sequential_schedule(prices.graph))
    models = {
        name: lower_schedule(built, replace(in_order, unsplit=unsplit), lanes=lanes)
        for name, unsplit in choices.items()
    }
    comparison = race(
        models, options=VARIANT_RACE, until_decided=True, session=prices.runner.session
    )
    first, *others = choices
    best = comparison.fastest(others)
    kept = best if comparison.speedup(best, over=first).low > CLEARLY_FASTER else first
    prices.keep_whole(choices[kept])
    prices.choices.keep(
        question if comparison.is_quiet else f"{question}, {BUSY}",
        BuildChoice(kept=kept, notes=(), certain=True, operators=prices.unsplit),
    )
