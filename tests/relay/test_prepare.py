from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import autotvm, relay
from tvm.ir.instrument import PassTimingInstrument, pass_instrument

from tvm_ios.relay.dataflow import kernel_calls
from tvm_ios.relay.extract import is_prepared
from tvm_ios.relay.inputs import CheckedModule, check_module
from tvm_ios.relay.prepare import heavy_operators, prepare, unshares


def one_convolution(nets):
    data = relay.var("data", shape=(1, 16, 8, 8))
    return nets.finish(nets.conv(data, "a", 16, (1, 1), (0, 0)), data)


def operator_names(module):
    names = []

    def visit(expression):
        if isinstance(expression, relay.Call) and isinstance(expression.op, tvm.ir.Op):
            names.append(expression.op.name)

    relay.analysis.post_order_visit(module["main"], visit)
    return names


@pytest.mark.slow
@pytest.mark.parametrize("batch", [1, 3])
def test_a_prepared_module_is_fused_and_computes_the_same(nets, batch):
    prepared = nets.prepared(batch)
    assert is_prepared(prepared.module)
    assert not prepared.params
    assert not prepared.notes
    assert [var.name_hint for var in prepared.module["main"].params] == ["data"]
    data, expected = nets.expected(batch)
    np.testing.assert_array_equal(nets.stock(prepared.module, None, data)[0], expected)


def test_a_prepared_module_has_no_device_annotations_and_parses_back(nets):
    prepared = nets.prepared()
    assert "virtual_device" not in prepared.as_text()
    parsed = relay.fromtext(prepared.module.astext())
    tvm.ir.assert_structural_equal(parsed, prepared.module)


def test_numpy_parameters_are_taken(nets):
    module, params = nets.branching()
    before = module.astext()
    arrays = {name: value.numpy() for name, value in params.items()}
    from_numpy = prepare(module, arrays, nets.target).module
    tvm.ir.assert_structural_equal(from_numpy, nets.prepared().module)
    assert module.astext() == before


def test_a_module_that_was_checked_before_stays_as_it_is(nets):
    mod, params = one_convolution(nets)
    checked = CheckedModule(check_module(mod))
    before = tvm.ir.load_json(tvm.ir.save_json(checked.typed))
    prepare(checked, params, "llvm")
    assert tvm.ir.structural_equal(checked.typed, before)
    (convolution,) = [
        call for call in kernel_calls(checked.typed["main"].body) if call.op.name == "nn.conv2d"
    ]
    assert [len(value.checked_type.shape) for value in convolution.args] == [4, 4]


def test_without_a_context_layouts_are_chosen(nets):
    names = operator_names(nets.prepared().module)
    assert "nn.contrib_conv2d_NCHWc" in names


def test_the_callers_level_is_honoured(nets):
    with tvm.transform.PassContext(opt_level=1):
        names = operator_names(prepare(*one_convolution(nets), nets.target).module)
    assert "nn.contrib_conv2d_NCHWc" not in names
    assert "nn.conv2d" in names


def test_the_callers_disabled_passes_are_honoured(nets):
    with tvm.transform.PassContext(opt_level=3, disabled_pass=["AlterOpLayout"]):
        names = operator_names(prepare(*one_convolution(nets), nets.target).module)
    assert "nn.contrib_conv2d_NCHWc" not in names


def test_the_callers_configuration_is_honoured(nets):
    shallow = {"relay.FuseOps.max_depth": 1}
    with tvm.transform.PassContext(opt_level=3, config=shallow):
        few = prepare(*one_convolution(nets), nets.target).module
    many = prepare(*one_convolution(nets), nets.target).module
    assert len(kernel_calls(few["main"].body)) > len(kernel_calls(many["main"].body))


def test_the_callers_instruments_see_the_passes(nets):
    timing = PassTimingInstrument()
    with tvm.transform.PassContext(opt_level=3, instruments=[timing]):
        prepared = prepare(*one_convolution(nets), nets.target)
        profile = timing.render()
    assert "FuseOps" in profile
    assert "AlterOpLayout" in profile
    assert "libraries may find fewer operators" in prepared.notes[-1]
    assert not prepare(*one_convolution(nets), nets.target).notes


def test_tuning_records_around_the_call_are_honoured(nets):
    data = relay.var("data", shape=(1, 16, 8, 8))
    module, params = nets.finish(nets.conv(data, "a", 16, (3, 3), (1, 1)), data)
    target = tvm.target.Target(nets.target)
    tasks = autotvm.task.extract_from_program(
        module["main"], target=target, params=params, ops=(relay.op.get("nn.conv2d"),)
    )
    task = next(task for task in tasks if task.name == "conv2d_NCHWc.x86")
    config = next(
        task.config_space.get(index)
        for index in range(len(task.config_space))
        if task.config_space.get(index)["tile_oc"].size[-1] == 2
    )
    record = (
        autotvm.MeasureInput(target, task, config),
        autotvm.MeasureResult((1e-9,), 0, 0.1, 0.1),
    )
    with autotvm.apply_history_best([record]):
        tuned = prepare(module, params, target).as_text()
    assert "NCHW2c" in tuned
    assert "NCHW2c" not in prepare(module, params, target).as_text()


def shared_twice(nets):
    """f(x) + f(x), which TVM's own simplification would compute twice."""
    data = relay.var("data", shape=(1, 16, 8, 8))
    first = nets.conv(data, "a", 16, (3, 3), (1, 1))
    pools = [relay.nn.avg_pool2d(first, (3, 3), padding=(1, 1)) for _ in range(2)]
    total = relay.add(*pools)
    return nets.finish(relay.concatenate([first, total], axis=1), data)


@pytest.mark.slow
def test_shared_operators_are_not_duplicated(nets):
    module, params = shared_twice(nets)
    prepared = prepare(module, params, nets.target)
    assert "SimplifyExpr" in prepared.notes[0]
    assert operator_names(prepared.module).count("nn.contrib_conv2d_NCHWc") == 1
    data = nets.random_input(module)
    expected = nets.reference(module, params, data)[0]
    np.testing.assert_allclose(
        nets.stock(prepared.module, None, data)[0], expected, rtol=1e-5, atol=1e-6
    )


@pytest.mark.slow(1)
def test_stock_tvm_still_has_the_bug_the_guard_is_for(nets):
    module, params = shared_twice(nets)
    with tvm.transform.PassContext(opt_level=3):
        fused, _ = relay.optimize(module, target=nets.target, params=params)
    assert heavy_operators(fused) > 2


def test_the_guard_leaves_other_modules_alone(nets):
    module, _ = nets.branching()
    with tvm.transform.PassContext(opt_level=3):
        assert not unshares(module)
    assert heavy_operators(module) == 6


@pytest.mark.slow
def test_the_guard_compares_where_the_pipeline_runs_whole(nets):
    data = relay.var("data", shape=(1, 16, 8, 8))
    first = nets.conv(data, "a", 16, (3, 3), (1, 1))
    pool = relay.nn.avg_pool2d(first, (3, 3), padding=(1, 1))
    module, params = nets.finish(relay.concatenate([first, pool + pool], axis=1), data)
    with tvm.transform.PassContext(opt_level=3, required_pass=["FoldConstant"]):
        prepared = prepare(module, params, nets.target)
    assert "SimplifyExpr" in prepared.notes[0]
    assert heavy_operators(prepared.module) == 2


def test_the_guard_keeps_quiet_where_tvm_writes_one_operator_as_two():
    """With weights that have a zero point, a quantised convolution gets a pooling for VNNI."""
    data = relay.var("data", shape=(1, 16, 8, 8), dtype="uint8")
    weight = relay.const(np.ones((16, 16, 3, 3), "int8"))
    zero_points = relay.const(0), relay.const(3)
    scales = relay.const(0.5), relay.const(0.5)
    value = relay.qnn.op.conv2d(
        data, weight, *zero_points, *scales, kernel_size=(3, 3), channels=16, padding=(1, 1)
    )
    module = tvm.IRModule.from_expr(relay.Function([data], value))
    prepared = prepare(module, {}, "llvm -mcpu=cascadelake")
    assert heavy_operators(prepared.module) == 2
    assert not prepared.notes


def test_the_guard_keeps_quiet_where_the_pass_is_disabled_already(nets):
    module, params = shared_twice(nets)
    with tvm.transform.PassContext(opt_level=3, disabled_pass=["SimplifyExpr"]):
        assert not prepare(module, params, nets.target).notes


@pytest.mark.slow(1)
def test_weights_may_be_inputs(nets):
    module, params = one_convolution(nets)
    prepared = prepare(module, None, nets.target)
    assert "stay inputs" in prepared.notes[0]
    data = nets.random_input(module)
    inputs = [data, *(params[var.name_hint].numpy() for var in module["main"].params[1:])]
    expected = nets.reference(module, params, data)[0]
    actual = nets.reference(prepared.module, None, *inputs)[0]
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)


def test_let_and_helper_functions_become_operators(nets):
    data = relay.var("data", shape=(2, 3))
    inner = relay.var("inner", shape=(2, 3))
    helper = relay.GlobalVar("helper")
    bound = relay.Var("bound")
    module = tvm.IRModule()
    module[helper] = relay.Function([inner], relay.nn.softmax(inner), relay.TensorType((2, 3)))
    call = relay.Call(helper, [relay.nn.softmax(data)])
    module["main"] = relay.Function([data], relay.Let(bound, call, relay.nn.softmax(bound)))
    prepared = prepare(module, None, nets.target).module
    assert len(kernel_calls(prepared["main"].body)) == 3
    values = nets.random_input(relay.transform.InferType()(module))
    result = values
    for _ in range(3):
        exponentials = np.exp(result - result.max(axis=-1, keepdims=True))
        result = exponentials / exponentials.sum(axis=-1, keepdims=True)
    np.testing.assert_allclose(nets.reference(prepared, None, values)[0], result, rtol=1e-5)


@pytest.mark.slow
def test_preparing_twice_changes_nothing(nets):
    once = nets.prepared().module
    data, expected = nets.expected()
    twice = prepare(once, {}, nets.target).module
    assert len(kernel_calls(twice["main"].body)) == len(kernel_calls(once["main"].body))
    np.testing.assert_array_equal(nets.reference(twice, None, data)[0], expected)


@pass_instrument
class _Ends:
    """Counts how often TVM tells it of the end of a context."""

    def __init__(self):
        self.ends = 0

    def exit_pass_ctx(self):
        self.ends += 1


def test_a_nested_context_does_not_end_the_callers_instruments(nets):
    module, params = shared_twice(nets)
    ends = _Ends()
    with tvm.transform.PassContext(opt_level=3, instruments=[ends]):
        assert prepare(module, params, nets.target).notes
        assert ends.ends == 0
    assert ends.ends == 1
