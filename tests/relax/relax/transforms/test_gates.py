from __future__ import annotations

import pytest
from tvm import relax

from tests.relax.networks import TARGET, Network
from tvm_ios.relax.prepare import prepare


def kinds(body, *shape: int) -> list[str]:
    graph = prepare(Network(*shape).build(body), None, TARGET).extraction.graph
    return [operator.kind for operator in graph.operators]


@pytest.mark.parametrize("swapped", [False, True])
def test_a_product_larger_than_the_convolution_is_a_kernel_of_its_own(swapped):
    def body(net):
        pooled = net.emit(relax.op.nn.adaptive_avg_pool2d(net.x, 1))
        made = net.emit(relax.op.nn.conv2d(pooled, net.constant(8, 8, 1, 1)))
        gate = net.emit(relax.op.sigmoid(made))
        operands = (gate, net.x) if swapped else (net.x, gate)
        return net.emit(relax.op.nn.relu(net.emit(relax.op.multiply(*operands))))

    found = kinds(body, 1, 8, 6, 6)
    assert found == ["adaptive_avg_pool2d", "conv2d_tir_sigmoid", "multiply_relu"]


def test_what_is_as_large_as_the_convolution_is_fused():
    def body(net):
        made = net.emit(relax.op.nn.conv2d(net.x, net.constant(8, 8, 1, 1)))
        return net.emit(relax.op.multiply(made, net.constant(1, 8, 1, 1)))

    assert kinds(body, 1, 8, 6, 6) == ["conv2d_multiply"]


def test_what_is_cut_before_a_convolution_is_a_kernel_of_its_own():
    def body(net):
        cut = net.emit(relax.op.strided_slice(net.x, [1], [0], [4]))
        return net.emit(relax.op.nn.conv2d(cut, net.constant(8, 4, 3, 3)))

    assert kinds(body, 1, 8, 6, 6) == ["strided_slice", "conv2d"]


@pytest.mark.parametrize("rows", [1, 3])
def test_factors_that_a_run_tells_are_computed_before_the_product(rows):
    def body(net):
        scale = net.emit(relax.op.max(net.x))
        product = net.emit(relax.op.matmul(net.x, net.constant(8, 6)))
        factors = net.emit(relax.op.multiply(scale, net.constant(6)))
        return net.emit(relax.op.nn.relu(net.emit(relax.op.multiply(product, factors))))

    assert kinds(body, rows, 8)[-2:] == ["multiply", "matmul_multiply_relu"]


def test_extremes_of_all_elements_are_those_of_rows():
    found = kinds(lambda net: net.emit(relax.op.max(net.x)), 2, 4, 8)
    assert found == ["max"] * 3
    assert kinds(lambda net: net.emit(relax.op.max(net.x, axis=1)), 2, 4, 8) == ["max"]
