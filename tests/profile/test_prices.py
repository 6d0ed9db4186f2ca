"""Prices of stages under one choice of makers: on real lanes, and aware of who helps whom."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.pricing import LANES, MEASURE, convolutions, plain_choice, stage_runner
from tvm_ios.compile.built_model import BuiltModel
from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.schedule import Stage, Strategy
from tvm_ios.errors import CostError
from tvm_ios.profile.kernel_variant import unsplit, with_slices
from tvm_ios.profile.measured_kernels import MeasuredKernels, measure_operators
from tvm_ios.profile.operator_prices import LONG_NS, TVM
from tvm_ios.profile.prices import StagePrices
from tvm_ios.profile.stage_kernels import StageKernels
from tvm_ios.search.baselines import greedy_schedule, sequential_schedule


@pytest.fixture
def prices(kernels: MeasuredKernels) -> StagePrices:
    return StagePrices(kernels, plain_choice(kernels.graph))


@pytest.mark.slow(1)
def test_every_stage_of_every_schedule_has_a_price(prices: StagePrices) -> None:
    for schedule in (sequential_schedule(prices.graph), greedy_schedule(prices.graph)):
        costs = prices.price(prices.graph, schedule.stages)
        assert len(costs) == len(schedule.stages)
        assert min(costs) > 0


@pytest.mark.slow(1)
def test_the_work_of_a_stage_is_what_it_costs_at_least(kernels: MeasuredKernels) -> None:
    members = tuple((index,) for index in convolutions(kernels.graph))
    stages = [Stage(members[:1]), Stage(members), Stage(members, Strategy.MERGE)]
    costs_ns = [1000 + index for index in range(len(kernels.graph))]
    prices = StagePrices(kernels, plain_choice(kernels.graph, costs_ns))
    one, all_of_them, merged = prices.lower_bound(prices.graph, stages)
    assert one == costs_ns[members[0][0]] // LANES
    assert 0 <= merged <= sum(prices.price(prices.graph, [Stage((group,)) for group in members]))
    assert all_of_them == sum(costs_ns[index] for (index,) in members) // LANES > one


def test_likely_prices_lie_between_shared_work_and_all_of_it(kernels: MeasuredKernels) -> None:
    """One group is known exactly; nothing is measured for any but single operators."""
    members = tuple((index,) for index in convolutions(kernels.graph))
    stages = [Stage(members[:1]), Stage(members), Stage(members, Strategy.MERGE)]
    costs_ns = [1000 + index for index in range(len(kernels.graph))]
    prices = StagePrices(kernels, plain_choice(kernels.graph, costs_ns))
    (single_ns,) = prices.price(prices.graph, stages[:1])
    prices.operators_ns(prices.graph, lanes=LANES)
    measured = kernels.counters.priced
    one, several, merged = prices.predicted(prices.graph, stages)
    assert kernels.counters.priced == measured
    assert (one, merged) == (single_ns, 0)
    work_ns = sum(costs_ns[index] for (index,) in members)
    assert prices.lower_bound(prices.graph, stages)[1] <= several <= work_ns


def test_one_group_costs_what_its_operators_cost(prices: StagePrices) -> None:
    masks = prices.graph.predecessor_masks()
    last = next(
        index
        for index in reversed(range(len(prices.graph)))
        if masks[index].bit_count() == 1 and not prices.kernels.runner.needs_no_kernel(index)
    )
    chain = (masks[last].bit_length() - 1, last)
    singles_ns = prices.price(prices.graph, [Stage(((index,),)) for index in chain])
    measured = prices.kernels.counters.priced
    assert prices.price(prices.graph, [Stage((chain,))]) == [sum(singles_ns)]
    assert prices.kernels.counters.priced == measured


def test_concurrent_groups_of_long_operators_cost_more_than_by_themselves(
    kernels: MeasuredKernels,
) -> None:
    """On lanes with caches of their own, by what the device says; one lane keeps its caches."""
    graph, runner = kernels.graph, kernels.runner
    percent = runner.session.device.traits.concurrency_overhead_percent if LANES > 1 else 0
    assert runner.concurrency_overhead_percent == percent
    members = tuple((index,) for index in convolutions(graph))
    stages = [Stage(members), Stage(members[:1]), Stage(members, Strategy.MERGE)]
    short, long = LONG_NS - 1, LONG_NS

    def priced(num_long: int, unsplit=()) -> tuple[list[int], int]:
        at_length = {index for (index,) in members[:num_long]}
        costs_ns = [long if index in at_length else short for index in range(len(graph))]
        prices = StagePrices(kernels, plain_choice(graph, costs_ns, unsplit=unsplit))
        return list(prices.price(graph, stages)), prices.lower_bound(graph, stages)[0]

    (alone_ns, *others_ns), work_ns = priced(0)
    assert work_ns == 3 * short // LANES
    for num_long in (1, 2, 3):
        surplus_ns = num_long * long * percent // (100 * LANES)
        costs_ns, bound_ns = priced(num_long)
        assert costs_ns == [alone_ns + surplus_ns, *others_ns]
        assert bound_ns == (num_long * long + (3 - num_long) * short) // LANES + surplus_ns
    every = range(len(graph))
    unsplit_ns, bound_ns = priced(3, every)
    assert bound_ns == 3 * long // LANES
    assert unsplit_ns == priced(0, every)[0]


def test_one_lane_runs_groups_one_by_one(branching_built: BuiltModel) -> None:
    with stage_runner(branching_built, lanes=1) as runner:
        kernels = MeasuredKernels(runner, options=MEASURE)
        prices = StagePrices(kernels, plain_choice(kernels.graph))
        members = tuple((index,) for index in convolutions(prices.graph))
        singles_ns = prices.price(prices.graph, [Stage((group,)) for group in members])
        measured = kernels.counters.priced
        assert prices.price(prices.graph, [Stage(members)]) == [sum(singles_ns)]
        assert kernels.counters.priced == measured


def test_a_merged_stage_is_compiled_and_priced(prices: StagePrices) -> None:
    members = tuple((index,) for index in convolutions(prices.graph))
    assert len(members) == 3
    merged = Stage(members, Strategy.MERGE)
    assert prices.price(prices.graph, [merged])[0] > 0
    # At batch one the slices are views, as in a network: only the merged convolution is timed.
    runner = prices.kernels.runner
    sliced = with_slices(runner.graphs[TVM], ())
    assert len(runner.prepare(sliced, merged).operators) == 1
    assert prices.price(prices.graph, [merged, Stage(members)])[1] > 0


def test_help_is_part_of_what_a_price_is_of(kernels: MeasuredKernels) -> None:
    graph = kernels.graph
    stages = [Stage(((index,),)) for index in convolutions(graph)]
    StagePrices(kernels, plain_choice(graph)).price(graph, stages)
    with_help = kernels.counters.priced
    StagePrices(kernels, plain_choice(graph, unsplit=range(len(graph)))).price(graph, stages)
    assert kernels.counters.priced == 2 * with_help
    StagePrices(kernels, plain_choice(graph)).price(graph, stages)
    assert kernels.counters.priced == 2 * with_help


def test_operators_are_priced_alone_and_schedules_told(kernels: MeasuredKernels) -> None:
    plain = sequential_schedule(kernels.graph)
    choice = measure_operators(kernels).choice()
    count = len(kernels.graph)
    schedule = StagePrices(kernels, choice).annotate(plain)
    assert schedule.operator_ns == choice.alone_ns
    assert len(schedule.operator_ns) == count
    assert set(schedule.unsplit) <= set(range(count))
    assert schedule.unsplit == choice.unsplit == tuple(sorted(set(choice.unsplit)))
    assert (schedule.stages, schedule.scheduler) == (plain.stages, plain.scheduler)
    assert schedule.libraries is None
    assert min(schedule.operator_ns) > 0


def test_a_list_has_no_task_of_what_needs_no_kernel(prices: StagePrices) -> None:
    times = prices.operator_times(sequential_schedule(prices.graph))
    views = [prices.kernels.runner.needs_no_kernel(index) for index in range(len(prices.graph))]
    assert True in views
    assert [alone_ns == 0 for alone_ns in times.alone_ns] == views


def test_known_prices_of_a_schedule_are_told_and_nothing_is_measured(prices: StagePrices) -> None:
    plain, greedy = sequential_schedule(prices.graph), greedy_schedule(prices.graph)
    assert prices.known_ns(plain) == (None,) * len(plain.stages)
    singles_ns = prices.price(prices.graph, plain.stages)
    members = tuple((index,) for index in convolutions(prices.graph))
    merged = Stage(members, Strategy.MERGE)
    (merged_ns,) = prices.price(prices.graph, [merged])
    measured = prices.kernels.counters.priced
    assert prices.known_ns(plain) == tuple(singles_ns)
    known_ns = dict(zip(greedy.stages, prices.known_ns(greedy), strict=True))
    assert {known_ns[stage] for stage in greedy.stages if len(stage.groups) > 1} == {None}
    assert prices.known_ns(replace(greedy, stages=(merged,))) == (merged_ns,)
    assert prices.kernels.counters.priced == measured


@pytest.mark.skipif(LANES < 2, reason="needs two cores: with one lane nobody helps")
def test_an_unsplit_operator_runs_on_one_lane(runner: StageKernels) -> None:
    graph = runner.graphs[TVM]
    index = convolutions(graph)[1]
    marked = unsplit(graph, [index])
    for of in (graph, marked):
        assert runner.prepare(of, Stage(((index,),))).time_ns(10) > 0


def test_another_graph_is_refused(prices: StagePrices) -> None:
    other = OperatorGraph("other", prices.graph.operators[:-1])
    with pytest.raises(CostError, match="'other'.*not the one these kernels were built for"):
        prices.price(other, [Stage(((0,),))])


def test_a_closed_runner_prices_nothing(branching_built: BuiltModel) -> None:
    with stage_runner(branching_built, lanes=1) as runner:
        kernels = MeasuredKernels(runner, options=MEASURE)
        prices = StagePrices(kernels, plain_choice(kernels.graph))
    runner.close()
    with pytest.raises(CostError, match="closed"):
        prices.price(prices.graph, [Stage(((convolutions(prices.graph)[0],),))])
