from __future__ import annotations

import pytest
from tvm import relay

from tvm_ios.errors import ModelError
from tvm_ios.relay.dataflow import (
    copy_call,
    graph_order,
    kernel_calls,
    local_function,
    rebuild,
    resolve_field,
)


def kernel(nets):
    inner = relay.var("inner", shape=(2,))
    return nets.fused(relay.tanh(inner), inner)


def test_the_order_is_that_of_tvm(nets):
    function = kernel(nets)
    data = relay.var("data", shape=(2,))
    left, right = relay.Call(function, [data]), relay.Call(function, [data])
    root = relay.Tuple([relay.Call(function, [right]), left, right])
    by_tvm = []
    relay.analysis.post_order_visit(
        root,
        lambda node: (
            by_tvm.append(node) if isinstance(getattr(node, "op", None), relay.Function) else None
        ),
    )
    assert kernel_calls(root) == by_tvm
    assert len(graph_order(root)) == 5


def test_a_long_chain_does_not_exhaust_the_stack(nets):
    function = kernel(nets)
    value = relay.var("data", shape=(2,))
    for _ in range(3000):
        value = relay.Call(function, [value])
    assert len(kernel_calls(value)) == 3000


def test_fields_of_tuples_built_on_the_spot():
    left, right = relay.var("left"), relay.var("right")
    pair = relay.Tuple([left, right])
    assert resolve_field(relay.TupleGetItem(pair, 1)) == right
    whole = relay.TupleGetItem(relay.var("whole"), 1)
    assert resolve_field(whole) == whole


def test_rebuilding_shares_what_was_shared(nets):
    function = kernel(nets)
    data, other = relay.var("data", shape=(2,)), relay.var("other", shape=(2,))
    shared = relay.Call(function, [data])
    root = relay.Tuple([shared, relay.Call(function, [shared])])
    new = rebuild(root, {data: other}, copy_call)
    first, second = new.fields
    assert second.args[0] == first
    assert first.args[0] == other
    assert local_function(first) == function


def test_control_flow_is_refused():
    data = relay.var("data", shape=())
    body = relay.If(relay.less(data, relay.const(1.0)), data, data)
    with pytest.raises(ModelError, match="main holds a If, which no graph executor runs"):
        graph_order(body)


def test_calls_of_operators_are_no_local_functions():
    data = relay.var("data", shape=(2,))
    assert local_function(relay.tanh(data)) is None
