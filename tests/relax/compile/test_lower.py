from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relax

import tvm_ios
from tests.relax.networks import TARGET, Network, answers, inception_block, squeezenet
from tvm_ios.compile.built_model import build_model
from tvm_ios.compile.lower import lower_partitioned, lower_schedule
from tvm_ios.errors import ScheduleError
from tvm_ios.relax.stage_ir import read_schedule
from tvm_ios.search.baselines import greedy_schedule, sequential_schedule
from tvm_ios.support.exact_bits import exact_bits


@pytest.fixture(scope="module")
def block():
    """An Inception block with kernels, a value for it, and the virtual machine's answer."""
    mod, value = inception_block()
    model = build_model(mod, None, TARGET, name="block")
    (answer,) = answers(model.prepared.module, value)
    return model, value, answer


def _ran(model, value, **options):
    with model.executor(**options) as executor:
        executor.run(x=value)
        return executor.get_output(0).numpy()


@pytest.mark.slow(1)
@pytest.mark.parametrize("make", [greedy_schedule, sequential_schedule])
@pytest.mark.parametrize("lanes", [1, 2])
def test_schedules_have_the_bits_of_the_virtual_machine(block, make, lanes):
    model, value, answer = block
    compiled = lower_schedule(model, make(model.graph), lanes=lanes)
    np.testing.assert_array_equal(_ran(compiled, value), answer)


@pytest.mark.slow(1)
def test_a_partitioned_module_runs_by_its_own_schedule(block):
    model, value, answer = block
    schedule = greedy_schedule(model.graph)
    partitioned = lower_schedule(model, schedule, lanes=1).module
    again = lower_partitioned(partitioned, None, TARGET, lanes=2)
    assert again.schedule == schedule
    np.testing.assert_array_equal(_ran(again, value), answer)


def test_a_file_computes_the_same(block, tmp_path):
    model, value, answer = block
    path = tmp_path / "block.so"
    lower_schedule(model, greedy_schedule(model.graph), lanes=2).export_library(path)
    with tvm_ios.load(path) as executor:
        executor.run(x=value)
        np.testing.assert_array_equal(executor.get_output(0).numpy(), answer)


@pytest.mark.slow(2)
def test_squeezenet_of_tvms_own_frontend():
    mod, params, value = squeezenet()
    model = build_model(mod, params, TARGET)
    compiled = lower_schedule(model, greedy_schedule(model.graph), lanes=2)
    assert read_schedule(compiled.module).scheduler == "greedy"
    (answer,) = answers(model.prepared.module, value)
    np.testing.assert_array_equal(_ran(compiled, value), answer)


@pytest.mark.slow
def test_a_schedule_of_another_model_is_refused(block):
    model, _, _ = block
    mod, params, _ = squeezenet()
    other = greedy_schedule(build_model(mod, params, tvm.target.Target(TARGET)).graph)
    with pytest.raises(ScheduleError, match="does not fit"):
        lower_schedule(model, other, lanes=1)


OP = relax.op


@pytest.mark.parametrize(
    "make",
    [
        lambda net: relax.Tuple([net.x, net.emit(OP.nn.relu(net.x))]),
        lambda net: relax.Tuple([net.emit(OP.nn.relu(net.x)), net.constant(3)]),
        lambda net: relax.Tuple([net.emit(OP.nn.softmax(net.x))] * 2),
        lambda net: OP.reshape(net.x, (4, 36)),
        lambda net: OP.concat([net.emit(OP.nn.softmax(net.x))] * 2, axis=1),
        lambda net: OP.greater(net.x, relax.const(0.0, "float32")),
        lambda net: OP.argmax(net.x, axis=1),
        lambda net: OP.astype(net.x, "float16"),
    ],
    ids=["input", "constant", "twice", "reshape", "equal pieces", "bool", "int64", "float16"],
)
def test_results_of_every_kind(make):
    network = Network(1, 4, 6, 6)
    mod = network.build(lambda net: net.emit(make(net)))
    with exact_bits(True):
        model = build_model(mod, None, TARGET)
    with lower_schedule(model, sequential_schedule(model.graph), lanes=2).executor() as executor:
        executor.run(x=network.value())
        found = [executor.get_output(n).numpy() for n in range(executor.get_num_outputs())]
    for got, wanted in zip(found, answers(mod, network.value()), strict=True):
        assert got.dtype == wanted.dtype
        np.testing.assert_array_equal(got, wanted)
