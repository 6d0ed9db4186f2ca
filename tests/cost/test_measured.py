from __future__ import annotations

import gc
import hashlib
import os
import sqlite3
import subprocess
import sys
import time
import weakref
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fake_runner import FakeStage, FakeStageRunner
from tests.operator_graphs import op
from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.schedule import Stage, Strategy
from tvm_ios.cost.database import ProfileDatabase
from tvm_ios.cost.measured import (
    MeasureCounters,
    MeasuredStages,
    MeasureOptions,
    ModeOptions,
)
from tvm_ios.cost.profile_key import ProfileContext
from tvm_ios.errors import CostError, LostSessionError, OutOfTimeError
from tvm_ios.support.time_budget import TimeBudget

CONTEXT = ProfileContext(device="fake", lanes=2, tvm_version="0.17.0", kernels="llvm")


def chain_graph(count: int, name: str = "g", *, distinct: bool = True) -> OperatorGraph:
    """A chain whose operator i costs 10 + i microseconds, if they are distinct."""
    return OperatorGraph(
        name,
        tuple(
            op(f"{name}{i}", *range(i)[-1:], workload=f"w{i if distinct else 0}")
            for i in range(count)
        ),
    )


def singles(graph: OperatorGraph) -> list[Stage]:
    return [Stage(((index,),)) for index in range(len(graph))]


def cost_ns(graph: OperatorGraph, stage: Stage) -> float:
    """Longest group, from workloads alone, so equal stages cost the same."""
    return max(
        sum(10_000 + 1000 * int(graph.operators[i].workload[1:]) for i in group)
        for group in stage.groups
    )


def model_of(runner: FakeStageRunner, **arguments: Any) -> MeasuredStages:
    return MeasuredStages(
        runner, CONTEXT, clock_ns=runner.clock_ns, sleep_s=runner.sleep_s, **arguments
    )


def price(model: MeasuredStages, graph: OperatorGraph, stages: Sequence[Stage]) -> list[int]:
    """Prices of stages that are asked for one by one."""
    return model.price([[(graph, stage)] for stage in stages])


@pytest.fixture
def database(tmp_path: Path) -> ProfileDatabase:
    return ProfileDatabase(tmp_path / "profiles.sqlite", timeout_s=0.05)


def test_prices_are_exact_without_noise_and_in_the_order_asked() -> None:
    graph = chain_graph(5)
    model = model_of(FakeStageRunner(cost_ns))
    stages = [Stage(((3,),)), Stage(((0, 1),)), Stage(((3,),)), Stage(((0,),), Strategy.MERGE)]
    assert list(price(model, graph, stages)) == [13_000, 21_000, 13_000, 10_000]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(seed=st.integers(0, 1000))
def test_noise_and_spikes_are_seen_through(seed: int) -> None:
    graph = chain_graph(20)
    runner = FakeStageRunner(cost_ns, noise=0.02, spike_rate=0.05, seed=seed)
    prices = price(model_of(runner), graph, singles(graph))
    assert prices == pytest.approx([10_000 + 1000 * i for i in range(20)], rel=0.06)


def test_prices_taken_before_time_was_over_are_kept(database: ProfileDatabase) -> None:
    graph = chain_graph(9)
    runner = FakeStageRunner(cost_ns)
    options = MeasureOptions(batch_size=2)
    one = model_of(FakeStageRunner(cost_ns), options=options)
    price(one, graph, singles(graph)[:4])
    budget = TimeBudget(one.counters.seconds * 1.01, clock_s=lambda: runner.clock_ns() / 1e9)
    late = model_of(runner, options=options, database=database, budget=budget)
    with pytest.raises(OutOfTimeError, match="there was no time left to price stages"):
        price(late, graph, singles(graph))
    assert 2 <= late.counters.priced < 9
    again = model_of(FakeStageRunner(cost_ns), options=options, database=database)
    assert price(again, graph, singles(graph)) == [10_000 + 1000 * i for i in range(9)]
    assert again.counters.from_database == late.counters.priced
    # What is known needs no time.
    late = model_of(runner, options=options, database=database, budget=budget)
    assert price(late, graph, singles(graph)) == price(again, graph, singles(graph))


def test_equal_stages_are_measured_once() -> None:
    graph = chain_graph(6, distinct=False)
    runner = FakeStageRunner(cost_ns)
    model = model_of(runner)
    assert set(price(model, graph, singles(graph)[1:])) == {10_000}
    price(model, chain_graph(9, "other", distinct=False), singles(graph)[1:])
    assert len(runner.prepared) == 1
    assert (model.counters.requested, model.counters.priced) == (10, 1)


def test_what_is_compared_is_measured_in_turns() -> None:
    """One graph is not priced in a busy hour that nobody sees, and the other one after it."""
    graphs = [
        OperatorGraph(name, tuple(op(f"{name}{i}") for i in range(40))) for name in ("a", "b")
    ]
    stages = singles(graphs[0])

    def prices(busy_s: float, ask) -> tuple[list[float], float]:
        runner = FakeStageRunner(lambda *_: 10_000.0, slow_spans_s=[(0.0, busy_s)], lanes=1)
        model = MeasuredStages(runner, CONTEXT, clock_ns=runner.clock_ns, sleep_s=runner.sleep_s)
        found = ask(model)
        ratios = [one / other for one, other in zip(found[::2], found[1::2], strict=True)]
        return ratios, runner.clock_ns() / 1e9

    def one_after_the_other(model):
        both = [price(model, graph, stages) for graph in graphs]
        return [price for pair in zip(*both, strict=True) for price in pair]

    def in_turns(model):
        return model.price([[(graph, stage) for graph in graphs] for stage in stages])

    _, quiet_s = prices(0.0, in_turns)
    half = 0.5 * quiet_s
    assert max(prices(half, one_after_the_other)[0]) > 1.7
    assert max(prices(half, in_turns)[0]) < 1.2


def test_a_way_that_is_far_slower_than_another_is_sampled_once(database: ProfileDatabase) -> None:
    latency_ns = {"fast": 1e6, "slow": 30e6, "close": 7e6}
    graphs = [OperatorGraph(name, (op(name),)) for name in latency_ns]
    ways = [(graph, Stage(((0,),))) for graph in graphs]

    def price(*asked: int) -> tuple[list[int], Counter[str]]:
        timed: Counter[str] = Counter()

        def timing_ns(graph: OperatorGraph, _: Stage) -> float:
            timed[graph.name] += 1
            return latency_ns[graph.name]

        runner = FakeStageRunner(timing_ns)
        model = MeasuredStages(
            runner, CONTEXT, database=database, clock_ns=runner.clock_ns, sleep_s=runner.sleep_s
        )
        return list(model.price([[ways[index] for index in asked]])), timed

    prices, timed = price(0, 1, 2)
    assert prices == [1_000_000, 30_000_000, 7_000_000]
    assert timed["slow"] == 2  # a warm-up and a sample
    assert timed["close"] > 5
    assert price(0, 1, 2) == (prices, Counter())
    alone, timed = price(1)
    assert alone == [30_000_000]
    assert timed["slow"] > 5  # nothing else does the same, so this price is of interest


@dataclass(frozen=True)
class SlowOnce:
    """Ways that do the same, by name; a time slice is lost in some timings of one."""

    latency_ns: Mapping[str, float]
    lost: frozenset[int] = frozenset()
    """Which timings of the first one."""

    def way(self, name: str) -> tuple[OperatorGraph, Stage]:
        return OperatorGraph(name, (op(name),)), Stage(((0,),))

    def price(self, *questions: str) -> tuple[list[int], Counter[str]]:
        """Prices of the ways of each question, and how often each way was timed."""
        timed: Counter[str] = Counter()
        first = next(iter(self.latency_ns))

        def timing_ns(graph: OperatorGraph, _: Stage) -> float:
            timed[graph.name] += 1
            late = graph.name == first and timed[graph.name] in self.lost
            return self.latency_ns[graph.name] + 90e6 * late

        runner = FakeStageRunner(timing_ns)
        model = MeasuredStages(runner, CONTEXT, clock_ns=runner.clock_ns, sleep_s=runner.sleep_s)
        asked = [[self.way(name) for name in names.split()] for names in questions]
        return list(model.price(asked)), timed


@pytest.mark.parametrize("lost", [{1}, {2}, {3}, {4}])
def test_one_lost_time_slice_does_not_make_a_way_hopeless(lost: set[int]) -> None:
    prices, timed = SlowOnce({"best": 1e6, "good": 2e6}, frozenset(lost)).price("best good")
    assert prices == [1_000_000, 2_000_000]
    assert timed["best"] > 5


def test_short_ways_are_sampled_however_slow_they_are() -> None:
    _, timed = SlowOnce({"fast": 100e3, "slow": 5e6}).price("fast slow")
    assert timed["slow"] > 5


@pytest.mark.parametrize("questions", [("slow", "slow fast"), ("slow fast", "slow")])
def test_a_way_that_is_asked_for_by_itself_too_is_sampled_well(questions: tuple[str, ...]) -> None:
    _, timed = SlowOnce({"fast": 1e6, "slow": 50e6}).price(*questions)
    assert timed["slow"] > 5


@dataclass
class Pair:
    """Two operators that may run side by side, and how often each of their stages was timed."""

    together_ns: float
    alone_ns: float = 10e6
    lost: frozenset[int] = frozenset()
    """Which timings of the common stage lost a time slice."""
    slice_ns: float = 90e6
    timed: Counter[str] = field(default_factory=Counter)
    graph = OperatorGraph("pair", (op("a"), op("b")))
    both = Stage(((0,), (1,)))

    def price(self, database: ProfileDatabase | None = None, **arguments: Any) -> list[int]:
        """Prices of both alone, then together."""
        self.timed.clear()

        def timing_ns(_: OperatorGraph, stage: Stage) -> float:
            if len(stage.groups) == 1:
                return self.alone_ns
            self.timed["both"] += 1
            return self.together_ns + self.slice_ns * (self.timed["both"] in self.lost)

        runner = FakeStageRunner(timing_ns)
        model = model_of(runner, database=database, **arguments)
        return [
            *price(model, self.graph, singles(self.graph)),
            *price(model, self.graph, [self.both]),
        ]


def test_a_stage_longer_than_its_groups_one_after_another_is_sampled_once(
    database: ProfileDatabase,
) -> None:
    pair = Pair(together_ns=22e6)
    prices = pair.price(database)
    assert prices == [10_000_000, 10_000_000, 22_000_000]
    assert pair.timed["both"] == 2  # a warm-up and a sample
    assert pair.price(database) == prices
    assert not pair.timed


@pytest.mark.parametrize("alone_ns", [10e3, 4e6])
def test_a_short_stage_longer_than_its_groups_is_sampled_three_times(alone_ns: float) -> None:
    pair = Pair(together_ns=2.2 * alone_ns, alone_ns=alone_ns)
    assert pair.price()[-1] == 2.2 * alone_ns
    useful = Pair(together_ns=1.8 * alone_ns, alone_ns=alone_ns)
    useful.price()
    assert pair.timed["both"] == useful.timed["both"] - 2


def test_a_price_of_few_long_samples_is_taken_from_the_database(database) -> None:
    first = Pair(together_ns=300e6, alone_ns=200e6)
    prices = first.price(database)
    assert set(first.timed.values()) == {4}  # a warm-up and three samples
    again = Pair(together_ns=300e6, alone_ns=200e6)
    assert again.price(database) == prices
    assert not again.timed


def test_nothing_is_settled_by_a_single_short_run() -> None:
    at_once = MeasureOptions(warmup=2, number=6, repeat=6, min_repeat_ms=0.0)
    pair = Pair(together_ns=22e3, alone_ns=10e3)
    pair.price(options=at_once)
    assert pair.timed["both"] == 2 + 3  # two warm-ups, and three samples of six runs


def test_the_fastest_look_at_a_stage_that_gains_nothing_is_its_price() -> None:
    assert Pair(together_ns=22e6, lost=frozenset({2})).price()[-1] == 22_000_000


@pytest.mark.parametrize("lost", [{2, 3}, {3, 4}])
def test_two_lost_time_slices_do_not_hide_what_a_short_stage_gains(lost: set[int]) -> None:
    pair = Pair(together_ns=1.6e6, alone_ns=1e6, lost=frozenset(lost), slice_ns=4e6)
    assert pair.price()[-1] == 1_600_000


@pytest.mark.parametrize("lost", [{1}, {2}, {3}])
def test_one_lost_time_slice_does_not_hide_what_a_stage_gains(lost: set[int]) -> None:
    pair = Pair(together_ns=15e6, lost=frozenset(lost))
    assert pair.price()[-1] == 15_000_000
    assert pair.timed["both"] > 5


def test_groups_that_were_never_priced_say_nothing_of_a_stage() -> None:
    pair = Pair(together_ns=90e6)
    runner = FakeStageRunner(lambda *_: pair.together_ns)
    assert price(model_of(runner), pair.graph, [pair.both]) == [90_000_000]
    assert runner.clock_ns() > 5 * pair.together_ns


def test_single_operators_settle_a_stage_whose_groups_were_never_priced() -> None:
    """Groups of several operators may have no price of their own."""
    chain = op("c", 1)
    graph = OperatorGraph("chain", (*Pair.graph.operators, chain))
    timed: Counter[Stage] = Counter()

    def timing_ns(_: OperatorGraph, stage: Stage) -> float:
        timed[stage] += 1
        return 10e6 if len(stage.operators) == 1 else 32e6

    model = model_of(FakeStageRunner(timing_ns))
    stage = Stage(((0,), (1, 2)))
    price(model, graph, singles(graph))
    assert price(model, graph, [stage]) == [32_000_000]
    assert timed[stage] == 2  # a warm-up and a sample


def test_what_was_prepared_is_freed_with_its_batch() -> None:
    class Handle(FakeStage):
        pass

    prepared: list[weakref.ref[Handle]] = []

    class Runner(FakeStageRunner):
        def prepare(self, graph: OperatorGraph, stage: Stage) -> Any:
            handle = Handle(self, graph, stage)
            prepared.append(weakref.ref(handle))
            return handle

    graph = chain_graph(3)
    gc.disable()
    try:
        price(model_of(Runner(cost_ns)), graph, singles(graph))
        assert [handle() for handle in prepared] == [None] * 3
    finally:
        gc.enable()


def test_a_price_outlives_its_model_in_the_database(database: ProfileDatabase) -> None:
    graph = chain_graph(40)
    first = model_of(FakeStageRunner(cost_ns, noise=0.01), database=database)
    prices = price(first, graph, singles(graph))
    idle = FakeStageRunner(cost_ns)
    second = model_of(idle, database=database)
    assert price(second, chain_graph(40, "twin"), singles(graph)) == prices
    assert idle.prepared == []
    assert (second.counters.priced, second.counters.from_database) == (0, 40)
    assert second.notes == ()


def test_a_price_of_too_few_samples_is_measured_anew(database: ProfileDatabase) -> None:
    graph = chain_graph(1)
    quick = MeasureOptions(repeat=2, max_repeat=2)
    price(
        model_of(FakeStageRunner(cost_ns), database=database, options=quick), graph, singles(graph)
    )
    model = model_of(FakeStageRunner(cost_ns), database=database)
    price(model, graph, singles(graph))
    assert (model.counters.priced, model.counters.from_database) == (1, 0)


def test_a_typical_stage_takes_less_than_ten_milliseconds() -> None:
    """Simulated time: the policy is tested, not this machine."""
    graph = chain_graph(90)
    runner = FakeStageRunner(cost_ns, noise=0.01, spike_rate=0.01)
    model = model_of(runner)
    price(model, graph, singles(graph))
    assert model.counters.seconds / 90 < 0.010
    assert model.counters.seconds == pytest.approx(runner.clock_ns() / 1e9)


def test_slow_rounds_are_dropped_and_repeated() -> None:
    graph = chain_graph(30)
    runner = FakeStageRunner(cost_ns, slow_spans_s=[(0.1, 0.13), (0.2, 3.0)])
    model = model_of(runner)
    assert list(price(model, graph, singles(graph))) == [10_000 + 1000 * i for i in range(30)]
    assert model.counters.slow_rounds_dropped >= 1
    assert model.counters.flagged == 0
    assert model.notes == ()


def test_a_slow_mode_that_stays_is_flagged_after_patience() -> None:
    graph = chain_graph(3)
    runner = FakeStageRunner(cost_ns, slow_spans_s=[(0.0, 1e9)], slow_factor=2.0)
    model = model_of(runner)
    assert list(price(model, graph, singles(graph))) == [20_000, 22_000, 24_000]
    assert model.counters.flagged == 3
    assert runner.clock_ns() / 1e9 < 21
    [note] = model.notes
    assert "3 of 3 stages were priced while the machine was in its slow mode" in note


def test_samples_beside_another_process_are_taken_again() -> None:
    graph = chain_graph(30)
    runner = FakeStageRunner(cost_ns, busy_spans_s=[(0.1, 0.2), (0.3, 0.4)])
    model = model_of(runner)
    assert list(price(model, graph, singles(graph))) == [10_000 + 1000 * i for i in range(30)]
    assert model.counters.flagged == 0
    assert model.notes == ()


def test_a_few_undisturbed_samples_make_the_price_of_a_flagged_stage() -> None:
    """Another process comes after three samples of 1 ms, and stays."""
    graph = chain_graph(1)
    runner = FakeStageRunner(cost_ns, busy_spans_s=[(0.0045, 1e9)])
    model = model_of(runner, options=MeasureOptions(mode=ModeOptions(patience_s=0)))
    assert list(price(model, graph, singles(graph))) == [10_000]
    assert model.counters.flagged == 1


def test_another_process_that_stays_is_flagged_after_patience() -> None:
    graph = chain_graph(3)
    runner = FakeStageRunner(cost_ns, busy_spans_s=[(0.0, 1e9)])
    model = model_of(runner)
    assert list(price(model, graph, singles(graph))) == [20_000, 22_000, 24_000]
    assert model.counters.flagged == 3
    assert 20 < runner.clock_ns() / 1e9 < 21
    [note] = model.notes
    assert "while another process had the cores (for up to 50 % of a sample)" in note


def test_flagged_prices_are_replaced_when_the_machine_is_fast(database: ProfileDatabase) -> None:
    graph = chain_graph(3)
    options = MeasureOptions(mode=ModeOptions(patience_s=0))
    always = [(0.0, 1e9)]
    slow = model_of(
        FakeStageRunner(cost_ns, slow_spans_s=always), database=database, options=options
    )
    price(slow, graph, singles(graph))

    still = FakeStageRunner(cost_ns, slow_spans_s=always)
    again = model_of(still, database=database, options=options)
    price(again, graph, singles(graph))
    assert still.prepared == []
    assert again.counters.flagged == 3

    fast = model_of(FakeStageRunner(cost_ns), database=database, options=options)
    assert list(price(fast, graph, singles(graph))) == [10_000, 11_000, 12_000]
    stored = model_of(FakeStageRunner(cost_ns), database=database)
    assert list(price(stored, graph, singles(graph))) == [10_000, 11_000, 12_000]
    assert stored.counters.from_database == 3


def test_a_single_lane_has_no_slow_mode() -> None:
    graph = chain_graph(2)
    runner = FakeStageRunner(cost_ns, lanes=1, slow_spans_s=[(0.0, 1e9)])
    model = model_of(runner)
    price(model, graph, singles(graph))
    assert model.counters.flagged == 0


def test_real_work_on_the_real_clock_gets_a_price() -> None:
    """No claim about speed, only that the policy ends and answers on a machine that is not ours."""

    class Hashing:
        def prepare(self, graph: OperatorGraph, stage: Stage) -> Any:
            data = bytes(1000 * (1 + stage.operators[0]))

            def time_ns(number: int) -> int:
                start_ns = time.perf_counter_ns()
                for _ in range(number):
                    hashlib.sha256(data)
                return time.perf_counter_ns() - start_ns

            return SimpleNamespace(time_ns=time_ns)

        def ping_pong_ns(self) -> float:
            return 0.0

        def waited_ns(self) -> int | None:
            return None

    graph = chain_graph(8)
    model = MeasuredStages(Hashing(), CONTEXT)
    prices = price(model, graph, singles(graph))
    assert all(price >= 1 for price in prices)
    assert model.counters.samples >= 40
    assert model.counters.seconds > 0


def test_a_stage_of_no_time_costs_one_nanosecond() -> None:
    graph = chain_graph(1)
    assert list(price(model_of(FakeStageRunner(lambda _g, _s: 0.0)), graph, singles(graph))) == [1]


class Failing(FakeStageRunner):
    """A runner that works until a given operator comes up."""

    def __init__(self, operator: int, error: BaseException) -> None:
        super().__init__(cost_ns)
        self._operator, self._error = operator, error

    def time_ns(self, graph: OperatorGraph, stage: Stage, number: int) -> int:
        if self._operator in stage.operators:
            raise self._error
        return super().time_ns(graph, stage, number)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), RuntimeError("kernel failed")])
def test_what_was_priced_survives_the_end(database: ProfileDatabase, error: BaseException) -> None:
    graph = chain_graph(20)
    options = MeasureOptions(batch_size=4)
    model = model_of(Failing(13, error), database=database, options=options)
    with pytest.raises(KeyboardInterrupt if isinstance(error, KeyboardInterrupt) else CostError):
        price(model, graph, singles(graph))
    assert database.count(CONTEXT) == 12
    assert model.counters.priced == 12

    resumed = model_of(FakeStageRunner(cost_ns), database=database, options=options)
    price(resumed, graph, singles(graph))
    assert (resumed.counters.priced, resumed.counters.from_database) == (8, 12)


def test_complete_stages_of_an_interrupted_batch_are_kept(database: ProfileDatabase) -> None:
    """The noisy stage is still in its extra rounds when the interrupt comes."""
    graph = chain_graph(3)
    calls = count()

    class Interrupted(FakeStageRunner):
        def time_ns(self, graph: OperatorGraph, stage: Stage, number: int) -> int:
            if stage.operators != (2,):
                return super().time_ns(graph, stage, number)
            call = next(calls)
            if call > 12:
                raise KeyboardInterrupt
            return round(super().time_ns(graph, stage, number) * (1 + 0.5 * (call % 3)))

    runner = Interrupted(cost_ns)
    model = model_of(runner, database=database)
    with pytest.raises(KeyboardInterrupt):
        price(model, graph, singles(graph))
    assert database.count(CONTEXT) == 3
    assert model.counters.priced == 3


@pytest.mark.parametrize("verb", ["prepare", "time_ns"])
def test_a_failing_runner_names_the_operators(verb: str) -> None:
    graph = OperatorGraph("net", tuple(op(name, workload="w0") for name in ("left", "right")))

    class Broken(FakeStageRunner):
        def prepare(self, graph: OperatorGraph, stage: Stage) -> FakeStage:
            if verb == "prepare":
                raise ValueError("no kernel")
            return super().prepare(graph, stage)

        def time_ns(self, graph: OperatorGraph, stage: Stage, number: int) -> int:
            raise ValueError("no kernel")

    runner = Broken(cost_ns)
    expected = r"graph 'net': cannot .* the concurrent stage \[left \| right\].*no kernel"
    with pytest.raises(CostError, match=expected):
        price(model_of(runner), graph, [Stage(((0,), (1,)))])


@pytest.mark.parametrize("step", ["prepare", "time_ns", "ping_pong_ns"])
def test_a_device_that_is_lost_is_told_as_such(step: str) -> None:
    class Board(FakeStageRunner):
        """A runner whose device went away."""

    def lost(*_: object) -> NoReturn:
        raise LostSessionError("board 7 was lost")

    setattr(Board, step, lost)
    with pytest.raises(LostSessionError, match=r"^board 7 was lost$"):
        price(model_of(Board(cost_ns)), chain_graph(1), singles(chain_graph(1)))


def test_a_clock_that_goes_back_is_an_error() -> None:
    graph = chain_graph(1)
    with pytest.raises(CostError, match="the clock went back"):
        price(model_of(FakeStageRunner(lambda _g, _s: -5.0)), graph, singles(graph))


def test_a_failing_ping_pong_is_an_error_of_ours() -> None:
    class Mute(FakeStageRunner):
        def ping_pong_ns(self) -> float:
            raise OSError("no second core")

    graph = chain_graph(1)
    with pytest.raises(CostError, match="ping-pong failed.*no second core"):
        price(model_of(Mute(cost_ns)), graph, singles(graph))


def test_a_database_that_fails_midway_stops_nothing(database: ProfileDatabase) -> None:
    graph = chain_graph(12)
    model = model_of(
        FakeStageRunner(cost_ns), database=database, options=MeasureOptions(batch_size=4)
    )
    holder = sqlite3.connect(database.path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    assert list(price(model, graph, singles(graph))) == [10_000 + 1000 * i for i in range(12)]
    assert model.counters.unsaved == 12
    [note] = model.notes
    assert "kept in memory" in note
    assert "another process holds it" in note
    holder.execute("ROLLBACK")
    holder.close()
    model.save()
    assert model.counters.unsaved == 0
    assert model.notes == ()
    assert database.count(CONTEXT) == 12


def test_a_database_damaged_midway_is_left_alone(database: ProfileDatabase) -> None:
    graph = chain_graph(2)
    model = model_of(FakeStageRunner(cost_ns), database=database)
    database.path.write_bytes(b"spoilt " * 999)
    assert list(price(model, graph, singles(graph))) == [10_000, 11_000]
    assert "damaged" in " ".join(model.notes)
    assert database.path.read_bytes() == b"spoilt " * 999


def test_progress_is_told_after_each_batch() -> None:
    graph = chain_graph(10)
    told: list[MeasureCounters] = []
    model = model_of(FakeStageRunner(cost_ns), options=MeasureOptions(batch_size=4))
    model.price([[(graph, stage)] for stage in singles(graph)], on_batch=told.append)
    assert [counters.priced for counters in told] == [4, 8, 10]


def test_record_holds_the_evidence() -> None:
    graph = chain_graph(2)
    model = model_of(FakeStageRunner(cost_ns))
    stage = Stage(((0,),))
    assert model.record(graph, stage) is None
    price(model, graph, [stage])
    record = model.record(graph, stage)
    assert record is not None
    assert (record.median_ns, record.samples, record.spread_ns) == (10_000, 5, 0)


def test_no_stage_costs_nothing() -> None:
    runner = FakeStageRunner(cost_ns)
    assert list(price(model_of(runner), chain_graph(1), [])) == []
    assert runner.clock_ns() == 0


def test_the_cost_room_needs_no_tvm() -> None:
    script = (
        "import sys; import tvm_ios.cost.measured, tvm_ios.measure.compare;"
        "import tests.fake_runner;"
        "sys.exit('tvm' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True, env=dict(os.environ))
