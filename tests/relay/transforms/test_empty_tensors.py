from __future__ import annotations

import numpy as np
import tvm
from tvm import relay

from tests.relay_modules import typed
from tvm_ios.driver.compile_schedule import compile_schedule
from tvm_ios.relay.transforms.empty_tensors import fold_empty_tensors


def module_of(*outputs):
    return typed(relay.Tuple(list(outputs)))


def nothing_of(data, axis=1):
    return relay.strided_slice(data, [0], [0], axes=[axis])


def test_only_what_has_no_element_becomes_a_constant():
    data, none = relay.var("data", shape=(2, 4)), relay.const(np.empty((2, 0), "float32"))
    relu = relay.nn.relu(data)
    before = module_of(relay.exp(nothing_of(relu)), relu, relay.sum(nothing_of(relu), axis=1))
    after = module_of(none, relu, relay.sum(none, axis=1))
    tvm.ir.assert_structural_equal(fold_empty_tensors(before), after)


def test_an_empty_part_of_several_outputs_is_folded():
    first, second = relay.split(nothing_of(relay.var("data", shape=(2, 4)), 0), 2, 1)
    folded = fold_empty_tensors(module_of(first, second))["main"].body
    assert all(isinstance(field, relay.Constant) for field in folded.fields)


def test_inputs_without_elements_stay():
    data = relay.var("data", shape=(2, 0))
    module = module_of(data, relay.sum(data, axis=1))
    assert fold_empty_tensors(module) is module


def test_what_tvm_cannot_compile_of_nothing_runs():
    data = relay.var("data", shape=(2, 4, 5, 5))
    some = nothing_of(relay.nn.relu(data), 3)
    outputs = (relay.nn.batch_flatten(some), relay.argmax(some, 0), relay.nn.relu(data))
    executor = compile_schedule(module_of(*outputs), {}, "llvm -opt-level=0", lanes=1).executor()
    image = np.random.default_rng(0).standard_normal((2, 4, 5, 5)).astype("float32")
    executor.run(data=image)
    assert [executor.get_output(i).shape for i in range(2)] == [(2, 0), (4, 5, 0)]
    np.testing.assert_array_equal(executor.get_output(2).numpy(), np.maximum(image, 0))
