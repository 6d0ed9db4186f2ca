"""Weights that need another format: reordered once, and again where somebody sets them."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from threading import Event

import numpy as np
import pytest
import tvm

import tvm_ios
from tests.runtime.libraries.onednn import networks as n
from tests.runtime.libraries.onednn.prepared import cut_every_call, prepared
from tvm_ios.compile.built_model import BuiltModel, build_model
from tvm_ios.compile.lower import lower_schedule
from tvm_ios.compile.model import CompiledModel
from tvm_ios.plan.image import image_bytes
from tvm_ios.plan.image_reader import read_image
from tvm_ios.runtime.libraries.known import read_call
from tvm_ios.runtime.libraries.onednn.device import OnednnLane, OnednnProcessor
from tvm_ios.runtime.libraries.onednn.provider import OnednnLibrary
from tvm_ios.search.baselines import sequential_schedule

pytestmark = pytest.mark.slow
NHWC = partial(n.convolution, shape=(1, 14, 14, 32), layout="NHWC")
RANDOM = np.random.default_rng(5)
DATA = RANDOM.uniform(-1, 1, (1, 14, 14, 32)).astype("float32")


def weights() -> np.ndarray:
    return RANDOM.uniform(-1, 1, (3, 3, 32, 64)).astype("float32")


def convolved(weight: np.ndarray) -> np.ndarray:
    """The convolution in float64 by numpy."""
    windows = np.lib.stride_tricks.sliding_window_view(DATA.astype("float64"), (3, 3), (1, 2))
    return np.einsum("nhwcij,ijco->nhwo", windows, weight.astype("float64"))


def check(module, weight: np.ndarray) -> None:
    module.run(x=DATA)
    np.testing.assert_allclose(module.get_output(0).numpy(), convolved(weight), atol=1e-4)


@pytest.fixture(autouse=True, params=["1x1x1", "1x1x3"])
def cut(request, monkeypatch):
    """Whole, and in parts by rows, which share what is made of the weights."""
    cut_every_call(monkeypatch, request.param)


def compiled(built: BuiltModel, lanes: int = 2) -> CompiledModel:
    return lower_schedule(built, sequential_schedule(built.graph), lanes=lanes)


@pytest.fixture
def weight(onednn) -> np.ndarray:
    return weights()


@pytest.fixture
def model(weight) -> CompiledModel:
    built = build_model(n.typed(NHWC, "float32"), {"w": weight}, n.TARGET, sink=False)
    return compiled(replace(built, libraries=(OnednnLibrary(),)))


def price_name(call, constant: bool) -> str:
    processor = OnednnProcessor(lanes=1)
    try:
        (found,) = processor.complete(
            [replace(call, weight=replace(call.weight, constant=constant))]
        ).values()
        return processor.price_name(found)
    finally:
        processor.close()


def parameter(module) -> str:
    (call,) = [launch for launch in module.plan.launches if launch.call is not None]
    tensor = call.inputs[call.call.descriptor.weight.position]
    return next(entry.name for entry in module.plan.inputs if entry.tensor == tensor)


def test_a_plan_says_that_weights_are_constant(model):
    (call,) = [launch.call.descriptor for launch in model.plan.launches if launch.call]
    assert (call.data.constant, call.weight.constant) == (False, True)
    assert read_image(image_bytes(model.plan), read_call) == model.plan


def test_weights_are_reordered_once_and_again_when_they_are_set(model, weight):
    with model.executor() as module:
        name = parameter(module)
        for _ in range(3):
            check(module, weight)
        for _ in range(2):  # into an array of its own, then into the same one
            other = weights()
            module.set_input(name, other)
            check(module, other)
            check(module, other)
        third = weights()
        module.get_input(name).copyfrom(third)  # nobody is told, so what was made of it stays
        check(module, other)
        module.set_input_zero_copy(name, module.get_input(name))
        check(module, third)
        module.load_params(tvm.runtime.save_param_dict({name: tvm.nd.array(other)}))
        check(module, other)


def test_weights_that_are_set_during_a_run_are_those_of_later_ones(model, weight):
    with model.executor(lanes=1) as module:
        name = parameter(module)
        check(module, weight)
        module.set_input(name, weight)  # into an array of its own; from now on into that one
        done = Event()

        def runs() -> None:
            while not done.is_set():
                module.run()

        with ThreadPoolExecutor(1) as other_thread:
            for _ in range(20):
                done.clear()
                running = other_thread.submit(runs)
                other = weights()
                module.set_input(name, other)
                done.set()
                running.result()
                check(module, other)


def test_executors_have_weights_of_their_own(model, weight):
    other = weights()
    with model.executor() as first, model.executor() as second:
        check(first, weight)
        second.set_input(parameter(second), other)
        check(second, other)
        check(first, weight)
        first.close()
        check(second, other)
        with model.executor(lanes=1) as third:
            name = parameter(third)
            third.share_params(second, tvm.runtime.save_param_dict({name: tvm.nd.array(other)}))
            check(third, other)
            another = weights()
            second.set_input(name, another)  # in place, and the third one reads it there
            check(second, another)
            check(third, another)


def test_weights_are_shared_from_hand_to_hand(model, weight):
    with model.executor(lanes=1) as first, model.executor(lanes=1) as third:
        name = parameter(first)
        names = tvm.runtime.save_param_dict({name: tvm.nd.array(weight)})
        first.set_input(name, weight)
        second = model.executor(lanes=1)
        second.share_params(first, names)
        third.share_params(second, names)
        del second
        gc.collect()
        check(third, weight)
        other = weights()
        first.set_input(name, other)
        check(third, other)


def test_what_was_made_of_weights_goes_with_an_executor_nobody_closed(model, monkeypatch):
    closed, close = [], OnednnLane.close
    monkeypatch.setattr(OnednnLane, "close", lambda lane: closed.append(close(lane)))
    module = model.executor()
    assert not closed
    del module
    gc.collect()
    assert closed


def test_a_loaded_file_reorders_its_own(model, weight, tmp_path):
    path = tmp_path / "model.so"
    model.export_library(path)
    with tvm_ios.load(path, lanes=2) as module:
        check(module, weight)
        other = weights()
        module.set_input(parameter(module), other)
        check(module, other)


def test_weights_that_are_inputs_are_read_in_every_run(onednn):
    built = build_model(n.typed(NHWC, "float32"), None, n.TARGET, sink=False)
    with compiled(replace(built, libraries=(OnednnLibrary(),))).executor() as module:
        (call,) = [launch.call.descriptor for launch in module.plan.launches if launch.call]
        assert not call.weight.constant
        names = [price_name(call, constant) for constant in (False, True)]
        assert names[0] != names[1]  # those are reordered once, these in every run
        for _ in range(2):
            other = weights()
            module.run(x=DATA, w=other)
            np.testing.assert_allclose(module.get_output(0).numpy(), convolved(other), atol=1e-4)
            module.get_input("w").copyfrom(other + 1)
            check(module, other + 1)


def test_constant_weights_have_memory_and_others_workspace(model, onednn):
    (call,) = [launch.call.descriptor for launch in model.plan.launches if launch.call]
    varying = replace(call, weight=replace(call.weight, constant=False))
    with prepared(call) as (made,), prepared(varying) as (every_run,):
        assert (made.once, every_run.once, every_run.constant_bytes) == (1, 0, 0)
        assert made.constant_bytes >= 4 * 3 * 3 * 32 * 64


def test_parts_that_read_the_same_weights_share_what_is_made_of_them(model, onednn):
    (call,) = [launch.call.descriptor for launch in model.plan.launches if launch.call]
    with prepared(call, (1, 1, 2)) as (_, *rows), prepared(call, (1, 2, 1)) as (_, *channels):
        assert len({each.constants for each in rows}) == 1
        assert len({each.constants for each in channels}) == 2


def test_packed_weights_are_set_and_loaded_from_a_file(onednn, tmp_path):
    make = partial(n.dense, rows=6, columns=90, depth=19)
    module = n.typed(make, "float32")
    values = {name: value.astype("float32") for name, value in n.random_values(module).items()}
    built = build_model(module, {name: values[name] for name in "wb"}, n.TARGET, sink=False)
    model = compiled(replace(built, libraries=(OnednnLibrary(),)))
    path = tmp_path / "model.so"
    model.export_library(path)
    for executor in (model.executor(), tvm_ios.load(path, lanes=2)):
        name = parameter(executor)
        packed = executor.get_input(name).numpy()
        assert packed.shape == (3, 19, 30)
        for factor in (1, 2):
            executor.set_input(name, factor * packed)
            executor.run(x=values["x"])
            wanted = np.maximum(values["x"] @ (factor * values["w"]).T + values["b"], 0)
            np.testing.assert_allclose(executor.get_output(0).numpy(), wanted, atol=1e-4)
        executor.close()
