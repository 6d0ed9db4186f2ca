"""Nodes of Relay as it was written become the operators that a compiler would make of them."""

from __future__ import annotations

from tvm import relay

from tests.relay_modules import typed
from tvm_ios.core.fusing import fused_graph
from tvm_ios.relay.model_nodes import model_nodes


def graph_of(body, params=()):
    return fused_graph("net", model_nodes(typed(body), params))


def test_a_norm_and_an_activation_follow_their_convolution():
    data, weight = relay.var("data", shape=(1, 4, 8, 8)), relay.var("weight", shape=(8, 4, 1, 1))
    made = relay.nn.conv2d(data, weight, kernel_size=(1, 1), channels=8)
    statistics = [relay.var(name, shape=(8,)) for name in ("gamma", "beta", "mean", "var")]
    body = relay.nn.relu(relay.nn.batch_norm(made, *statistics)[0])
    (operator,) = graph_of(body, ("weight", "gamma", "beta", "mean", "var")).operators
    assert operator.kind == "conv2d"
    assert operator.flops >= 2 * 8 * 64 * 4
    assert operator.memory_bytes >= 4 * (4 * 64 + 8 * 4 + 8 * 64)


def test_what_only_weights_make_is_no_operator():
    data, weight = relay.var("data", shape=(2, 4)), relay.var("weight", shape=(4, 8))
    body = relay.nn.dense(data, relay.transpose(relay.multiply(weight, relay.const(2.0))))
    assert [each.kind for each in graph_of(body, ("weight",)).operators] == ["dense"]
    assert len(graph_of(body).operators) == 3


def test_parts_and_wholes_are_views():
    data = relay.var("data", shape=(1, 8, 4, 4))
    parts = relay.split(data, 2, axis=1)
    body = relay.concatenate([relay.nn.softmax(parts[0]), parts[1]], axis=1)
    assert [(each.kind, each.predecessors, each.view) for each in graph_of(body).operators] == [
        ("split", (), True),
        ("softmax", (0,), False),
        ("concatenate", (0, 1), True),
    ]
