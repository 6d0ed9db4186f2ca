"""``compile_schedule`` on a small real network: what is compiled computes what stock TVM does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import tvm
from tvm import relay

import tvm_ios
from tests.driver.conftest import EXACT
from tvm_ios import Conversion, TuneOptions
from tvm_ios.compile.built_model import build_model
from tvm_ios.compile.lower import lower_schedule
from tvm_ios.core.schedule import InterOpSchedule, LibraryOperators, Stage, Strategy
from tvm_ios.errors import OptionError, ScheduleError
from tvm_ios.host import default_lanes
from tvm_ios.passes import PrepareModule, ScheduleOperators
from tvm_ios.plan.verify import verify_plan
from tvm_ios.search.baselines import greedy_schedule, sequential_schedule
from tvm_ios.search.list_schedule import OperatorTimes, list_schedule
from tvm_ios.search.list_search import ListOptions
from tvm_ios.support.exact_bits import exact_bits

LANES = min(2, default_lanes())
TARGET = "llvm -opt-level=0"  # LLVM need not optimise what runs a few times


@pytest.mark.slow(1)
def test_a_concurrent_schedule_is_bit_equal_to_stock_tvm(net, plain: tvm_ios.CompiledModel) -> None:
    greedy = greedy_schedule(plain.graph)
    compiled = net.compile(schedule=greedy, options=EXACT)
    assert any(len(stage.groups) > 1 for stage in compiled.schedule.stages)
    for model in (plain, compiled):
        net.assert_equal(model)


def mathematics() -> tuple[tvm.IRModule, dict[str, np.ndarray]]:
    """GELU of a convolution that fills no vectors, a product for every image, and a softmax."""
    random = np.random.default_rng(0)
    shapes = {"w": (30, 8, 3, 3), "m": (1, 11, 36)}
    params = {n: random.uniform(-0.3, 0.3, s).astype("float32") for n, s in shapes.items()}
    w, m = (relay.var(name, shape=shape) for name, shape in shapes.items())
    data, half = relay.var("data", shape=(2, 8, 6, 6)), relay.const(0.5)
    x = relay.nn.conv2d(data, w, padding=(1, 1), channels=30, kernel_size=(3, 3))
    x = x * (half + relay.erf(x * relay.const(0.70710678)) * half)
    rows = relay.reshape(x, (2, 30, 36))
    out = relay.nn.softmax(relay.nn.batch_matmul(rows, relay.broadcast_to(m, (2, 11, 36))))
    module = tvm.IRModule.from_expr(relay.Function([data, w, m], out))
    return relay.transform.InferType()(module), params


@pytest.mark.slow
def test_an_exact_model_is_bit_equal_to_stock_tvm_and_others_nearly(make_net) -> None:
    net = make_net(*mathematics())
    exact = net.compile(options=EXACT)
    ours = net.compile()
    net.assert_equal(exact)
    with ours.executor() as executor:
        found = net.run(executor)
    np.testing.assert_allclose(found, net.expected, rtol=1e-5)
    assert not np.array_equal(found, net.expected)


def test_merges_are_refused_where_bits_are_to_be_exact(net, plain: tvm_ios.CompiledModel) -> None:
    graph = plain.graph
    first = sequential_schedule(graph).stages
    stages = (Stage(tuple((index,) for index in (0, 1)), Strategy.MERGE), *first)
    schedule = replace(sequential_schedule(graph), stages=stages)
    with pytest.raises(OptionError, match="exact is True, but the schedule merges"):
        net.compile(schedule=schedule, options=EXACT)


@pytest.mark.slow
def test_operators_that_are_not_split_compute_the_same(net, plain: tvm_ios.CompiledModel) -> None:
    schedule = replace(
        greedy_schedule(plain.graph),
        unsplit=tuple(range(len(plain.graph))),
        operator_ns=tuple(range(len(plain.graph))),
    )
    compiled = net.compile(schedule=schedule, options=EXACT)
    assert not any(launch.split for launch in compiled.plan.launches)
    net.assert_equal(compiled)


def lists(graph, count, lanes):
    """Lists by random times."""
    for seed in range(count):
        chooser = np.random.default_rng(seed)
        alone_ns = chooser.integers(1000, 9000, len(graph))
        times = OperatorTimes(
            alone_ns=alone_ns.tolist(), helped_ns=(alone_ns // chooser.integers(1, 3)).tolist()
        )
        yield list_schedule(
            graph,
            times,
            lanes=lanes,
            start=sequential_schedule(graph),
            options=ListOptions(draws=20, moves=0, seed=seed),
        )


@pytest.mark.slow(1)
def test_lists_are_bit_equal_to_stock_tvm(net, plain: tvm_ios.CompiledModel) -> None:
    """They are planned on the same kernels, and run on as many lanes as there are cores."""
    with exact_bits(True):
        built = build_model(net.mod, net.params, TARGET)
    seen = set()
    for schedule in lists(plain.graph, 8, LANES):
        model = lower_schedule(built, schedule, lanes=LANES)
        verify_plan(model.plan)
        homes = {launch.operator: -1 for launch in model.plan.launches}
        for group in model.plan.groups:
            homes |= {model.plan.launches[n].operator: group.lane for n in group.launches}
        named = dict(zip(schedule.operator_names, schedule.home_lanes, strict=True))
        assert homes == {name: named[name] for name in homes}
        seen.add(model.plan.groups)
        with model.executor() as executor:
            for _ in range(5):
                np.testing.assert_array_equal(net.run(executor), net.expected)
    assert len(seen) > 1


@pytest.mark.slow
def test_a_list_is_stored_partitioned_exported_and_run(net, plain, tmp_path) -> None:
    (schedule,) = lists(plain.graph, 1, 2)
    assert InterOpSchedule.from_json(schedule.to_json()) == schedule
    how = {"lanes": LANES, "options": EXACT}
    model = net.compile(schedule=schedule, **how)
    again = tvm_ios.compile_schedule(model.module, target=TARGET, **how)
    assert again.schedule == schedule
    assert again.plan.groups == model.plan.groups
    model.export_library(tmp_path / "list.so")
    with again.executor() as executor, tvm_ios.load(tmp_path / "list.so") as loaded:
        np.testing.assert_array_equal(net.run(executor), net.expected)
        np.testing.assert_array_equal(net.run(loaded), net.expected)
    one = net.compile(schedule=schedule, lanes=1)
    assert {group.lane for group in one.plan.groups} == {0}


@pytest.mark.slow
def test_a_schedule_survives_its_json(net, plain: tvm_ios.CompiledModel) -> None:
    stored = InterOpSchedule.from_json(greedy_schedule(plain.graph).to_json())
    compiled = net.compile(schedule=stored, options=EXACT)
    assert compiled.schedule == stored


@pytest.mark.slow
def test_a_module_that_a_pass_partitioned_is_compiled_as_it_is(net) -> None:
    scheduled = ScheduleOperators(target=TARGET, params=net.params, scheduler="greedy", exact=True)
    with tvm.transform.PassContext(opt_level=3):
        module = scheduled(net.mod)
    compiled = tvm_ios.compile_schedule(module, target=TARGET, options=EXACT)
    assert compiled.schedule.scheduler == "greedy"
    net.assert_equal(compiled)
    with pytest.raises(OptionError, match="partitioned already"):
        tvm_ios.compile_schedule(module, target=TARGET, schedule=compiled.schedule)


@pytest.mark.slow
def test_a_schedule_of_another_graph_is_refused(net) -> None:
    mod = tvm.IRModule.from_expr(relay.nn.relu(relay.var("data", shape=(1, 16, 8, 8))))
    other = tvm_ios.compile_schedule(mod, {}, TARGET).schedule
    with pytest.raises(ScheduleError, match="does not fit"):
        net.compile(schedule=other)


def test_a_model_compiled_without_tuning_has_no_report(plain: tvm_ios.CompiledModel) -> None:
    with pytest.raises(OptionError, match=r"tvm_ios\.tune"):
        plain.report()


def test_a_module_that_is_prepared_is_not_converted(net, plain):
    in_nhwc = TuneOptions(conversion=Conversion(desired_layout="NHWC"))
    half = TuneOptions(conversion=Conversion(mixed_precision=True))
    with pytest.raises(OptionError, match="partitioned already, so desired_layout='NHWC'"):
        tvm_ios.compile_schedule(plain.module, target=TARGET, options=in_nhwc)
    fused = PrepareModule(target=TARGET, params=net.params)(net.mod)
    with pytest.raises(OptionError, match="fused already; give the options to PrepareModule"):
        tvm_ios.compile_schedule(fused, target=TARGET, options=half)


@pytest.mark.slow
def test_a_schedule_for_cudnn_is_refused_on_a_cpu(net, plain: tvm_ios.CompiledModel) -> None:
    for_gpu = replace(plain.schedule, libraries=(LibraryOperators("cudnn", (0,)),))
    first = plain.schedule.operator_names[0]
    with pytest.raises(ScheduleError, match=f"cuDNN compute 1 operators, .*{first!r}.* is a CPU"):
        net.compile(schedule=for_gpu)
    nothing = replace(plain.schedule, libraries=())  # the choice was made, and it is TVM's kernels
    net.compile(schedule=nothing)
