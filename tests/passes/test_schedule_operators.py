from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import tvm
from tvm import relay
from tvm.ir.instrument import PassTimingInstrument, pass_instrument

from tests.small_networks import few_fires
from tvm_ios.core.schedule import Strategy
from tvm_ios.cost.database import ProfileDatabase
from tvm_ios.errors import ModelError, OptionError, SearchError
from tvm_ios.passes.prepare_module import PrepareModule
from tvm_ios.passes.schedule_operators import ScheduleOperators, Scheduler
from tvm_ios.relay.build import build
from tvm_ios.relay.extract import extract
from tvm_ios.relay.rewrite import rewrite
from tvm_ios.relay.stage_ir import is_partitioned, read_schedule
from tvm_ios.search.baselines import greedy_schedule, sequential_schedule
from tvm_ios.search.ios import search_ios
from tvm_ios.search.options import SearchOptions
from tvm_ios_lab.analytical.cpu import CPU
from tvm_ios_lab.analytical.cpu_model import AnalyticalCpuCost
from tvm_ios_lab.analytical.gpu import GPU
from tvm_ios_lab.analytical.timeline_model import AnalyticalGpuCost


@cache
def prepared_fires(target):
    """A few fire modules of SqueezeNet."""
    module, params = few_fires(image_size=64)
    return PrepareModule(target=target, params=params)(module)


def scheduled(case, **options):
    module, params = case.network()
    with tvm.transform.PassContext(opt_level=3):
        return ScheduleOperators(target=case.target, params=params, **options)(module)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scheduler", "make"),
    [("greedy", greedy_schedule), (Scheduler.SEQUENTIAL, sequential_schedule)],
)
def test_baselines(case, scheduler, make):
    module, params = case.network()
    prepared = PrepareModule(target=case.target, params=params)(module)
    after = scheduled(case, scheduler=scheduler)
    expected = rewrite(prepared, make(extract(prepared).graph))
    tvm.ir.assert_structural_equal(after, expected)
    np.testing.assert_array_equal(case.run(after), case.expected())


@pytest.mark.slow(1)
def test_ios_runs_side_by_side_what_pays(case, prices):
    after = scheduled(case, cost_model=prices)
    schedule = read_schedule(after)
    module, params = case.network()
    graph = extract(PrepareModule(target=case.target, params=params)(module)).graph
    exact = SearchOptions(max_chain_size=1, bound_margin_percent=0)
    assert schedule == search_ios(graph, prices, exact).schedule
    assert any(len(stage.groups) > 1 for stage in schedule.stages)
    assert all(stage.strategy is Strategy.CONCURRENT for stage in schedule.stages)
    np.testing.assert_array_equal(case.run(after), case.expected())


@pytest.mark.slow
def test_a_list_needs_prices_of_operators_only(case, prices):
    after = scheduled(case, scheduler="list", cost_model=prices, lanes=2)
    schedule = read_schedule(after)
    assert (schedule.scheduler, schedule.num_home_lanes) == ("list", 2)
    assert all(len(stage.groups) == 1 for stage in schedule.stages)
    assert all(len(stage.operators) == 1 for stage in prices.asked)
    assert len(prices.asked) == len(schedule.operator_names)
    np.testing.assert_array_equal(case.run(after), case.expected())


@pytest.mark.slow
def test_a_list_for_a_cpu_that_is_not_here_takes_its_lanes_for_what_they_are():
    model = AnalyticalCpuCost(CPU.of_cores(4))
    prepared = prepared_fires("llvm")
    options = {"target": "llvm", "scheduler": "list", "cost_model": model}
    one, two = (
        read_schedule(ScheduleOperators(**options, lanes=lanes)(prepared)) for lanes in (1, 2)
    )
    graph = extract(prepared).graph
    assert one.latency_ns == sum(model.operators_ns(graph, lanes=1))
    assert one.latency_ns / 2 < two.latency_ns < one.latency_ns
    assert len(two.unsplit) < len(graph)


def test_a_list_by_answers_that_are_no_prices_is_refused(case):
    class Fractions:
        def price(self, _graph, stages):
            return [0.5] * len(stages)

    with pytest.raises(SearchError, match=r"gave 0\.5 for the concurrent stage"):
        scheduled(case, scheduler="list", cost_model=Fractions(), lanes=1)

    class OfLanes(Fractions):
        def operators_ns(self, graph, *, lanes):
            return [lanes - 2] * len(graph)

    with pytest.raises(SearchError, match="gave -1 for the concurrent stage"):
        scheduled(case, scheduler="list", cost_model=OfLanes(), lanes=2)


@pytest.mark.slow
def test_ios_merges_what_pays(case, merging_prices):
    after = scheduled(case, cost_model=merging_prices)
    assert any(
        stage.strategy is Strategy.MERGE and len(stage.groups) == 2
        for stage in read_schedule(after).stages
    )
    np.testing.assert_allclose(case.run(after), case.expected(), rtol=1e-4, atol=1e-5)
    assert any(name.endswith(".slice") for name in build(after, case.target).operator_names)


def test_strategies_and_limits_reach_the_search(case, merging_prices):
    only_concurrent = frozenset({Strategy.CONCURRENT})
    search = SearchOptions(strategies=only_concurrent, max_num_groups=2)
    after = scheduled(case, cost_model=merging_prices, search=search)
    stages = read_schedule(after).stages
    assert all(stage.strategy is Strategy.CONCURRENT for stage in stages)
    assert max(len(stage.groups) for stage in merging_prices.asked) == 2


@pytest.mark.slow
def test_merges_of_one_kernel_size_keep_inf(case, merging_prices):
    """A 1x1 and two 3x3 convolutions of one input, with an inf in it."""
    module, params = case.siblings((1, 3, 3))
    image = case.data()
    image[0, 3, 4, 4] = np.inf
    plain = case.outputs(module, params, image)
    assert not any(np.isnan(output).any() for output in plain)
    for padded in (True, False):
        schedule = ScheduleOperators(
            target=case.target,
            params=params,
            cost_model=merging_prices,
            search=SearchOptions(pad_merged_kernels=padded),
        )
        with tvm.transform.PassContext(opt_level=3):
            after = schedule(module)
        (merged,) = [s for s in read_schedule(after).stages if s.strategy is Strategy.MERGE]
        assert len(merged.groups) == (3 if padded else 2)
        outputs = case.outputs(after, None, image)
        assert [bool(np.isnan(output).any()) for output in outputs] == [padded, False, False]
        for ours, theirs in zip(outputs, plain, strict=True):
            there = ~np.isnan(ours)
            np.testing.assert_allclose(ours[there], theirs[there], rtol=1e-4, atol=1e-5)


def test_chains_are_joined_where_they_are_asked_for(case, prices):
    module, params = case.network()
    graph = extract(PrepareModule(target=case.target, params=params)(module)).graph
    options = SearchOptions(max_chain_size=2, bound_margin_percent=0)
    after = scheduled(case, cost_model=prices, search=SearchOptions(max_chain_size=2))
    assert read_schedule(after) == search_ios(graph, prices, options).schedule


@pytest.mark.slow
@pytest.mark.parametrize("target", ["cuda -arch=sm_90", "llvm"])
def test_a_network_is_scheduled_for_a_gpu_that_is_not_here(target):
    model = AnalyticalGpuCost(GPU.by_name("h100"))
    prepared = prepared_fires(target)
    with tvm.transform.PassContext(opt_level=3):
        after = ScheduleOperators(target=target, cost_model=model)(prepared)
    schedule = read_schedule(after)
    assert schedule.priced_by == model.description
    assert "ms by the analytical model of NVIDIA H100 SXM5" in schedule.as_text()
    assert any(len(stage.groups) > 1 for stage in schedule.stages)
    graph = extract(prepared).graph
    in_order = sum(model.price(graph, sequential_schedule(graph).stages))
    assert schedule.latency_ns == sum(model.price(graph, schedule.stages)) < in_order
    assert model.simulate(graph, schedule).latency_ns == schedule.latency_ns


def test_a_prepared_module_is_not_prepared_again(case, prices):
    module, params = case.network()
    prepared = PrepareModule(target=case.target, params=params)(module)
    seen = Names()
    with tvm.transform.PassContext(opt_level=3, instruments=[seen]):
        after = ScheduleOperators(target=case.target, cost_model=prices)(prepared)
    assert is_partitioned(after)
    assert "FuseOps" not in seen.names


def test_a_partitioned_module_keeps_its_schedule(case, prices):
    once = scheduled(case, scheduler="greedy")
    twice = ScheduleOperators(target=case.target, cost_model=prices)(once)
    assert twice.same_as(once)
    assert prices.asked == []


@pass_instrument
class Names:
    """Which passes ran."""

    def __init__(self):
        self.names = []

    def run_before_pass(self, _module, info):
        self.names.append(str(info.name))


def sequence(case):
    return tvm.transform.Sequential(
        [ScheduleOperators(target=case.target, params=case.network()[1], scheduler="greedy")]
    )


@pytest.mark.parametrize(
    ("context", "runs"),
    [
        ({"opt_level": 3}, True),
        ({"opt_level": 2}, False),
        ({"opt_level": 2, "required_pass": ["tvm_ios.ScheduleOperators"]}, True),
        ({"opt_level": 3, "disabled_pass": ["tvm_ios.ScheduleOperators"]}, False),
    ],
    ids=["level 3", "level 2", "required", "disabled"],
)
def test_the_context_decides_whether_it_runs(case, context, runs):
    module, _ = case.network()
    with tvm.transform.PassContext(**context):
        assert is_partitioned(sequence(case)(module)) == runs


def test_instruments_see_it_and_what_it_runs(case):
    timing, names = PassTimingInstrument(), Names()
    with tvm.transform.PassContext(opt_level=3, instruments=[timing, names]):
        sequence(case)(case.network()[0])
        profile = timing.render()
    assert "tvm_ios.ScheduleOperators" in profile
    assert names.names.index("tvm_ios.ScheduleOperators") < names.names.index("FuseOps")


@pytest.mark.slow
def test_the_whole_sequence_a_user_writes(case):
    module, params = case.network()
    passes = [
        PrepareModule(target=case.target, params=params),
        ScheduleOperators(target=case.target, scheduler="greedy"),
    ]
    with tvm.transform.PassContext(opt_level=3):
        after = tvm.transform.Sequential(passes)(module)
        factory = relay.build(after, target=case.target)
    assert is_partitioned(after)
    assert factory.get_graph_json().count('"op": "tvm_op"') == len(extract(after).graph)


@pytest.mark.parametrize("kind", ["if", "dynamic"])
def test_what_no_graph_executor_runs_is_returned_as_it_is(case, prices, kind):
    data = relay.var("data", shape=(3,) if kind == "if" else (relay.Any(),))
    body = relay.tanh(data)
    if kind == "if":
        condition = relay.less(relay.sum(data), relay.const(1.0))
        body = relay.If(condition, body, relay.exp(data))
    module = tvm.IRModule.from_expr(relay.Function([data], body))
    after = ScheduleOperators(target=case.target, cost_model=prices)(module)
    assert after.same_as(module)
    assert extract(after).coverage.barriers


@pytest.mark.parametrize(
    "options",
    [
        {"scheduler": "best"},
        {"search": {"max_group_size": 3}},
        {"search": None},
        {"search": SearchOptions(list_only=True)},
        {"search": SearchOptions(memory_limit_mb=8)},
        {"search": SearchOptions(deadlines_ms={"detector": 5})},
        {"lanes": 0},
    ],
)
def test_bad_options_are_refused_where_the_pass_is_made(case, options):
    with pytest.raises(OptionError, match=next(iter(options))):
        ScheduleOperators(target=case.target, **options)


def test_bad_modules_are_refused(case):
    with pytest.raises(ModelError, match="no function 'main'"):
        ScheduleOperators(target=case.target)(tvm.IRModule())


@pytest.mark.slow
def test_without_a_cost_model_stages_are_measured(case, tmp_path, monkeypatch):
    monkeypatch.setenv("TVM_IOS_CACHE_DIR", str(tmp_path))
    after = scheduled(case)
    assert read_schedule(after).latency_ns > 0
    assert ProfileDatabase().count() > 0
    np.testing.assert_allclose(case.run(after), case.expected(), rtol=1e-4, atol=1e-5)
