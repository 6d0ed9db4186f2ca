"""oneDNN computes operators of Relax models: which ones, how exactly, in files and in any order."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import tvm
from tvm import relax

import tvm_ios
from tests.relax.networks import (
    TARGET,
    Network,
    answers,
    inception_block,
    random_network,
    squeezenet,
)
from tvm_ios.compile.built_model import build_model, build_prepared
from tvm_ios.compile.lower import lower_partitioned, lower_schedule
from tvm_ios.core.schedule import LibraryOperators
from tvm_ios.relax.build import build
from tvm_ios.relax.prepare import prepare
from tvm_ios.runtime.base.lane_pool import LaneOptions
from tvm_ios.runtime.libraries.onednn.provider import OnednnLibrary
from tvm_ios.search.baselines import greedy_schedule, sequential_schedule

ONEDNN = (OnednnLibrary(),)
CONVOLUTIONS = {
    "strides": {"strides": (2, 1), "padding": (1, 0, 1, 2)},
    "dilation": {"padding": 2, "dilation": 2},
    "groups": {"groups": 2, "padding": 1},
    "depthwise": {"groups": 8, "padding": 1},
}
PROGRAM = """
import sys
import numpy as np
import tvm_ios
with tvm_ios.load(sys.argv[1]) as executor:
    executor.run(x=np.load(sys.argv[2]))
    np.save(sys.argv[3], executor.get_output(0).numpy())
"""


def ran(compiled, value) -> np.ndarray:
    with compiled.executor(options=LaneOptions(oversubscribe=True)) as executor:
        executor.run(x=value)
        return executor.get_output(0).numpy()


def computed(compiled) -> list[str]:
    """Operators that oneDNN computes, by their kinds."""
    launches = compiled.plan.launches
    return [each.operator.rpartition("_")[0] for each in launches if each.call is not None]


def check(network: Network, body) -> list[str]:
    """Kinds of the operators that oneDNN computes, where the outputs are those of stock TVM."""
    mod = network.build(body)
    model = build_model(mod, None, TARGET, libraries=ONEDNN)
    compiled = lower_schedule(model, sequential_schedule(model.graph), lanes=2)
    (expected,) = answers(mod, network.value())
    np.testing.assert_allclose(ran(compiled, network.value()), expected, rtol=1e-4, atol=1e-4)
    return computed(compiled)


@pytest.mark.slow
@pytest.mark.parametrize("options", CONVOLUTIONS.values(), ids=CONVOLUTIONS)
def test_convolutions_with_what_follows_are_one_call(options):
    def body(net):
        weight = net.constant(8, 8 // options.get("groups", 1), 3, 3)
        made = net.emit(relax.op.nn.conv2d(net.x, weight, **options))
        biased = net.emit(relax.op.add(made, net.constant(1, 8, 1, 1)))
        scaled = net.emit(relax.op.multiply(biased, relax.const(0.5, "float32")))
        return net.emit(relax.op.clip(scaled, 0, 6))

    assert check(Network(2, 8, 9, 10), body) == ["conv2d_add_multiply_tir_clip"]


@pytest.mark.slow(1)
def test_transposed_convolutions_have_their_images_in_nhwc():
    def body(net):
        made = net.conv(net.x, 8, 3)
        options = {"strides": (2, 2), "padding": (1, 0, 1, 2), "output_padding": (1, 0)}
        weight = net.constant(8, 6, 3, 3)
        made = net.emit(relax.op.nn.conv2d_transpose(made, weight, **options))
        return net.emit(relax.op.add(made, net.constant(1, 6, 1, 1)))

    assert check(Network(1, 8, 5, 6), body) == ["conv2d_add_relu", "conv2d_transpose_add"]


@pytest.mark.slow(1)
@pytest.mark.parametrize("swapped", [False, True])
def test_a_residual_is_added_in_the_call(swapped):
    def body(net):
        first = net.conv(net.x, 8, 3)
        second = net.emit(relax.op.nn.conv2d(first, net.constant(8, 8, 1, 1)))
        operands = (second, first) if swapped else (first, second)
        return net.emit(relax.op.nn.relu(net.emit(relax.op.add(*operands))))

    assert check(Network(1, 8, 6, 6), body) == ["conv2d_add_relu", "conv2d_add_relu"]


@pytest.mark.parametrize("activation", ["gelu", "gelu_tanh", "silu"])
def test_rows_of_a_tensor_are_multiplied_by_a_matrix(activation):
    def body(net):
        product = net.emit(relax.op.matmul(net.x, net.constant(12, 7)))
        biased = net.emit(relax.op.add(product, net.constant(7)))
        return net.emit(getattr(relax.op.nn, activation)(biased))

    assert check(Network(2, 3, 12), body) == [f"matmul_add_{activation}"]


@pytest.mark.slow(1)
def test_attention_is_two_products_and_a_softmax():
    def body(net):
        turned = net.emit(relax.op.permute_dims(net.x, [0, 1, 3, 2]))
        scores = net.emit(relax.op.matmul(net.x, turned))
        scaled = net.emit(relax.op.divide(scores, relax.const(2.0, "float32")))
        shares = net.emit(relax.op.nn.softmax(scaled, axis=-1))
        return net.emit(relax.op.matmul(shares, net.x))

    assert check(Network(1, 2, 5, 4), body) == ["matmul_divide", "softmax", "matmul"]


def test_products_that_broadcast_and_other_axes_stay_with_tvm():
    def body(net):
        product = net.emit(relax.op.matmul(net.x, net.constant(1, 2, 4, 4)))
        return net.emit(relax.op.nn.softmax(product, axis=1))

    assert check(Network(3, 2, 5, 4), body) == []


@pytest.mark.parametrize("pool", ["max_pool2d", "avg_pool2d"])
def test_pooling(pool):
    def body(net):
        made = net.emit(getattr(relax.op.nn, pool)(net.x, (3, 3), strides=(2, 2), padding=1))
        return net.emit(relax.op.nn.adaptive_avg_pool2d(made, 1))

    assert check(Network(1, 8, 9, 9), body) == [pool, "adaptive_avg_pool2d"]


@pytest.mark.parametrize("axes", [[2, 3], [-1, -2], [1, 2], [1, 3]])
def test_the_mean_of_images_is_a_pooling(axes):
    def body(net):
        return net.emit(relax.op.mean(net.x, axes, keepdims=True))

    assert check(Network(2, 5, 6, 7), body) == (["mean"] if axes != [1, 3] else [])


@pytest.mark.slow(1)
def test_a_value_beside_a_convolution_that_is_read_twice_is_computed_once():
    def body(net):
        made = net.conv(net.x, 8, 3)
        return net.emit(relax.op.concat([made, net.emit(relax.op.multiply(made, made))], axis=1))

    assert check(Network(1, 8, 6, 6), body) == ["conv2d_add_relu"]


@pytest.mark.slow(3)
@pytest.mark.parametrize(
    "seed", [pytest.param(n, marks=[] if n < 3 else pytest.mark.full) for n in range(6)]
)
def test_random_networks_have_the_same_bits_in_any_order(seed):
    mod, value = random_network(seed)
    model = build_model(mod, None, TARGET, libraries=ONEDNN)
    rows = []
    for make in (sequential_schedule, greedy_schedule):
        compiled = lower_schedule(model, make(model.graph), lanes=2)
        assert computed(compiled)
        options = LaneOptions(oversubscribe=True, jitter_seed=seed)
        with compiled.executor(options=options) as executor:
            executor.run(x=value)
            count = executor.get_num_outputs()
            rows.append([executor.get_output(number).numpy() for number in range(count)])
    for first, second, exact in zip(*rows, answers(model.prepared.module, value), strict=True):
        np.testing.assert_array_equal(first, second)
        np.testing.assert_allclose(first, exact, rtol=1e-4, atol=1e-4 * abs(exact).max())


@pytest.fixture(scope="module", params=["inception", "squeezenet"])
def network(request):
    """A model with oneDNN, its input, and stock TVM's answer."""
    if request.param == "inception":
        mod, value = inception_block()
        params = None
    else:
        mod, params, value = squeezenet()
    model = build_model(mod, params, TARGET, libraries=ONEDNN)
    (expected,) = answers(model.prepared.module, value)
    return model, value, expected


@pytest.mark.slow(1)
def test_networks_have_all_convolutions_in_calls_and_equal_bits_in_any_order(network):
    model, value, expected = network
    convolutions = [op.name for op in model.graph.operators if op.kind.startswith("conv2d")]
    found = []
    for make in (sequential_schedule, greedy_schedule):
        compiled = lower_schedule(model, make(model.graph), lanes=2)
        calls = {each.operator for each in compiled.plan.launches if each.call is not None}
        assert calls >= set(convolutions)
        found += [ran(compiled, value) for _ in range(3)]
    np.testing.assert_allclose(found[0], expected, rtol=1e-4, atol=1e-4)
    for each in found[1:]:
        np.testing.assert_array_equal(each, found[0])


@pytest.mark.slow
@pytest.mark.parametrize("network", ["squeezenet"], indirect=True)
def test_a_partitioned_module_keeps_its_calls_when_it_is_saved(network):
    model, value, _ = network
    compiled = lower_schedule(model, greedy_schedule(model.graph), lanes=2)
    for saved in (
        tvm.ir.load_json(tvm.ir.save_json(compiled.module)),
        tvm.script.from_source(compiled.module.script(show_meta=True)),
    ):
        again = lower_partitioned(saved, None, TARGET, lanes=2, libraries=ONEDNN)
        assert computed(again) == computed(compiled)
        np.testing.assert_array_equal(ran(again, value), ran(compiled, value))


def test_a_schedule_chooses_what_the_library_computes(network):
    model, _, _ = network
    names = [op.name for op in model.graph.operators]
    chosen = [n for n, op in enumerate(model.graph.operators) if op.kind.startswith("conv2d")][:2]
    schedule = greedy_schedule(model.graph)
    rows = (LibraryOperators("onednn", tuple(chosen)),)
    compiled = lower_schedule(model, replace(schedule, libraries=rows), lanes=2)
    calls = [each.operator for each in compiled.plan.launches if each.call is not None]
    assert sorted(calls) == sorted(names[index] for index in chosen)


@pytest.mark.slow(2)
@pytest.mark.parametrize("layout", ["NHWC", "NCHW8c"])
def test_kernels_that_are_left_out_are_compiled_for_a_schedule_that_needs_them(layout, tmp_path):
    def body(net):
        made = net.conv(net.conv(net.x, 16, 3), 16, 3)
        depthwise = relax.op.nn.conv2d(made, net.constant(16, 1, 3, 3), groups=16)
        made = net.emit(depthwise)
        return net.conv(made, 8, 1)

    network = Network(1, 8, 9, 10)
    prepared = prepare(network.build(body), None, TARGET, image_layout=layout)
    (expected,) = answers(prepared.module, network.value())
    whole = build(prepared.module, TARGET)
    operators = zip(whole.graph.operators, whole.describe(), strict=True)
    able = [each.kernel for each, function in operators if function is not None]
    absent = frozenset(name for name in able if "conv2d" in name)
    assert len(absent) == 4
    lazy = replace(build_prepared(prepared, absent=absent), libraries=ONEDNN)
    in_order = sequential_schedule(lazy.graph)
    by_library = lower_schedule(lazy, in_order, lanes=2)
    assert by_library.kernels is lazy.kernels
    found = ran(by_library, network.value())
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    by_library.export_library(tmp_path / "net.so")
    with tvm_ios.load(tmp_path / "net.so") as executor:
        executor.run(x=network.value())
        np.testing.assert_array_equal(executor.get_output(0).numpy(), found)
    by_tvm = lower_schedule(lazy, replace(in_order, libraries=()), lanes=2)
    assert not computed(by_tvm)
    np.testing.assert_array_equal(ran(by_tvm, network.value()), expected)


@pytest.mark.slow(2)
def test_a_file_computes_the_same_in_another_process(network, tmp_path):
    model, value, _ = network
    compiled = lower_schedule(model, greedy_schedule(model.graph), lanes=2)
    compiled.export_library(tmp_path / "model.so")
    np.save(tmp_path / "x.npy", value)
    words = [sys.executable, "-c", PROGRAM, *(str(tmp_path / n) for n in ("model.so", "x.npy"))]
    subprocess.run([*words, str(tmp_path / "y.npy")], check=True, timeout=300)
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), ran(compiled, value))


@pytest.mark.slow(1)
def test_norms_are_part_of_the_convolution():
    def body(net):
        made = net.emit(relax.op.nn.conv2d(net.x, net.constant(8, 8, 3, 3), padding=1))
        variance = relax.const(np.linspace(0.5, 2, 8, dtype="float32"))
        rows = [net.constant(8) for _ in range(3)]
        normed = net.emit(relax.op.nn.batch_norm(made, *rows, variance, axis=1, training=False))
        return net.emit(relax.op.nn.relu(net.emit(relax.TupleGetItem(normed, 0))))

    assert check(Network(1, 8, 6, 6), body) == ["conv2d_add_relu"]
