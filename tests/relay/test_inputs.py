from __future__ import annotations

import math

import numpy as np
import pytest
import tvm
from tvm import relay

from tvm_ios.errors import ModelError
from tvm_ios.relay.inputs import check_module, check_parameters, resolve_target


def test_an_unknown_target_is_named():
    with pytest.raises(ModelError, match="TVM does not have target 'foo'"):
        resolve_target("foo")


def test_an_unknown_target_option_is_named():
    with pytest.raises(ModelError, match="-foo=3"):
        resolve_target("llvm -foo=3")


def test_no_target_is_refused():
    with pytest.raises(ModelError, match="no target"):
        resolve_target(None)


def test_the_current_target_is_taken():
    with tvm.target.Target("llvm -mcpu=core-avx2"):
        assert resolve_target(None).mcpu == "core-avx2"


@pytest.mark.parametrize(
    ("target", "told"),
    [
        ("llvm -mcpu=skylake-avx51", "no processor 'skylake-avx51'; did you mean 'skylake-avx512'"),
        (tvm.target.Target("cuda -arch=sm_90", host="llvm -mcpu=skylak"), "'skylake'"),
    ],
)
def test_a_processor_that_llvm_does_not_know_is_refused(target, told):
    with pytest.raises(ModelError, match=told):
        resolve_target(target)


def test_several_devices_are_refused():
    with pytest.raises(ModelError, match="names 2 devices"):
        resolve_target({"cpu": "llvm", "gpu": "opencl"})


def test_a_target_without_code_generator_is_refused():
    absent = next(
        kind
        for kind in ("hexagon", "vulkan", "rocm", "metal", "aocl", "webgpu")
        if tvm.get_global_func(f"target.build.{kind}", allow_missing=True) is None
    )
    with pytest.raises(ModelError, match=f"without a code generator for target '{absent}'"):
        resolve_target(absent)


def test_what_is_no_module_is_refused():
    data = relay.var("data", shape=(1,))
    with pytest.raises(ModelError, match="expected a tvm.IRModule, got Function"):
        check_module(relay.Function([data], data))


def test_a_module_without_main_is_refused():
    data = relay.var("data", shape=(1,))
    with pytest.raises(ModelError, match=r"no function 'main', only \['other'\]"):
        check_module(tvm.IRModule({relay.GlobalVar("other"): relay.Function([data], data)}))


def test_a_main_that_is_no_relay_is_refused():
    body = tvm.tir.Evaluate(tvm.tir.const(0, "int32"))
    module = tvm.IRModule({relay.GlobalVar("main"): tvm.tir.PrimFunc([], body)})
    with pytest.raises(ModelError, match="'main' is a PrimFunc"):
        check_module(module)


def test_an_untyped_input_is_refused():
    data = relay.var("data")
    with pytest.raises(ModelError, match="input 'data' of main has no type"):
        check_module(tvm.IRModule({relay.GlobalVar("main"): relay.Function([data], data)}))


def test_a_dynamic_input_is_refused():
    data = relay.var("data", shape=(relay.Any(), 3))
    module = tvm.IRModule.from_expr(relay.Function([data], relay.nn.relu(data)))
    with pytest.raises(ModelError, match="parameter 'data' has the dynamic type"):
        check_module(module)


def test_control_flow_is_refused():
    data = relay.var("data", shape=(3,))
    condition = relay.less(relay.sum(data), relay.const(1.0))
    body = relay.If(condition, relay.tanh(data), relay.exp(data))
    with pytest.raises(ModelError, match=r"control flow \(If\) cannot run"):
        check_module(tvm.IRModule.from_expr(relay.Function([data], body)))


def test_an_ill_typed_module_is_refused():
    data = relay.var("data", shape=(3,))
    weight = relay.var("weight", shape=(4,))
    module = tvm.IRModule({relay.GlobalVar("main"): relay.Function([data, weight], data + weight)})
    with pytest.raises(ModelError, match="does not type-check"):
        check_module(module)


def main_of(nets):
    module, params = nets.branching()
    return module["main"], params


def test_an_unknown_parameter_is_named(nets):
    main, params = main_of(nets)
    with pytest.raises(ModelError, match=r"no inputs \['stranger'\]"):
        check_parameters(main, {**params, "stranger": np.zeros(3, "float32")})


def test_a_missing_parameter_is_named(nets):
    main, params = main_of(nets)
    del params["b_bias"]
    with pytest.raises(ModelError, match=r"1 parameters are missing, first \['b_bias'\]"):
        check_parameters(main, params)


def test_weights_may_be_inputs_on_purpose(nets):
    main, _ = main_of(nets)
    assert check_parameters(main, None) == {}


@pytest.mark.parametrize(
    "value", [np.zeros(3, "float32"), np.zeros(16, "float64")], ids=["shape", "type"]
)
def test_a_parameter_that_does_not_fit_is_named(nets, value):
    main, params = main_of(nets)
    with pytest.raises(ModelError, match=r"'a_bias' is .*, but main wants float32\[16\]"):
        check_parameters(main, {**params, "a_bias": value})


@pytest.mark.parametrize(
    "value", [[[1.0], [2.0, 3.0]], object(), ["a"] * 16], ids=["ragged", "object", "texts"]
)
def test_a_parameter_that_is_no_array_is_named(nets, value):
    main, params = main_of(nets)
    with pytest.raises(ModelError, match="'a_bias' is a .*; give a NumPy array"):
        check_parameters(main, {**params, "a_bias": value})


@pytest.mark.parametrize("shape", [(2**62, 4), (2**40,)])
def test_tensors_beyond_the_memory_are_refused(shape):
    value = relay.var("x", shape=shape)
    small = relay.var("x", shape=(1,))
    bytes_ = 4 * math.prod(shape)
    for body, what in (
        (relay.nn.relu(value), "input 'x' of main is"),
        (relay.sum(relay.broadcast_to(small, shape)), "main: broadcast_to makes"),
    ):
        with pytest.raises(ModelError) as caught:
            check_module(tvm.IRModule.from_expr(body))
        said = f"{what} a tensor of shape {list(shape)} and {bytes_} bytes, more than the "
        assert str(caught.value).startswith(said)
