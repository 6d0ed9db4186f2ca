from __future__ import annotations

import itertools

import numpy as np
import pytest
import tvm
from tvm import relay

from tvm_ios.core.schedule import InterOpSchedule, Stage, Strategy
from tvm_ios.errors import ModelError, ScheduleError
from tvm_ios.plan.lower import lower_plan
from tvm_ios.plan.verify import verify_plan
from tvm_ios.relay.build import build
from tvm_ios.relay.extract import extract
from tvm_ios.relay.prepare import prepare
from tvm_ios.relay.rewrite import rewrite
from tvm_ios.relay.stage_ir import flatten, read_schedule, with_attributes
from tvm_ios.search.baselines import greedy_schedule, sequential_schedule
from tvm_ios.support.exact_bits import exact_bits


def schedule_of(graph, *stages, scheduler="test", latency_ns=None):
    return InterOpSchedule(
        graph_name=graph.name,
        graph_fingerprint=graph.fingerprint(),
        operator_names=tuple(operator.name for operator in graph.operators),
        stages=stages,
        scheduler=scheduler,
        latency_ns=latency_ns,
    )


def branching_schedules(graph):
    tail = tuple(Stage(((i,),)) for i in range(5, len(graph)))
    merged = Stage(((1,), (2,), (3,)), Strategy.MERGE)
    return {
        "sequential": sequential_schedule(graph),
        "greedy": greedy_schedule(graph),
        "groups": schedule_of(
            graph, Stage(((0, 1, 3), (4,))), Stage(((2, 5, 6),)), Stage(((7,),)), Stage(((8,),))
        ),
        "one group": schedule_of(graph, Stage((tuple(range(len(graph))),)), latency_ns=12345),
        "merged": schedule_of(graph, Stage(((0,), (4,))), merged, *tail),
    }


NAMES = ("sequential", "greedy", "groups", "one group", "merged")


@pytest.fixture(scope="module")
def partitioned(nets):
    """The branching network partitioned by every schedule."""
    extraction = nets.extraction()
    return {
        name: (schedule, rewrite(extraction.module, schedule))
        for name, schedule in branching_schedules(extraction.graph).items()
    }


@pytest.mark.parametrize("name", NAMES)
def test_the_schedule_is_in_the_module_alone(partitioned, name):
    schedule, module = partitioned[name]
    assert read_schedule(module) == schedule


@pytest.mark.parametrize("name", NAMES)
def test_the_module_survives_relay_text(partitioned, name):
    schedule, module = partitioned[name]
    parsed = relay.fromtext(module.astext())
    tvm.ir.assert_structural_equal(parsed, module)
    assert read_schedule(parsed) == schedule


@pytest.mark.parametrize("name", NAMES)
def test_the_module_survives_json(partitioned, name):
    schedule, module = partitioned[name]
    loaded = tvm.ir.load_json(tvm.ir.save_json(module))
    tvm.ir.assert_structural_equal(loaded, module)
    assert read_schedule(loaded) == schedule


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    # Awkward dataflow, below, is sequential and greedy.
    [pytest.param(name, marks=pytest.mark.full if name in NAMES[:2] else ()) for name in NAMES],
)
def test_plain_tvm_runs_the_module(nets, partitioned, name):
    _, module = partitioned[name]
    data, expected = nets.expected()
    actual = nets.stock(module, None, data)[0]
    if name == "merged":
        np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)
    else:
        np.testing.assert_array_equal(actual, expected)


@pytest.mark.slow(1)
def test_equal_kernels_are_still_compiled_once(nets, partitioned):
    _, module = partitioned["groups"]
    base, staged = (
        [operator.kernel for operator in built.graph.operators]
        for built in (build(nets.prepared().module, nets.target), build(module, nets.target))
    )
    assert len(set(staged)) == len(set(base)) < len(base)


def test_every_operator_lands_where_the_schedule_says(nets, partitioned):
    schedule, module = partitioned["groups"]
    staged = build(module, nets.target)
    names = schedule.operator_names
    for number, stage in enumerate(schedule.stages):
        for position, group in enumerate(stage.groups):
            for index in group:
                placement = staged.placements[staged.operator_names.index(names[index])]
                assert (placement.stage, placement.group) == (number, position)


def test_a_merged_stage_is_one_group_of_kernels(nets, partitioned):
    staged = build(partitioned["merged"][1], nets.target)
    inside = [
        (name, placement.group)
        for name, placement in zip(staged.operator_names, staged.placements, strict=True)
        if placement.stage == 1
    ]
    slices = [(f"conv2d_{i}.slice", 0) for i in range(3)]
    assert inside == [("conv2d_0+conv2d_1+conv2d_2", 0), *slices]


def fire(nets, batch, *, order=(0, 1), read_twice=False):
    """Two convolutions side by side, and a third of both; as in SqueezeNet."""
    data = relay.var("data", shape=(batch, 16, 8, 8))
    pieces = [
        nets.conv(data, "a", 16, (1, 1), (0, 0)),
        nets.conv(data, "b", 32, (3, 3), (1, 1)),
    ]
    joined = relay.concatenate([pieces[i] for i in order], axis=1)
    result = nets.conv(joined, "c", 16, (1, 1), (0, 0), in_channels=48)
    if read_twice:
        result = relay.Tuple([result, relay.nn.max_pool2d(pieces[0], (2, 2))])
    module, params = nets.finish(result, data)
    return module, params, extract(prepare(module, params, nets.target).module)


def fire_schedule(graph, members):
    """The merge of two members, then everything else by itself."""
    others = [i for i in range(len(graph)) if i not in members]
    merged = Stage(tuple((i,) for i in members), Strategy.MERGE)
    first = [i for i in others if i < min(members)]
    stages = [Stage(((i,),)) for i in first]
    stages += [merged, *(Stage(((i,),)) for i in others if i not in first)]
    return schedule_of(graph, *stages)


def convolutions_of_data(graph):
    """The two that read the same tensor, in the order of their numbers."""
    rows = {}
    for index, operator in enumerate(graph.operators):
        if operator.convolution is not None:
            rows.setdefault(operator.convolution.operand, []).append(index)
    return next(tuple(row) for row in rows.values() if len(row) == 2)


@pytest.mark.slow
@pytest.mark.parametrize("batch", [1, 2])
def test_the_merged_convolution_is_the_concatenation(nets, batch):
    module, params, extraction = fire(nets, batch)
    members = convolutions_of_data(extraction.graph)
    schedule = fire_schedule(extraction.graph, members)
    partitioned = rewrite(extraction.module, schedule)
    assert read_schedule(partitioned) == schedule
    assert read_schedule(relay.fromtext(partitioned.astext())) == schedule
    names = [kernel.name for kernel in flatten(partitioned).kernels]
    assert not any("slice" in name or "concatenate" in name for name in names)
    assert "conv2d_0+conv2d_1" in names
    data = nets.random_input(module)
    (expected,) = nets.reference(module, params, data)
    staged = build(partitioned, nets.target)
    (actual,) = nets.run(staged.factory, data)
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)
    plan = lower_plan(staged.graph, staged.placements, lanes=2)
    verify_plan(plan)
    assert len(plan.launches) == len(extraction.calls) - 2


@pytest.mark.slow
def test_in_another_order_it_is_not(nets):
    module, params, extraction = fire(nets, 2)
    forward = convolutions_of_data(extraction.graph)
    schedule = fire_schedule(extraction.graph, forward[::-1])
    partitioned = rewrite(extraction.module, schedule)
    names = [kernel.name for kernel in flatten(partitioned).kernels]
    assert sum("slice" in name for name in names) == 2
    assert "concatenate_0" in names
    data = nets.random_input(module)
    (expected,) = nets.reference(module, params, data)
    (actual,) = nets.run(build(partitioned, nets.target).factory, data)
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.slow(1)
@pytest.mark.parametrize("batch", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_member_with_another_reader_is_sliced_too(nets, batch):
    module, params, extraction = fire(nets, batch, read_twice=True)
    members = convolutions_of_data(extraction.graph)
    partitioned = rewrite(extraction.module, fire_schedule(extraction.graph, members))
    names = [kernel.name for kernel in flatten(partitioned).kernels]
    assert [name for name in names if "slice" in name] == ["conv2d_0.slice"]
    assert "concatenate_0" not in names
    data = nets.random_input(module)
    staged = build(partitioned, nets.target)
    for ours, theirs in zip(
        nets.run(staged.factory, data), nets.reference(module, params, data), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_a_concatenation_in_a_group_with_its_reader_is_handed_on(nets):
    _, _, extraction = fire(nets, 2)
    graph = extraction.graph
    members = convolutions_of_data(graph)
    joined = extraction.joins.index(members)
    rest = tuple(range(joined, len(graph)))
    before = [Stage(((i,),)) for i in range(members[0])]
    merged = Stage(tuple((i,) for i in members), Strategy.MERGE)
    schedule = schedule_of(graph, *before, merged, Stage((rest,)))
    partitioned = rewrite(extraction.module, schedule)
    assert read_schedule(partitioned) == schedule
    kernels = flatten(partitioned).kernels
    assert "concatenate_0" not in [kernel.name for kernel in kernels]
    assert {kernel.stage for kernel in kernels if kernel.name == "conv2d_2"} == {len(before) + 1}


def small(nets):
    """Two kernels of one input and one of both."""
    data = relay.var("data", shape=(1, 2, 3))
    left, right = relay.nn.softmax(data), relay.nn.softmax(data, axis=1)
    product = relay.nn.batch_matmul(left, right)
    module = tvm.IRModule.from_expr(relay.Function([data], product))
    return prepare(module, None, nets.target).module


def test_before_and_expected(nets):
    before = small(nets)
    calls = extract(before).calls
    graph = extract(before).graph
    assert [operator.name for operator in graph.operators] == ["softmax_0", "softmax_1", "matmul_0"]
    schedule = schedule_of(graph, Stage(((0,), (1,))), Stage(((2,),)), latency_ns=7)
    after = rewrite(before, schedule)

    tensor, square = relay.TensorType((1, 2, 3)), relay.TensorType((1, 2, 2))
    inner, outer = relay.var("inner", tensor), relay.var("data", tensor)
    left, right = relay.var("left", tensor), relay.var("right", tensor)
    pair = relay.Tuple([relay.Call(calls[0].op, [inner]), relay.Call(calls[1].op, [inner])])
    first, second = relay.GlobalVar("tvm_ios_stage_0"), relay.GlobalVar("tvm_ios_stage_1")
    expected = tvm.IRModule()
    expected[first] = with_attributes(
        relay.Function([inner], pair, relay.TupleType([tensor, tensor])),
        {
            "Inline": 1,
            "tvm_ios_stage": 0,
            "tvm_ios_strategy": "concurrent",
            "tvm_ios_operators": "softmax_0, softmax_1",
            "tvm_ios_groups": "softmax_0 | softmax_1",
        },
    )
    expected[second] = with_attributes(
        relay.Function([left, right], relay.Call(calls[2].op, [left, right]), square),
        {
            "Inline": 1,
            "tvm_ios_stage": 1,
            "tvm_ios_strategy": "concurrent",
            "tvm_ios_operators": "matmul_0",
            "tvm_ios_groups": "matmul_0",
        },
    )
    both = relay.Call(first, [outer])
    fields = [relay.TupleGetItem(both, 0), relay.TupleGetItem(both, 1)]
    expected["main"] = with_attributes(
        relay.Function([outer], relay.Call(second, fields), square),
        {
            "tvm_ios_version": 1,
            "tvm_ios_graph": "main",
            "tvm_ios_fingerprint": graph.fingerprint(),
            "tvm_ios_scheduler": "test",
            "tvm_ios_latency_ns": "7",
            "tvm_ios_operators": "softmax_0, softmax_1, matmul_0",
            "tvm_ios_operator_ns": "",
            "tvm_ios_unsplit": "",
        },
    )
    tvm.ir.assert_structural_equal(after, relay.transform.InferType()(expected))


def test_flattening_gives_the_prepared_module_back(nets):
    before = small(nets)
    graph = extract(before).graph
    flat = flatten(rewrite(before, sequential_schedule(graph)))
    bare = relay.Function(before["main"].params, before["main"].body, before["main"].ret_type)
    after = flat.module["main"]
    tvm.ir.assert_structural_equal(
        relay.Function(after.params, after.body, after.ret_type), bare, map_free_vars=True
    )


def awkward(nets):
    """Several outputs, nested tuples, constants and the input itself among the results."""
    data = relay.var("data", shape=(1, 4, 8))
    soft = relay.nn.softmax(data)
    pieces = relay.split(soft, 2, axis=1)
    top = relay.topk(soft, k=2)
    used = relay.nn.softmax(pieces[0], axis=1)
    both = top[0] + relay.cast(top[1], "float32")
    fixed = relay.const(np.arange(6, dtype="float32").reshape(2, 3))
    output = relay.Tuple([data, relay.Tuple([used, pieces[1]]), fixed, both, used])
    return nets.finish(output, data)


@pytest.mark.slow
def test_awkward_dataflow_still_runs_right(nets):
    module, params = awkward(nets)
    prepared = prepare(module, params, nets.target)
    graph = extract(prepared.module).graph
    data = nets.random_input(module)
    expected = nets.reference(module, params, data)
    for schedule in (sequential_schedule(graph), greedy_schedule(graph)):
        partitioned = rewrite(prepared.module, schedule)
        parsed = relay.fromtext(partitioned.astext())
        with exact_bits(True):
            staged = build(parsed, nets.target)
        for actual in (
            nets.stock(partitioned, None, data),
            nets.run(staged.factory, data),
        ):
            assert len(actual) == len(expected)
            for ours, theirs in itertools.zip_longest(actual, expected):
                np.testing.assert_array_equal(ours, theirs)


@pytest.mark.slow(1)
def test_unbound_weights_stay_inputs(nets):
    data = relay.var("data", shape=(1, 16, 8, 8))
    module, params = nets.finish(nets.conv(data, "a", 16, (1, 1), (0, 0)), data)
    prepared = prepare(module, None, nets.target)
    graph = extract(prepared.module).graph
    partitioned = rewrite(prepared.module, greedy_schedule(graph))
    values = nets.random_input(module)
    expected = nets.reference(module, params, values)[0]
    weights = [params[var.name_hint].numpy() for var in module["main"].params[1:]]
    actual = nets.run(build(partitioned, nets.target).factory, values, *weights)[0]
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)


def test_a_schedule_for_another_graph_is_refused(nets):
    other = extract(small(nets)).graph
    with pytest.raises(ScheduleError, match="does not fit graph"):
        rewrite(nets.prepared().module, sequential_schedule(other))


def test_a_schedule_in_the_wrong_order_is_refused(nets):
    graph = nets.extraction().graph
    stages = tuple(Stage(((i,),)) for i in reversed(range(len(graph))))
    with pytest.raises(ScheduleError, match="order"):
        rewrite(nets.prepared().module, schedule_of(graph, *stages))


def test_a_merge_the_rule_forbids_is_refused(nets):
    graph = nets.extraction().graph
    stages = [Stage(((0,),)), Stage(((1,), (4,)), Strategy.MERGE), Stage(((2,),)), Stage(((3,),))]
    stages += [Stage(((i,),)) for i in range(5, len(graph))]
    with pytest.raises(ScheduleError, match="stage 1 breaks rule 6"):
        rewrite(nets.prepared().module, schedule_of(graph, *stages))


def test_a_module_with_nothing_to_schedule_is_refused(nets):
    data = relay.var("data", shape=(2, 3))
    empty = tvm.IRModule.from_expr(relay.Function([data], data))
    graph = extract(empty).graph
    with pytest.raises(ModelError, match="no operators to schedule: it is empty"):
        rewrite(empty, schedule_of(graph))
