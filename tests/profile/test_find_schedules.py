"""Searches with measured prices, and the time that is left to the race after them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tvm_ios.compile.built_model import build_model
from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.schedule import Stage, Strategy
from tvm_ios.cost.measured import MeasureOptions
from tvm_ios.devices.local import LocalCpu
from tvm_ios.host import default_lanes
from tvm_ios.measure.compare import CompareOptions
from tvm_ios.measure.machine_mode import ModeOptions
from tvm_ios.profile import find_schedules as module
from tvm_ios.profile.find_schedules import find_schedules, search_schedule
from tvm_ios.profile.prices import KernelPrices
from tvm_ios.profile.race import race_s
from tvm_ios.profile.stage_kernels import RelayStageRunner
from tvm_ios.search.baselines import sequential_schedule
from tvm_ios.search.options import SearchOptions
from tvm_ios.support.time_budget import TimeBudget

# A busy machine is no concern of these tests: no waiting for its fast mode, no price flagged.
CALM = ModeOptions(patience_s=0.0, slow_ratio=1e9, slow_ns=0)
MEASURE = MeasureOptions(repeat=2, max_repeat=2, min_repeat_ms=0.05, mode=CALM)


class ReservingBudget(TimeBudget):
    """No limit, and what was set aside."""

    reserved_s = 0.0

    def part(self, of: int, *, reserve_s: float = 0.0) -> TimeBudget:
        self.reserved_s = reserve_s
        return super().part(of, reserve_s=reserve_s)


@pytest.mark.skipif(default_lanes() < 2, reason="one core: there is no lane that could help")
def test_time_is_set_aside_for_the_race_of_the_call(branching, monkeypatch) -> None:
    """By what a run takes with the help of all lanes, and in as many rounds as it has."""

    def all_split(prices: KernelPrices) -> None:
        prices.price_operators()
        prices.keep_whole(())

    monkeypatch.setattr(module, "settle_ways", all_split)
    built = build_model(*branching, "llvm", name="branching")
    budget, compare = ReservingBudget(), CompareOptions(rounds=11, min_repeat_ms=1.0)
    with (
        LocalCpu().open() as session,
        RelayStageRunner(built, lanes=2, session=session) as runner,
    ):
        prices = KernelPrices(runner, options=MEASURE)
        limits = {"ios": SearchOptions(max_chain_size=1)}
        found = find_schedules(prices, limits, budget=budget, compare=compare)
        singles = [Stage(((index,),)) for index in range(len(built.graph))]
        assert found.sequential_ns == sum(prices.price(built.graph, singles))
    assert found.sequential_ns == found.searches["ios"].sequential_ns
    assert budget.reserved_s == race_s(found.sequential_ns, compare)


@pytest.mark.parametrize("factor", [0.2, 0.995, 1.0])
def test_next_to_nothing_is_not_worth_a_schedule(branching, monkeypatch, factor: float) -> None:
    """Stages of several groups at so many times their operators' prices."""
    built = build_model(*branching, "llvm", name="branching")

    def price(prices: KernelPrices, graph: OperatorGraph, stages: Sequence[Stage]) -> list[int]:
        return [
            round(100_000 * len(s.operators) * (1.0 if len(s.groups) == 1 else factor))
            for s in stages
        ]

    monkeypatch.setattr(KernelPrices, "price", price)
    with (
        LocalCpu().open() as session,
        RelayStageRunner(built, lanes=1, session=session) as runner,
    ):
        found = search_schedule(
            KernelPrices(runner, options=MEASURE),
            SearchOptions(strategies=frozenset({Strategy.CONCURRENT})),
            budget=TimeBudget(),
        )
    in_order = sequential_schedule(built.graph).stages
    assert found.schedule.scheduler == "ios"
    assert (
        found.schedule.latency_ns
        == found.latency_ns
        == sum(price(None, built.graph, found.schedule.stages))
    )
    if factor == 0.2:
        assert found.schedule.stages != in_order
        assert found.notes == ()
    else:
        assert found.schedule.stages == in_order
        (note,) = found.notes
        assert note.startswith("the best schedule found promises 0.")
