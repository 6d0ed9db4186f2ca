from __future__ import annotations

import numpy as np
import pytest
from tvm import relax

from tests.relax.networks import TARGET, Network, answers
from tvm_ios.relax.prepare import prepare


def _gated(net, outputs, *, image_is_read=False):
    pooled = net.emit(relax.op.nn.adaptive_avg_pool2d(net.x, 1))
    made = net.emit(relax.op.nn.conv2d(pooled, net.constant(32, 32, 1, 1)))
    product = net.emit(relax.op.multiply(net.emit(relax.op.sigmoid(made)), net.x))
    found = net.emit(relax.op.nn.conv2d(product, net.constant(outputs, 32, 1, 1)))
    return net.emit(relax.op.add(found, product)) if image_is_read else found


def _kinds(prepared):
    return [each.kind for each in prepared.extraction.graph.operators]


@pytest.mark.slow(1)
@pytest.mark.parametrize("layout", [None, "NHWC"])
def test_a_gate_goes_into_fewer_weights(layout):
    network = Network(1, 32, 14, 14)
    module, value = network.build(lambda net: _gated(net, 16)), network.value()
    prepared = prepare(module, None, TARGET, image_layout=layout)
    assert "reshape_multiply" in _kinds(prepared)
    (expected,) = answers(relax.get_pipeline("zero")(module), value)
    (found,) = answers(prepared.module, value)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("case", ["more weights", "another reader", "two images"])
def test_other_gates_stay_where_they_are(case):
    network = Network(2 if case == "two images" else 1, 32, 14, 14)
    outputs = {"more weights": 128, "another reader": 32}.get(case, 16)
    reads = case == "another reader"
    module = network.build(lambda net: _gated(net, outputs, image_is_read=reads))
    assert "reshape_multiply" not in _kinds(prepare(module, None, TARGET))
