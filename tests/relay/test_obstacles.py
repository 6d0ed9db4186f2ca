from __future__ import annotations

import pytest
import tvm
from tvm import relay

from tvm_ios.core.graph import Obstacle
from tvm_ios.relay.obstacles import find_obstacles, is_dynamic, is_primitive


def module_of(body, *parameters):
    return tvm.IRModule.from_expr(relay.Function(list(parameters), body))


def reasons(module):
    return [obstacle.reason for obstacle in find_obstacles(module)]


def test_straight_line_code_has_none(nets):
    assert find_obstacles(nets.branching()[0]) == ()
    assert find_obstacles(nets.prepared().module) == ()


def test_branches():
    data = relay.var("data", shape=(3,))
    condition = relay.less(relay.sum(data), relay.const(1.0))
    module = module_of(relay.If(condition, relay.tanh(data), relay.exp(data)), data)
    assert find_obstacles(module) == (Obstacle("main", "control flow (If)"),)


def test_dynamic_inputs_and_results():
    data = relay.var("data", shape=(relay.Any(), 3))
    found = reasons(module_of(relay.tanh(data), data))
    assert "parameter 'data' has the dynamic type" in found[0]
    assert "the dynamic result of tanh" in found[1]


def test_dynamic_results_of_static_inputs():
    data = relay.var("data", shape=(2, 3))
    assert "the dynamic result of argwhere" in reasons(module_of(relay.argwhere(data), data))[0]


def test_tuple_inputs():
    pair = relay.var("pair", relay.TupleType([relay.TensorType((2,)), relay.TensorType((2,))]))
    body = relay.TupleGetItem(pair, 0) + relay.TupleGetItem(pair, 1)
    assert reasons(module_of(body, pair)) == ["the tuple input 'pair'"]


def test_closures():
    data, inner = relay.var("data", shape=(2,)), relay.var("inner", shape=(2,))
    body = relay.Call(relay.Function([inner], relay.tanh(inner)), [data])
    assert reasons(module_of(body, data)) == ["a call of a local function"]


def test_references():
    data = relay.var("data", shape=(2,))
    assert "control flow (RefCreate)" in reasons(
        module_of(relay.RefRead(relay.RefCreate(data)), data)
    )


def test_recursion_is_found_in_the_function_it_is_in():
    data, number = relay.var("data", shape=(2,)), relay.var("number", shape=(2,))
    again = relay.GlobalVar("again")
    body = relay.If(
        relay.less(relay.sum(number), relay.const(9.0)),
        relay.Call(again, [number + number]),
        number,
    )
    module = tvm.IRModule()
    module[again] = relay.Function([number], body, relay.TensorType((2,)))
    module["main"] = relay.Function([data], relay.Call(again, [data]), relay.TensorType((2,)))
    assert Obstacle("again", "recursion") in find_obstacles(module)


def test_a_function_nobody_calls_is_no_obstacle():
    data, inner = relay.var("data", shape=(2,)), relay.var("inner", shape=(relay.Any(),))
    module = module_of(relay.tanh(data), data)
    module[relay.GlobalVar("unused")] = relay.Function([inner], relay.tanh(inner))
    assert find_obstacles(module) == ()


@pytest.mark.parametrize(
    ("type_", "expected"),
    [
        (relay.TensorType((2, 3)), False),
        (relay.TensorType((2, relay.Any())), True),
        (relay.TupleType([relay.TensorType((relay.Any(),))]), True),
        (relay.FuncType([], relay.TensorType((2,))), False),
    ],
)
def test_dynamic_types(type_, expected):
    assert is_dynamic(type_) is expected


def test_kernels(nets):
    data = relay.var("data", shape=(2,))
    assert is_primitive(nets.fused(relay.tanh(data), data))
    assert not is_primitive(relay.Function([data], relay.tanh(data)))
