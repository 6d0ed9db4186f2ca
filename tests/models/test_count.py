from __future__ import annotations

import pytest
import tvm
from tvm import relay

from tests.models.count import ModelTotals, count
from tvm_ios.errors import ModelError
from tvm_ios.models.builder import NetworkBuilder, Pooling


def totals(*emitters) -> ModelTotals:
    net = NetworkBuilder(batch_size=2, channels=4, height=6, width=6, seed=0)
    value = net.input
    for emit in emitters:
        value = emit(net, value)
    return count(*net.finish(value))


INPUT = 2 * 4 * 6 * 6


def test_convolution_counts_macs_bias_and_operand():
    result = totals(lambda net, x: net.convolution("c", x, 3, kernel=(3, 3)))
    output = 2 * 3 * 4 * 4
    assert result == ModelTotals(
        units=1,
        macs=output * 36,
        published_operations=output * 37 + INPUT,
        parameters=3 * 4 * 9 + 3,
    )


def test_separable_unit_counts_its_three_operators_as_one_unit():
    result = totals(lambda net, x: net.relu_separable_convolution("s", [x, x, x], 5))
    output = INPUT // 4 * 5
    assert result.units == 1
    assert result.macs == INPUT * 9 + output * 4
    sums_and_relu = 3 * INPUT + 4 * INPUT
    assert result.published_operations == sums_and_relu + INPUT * 11 + output * 5 + INPUT


def test_poolings_count_their_input():
    result = totals(
        lambda net, x: net.pool("p", x, Pooling.MAX, stride=2),
        lambda net, x: net.global_average("g", x),
    )
    assert result.macs == result.parameters == 0
    assert result.published_operations == INPUT * 10 + 2 * (2 * 4 * 2 * 2)


def test_joins_count_every_tensor_they_read():
    result = totals(
        lambda net, x: net.combine("sum", [[x, x]]),
        lambda net, x: net.combine("concat", [[x, x], [x]]),
        lambda net, x: net.relu("relu", x),
    )
    assert result.units == 3
    assert result.published_operations == 2 * INPUT + 3 * INPUT + 5 * 2 * INPUT


def test_text_has_the_units_of_the_published_table():
    text = ModelTotals(
        units=50, macs=1_187_100_160, published_operations=1_229_663_992, parameters=1_589_672
    ).as_text()
    assert text == "50 units, 1.187 GMAC (1.230 G operations as IOS counts), 1.590 M parameters"


def test_a_module_from_elsewhere_is_refused():
    data = relay.var("data", shape=(1, 4))
    module = relay.transform.InferType()(tvm.IRModule.from_expr(relay.nn.relu(data)))
    with pytest.raises(ModelError, match="names no unit"):
        count(module, {})
