"""Prices of a built model: per kernel, kept in the database, and aware of who helps whom."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tvm_ios.compile.built_model import BuiltModel, build_model
from tvm_ios.compile.lower import lower_schedule
from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.schedule import Stage, Strategy
from tvm_ios.cost.database import ProfileDatabase
from tvm_ios.cost.measured import MeasureOptions
from tvm_ios.devices.local import LocalCpu
from tvm_ios.errors import CostError, DatabaseError
from tvm_ios.host import default_lanes
from tvm_ios.measure.compare import CompareOptions
from tvm_ios.measure.comparison import CompareRound, Comparison
from tvm_ios.measure.machine_mode import ModeOptions
from tvm_ios.plan.trace import TraceEvent
from tvm_ios.profile import list_choice, way_choice, ways_in_network
from tvm_ios.profile import prices as prices_module
from tvm_ios.profile.kernel_variant import with_kernel_identity, without_help
from tvm_ios.profile.last_race import raced_end
from tvm_ios.profile.measuring_call import MeasuringCall
from tvm_ios.profile.prices import (
    KernelPrices,
    measured_cost_model,
    open_database,
    profile_context,
)
from tvm_ios.profile.race import race
from tvm_ios.profile.stage_kernels import RelayStageRunner
from tvm_ios.profile.way_prices import LONG_NS
from tvm_ios.report.tune_report import Contestant
from tvm_ios.runtime.libraries.open_libraries import OpenLibraries
from tvm_ios.search.baselines import greedy_schedule, sequential_schedule

LANES = min(2, default_lanes())
# A busy machine is no concern of these tests: no waiting for its fast mode, no price flagged.
CALM = ModeOptions(patience_s=0.0, slow_ratio=1e9, slow_ns=0)
MEASURE = MeasureOptions(repeat=2, max_repeat=2, min_repeat_ms=0.05, mode=CALM)


@pytest.fixture(scope="module")
def built(branching) -> BuiltModel:
    return build_model(*branching, "llvm", name="branching")


@pytest.fixture(scope="module")
def runner(built: BuiltModel) -> Iterator[RelayStageRunner]:
    with (
        LocalCpu().open() as session,
        RelayStageRunner(built, lanes=LANES, session=session) as runner,
    ):
        yield runner


@pytest.fixture
def prices(runner: RelayStageRunner) -> KernelPrices:
    return KernelPrices(runner, options=MEASURE)


@pytest.mark.skipif(LANES < 2, reason="one lane is never slow")
def test_pricing_and_races_of_a_call_wait_once(
    built: BuiltModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a machine that is always slow; the last race of a call waits once more."""
    # Tests have no patience where the pause is the real one; this one is as real, and waits.
    monkeypatch.setattr("time.sleep", lambda seconds, sleep=time.sleep: sleep(seconds))
    always = ModeOptions(slow_ns=1e-6, patience_s=0.2)
    model = lower_schedule(built, sequential_schedule(built.graph), lanes=LANES)
    options = CompareOptions(rounds=6, min_repeat_ms=0.05, mode=always)
    call = MeasuringCall.here(lanes=LANES)
    assert call.patience.spent_ns == 0
    with call.open() as session, RelayStageRunner(built, lanes=LANES, session=session) as runner:
        KernelPrices(runner, options=replace(MEASURE, mode=always)).price_operators()
    spent_ns = call.patience.spent_ns
    assert spent_ns >= 200_000_000
    with call.open() as session:
        assert len(race({"one": model}, options=options, session=session).rounds) == 6
        assert call.patience.spent_ns == spent_ns
        end = raced_end(
            {Contestant.SEQUENTIAL: model}, options=options, session=session, keep=lambda _: None
        )
        assert len(end.comparison.rounds) > 6


def convolutions(graph: OperatorGraph) -> list[int]:
    """Those of the first level, which read the same operand."""
    operands = [o.convolution.operand if o.convolution else None for o in graph.operators]
    first = next(operand for operand in operands if operand)
    return [index for index, operand in enumerate(operands) if operand == first]


@pytest.mark.slow(1)
def test_every_stage_of_every_schedule_has_a_price(prices: KernelPrices) -> None:
    for schedule in (sequential_schedule(prices.graph), greedy_schedule(prices.graph)):
        costs = prices.price(prices.graph, schedule.stages)
        assert len(costs) == len(schedule.stages)
        assert min(costs) > 0


def test_the_work_of_a_stage_is_what_it_costs_at_least(prices: KernelPrices) -> None:
    members = tuple((index,) for index in convolutions(prices.graph))
    stages = [Stage(members[:1]), Stage(members), Stage(members, Strategy.MERGE)]
    assert prices.lower_bound(prices.graph, stages) == [0, 0, 0]
    prices.price_operators()
    costs_ns = [prices.operator_ns[index] for (index,) in members]
    one, all_of_them, merged = prices.lower_bound(prices.graph, stages)
    assert (one, merged) == (costs_ns[0] // LANES, 0)
    assert all_of_them == sum(costs_ns) // LANES > one


def test_one_group_costs_what_its_operators_cost(prices: KernelPrices) -> None:
    masks = prices.graph.predecessor_masks()
    last = next(
        index
        for index in reversed(range(len(prices.graph)))
        if masks[index].bit_count() == 1 and not prices.runner.needs_no_kernel(index)
    )
    chain = (masks[last].bit_length() - 1, last)
    singles_ns = prices.price(prices.graph, [Stage(((index,),)) for index in chain])
    measured = prices.counters.priced
    assert prices.price(prices.graph, [Stage((chain,))]) == [sum(singles_ns)]
    assert prices.counters.priced == measured


def test_concurrent_groups_of_long_operators_cost_more_than_by_themselves(
    prices: KernelPrices, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On lanes with caches of their own, by what the device says; one lane keeps its caches."""
    percent = prices.runner.session.device.traits.concurrency_overhead_percent
    assert prices.runner.concurrency_overhead_percent == (percent if LANES > 1 else 0)
    members = tuple((index,) for index in convolutions(prices.graph))
    stages = [Stage(members), Stage(members[:1]), Stage(members, Strategy.MERGE)]
    prices.price_operators()
    prices.keep_whole(())
    monkeypatch.setattr(RelayStageRunner, "concurrency_overhead_percent", 25)
    short, long = LONG_NS - 1, LONG_NS
    monkeypatch.setattr(prices, "operator_ns", (short,) * len(prices.graph))
    alone_ns, *others_ns = prices.price(prices.graph, stages)
    work_ns, _, _ = prices.lower_bound(prices.graph, stages)
    assert work_ns == 3 * short // LANES
    for num_long in (1, 2, 3):
        at_length = {index for (index,) in members[:num_long]}
        monkeypatch.setattr(
            prices,
            "operator_ns",
            tuple(long if i in at_length else short for i in range(len(prices.graph))),
        )
        surplus_ns = num_long * long * 25 // (100 * LANES)
        assert prices.price(prices.graph, stages) == [alone_ns + surplus_ns, *others_ns]
        bound_ns, _, _ = prices.lower_bound(prices.graph, stages)
        assert bound_ns == (num_long * long + (3 - num_long) * short) // LANES + surplus_ns
    prices.keep_whole(range(len(prices.graph)))
    (whole_ns,) = prices.price(prices.graph, stages[:1])
    bound_ns, _, _ = prices.lower_bound(prices.graph, stages)
    assert bound_ns == 3 * long // LANES
    monkeypatch.setattr(RelayStageRunner, "concurrency_overhead_percent", 0)
    assert prices.price(prices.graph, stages[:1]) == [whole_ns]


def test_one_lane_runs_groups_one_by_one(built: BuiltModel) -> None:
    with LocalCpu().open() as session, RelayStageRunner(built, lanes=1, session=session) as runner:
        prices = KernelPrices(runner, options=MEASURE)
        members = tuple((index,) for index in convolutions(prices.graph))
        singles_ns = prices.price(prices.graph, [Stage((group,)) for group in members])
        measured = prices.counters.priced
        assert prices.price(prices.graph, [Stage(members)]) == [sum(singles_ns)]
        assert prices.counters.priced == measured


def test_a_merged_stage_is_compiled_and_priced(prices: KernelPrices) -> None:
    members = tuple((index,) for index in convolutions(prices.graph))
    assert len(members) == 3
    merged = Stage(members, Strategy.MERGE)
    assert prices.price(prices.graph, [merged])[0] > 0
    # At batch one the slices are views, as in a network: only the merged convolution is timed.
    assert len(prices.runner.prepare(prices.graph, merged).operators) == 1
    assert prices.price(prices.graph, [merged, Stage(members)])[1] > 0


def test_equal_kernels_have_equal_identities(runner: RelayStageRunner) -> None:
    graph = with_kernel_identity(runner.built, runner.needs_no_kernel)
    left, middle, right = (graph.operators[index] for index in convolutions(graph))
    assert left.workload == right.workload != middle.workload
    for index, operator in enumerate(graph.operators):
        assert operator.workload.endswith("@view") == runner.needs_no_kernel(index)
        assert operator.workload.startswith(runner.built.graph.operators[index].workload + "@")


def test_prices_are_kept_in_the_database(runner: RelayStageRunner, tmp_path: Path) -> None:
    stages = sequential_schedule(runner.built.graph).stages
    counted = []
    for _ in range(2):
        batches = []
        prices = KernelPrices(
            runner,
            database=open_database(tmp_path / "prices.sqlite"),
            options=MEASURE,
            on_batch=batches.append,
        )
        costs = prices.price(prices.graph, stages)
        prices.save()
        counted.append((prices.counters.priced, prices.counters.from_database, costs))
        assert bool(batches) == bool(prices.counters.priced)
    (measured, known, first), (measured_again, known_again, second) = counted
    assert (known, measured_again) == (0, 0)
    assert measured == known_again > 0
    assert first == second


def test_help_is_part_of_what_a_price_is_of(prices: KernelPrices) -> None:
    every = range(len(prices.graph))
    stages = [Stage(((index,),)) for index in convolutions(prices.graph)]
    prices.price(prices.graph, stages)
    with_help = prices.counters.priced
    prices.keep_whole(every)
    assert prices.unsplit == tuple(every)
    prices.price(prices.graph, stages)
    assert prices.counters.priced == 2 * with_help
    prices.keep_whole(())
    prices.price(prices.graph, stages)
    assert prices.counters.priced == 2 * with_help


def test_operators_are_priced_alone_and_schedules_told(prices: KernelPrices) -> None:
    plain = sequential_schedule(prices.graph)
    assert prices.annotate(plain) == plain
    prices.price_operators()
    count = len(prices.graph)
    schedule = prices.annotate(plain)
    assert schedule.operator_ns == prices.operator_ns == prices.runner.operator_ns
    assert len(schedule.operator_ns) == count
    assert set(schedule.unsplit) <= set(range(count))
    assert schedule.unsplit == prices.unsplit == tuple(sorted(set(prices.unsplit)))
    assert (schedule.stages, schedule.scheduler) == (plain.stages, plain.scheduler)
    assert min(schedule.operator_ns) > 0


def test_a_list_has_no_task_of_what_needs_no_kernel(prices: KernelPrices) -> None:
    prices.price_operators()
    times = prices.operator_times(sequential_schedule(prices.graph))
    views = [prices.runner.needs_no_kernel(index) for index in range(len(prices.graph))]
    assert True in views
    assert [alone_ns == 0 for alone_ns in times.alone_ns] == views


def test_known_prices_of_a_schedule_are_told_and_nothing_is_measured(prices: KernelPrices) -> None:
    plain, greedy = sequential_schedule(prices.graph), greedy_schedule(prices.graph)
    assert prices.known_ns(plain) == (None,) * len(plain.stages)
    prices.price_operators()
    singles_ns = prices.price(prices.graph, plain.stages)
    members = tuple((index,) for index in convolutions(prices.graph))
    merged = Stage(members, Strategy.MERGE)
    (merged_ns,) = prices.price(prices.graph, [merged])
    measured = prices.counters.priced
    assert prices.known_ns(plain) == tuple(singles_ns)
    known_ns = dict(zip(greedy.stages, prices.known_ns(greedy), strict=True))
    assert {known_ns[stage] for stage in greedy.stages if len(stage.groups) > 1} == {None}
    assert prices.known_ns(replace(greedy, stages=(merged,))) == (merged_ns,)
    assert prices.counters.priced == measured


def test_a_list_is_made_of_known_prices_and_splits_what_it_likes(prices: KernelPrices) -> None:
    prices.price_operators()
    start = greedy_schedule(prices.graph)
    measured = prices.counters.priced
    listed = list_choice.list_from(prices, start, lanes=LANES)
    assert prices.counters.priced == measured
    times = prices.operator_times(start)
    kernels = {i for i in range(len(prices.graph)) if not prices.runner.needs_no_kernel(i)}
    assert all(times.alone_ns[index] == prices.operator_ns[index] for index in kernels)
    unsplit = kernels.intersection(prices.unsplit)
    assert all(times.helped_ns[index] == times.alone_ns[index] for index in unsplit)
    rows_ns = prices.known_ns(listed)
    assert len(rows_ns) == len(listed.stages)
    assert sum(rows_ns) == sum(
        times.alone_ns[index] if index in listed.unsplit else times.helped_ns[index]
        for index in range(len(prices.graph))
    )
    annotated = prices.annotate(listed)
    assert annotated.unsplit == listed.unsplit
    assert set(prices.unsplit) <= set(listed.unsplit)
    assert annotated.operator_ns == prices.operator_ns
    assert annotated.home_lanes == listed.home_lanes
    assert lower_schedule(prices.runner.built, annotated, lanes=LANES).plan.lanes == LANES


@pytest.mark.skipif(LANES < 2, reason="one core: a list has one lane")
def test_of_a_few_lists_the_fastest_is_kept(
    runner: RelayStageRunner, tmp_path: Path, monkeypatch
) -> None:
    database = open_database(tmp_path / "prices.sqlite")
    prices = KernelPrices(runner, options=MEASURE, database=database)
    prices.price_operators()
    start = sequential_schedule(prices.graph)
    raced, completed = {}, []
    monkeypatch.setattr(OpenLibraries, "complete", lambda _, plan: completed.append(plan) or plan)

    def race(models, **_options):
        raced.update(models)
        run_ns = tuple(100.0 - number for number in range(len(models)))
        row = CompareRound(run_ns=run_ns, ping_pong_ns=50.0, slow=False)
        return Comparison(names=tuple(models), rounds=(row,) * 9, confidence=0.95, notes=())

    monkeypatch.setattr(list_choice, "race", race)

    def list_from(prices, start, *, lanes, seed):
        """As many lists as there are lanes to rotate, each twice."""
        turn = seed // 2
        homes = tuple((index + turn) % lanes for index in range(len(prices.graph)))
        return replace(start, home_lanes=homes, latency_ns=10 - turn)

    monkeypatch.setattr(list_choice, "list_from", list_from)
    kept = list_choice.fastest_list(prices, start, lanes=2, seeds=range(4))
    assert len(raced) == 2
    assert [model.plan for model in raced.values()] == completed  # with what the session found
    assert kept == raced["2"].schedule
    assert kept.home_lanes[0] == 1
    raced.clear()
    assert list_choice.fastest_list(prices, start, lanes=2, seeds=range(4)) == kept
    only = list_choice.fastest_list(prices, start, lanes=2, seeds=range(1))
    assert only.latency_ns == 10
    assert raced == {}


@pytest.mark.skipif(LANES < 2, reason="needs two cores: with one lane nobody helps")
def test_an_unsplit_operator_runs_on_one_lane(runner: RelayStageRunner) -> None:
    graph = runner.built.graph
    index = convolutions(graph)[1]
    marked = without_help(graph, [index])
    for of in (graph, marked):
        assert runner.prepare(of, Stage(((index,),))).time_ns(10) > 0


def test_another_graph_is_refused(prices: KernelPrices) -> None:
    other = OperatorGraph("other", prices.graph.operators[:-1])
    with pytest.raises(CostError, match="'other'.*not the one these kernels were built for"):
        prices.price(other, [Stage(((0,),))])


def test_a_closed_runner_prices_nothing(built: BuiltModel) -> None:
    with (
        LocalCpu().open() as session,
        RelayStageRunner(built, lanes=1, session=session) as runner,
    ):
        prices = KernelPrices(runner, options=MEASURE)
    runner.close()
    with pytest.raises(CostError, match="closed"):
        prices.price(prices.graph, [Stage(((convolutions(prices.graph)[0],),))])


@pytest.mark.slow
def test_a_prepared_module_is_priced_by_itself(built: BuiltModel, tmp_path: Path) -> None:
    database = tmp_path / "prices.sqlite"
    with measured_cost_model(built.prepared, lanes=1, database=database, options=MEASURE) as prices:
        stages = sequential_schedule(prices.graph).stages
        assert sum(prices.price(prices.graph, stages)) > 0
    assert open_database(database).count() > 0


def test_the_context_tells_lanes_and_targets_apart(built: BuiltModel) -> None:
    target = built.prepared.target
    here = LocalCpu()
    assert profile_context(target, 1, here) == profile_context(target, 1, LocalCpu())
    assert profile_context(target, 1, here) != profile_context(target, 2, here)


def test_the_context_tells_compilers_apart(
    built: BuiltModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    contexts = [profile_context(built.prepared.target, 1, LocalCpu())]
    for llvm in ("16.0.6", "18.1.8"):
        monkeypatch.setattr(prices_module, "compilers", lambda llvm=llvm: ("0.17.0", "abc", llvm))
        contexts.append(profile_context(built.prepared.target, 1, LocalCpu()))
    assert len({context.digest() for context in contexts}) == 3


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "not.sqlite"
    path.write_bytes(b"no database at all" * 100)
    with pytest.raises(DatabaseError, match=r"not\.sqlite"):
        open_database(path)


@pytest.mark.skipif(LANES < 2, reason="one core: there is no lane that could help")
def test_a_long_operator_is_split_whatever_its_price_says(prices, monkeypatch) -> None:
    for cost_ns, unsplit in ((LONG_NS, 0), (LONG_NS - 1, len(prices.graph))):
        monkeypatch.setattr(
            prices._measured, "price", lambda ways, cost=cost_ns, **_: [cost] * len(ways)
        )
        prices.price_operators()
        assert len(prices.unsplit) == len(prices.short) == unsplit


class Traced:
    """An executor that tells made-up times, one list an operator, a run after the other."""

    def __init__(self, times_ns: dict[str, list[int]]) -> None:
        self.times_ns = times_ns
        self.asked = 0

    def trace(self, runs: int) -> list[TraceEvent]:
        assert runs >= 2  # the first one finds the caches of another network
        row = self.asked
        self.asked += 1
        return [
            TraceEvent(
                operator=name, stage=0, group=0, lane=0, start_ns=7, end_ns=7 + values[row % 5]
            )
            for name, values in self.times_ns.items()
        ]


@pytest.mark.skipif(LANES < 2, reason="one core: there is no lane that could help")
def test_the_least_time_in_the_network_chooses_the_lanes(prices, monkeypatch) -> None:
    prices.price_operators()
    names = [operator.name for operator in prices.graph.operators]
    split = {name: [90, 90, 10, 90, 90] for name in names}  # disturbed in all but one round
    whole = {name: [20, 20, 20, 20, 20] for name in names} | {names[3]: [8, 99, 99, 99, 99]}
    shown = []

    @contextmanager
    def executors_of(models, _session):
        shown.extend(models.values())
        yield dict(zip(models, [Traced(split), Traced(whole)], strict=True))

    monkeypatch.setattr(ways_in_network, "executors_of", executors_of)
    for long_ns, unsplit in ((0, ()), (1 << 60, (3,))):
        monkeypatch.setattr("tvm_ios.profile.way_prices.LONG_NS", long_ns)
        found = ways_in_network.ways_in_network(prices, clock_ns=lambda: 0)
        assert found == ways_in_network.OperatorWays({}, unsplit)
    in_split, in_whole = shown  # where nothing is short there is one way only, which needs no run
    assert all(launch.split for launch in in_split.plan.launches)
    assert not any(launch.split for launch in in_whole.plan.launches)


@pytest.mark.skipif(LANES < 2, reason="one core: there is no lane that could help")
def test_rounds_in_the_network_end_when_they_have_taken_long_enough(prices, monkeypatch) -> None:
    prices.price_operators()
    names = [operator.name for operator in prices.graph.operators]
    executors = [Traced({name: [20] * 5 for name in names}) for _ in range(2)]

    @contextmanager
    def executors_of(models, _session):
        yield dict(zip(models, executors, strict=True))

    monkeypatch.setattr(ways_in_network, "executors_of", executors_of)
    ways_in_network.ways_in_network(prices, clock_ns=lambda: 0)
    assert {executor.asked for executor in executors} == {ways_in_network.MOST_ROUNDS}
    clock = iter(range(0, 10**15, 2 * ways_in_network.LONGEST_NS))
    for executor in executors:
        executor.asked = 0
    ways_in_network.ways_in_network(prices, clock_ns=lambda: next(clock))
    assert {executor.asked for executor in executors} == {ways_in_network.LEAST_ROUNDS}


@pytest.mark.skipif(LANES < 2, reason="one core: there is no lane that could help")
def test_a_device_that_tells_no_times_leaves_it_to_prices(prices, monkeypatch) -> None:
    prices.price_operators()

    @contextmanager
    def executors_of(models, _session):
        yield dict.fromkeys(models, Traced({}))

    monkeypatch.setattr(ways_in_network, "executors_of", executors_of)
    assert ways_in_network.ways_in_network(prices) == ways_in_network.ways_by_price(prices)


@pytest.mark.skipif(LANES < 2, reason="one core: there is no lane that could help")
@pytest.mark.parametrize("hop_ns", [50.0, 500.0])
@pytest.mark.parametrize("fastest", ["in the network", "by price", "all split"])
def test_ways_that_were_settled_are_not_timed_again(runner, tmp_path, monkeypatch, fastest, hop_ns):
    timed, traced = [], []

    def race(models, **_options):
        timed.append(tuple(models))
        run_ns = tuple(100.0 if name == fastest else 200.0 for name in models)
        row = CompareRound(run_ns=run_ns, ping_pong_ns=hop_ns, slow=hop_ns > 200)
        return Comparison(names=tuple(models), rounds=(row,) * 9, confidence=0.95, notes=())

    def in_network(prices):
        traced.append(prices)
        return ways_in_network.OperatorWays({}, (1, 2))

    monkeypatch.setattr(way_choice, "race", race)
    monkeypatch.setattr(way_choice, "ways_in_network", in_network)
    monkeypatch.setattr(runner, "ping_pong_ns", lambda: hop_ns)
    database = ProfileDatabase(tmp_path / "prices.sqlite")
    first, again = (KernelPrices(runner, database=database, options=MEASURE) for _ in range(2))
    monkeypatch.setattr(
        way_choice, "ways_by_price", lambda _: ways_in_network.OperatorWays({}, (2,))
    )
    way_choice.settle_ways(first)
    way_choice.settle_ways(again)
    assert timed == [("in the network", "by price", "all split", "none of the short ones split")]
    assert traced == [first]
    wanted = {"in the network": (1, 2), "by price": (2,), "all split": ()}
    assert first.unsplit == again.unsplit == wanted[fastest]
    monkeypatch.setattr(runner, "ping_pong_ns", lambda: 50.0)
    way_choice.settle_ways(KernelPrices(runner, database=database, options=MEASURE))
    assert len(timed) == (1 if hop_ns < 200 else 2)  # what was chosen in busy times is not for ever


def test_prices_decide_alone_where_operators_are_long(prices, monkeypatch) -> None:
    monkeypatch.setattr(way_choice, "LONG_OPERATOR_NS", 1)
    monkeypatch.setattr(way_choice, "race", None)
    monkeypatch.setattr(
        way_choice, "ways_by_price", lambda _: ways_in_network.OperatorWays({}, (1,))
    )
    way_choice.settle_ways(prices)
    assert prices.unsplit == (1,)


def test_ways_that_are_the_same_are_timed_once(prices, monkeypatch) -> None:
    timed = []

    def race(models, **_options):
        timed.append(tuple(models))
        row = CompareRound(run_ns=(100.0,) * len(models), ping_pong_ns=50.0, slow=False)
        return Comparison(names=tuple(models), rounds=(row,) * 9, confidence=0.95, notes=())

    monkeypatch.setattr(way_choice, "race", race)
    for by_price in ((), (1,)):
        monkeypatch.setattr(
            way_choice, "ways_by_price", lambda _, it=by_price: ways_in_network.OperatorWays({}, it)
        )
        monkeypatch.setattr(
            way_choice, "ways_in_network", lambda _: ways_in_network.OperatorWays({}, ())
        )
        monkeypatch.setattr("tvm_ios.profile.way_prices.LONG_NS", 0)  # so nothing is short
        way_choice.settle_ways(prices)
        assert prices.unsplit == ()
    assert timed == [("in the network", "by price")]
