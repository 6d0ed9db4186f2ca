"""Padded rows: which layers get more of them, and that results stay."""

from __future__ import annotations

import pytest
import tvm
from tvm import relay

from tests.relay.transforms.test_channel_padding import calls
from tvm_ios.errors import ModelError
from tvm_ios.relay.inputs import check_module
from tvm_ios.relay.transforms.products.row_padding import may_pad_rows, pad_rows


def layer(rows, inputs=20, units=32, dtype="float32"):
    data = relay.var("data", shape=(rows, inputs), dtype=dtype)
    return relay.nn.dense(data, relay.var("w", shape=(units, inputs), dtype=dtype)), data


def padded_rows(module):
    return [int(call.checked_type.shape[0]) for call in calls(module, "nn.dense")]


@pytest.mark.parametrize(
    ("rows", "wanted"),
    [(197, 200), (50, 56), (100, 100), (128, 128), (7, 8), (6, 8), (5, 5), (12, 12), (1, 1)],
)
def test_rows_are_padded_where_tiles_are_small(nets, rows, wanted):
    module, params = nets.finish(*layer(rows))
    padded, count = pad_rows(module, params)
    assert (padded_rows(padded), count) == ([wanted], int(wanted > rows))
    assert may_pad_rows(check_module(module)) == bool(count)
    nets.assert_same((module, params), (padded, None))


def test_each_layer_of_a_chain_is_padded_and_cut(nets):
    first, data = layer(13)
    value = relay.tanh(first)
    output = relay.nn.dense(value, relay.var("v", shape=(16, 32))) + relay.nn.dense(
        value, relay.var("u", shape=(16, 32))
    )
    module, params = nets.finish(output, data)
    padded, count = pad_rows(module, params)
    assert (padded_rows(padded), count) == ([16, 16, 16], 3)
    nets.assert_same((module, params), (padded, None))


def test_a_product_with_copies_of_one_matrix_counts_as_a_layer(nets):
    data = relay.var("data", shape=(2, 35, 16))
    matrix = relay.expand_dims(relay.var("w", shape=(24, 16)), axis=0)
    weights = relay.broadcast_to(matrix, (2, 24, 16))
    module, params = nets.finish(relay.nn.batch_matmul(data, weights), data)
    assert may_pad_rows(check_module(module))
    padded, count = pad_rows(module, params)
    assert (padded_rows(padded), count) == ([72], 1)
    nets.assert_same((module, params), (padded, None))


def test_zeros_are_of_the_layers_type(nets):
    output, data = layer(7, dtype="float16")
    weight = relay.analysis.free_vars(output)[1]
    module = tvm.IRModule.from_expr(relay.Function([data, weight], output))
    padded, count = pad_rows(module, None)
    assert count == 1
    assert padded["main"].ret_type.dtype == "float16"


def test_without_rows_to_pad_the_model_is_only_bound(nets):
    module, params = nets.finish(*layer(16))
    same, count = pad_rows(module, params)
    bound = relay.build_module.bind_params_by_name(module["main"], params)
    assert count == 0
    tvm.ir.assert_structural_equal(same["main"].body, bound.body, map_free_vars=True)


def test_bad_input_is_one_of_our_errors():
    with pytest.raises(ModelError, match="no function 'main'"):
        pad_rows(tvm.IRModule(), None)
