from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import tvm
from tvm import relay
from tvm.ir.instrument import PassTimingInstrument

from tvm_ios import compile_schedule, load
from tvm_ios.core.schedule import Stage, Strategy
from tvm_ios.errors import ModelError
from tvm_ios.plan.placement import SliceView
from tvm_ios.plan.schedule_places import placements_for
from tvm_ios.relay.build import build, require_match
from tvm_ios.relay.functions.primitive import kernel_digest
from tvm_ios.relay.prepare import prepare
from tvm_ios.relay.rewrite import rewrite
from tvm_ios.search.baselines import greedy_schedule, make_schedule
from tvm_ios.support.exact_bits import exact_bits


@pytest.fixture(scope="module")
def staged(nets):
    """The branching network, every operator a stage, with the bits of stock TVM."""
    with exact_bits(True):
        return build(nets.prepared().module, nets.target)


@pytest.mark.slow(1)
def test_an_unscheduled_module_runs_one_operator_after_another(nets, staged):
    assert [(p.stage, p.group) for p in staged.placements] == [(i, 0) for i in range(9)]
    assert staged.operator_names == tuple(op.name for op in nets.extraction().graph.operators)
    data, expected = nets.expected()
    np.testing.assert_array_equal(nets.run(staged.factory, data)[0], expected)


def test_there_is_one_placement_for_each_node(staged):
    nodes = json.loads(staged.graph_json)["nodes"]
    kernels = [node["attrs"]["func_name"] for node in nodes if node["op"] == "tvm_op"]
    assert len(kernels) == len(staged.placements) == len(staged.operator_names)
    flatten_index = staged.operator_names.index("batch_flatten_0")
    assert kernels[flatten_index] == "__nop"
    assert staged.placements[flatten_index].view == SliceView(0)
    assert set(staged.params) == {
        node["name"] for node in nodes if node["op"] == "null" and node["name"] != "data"
    }


def test_concurrent_schedules_need_no_second_build(nets, staged):
    extraction = nets.extraction()
    schedule = replace(
        greedy_schedule(extraction.graph),
        operator_ns=tuple(range(100, 100 + len(extraction.graph))),
        unsplit=(1, 3),
    )
    placed = placements_for(extraction, schedule)
    assert tuple(placement.cost_ns for placement in placed) == schedule.operator_ns
    assert [index for index, p in enumerate(placed) if not p.split] == [1, 3]
    rebuilt = build(rewrite(extraction.module, schedule), nets.target)
    by_name = dict(zip(rebuilt.operator_names, rebuilt.placements, strict=True))
    assert dict(zip(staged.operator_names, placed, strict=True)) == by_name


def test_a_merged_kernel_counts_what_its_members_take(nets):
    extraction = nets.extraction()
    merged = Stage(((1,), (2,)), Strategy.MERGE)
    tail = tuple(Stage(((i,),)) for i in range(3, len(extraction.graph)))
    schedule = replace(
        make_schedule(extraction.graph, (Stage(((0,),)), merged, *tail), "test"),
        operator_ns=tuple(range(100, 100 + len(extraction.graph))),
    )
    staged = build(rewrite(extraction.module, schedule), nets.target)
    costs_ns = {
        name: placement.cost_ns
        for name, placement in zip(staged.operator_names, staged.placements, strict=True)
    }
    first, second = schedule.operator_names[1:3]
    assert costs_ns[f"{first}+{second}"] == 101 + 102


def test_a_module_that_is_not_prepared_is_refused(nets):
    module, _ = nets.branching()
    with pytest.raises(ModelError, match="not fused"):
        build(module, nets.target)


def test_a_module_with_control_flow_is_refused(nets):
    data = relay.var("data", shape=(3,))
    condition = relay.less(relay.sum(data), relay.const(1.0))
    body = relay.If(condition, relay.tanh(data), relay.exp(data))
    with pytest.raises(ModelError, match=r"nothing to build: control flow \(If\)"):
        build(tvm.IRModule.from_expr(relay.Function([data], body)), nets.target)


def test_an_unknown_target_is_refused(nets):
    with pytest.raises(ModelError, match="does not have target"):
        build(nets.prepared().module, "foo")


def small(nets):
    data = relay.var("data", shape=(2, 3))
    module = tvm.IRModule.from_expr(relay.Function([data], relay.nn.softmax(relay.tanh(data))))
    return prepare(module, None, nets.target).module


def test_the_callers_instruments_see_the_build(nets):
    module = small(nets)
    timing = PassTimingInstrument()
    with tvm.transform.PassContext(opt_level=3, instruments=[timing]):
        build(module, nets.target)
        profile = timing.render()
    assert "tir." in profile
    assert "FuseOps" in profile


def test_kernels_prepared_at_a_lower_level_are_not_altered_by_the_build(nets):
    data = relay.var("data", shape=(1, 16, 8, 8))
    module, params = nets.finish(nets.conv(data, "a", 16, (3, 3), (1, 1)), data)
    with tvm.transform.PassContext(opt_level=1):
        plain = prepare(module, params, nets.target).module
    with tvm.transform.PassContext(opt_level=3):
        staged = build(plain, nets.target)
    assert any(name.startswith("conv2d") for name in staged.operator_names)
    values = nets.random_input(module)
    expected = nets.reference(module, params, values)[0]
    actual = nets.run(staged.factory, values)[0]
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)


def test_a_graph_that_does_not_match_is_refused(nets, staged):
    extraction = nets.extraction()
    names = staged.operator_names
    symbols = {
        kernel_digest(call.op): operator.kernel
        for call, operator in zip(extraction.calls, staged.graph.operators, strict=True)
        if operator.kernel is not None
    }
    require_match(staged.graph_json, extraction, names, symbols)
    graph = json.loads(staged.graph_json)
    node = next(node for node in graph["nodes"] if "conv2d" in node["name"])
    node["attrs"]["func_name"] = "0123456789abcdef"
    with pytest.raises(ModelError, match="operator 'conv2d_0' became node .*0123456789abcdef"):
        require_match(json.dumps(graph), extraction, names, symbols)
    graph["nodes"].remove(node)
    with pytest.raises(ModelError, match="8 kernels for 9 operators"):
        require_match(json.dumps(graph), extraction, names, symbols)


def test_a_wrong_label_does_not_reach_the_build(nets):
    data = relay.var("data", shape=(4,))
    function = nets.fused(relay.tanh(data), data, hash="0123456789abcdef")
    outer = relay.var("outer", shape=(4,))
    module = tvm.IRModule.from_expr(relay.Function([outer], relay.Call(function, [outer])))
    assert "0123456789abcdef" not in build(module, nets.target).graph_json


def test_an_empty_model_builds(nets):
    data = relay.var("data", shape=(2, 3))
    module = tvm.IRModule.from_expr(relay.Function([data], data))
    staged = build(prepare(module, None, nets.target).module, nets.target)
    values = np.ones((2, 3), "float32")
    assert staged.placements == ()
    np.testing.assert_array_equal(nets.run(staged.factory, values)[0], values)


@pytest.mark.slow
def test_inputs_may_be_called_as_tvm_calls_constants(nets, tmp_path):
    """Two constants are ``p0`` and ``p1``; levels of a feature pyramid are ``p3`` to ``p5``."""
    inputs = [relay.var(name, shape=(1, 3)) for name in ("p1", "x", "p0")]
    one, other, third = inputs
    scaled = relay.nn.softmax(one) * relay.const(np.arange(3, dtype="float32")) + other
    body = relay.nn.softmax(scaled) - third * relay.const(np.array([3, 0, 1], "float32"))
    module = tvm.IRModule.from_expr(relay.Function(inputs, body))
    rows = np.array([[[0, 1, 2]], [[1, 1, 0]], [[0.5, 0, 0]]], "float32")
    values = dict(zip(("p1", "x", "p0"), rows, strict=True))
    expected = nets.reference(module, None, *rows)[0]
    model = compile_schedule(module, None, target=nets.target)
    model.export_library(tmp_path / "model.so")
    for executor in (model.executor(), load(tmp_path / "model.so")):
        with executor:
            assert executor.input_names == tuple(values)
            executor.run(**values)
            np.testing.assert_allclose(executor.get_output(0).numpy(), expected, rtol=1e-5)
    staged = model.kernels.staged
    assert set(staged.params) == {"p2", "p3"}
    np.testing.assert_allclose(nets.run(staged.factory, *rows)[0], expected, rtol=1e-5)
