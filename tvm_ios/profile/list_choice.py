"""Lists made with measured prices, and the choice of one of a few."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from tvm_ios.compile.plan_of import hand_over_of
from tvm_ios.core.schedule import InterOpSchedule
from tvm_ios.cost.known_choices import BuildChoice
from tvm_ios.cost.profile_key import digest_of
from tvm_ios.profile.prices import StagePrices
from tvm_ios.profile.race import compiled_for, variant_race
from tvm_ios.search.list_schedule import list_schedule
from tvm_ios.search.list_search import ListOptions

__all__ = ["LIST_SEEDS", "fastest_list", "list_from"]

LIST_SEEDS = range(4)


def fastest_list(
    prices: StagePrices,
    start: InterOpSchedule,
    *,
    lanes: int,
    seeds: Sequence[int],
    due_ns: Mapping[int, int] = MappingProxyType({}),
) -> InterOpSchedule:
    """Fastest of a few lists made from a schedule, which differ in their seeds only.

    They are simulated to be equally long, but on lanes some are 4 % faster than others. The
    shortest one is believed on a GPU, and where merges would have to be compiled for each. The seed
    is stored like a price, as ``settled_choice`` stores its choice. Where operators are due, one
    list is made, which has them in time if it can.
    """
    if due_ns:
        return prices.annotate(list_from(prices, start, lanes=lanes, due_ns=due_ns))
    kernels, runner = prices.kernels, prices.kernels.runner
    digest = digest_of(prices.annotate(start).to_json())
    question = f"seed of a list for {lanes} lanes from {digest} with {kernels.identity}"
    known = kernels.choices.known(question)
    numbers = [seed for seed in seeds if known is None or known.kept == str(seed)] or seeds
    lists = {
        seed: prices.annotate(list_from(prices, start, lanes=lanes, seed=seed)) for seed in numbers
    }
    distinct = {(each.stages, each.home_lanes): seed for seed, each in reversed(lists.items())}
    merged = any(stage.is_merge for stage in start.stages)
    shortest = min(lists, key=lambda seed: lists[seed].latency_ns or 0)
    if len(distinct) == 1 or merged or not runner.idle_lanes_help:
        kept, certain = shortest, True
    else:
        models = {
            str(seed): compiled_for(runner.session, runner.built, lists[seed], lanes=runner.lanes)
            for seed in sorted(distinct.values())
        }
        comparison = variant_race(models, kernels.budget, runner.session)
        if comparison is None:
            return lists[shortest]
        kept, certain = int(comparison.fastest()), comparison.is_settled
    if len(numbers) > 1:
        kernels.choices.keep(question, BuildChoice(kept=str(kept), notes=(), certain=certain))
    return lists[kept]


def list_from(
    prices: StagePrices,
    start: InterOpSchedule,
    *,
    lanes: int,
    seed: int = 0,
    due_ns: Mapping[int, int] = MappingProxyType({}),
) -> InterOpSchedule:
    """List made from a schedule, with prices of single operators and of its merges."""
    return list_schedule(
        prices.graph,
        replace(prices.operator_times(start), due_ns=due_ns),
        lanes=lanes,
        hand_over=hand_over_of(prices.kernels.runner.built.prepared.target),
        start=start,
        options=ListOptions(seed=seed),
    )
