from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relax

from tests.relax.networks import TARGET, Network, answers
from tests.relax.relax.modules import Branches
from tvm_ios.relax.extract import WORKLOAD, extract, kernel_of
from tvm_ios.relax.prepare import prepare
from tvm_ios.support.exact_bits import exact_bits

OP = relax.op
KERNELS = {
    "3x3": lambda net: net.conv(net.x, 6, 3),
    "1x1": lambda net: net.conv(net.x, 8, 1),
    "strided": lambda net: OP.nn.conv2d(net.x, net.constant(4, 8, 3, 3), strides=2),
    "dilated": lambda net: OP.nn.conv2d(net.x, net.constant(4, 8, 3, 3), dilation=2),
    "depthwise": lambda net: OP.nn.conv2d(net.x, net.constant(8, 1, 3, 3), groups=8),
    "grouped": lambda net: OP.nn.conv2d(net.x, net.constant(6, 4, 3, 3), groups=2),
    "turned_convolution": lambda net: OP.nn.conv2d_transpose(net.x, net.constant(8, 4, 3, 3)),
    "resized": lambda net: OP.image.resize2d(net.x, (22, 26)),
    "max_pool": lambda net: OP.nn.max_pool2d(net.x, (3, 3), strides=2, ceil_mode=True),
    "avg_pool": lambda net: OP.nn.avg_pool2d(net.x, (2, 2), padding=1),
    "product": lambda net: OP.matmul(net.x, net.constant(13, 20)),
    "broadcast": lambda net: OP.add(net.x, net.constant(8, 1, 13)),
    "turned": lambda net: OP.permute_dims(net.x, [0, 2, 3, 1]),
    "halves": lambda net: OP.split(net.x, 2, axis=1),
    "joined": lambda net: OP.concat([net.x, net.x], axis=3),
    "joined_with_relu": lambda net: OP.nn.relu(OP.concat([net.x, net.x], axis=2)),
    "padded": lambda net: OP.nn.pad(net.x, [0, 0, 0, 0, 2, 1, 1, 2]),
    "turned_in_tiles": lambda net: OP.permute_dims(OP.reshape(net.x, (8, 143)), [1, 0]),
    "strided_depthwise": lambda net: OP.nn.conv2d(
        net.x, net.constant(8, 1, 3, 3), groups=8, strides=2, padding=1
    ),
}
SUMMED = {
    "sum": lambda net: OP.sum(net.x),
    "mean": lambda net: OP.mean(net.x, [2, 3]),
    "softmax": lambda net: OP.nn.softmax(net.x),
    "layer_norm": lambda net: OP.nn.layer_norm(net.x, net.constant(13), net.constant(13), [-1]),
    "instance_norm": lambda net: OP.nn.group_norm(
        net.x, net.constant(8), net.constant(8), 8, 1, [2, 3]
    ),
    "maximum": lambda net: OP.max(net.x, [-1]),
    "gelu": lambda net: OP.nn.gelu(net.x),
    "gelu_before_a_norm": lambda net: OP.mean(OP.exp(net.x), [-1]),
}
"""Kernels whose sums or functions are rounded elsewhere than TVM's."""


def _prepared(make):
    network = Network(1, 8, 11, 13)
    mod = network.build(lambda net: net.emit(make(net)))
    return mod, prepare(mod, None, TARGET), network.value()


def _kernels(prepared):
    calls = prepared.extraction.line.calls
    return [kernel_of(prepared.module, call) for call in calls]


@pytest.mark.parametrize("name", KERNELS)
def test_loops_of_ours_have_the_bits_of_tvms(name):
    mod, prepared, value = _prepared(KERNELS[name])
    assert all("tirx.is_scheduled" in kernel.attrs for kernel in _kernels(prepared))
    # The target has no instruction that multiplies and adds with one rounding.
    np.testing.assert_array_equal(answers(prepared.module, value), answers(mod, value))


@pytest.mark.parametrize("name", SUMMED)
def test_sums_along_rows_are_within_rounding_of_tvms(name):
    mod, prepared, value = _prepared(SUMMED[name])
    assert all("tirx.is_scheduled" in kernel.attrs for kernel in _kernels(prepared))
    expected = answers(mod, value)
    np.testing.assert_allclose(answers(prepared.module, value), expected, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("name", SUMMED)
def test_stock_bits_are_kept_where_they_are_wanted(name):
    with exact_bits(True):
        mod, prepared, value = _prepared(SUMMED[name])
    np.testing.assert_array_equal(answers(prepared.module, value), answers(mod, value))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["avg_pool", "turned_in_tiles", "mean", "gelu", "layer_norm"])
def test_loops_travel_in_tvmscript(name):
    _, prepared, _ = _prepared((KERNELS | SUMMED)[name])
    for kernel in _kernels(prepared):
        module = tvm.IRModule({"main": kernel.with_attr("global_symbol", "main")})
        read = tvm.script.from_source(module.script(show_meta=True))
        tvm.ir.assert_structural_equal(read, module)


def test_workloads_are_the_same_for_every_processor():
    graphs = []
    for mcpu in ("x86-64-v2", "haswell", "cascadelake"):
        network = Network(1, 8, 11, 13)
        mod = network.build(lambda net: net.conv(net.x, 6, 3))
        extraction = prepare(mod, None, {"kind": "llvm", "mcpu": mcpu}).extraction
        (kernel,) = (kernel_of(extraction.module, call) for call in extraction.line.calls)
        graphs.append((extraction.graph, kernel.attrs[WORKLOAD], kernel.script()))
    assert len({graph.fingerprint() for graph, _, _ in graphs}) == 1
    assert {workload for _, workload, _ in graphs} == {graphs[0][0].operators[0].workload}
    assert len({script for _, _, script in graphs}) > 1
    assert graphs[0][0].operators[0].flops > 2 * 6 * 11 * 13 * 8 * 9


def test_kernels_of_a_user_stay():
    assert "tirx.is_scheduled" not in extract(Branches).module["twice"].attrs
