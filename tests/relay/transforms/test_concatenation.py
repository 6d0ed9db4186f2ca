"""Moving operators in front of concatenations: where it is done, and that no bit changes."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relay

from tests.relay_modules import random_arrays
from tests.stock import stock_outputs
from tvm_ios.compile.built_model import build_model
from tvm_ios.compile.lower import lower_schedule
from tvm_ios.models import nasnet_small, squeezenet
from tvm_ios.plan.verify import verify_plan
from tvm_ios.relay.prepare import prepare
from tvm_ios.relay.transforms.concatenation import sink_into_concatenations
from tvm_ios.search.baselines import greedy_schedule

SHAPE = (1, 16, 8, 8)
TARGET = "llvm -mcpu=core-avx2 -opt-level=0"


def names(module):
    found = []

    def visit(expression):
        if isinstance(expression, relay.Call) and isinstance(expression.op, tvm.ir.Op):
            found.append(expression.op.name)

    relay.analysis.post_order_visit(module["main"], visit)
    return found


def operand(name="data", shape=SHAPE):
    return relay.var(name, shape=shape)


def conv(nets, data, name, activation=None):
    return nets.conv(data, name, 16, (1, 1), (0, 0), activation=activation)


def sunk(nets, output, *inputs):
    module, params = nets.finish(output, *inputs)
    bound = tvm.IRModule.from_expr(relay.build_module.bind_params_by_name(module["main"], params))
    typed = relay.transform.InferType()(bound)
    after, count = sink_into_concatenations(typed)
    if count:
        check_same_bits(typed, after)
    else:  # the same module computes the same bits
        tvm.ir.assert_structural_equal(typed, after, map_free_vars=True)
    return names(after), count


def check_same_bits(before, after):
    main = before["main"]
    names = [parameter.name_hint for parameter in main.params]
    inputs = dict(zip(names, random_arrays(main), strict=True))
    results = []
    for module in (before, after):
        # Level 0 fuses nothing, so both compute every operator by itself.
        with tvm.transform.PassContext(opt_level=0):
            library = relay.build(module, "llvm -opt-level=0")
        results.append(stock_outputs(library, **inputs)[0])
    np.testing.assert_array_equal(results[0].view(np.uint32), results[1].view(np.uint32))


@pytest.mark.slow
def test_an_activation_goes_to_the_producers(nets):
    data = operand()
    joined = relay.concatenate([conv(nets, data, "a"), conv(nets, data, "b")], axis=1)
    found, count = sunk(nets, relay.nn.relu(joined), data)
    assert count == 1
    assert found.count("nn.relu") == 2
    assert found[-1] == "concatenate"
    assert "annotation.stop_fusion" not in found


@pytest.mark.slow
def test_a_chain_of_activations_follows(nets):
    data = operand()
    joined = relay.concatenate([conv(nets, data, "a"), conv(nets, data, "b")], axis=1)
    found, count = sunk(nets, relay.sigmoid(relay.clip(joined, -1, 1)), data)
    assert count == 2
    assert (found.count("clip"), found.count("sigmoid"), found[-1]) == (2, 2, "concatenate")


@pytest.mark.slow
def test_a_sum_reads_slices_of_the_other_side(nets):
    data = operand()
    joined = relay.concatenate([conv(nets, data, "a"), conv(nets, data, "b")], axis=1)
    other = nets.conv(data, "c", 32, (1, 1), (0, 0), activation=None)
    for output in (relay.add(joined, other), relay.subtract(other, joined)):
        found, count = sunk(nets, output, data)
        assert count == 1
        assert found.count("strided_slice") == 2
        assert found[-1] == "concatenate"


@pytest.mark.slow(1)
def test_what_cannot_fuse_is_kept_apart(nets):
    """A piece that others read becomes a kernel of its own, or the concatenation would be one."""
    data = operand()
    shared = conv(nets, data, "a")
    joined = relay.concatenate([shared, conv(nets, data, "b")], axis=1)
    output = relay.Tuple([relay.nn.relu(joined), shared])
    found, count = sunk(nets, output, data)
    assert count == 1
    assert found.count("annotation.stop_fusion") == 2


@pytest.mark.parametrize(
    "case", ["read twice", "a result", "inputs", "most shared", "odd pieces", "constant", "batch"]
)
def test_left_alone(nets, case):
    data = operand(shape=(2, *SHAPE[1:]) if case == "batch" else SHAPE)
    left, right = conv(nets, data, "a"), conv(nets, data, "b")
    joined = relay.concatenate([left, right], axis=1)
    output = relay.nn.relu(joined)
    if case == "read twice":
        output = relay.Tuple([output, relay.sigmoid(joined)])
    elif case == "a result":
        output = relay.Tuple([output, joined])
    elif case == "inputs":
        output = relay.nn.relu(relay.concatenate([data, data], axis=1))
    elif case == "most shared":
        third = conv(nets, data, "c")
        joined = relay.concatenate([left, right, third], axis=1)
        output = relay.Tuple([relay.nn.relu(joined), left, right])
    elif case == "odd pieces":  # 3 channels of 3 x 3 floats: the second slice would not be aligned
        small = operand("small", (1, 16, 3, 3))
        pieces = [nets.conv(small, f"s{i}", 3, (1, 1), (0, 0), activation=None) for i in range(2)]
        other = nets.conv(small, "o", 6, (1, 1), (0, 0), activation=None)
        _, count = sunk(nets, relay.add(relay.concatenate(pieces, axis=1), other), small)
        assert count == 0
        return
    elif case == "constant":
        output = relay.add(joined, relay.const(np.ones((1, 32, 8, 8), "float32")))
    elif case == "batch":
        other = nets.conv(data, "o", 32, (1, 1), (0, 0), activation=None)
        output = relay.add(joined, other)
    _, count = sunk(nets, output, data)
    assert count == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("factory", "size", "concatenations"),
    [
        pytest.param(nasnet_small, {"size": 8, "num_cells": 1}, 1, id="nasnet"),
        # The fire modules of several tests are joined as well.
        pytest.param(squeezenet, {"image_size": 64}, 8, id="squeezenet", marks=pytest.mark.full),
    ],
)
def test_networks_keep_no_kernel_that_concatenates(factory, size, concatenations):
    mod, params = factory(**size)
    built = build_model(mod, params, TARGET)
    assert built.prepared.sunk == concatenations
    model = lower_schedule(built, greedy_schedule(built.graph), lanes=2)
    verify_plan(model.plan)
    kept = [launch for launch in model.plan.launches if "concatenate" in launch.kernel]
    joined = [operator for operator in built.graph.operators if operator.kind == "concatenate"]
    assert len(joined) == concatenations
    assert not kept


def test_it_can_be_left_out(nets):
    data = operand()
    joined = relay.concatenate([conv(nets, data, "a"), conv(nets, data, "b")], axis=1)
    mod, params = nets.finish(relay.nn.relu(joined), data)
    assert prepare(mod, params, TARGET).sunk > 0
    assert prepare(mod, params, TARGET, sink=False).sunk == 0
