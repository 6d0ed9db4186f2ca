"""The pass PadChannels in a sequence of passes."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relay

from tvm_ios.errors import ModelError
from tvm_ios.passes import PadChannels, PrepareModule, ScheduleOperators
from tvm_ios.relay.stage_ir import is_partitioned

TARGET = "llvm -mcpu=core-avx2 -opt-level=0"


def narrow():
    data = relay.var("data", shape=(1, 16, 8, 8))
    weight = relay.var("weight", shape=(12, 16, 1, 1))
    value = relay.nn.relu(relay.nn.conv2d(data, weight, channels=12, kernel_size=(1, 1)))
    module = tvm.IRModule.from_expr(relay.Function([data, weight], value))
    values = np.random.default_rng(0).uniform(-1, 1, (12, 16, 1, 1)).astype("float32")
    return relay.transform.InferType()(module), {"weight": tvm.nd.array(values)}


def test_before_and_expected():
    module, params = narrow()
    padded = PadChannels(target=TARGET, params=params)(module)
    data = relay.var("data", shape=(1, 16, 8, 8))
    weight = np.pad(params["weight"].numpy(), ((0, 4), (0, 0), (0, 0), (0, 0)))
    wide = relay.nn.conv2d(data, relay.const(weight), channels=16, kernel_size=(1, 1))
    cut = relay.strided_slice(relay.nn.relu(wide), [0], [12], axes=[1])
    expected = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([data], cut)))
    tvm.ir.assert_structural_equal(padded, expected)


def test_it_goes_before_the_other_passes():
    module, params = narrow()
    sequence = tvm.transform.Sequential(
        [
            PadChannels(target=TARGET, params=params),
            PrepareModule(target=TARGET),
            ScheduleOperators(target=TARGET, scheduler="greedy"),
        ]
    )
    with tvm.transform.PassContext(opt_level=3):
        scheduled = sequence(module)
    assert is_partitioned(scheduled)
    assert PadChannels(target=TARGET)(scheduled).same_as(scheduled)


def test_what_is_prepared_or_has_control_flow_is_returned_as_it_is():
    module, params = narrow()
    prepared = PrepareModule(target=TARGET, params=params)(module)
    assert PadChannels(target=TARGET)(prepared).same_as(prepared)
    data = relay.var("data", shape=(3,))
    condition = relay.less(relay.sum(data), relay.const(1.0))
    branches = relay.If(condition, relay.tanh(data), relay.exp(data))
    module = tvm.IRModule.from_expr(relay.Function([data], branches))
    assert PadChannels(target=TARGET)(module).same_as(module)


def test_without_constant_weights_the_module_is_returned_as_it_is():
    module, _ = narrow()
    assert PadChannels(target=TARGET)(module).same_as(module)


def test_bad_input_is_one_of_our_errors():
    with pytest.raises(ModelError, match="no function 'main'"):
        PadChannels(target=TARGET)(tvm.IRModule())
    with pytest.raises(ModelError, match="does not have target 'foo'"):
        PadChannels(target="foo")(narrow()[0])


def test_it_has_a_name_and_a_level():
    info = PadChannels(target=TARGET).info
    assert (info.name, info.opt_level) == ("tvm_ios.PadChannels", 0)
