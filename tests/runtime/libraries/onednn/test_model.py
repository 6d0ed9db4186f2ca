"""Whole networks with oneDNN: prices, files, threads, executors side by side, forks."""

from __future__ import annotations

import ctypes
import json
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import tvm
from tvm import relay

import tvm_ios
from tests.pricing import stage_runner
from tests.runtime.libraries.onednn.networks import BLOCK, TARGET
from tests.runtime.libraries.onednn.prepared import parts_of
from tvm_ios import BuildOptions, TuneOptions
from tvm_ios.compile.built_model import BuiltModel, build_model, build_prepared
from tvm_ios.compile.lower import lower_schedule
from tvm_ios.core.schedule import InterOpSchedule
from tvm_ios.cost.database import ProfileDatabase
from tvm_ios.errors import ExecutionError, HostError
from tvm_ios.host.onednn_files import ONEDNN_VARIABLE
from tvm_ios.models import squeezenet
from tvm_ios.plan.image import image_bytes
from tvm_ios.plan.image_reader import read_image
from tvm_ios.plan.verify import verify_plan
from tvm_ios.profile.measured_kernels import MeasuredKernels, measure_operators
from tvm_ios.profile.prices import StagePrices
from tvm_ios.profile.way_choice import ways_in_network, with_choice
from tvm_ios.relay.prepare import with_low_precision
from tvm_ios.relay.transforms.bfloat16 import low_values
from tvm_ios.runtime.base.lane_pool import LaneOptions
from tvm_ios.runtime.base.native_runtime import address_of
from tvm_ios.runtime.libraries.known import read_call
from tvm_ios.runtime.libraries.onednn import device
from tvm_ios.runtime.libraries.onednn.device import OnednnProcessor
from tvm_ios.runtime.libraries.onednn.library import load_onednn
from tvm_ios.runtime.libraries.onednn.provider import OnednnLibrary
from tvm_ios.runtime.libraries.processor import ThisProcessor
from tvm_ios.runtime.libraries.protocol import LibraryLane
from tvm_ios.search.baselines import greedy_schedule, sequential_schedule
from tvm_ios.support.c_compiler import compile_shared

CALLS = 10 if BLOCK == 16 else 12
"""With vectors of 8 all but transforms of layouts: the last convolution has blocks of 8, too.

Of 16 it has blocks of ten channels, no format of oneDNN, and so has the pooling of them.
"""
DATA = np.random.default_rng(0).uniform(-1, 1, (1, 3, 64, 64)).astype("float32")
OURS = {"PYTHONPATH": str(Path(tvm_ios.__file__).parents[1])}
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def plain(onednn) -> BuiltModel:
    """SqueezeNet with two of its modules, the first of which squeezes to 16 channels."""
    with pytest.MonkeyPatch.context() as patch:
        module = sys.modules[squeezenet.__module__]
        patch.setattr(module, "_FIRES", module._FIRES[1:3])
        return build_model(*squeezenet(image_size=64), TARGET)


@pytest.fixture(scope="module")
def built(plain: BuiltModel) -> BuiltModel:
    return replace(plain, libraries=(OnednnLibrary(),))


def run(module) -> np.ndarray:
    module.run(data=DATA)
    return module.get_output(0).numpy()


@pytest.fixture(scope="module")
def expected(plain: BuiltModel) -> np.ndarray:
    with lower_schedule(plain, sequential_schedule(plain.graph), lanes=1).executor() as module:
        return run(module)


@pytest.mark.parametrize("lanes", [1, 2])
def test_every_convolution_that_has_a_format_is_computed(built, expected, lanes):
    model = lower_schedule(built, greedy_schedule(built.graph), lanes=lanes)
    verify_plan(model.plan)
    read = read_image(image_bytes(model.plan), read_call)
    assert read == model.plan
    assert sum(launch.call is not None for launch in model.plan.launches) == CALLS
    with model.executor(options=LaneOptions(jitter_seed=1)) as module:
        for _ in range(3):
            np.testing.assert_allclose(run(module), expected, rtol=1e-4, atol=1e-7)
        by_name = read_image(image_bytes(module.plan), read_call)
        assert by_name == module.plan
        verify_plan(module.plan)


def test_a_network_in_bfloat16_has_the_same_bits_in_any_order(onednn, plain, expected):
    if "bf16" not in onednn.facts.isa and "amx" not in onednn.facts.isa:
        pytest.skip(f"oneDNN need not have bfloat16 for {onednn.facts.isa}")
    low = with_low_precision(plain.prepared, low_values(plain.prepared.extraction).most())
    built = replace(build_prepared(low, like=plain), libraries=(OnednnLibrary(),))
    found = []
    for schedule in (sequential_schedule(built.graph), greedy_schedule(built.graph)):
        model = lower_schedule(built, schedule, lanes=2)
        verify_plan(model.plan)
        assert read_image(image_bytes(model.plan), read_call) == model.plan
        assert InterOpSchedule.from_json(model.schedule.to_json()).low == low.low
        assert sum(launch.call is not None for launch in model.plan.launches) == CALLS
        with model.executor(options=LaneOptions(jitter_seed=1)) as module:
            found += [run(module) for _ in range(3)]
    for each in found[1:]:
        np.testing.assert_array_equal(each, found[0])
    assert 0 < abs(found[0] - expected).max() < 2**-6 * expected.max()


def test_two_executors_run_by_turns_and_outlive_each_other(built, expected):
    model = lower_schedule(built, greedy_schedule(built.graph), lanes=2)
    first, second = model.executor(), model.executor()
    run(first), run(second)
    first.close()
    first.close()
    np.testing.assert_allclose(run(second), expected, rtol=1e-4, atol=1e-7)
    second.close()
    with pytest.raises(ExecutionError, match="closed"):
        run(second)


def test_a_file_opens_the_library_and_is_refused_without(
    built, expected, tmp_path, monkeypatch, run_python
):
    path = tmp_path / "model.so"
    lower_schedule(built, greedy_schedule(built.graph), lanes=2).export_library(path)
    with tvm_ios.load(path) as module:
        np.testing.assert_allclose(run(module), expected, rtol=1e-4, atol=1e-7)
    load_onednn.cache_clear()
    monkeypatch.setenv(ONEDNN_VARIABLE, str(tmp_path / "nothing.so"))
    with pytest.raises(HostError, match="no oneDNN 3: .*nothing.so.*onednn-cpu-gomp"):
        tvm_ios.load(path)
    monkeypatch.undo()
    load_onednn.cache_clear()
    # With the code that the file brings along: there is no C compiler, and its cuts do not fit.
    script = (
        "import sys, tvm_ios, numpy\n"
        "from tvm_ios.runtime.libraries.onednn.device import OnednnProcessor\n"
        "OnednnProcessor._device = 'another'\n"
        "with tvm_ios.load(sys.argv[1]) as module:\n"
        "    module.run(data=numpy.zeros((1, 3, 64, 64), 'float32'))\n"
        "    print(sum(launch.call is not None for launch in module.plan.launches))\n"
    )
    done = run_python("-c", script, str(path), **OURS, CC="/nothing")
    assert done.stdout.strip() == str(CALLS), done.stderr


RUNS = """
import json, os, sys
import numpy as np
import tvm_ios

data = np.ones((1, 3, 64, 64), "float32")
with tvm_ios.load(sys.argv[1], lanes=2) as module:
    for _ in range(20):
        module.run(data=data)
    threads = len(os.listdir("/proc/self/task"))
    result = module.get_output(0).numpy()
    child = os.fork()
    if not child:
        module.run(data=data)
        same = np.array_equal(module.get_output(0).numpy(), result)
        os._exit(0 if same else 1)
    status = os.waitpid(child, 0)[1]
    module.run(data=data)
    again = np.array_equal(module.get_output(0).numpy(), result)
print(json.dumps([threads, status, again]))
"""


def test_no_team_of_threads_begins_and_a_fork_computes(plain, built, tmp_path, run_python):
    seen = []
    for each in (plain, built):
        path = tmp_path / "model.so"
        lower_schedule(each, greedy_schedule(each.graph), lanes=2).export_library(path)
        teams = {"OMP_NUM_THREADS": "4", "TVM_NUM_THREADS": "1"}
        done = run_python("-c", RUNS, str(path), **OURS, **teams)
        assert done.returncode == 0, done.stderr
        seen.append(json.loads(done.stdout))
    # As many threads as without oneDNN, though its OpenMP was told to use four.
    assert seen[0] == seen[1]
    assert seen[1][1:] == [0, True]


def test_what_the_library_returns_names_the_operator(built, expected):
    model = lower_schedule(built, greedy_schedule(built.graph), lanes=2)
    with model.executor() as module:
        prepared = next(iter(module._lane_executor._calls._calls.values()))
        made = [each for part in parts_of(prepared.resource) for each in part.primitives]
        handles = [each.primitive for each in made]
        for each in made:
            each.primitive = None
        with pytest.raises(
            ExecutionError,
            match=r"operator '\w+' \(by oneDNN\): dnnl_primitive_execute failed: invalid_.*DNN 3",
        ):
            run(module)
        for each, handle in zip(made, handles, strict=True):
            each.primitive = handle
        np.testing.assert_allclose(run(module), expected, rtol=1e-4, atol=1e-7)


def test_cuts_are_found_once_and_kept(built, tmp_path, monkeypatch):
    model = lower_schedule(built, sequential_schedule(built.graph), lanes=1)
    calls = [launch.call.descriptor for launch in model.plan.launches if launch.call][:4]
    store = ProfileDatabase(tmp_path / "profiles.sqlite")
    first = OnednnProcessor(store=store, lanes=2)
    found = first.complete(calls)
    assert first.complete(found.values()) == {call: call for call in found.values()}
    first.close()
    monkeypatch.setattr(OnednnProcessor, "_search", lambda *_: pytest.fail("it was found before"))
    second = OnednnProcessor(store=store, lanes=2)
    assert second.complete(calls) == found
    names = {second.price_name(call) for call in found.values()}
    assert all(name.startswith(load_onednn().version.text) for name in names)
    other = OnednnProcessor(store=store, lanes=1)
    with pytest.raises(pytest.fail.Exception, match="found before"):
        other.complete(found.values())  # another number of lanes wants other cuts


def test_code_of_another_interface_is_left_alone(built, tmp_path):
    source = tmp_path / "old.c"
    source.write_text("int tvm_ios_onednn_run(void) { return -1; }")
    old = ctypes.CDLL(str(compile_shared(source)))
    model = lower_schedule(built, sequential_schedule(built.graph), lanes=1)
    processor = OnednnProcessor(ThisProcessor(SimpleNamespace(code=old)), lanes=1)
    call = next(launch.call.descriptor for launch in model.plan.launches if launch.call)
    (complete,) = processor.complete([call]).values()
    lane = processor.on_lane(LibraryLane(take_workspace=0, give_workspace=0))
    assert lane.prepare(complete, "conv").function != address_of(old, "tvm_ios_onednn_run")
    lane.close()
    processor.close()


def test_a_call_is_cut_wherever_it_can_be(built, monkeypatch):
    model = lower_schedule(built, sequential_schedule(built.graph), lanes=1)
    calls = [launch.call.descriptor for launch in model.plan.launches if launch.call]
    monkeypatch.setattr(device, "fastest_counts", lambda *given: (next(iter(given[-1])), 1.0))
    processor = OnednnProcessor(lanes=2)
    found = processor.complete(calls).values()
    processor.close()
    # Squeezed to 16 channels there is one block of them, and nothing to part.
    assert {(call.result.extents[1] > 16, call.cut.parts) for call in found} == {
        (True, 2),
        (False, 1),
    }


def test_prices_choose_between_kernels_and_calls(built, expected, tmp_path):
    database = ProfileDatabase(tmp_path / "profiles.sqlite")
    with stage_runner(built, lanes=2, database=database) as runner:
        kernels = MeasuredKernels(runner, database=database)
        by_price = measure_operators(kernels).choice()
        prices = StagePrices(kernels, by_price)
        title = load_onednn().facts.as_text()
        assert f"of the {CALLS} operators that {title} can compute" in " ".join(prices.notes)
        chosen = prices.annotate(greedy_schedule(prices.graph))
        there = ways_in_network(runner, by_price.prices)
        assert set(there.made_by("onednn")) <= set(runner.library_names["onednn"])
        assert set(there.unsplit) <= set(by_price.short)
        as_there = StagePrices(kernels, there).annotate(sequential_schedule(prices.graph))
        assert as_there.by_library("onednn") == there.made_by("onednn")
        with with_choice(runner, there).executor() as module:
            np.testing.assert_allclose(run(module), expected, rtol=1e-4, atol=1e-7)
    model = lower_schedule(built, chosen, lanes=2)
    assert {a.operator_index for a in model.plan.launches if a.call} == set(
        chosen.by_library("onednn")
    )
    with model.executor() as module:
        np.testing.assert_allclose(run(module), expected, rtol=1e-4, atol=1e-7)


def small() -> tvm.IRModule:
    """Two convolutions side by side, of the same data, and their sum."""
    data = relay.var("data", shape=(1, 32, 20, 20))
    both = [
        relay.nn.relu(
            relay.nn.conv2d(
                data, relay.var(name, shape=(64, 32, 3, 3)), channels=64, kernel_size=(3, 3)
            )
        )
        for name in ("left", "right")
    ]
    return relay.transform.InferType()(
        tvm.IRModule.from_expr(
            relay.Function(relay.analysis.free_vars(relay.add(*both)), relay.add(*both))
        )
    )


def test_tune_chooses_and_its_file_brings_the_cuts_along(onednn, tmp_path, monkeypatch):
    module, random = small(), np.random.default_rng(1)
    params = {
        name: random.uniform(-1, 1, (64, 32, 3, 3)).astype("float32") for name in ("left", "right")
    }
    database = tmp_path / "profiles.sqlite"
    build = BuildOptions(libraries=("onednn",), pad_channels=False)
    model = tvm_ios.tune(
        module, params, TARGET, database=database, options=TuneOptions(build=build)
    )
    chosen = [launch.call for launch in model.plan.launches if launch.call is not None]
    assert all(call.descriptor.cut is not None for call in chosen)
    assert set(model.schedule.by_library("onednn")) <= set(
        range(len(model.schedule.operator_names))
    )
    again = tvm_ios.compile_schedule(
        module,
        params,
        TARGET,
        schedule=replace(model.schedule, libraries=None),
        options=TuneOptions(build=build),
    )
    path = tmp_path / "model.so"
    with again.executor() as module_:
        complete = replace(again, plan=module_.plan)
        data = random.uniform(-1, 1, (1, 32, 20, 20)).astype("float32")
        module_.run(data=data)
        ours = module_.get_output(0).numpy()
    assert sum(launch.call is not None for launch in complete.plan.launches) >= 2
    complete.export_library(path)
    monkeypatch.setattr(OnednnProcessor, "_search", lambda *_: pytest.fail("it has its cuts"))
    with tvm_ios.load(path) as module_:
        module_.run(data=data)
        assert module_.get_output(0).numpy().tobytes() == ours.tobytes()
    stock = tvm_ios.compile_schedule(module, params, TARGET)
    with stock.executor() as module_:
        module_.run(data=data)
        np.testing.assert_allclose(module_.get_output(0).numpy(), ours, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("with_onednn", [True, False])
def test_images_of_one_dimension_are_pooled_as_a_whole(onednn, with_onednn):
    value = relay.var("data", shape=(2, 3, 8))
    both = [relay.nn.global_avg_pool1d(value), relay.nn.global_max_pool1d(relay.nn.relu(value))]
    model = tvm_ios.tune(
        tvm.IRModule.from_expr(relay.Function([value], relay.concatenate(both, axis=1))),
        target=TARGET,
        options=TuneOptions(build=BuildOptions(libraries=("onednn",) if with_onednn else ())),
    )
    data = np.random.default_rng(1).uniform(-1, 1, (2, 3, 8)).astype("float32")
    mean, most = data.mean(axis=2), np.maximum(data, 0).max(axis=2)
    with model.executor() as module:
        module.run(data=data)
        found = module.get_output(0).numpy()
    np.testing.assert_allclose(found[..., 0], np.hstack([mean, most]), rtol=1e-5, atol=1e-6)
