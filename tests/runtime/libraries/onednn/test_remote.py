"""oneDNN on a device of an RPC tracker: looked for, priced, cut and run there."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm import relay

import tvm_ios
from tests.relay_modules import quantised_images
from tests.runtime.libraries.onednn.networks import TARGET
from tvm_ios import BuildOptions, DeviceOptions, TuneOptions
from tvm_ios.compile.built_model import BuiltModel, build_model, build_prepared
from tvm_ios.compile.lower import lower_schedule
from tvm_ios.cost.measured import MeasureOptions
from tvm_ios.devices.remote import RemoteDevice
from tvm_ios.errors import ExecutionError, HostError
from tvm_ios.host import host_target
from tvm_ios.host.onednn_files import ONEDNN_SONAME, ONEDNN_VARIABLE
from tvm_ios.measure.compare import CompareOptions
from tvm_ios.measure.machine_mode import ModeOptions
from tvm_ios.profile.measured_kernels import MeasuredKernels, measure_operators
from tvm_ios.profile.prices import StagePrices
from tvm_ios.profile.race import compiled_for
from tvm_ios.profile.stage_kernels import StageKernels
from tvm_ios.relay.prepare import prepare, with_low_precision
from tvm_ios.relay.transforms.bfloat16 import low_values
from tvm_ios.runtime.libraries.onednn import library as onednn_here
from tvm_ios.runtime.libraries.onednn.provider import OnednnLibrary
from tvm_ios.runtime.rpc import kernels as remote_kernels
from tvm_ios.runtime.rpc.address import DeviceAddress
from tvm_ios.search.baselines import sequential_schedule

pytestmark = pytest.mark.slow  # a tracker, a server, and each runs compiled code

CALM = ModeOptions(patience_s=0.0, slow_ratio=1e9, slow_ns=0)
MEASURE = MeasureOptions(repeat=1, max_repeat=1, min_repeat_ms=0.01, mode=CALM)
DATA = np.random.default_rng(0).uniform(-1, 1, (1, 32, 14, 14)).astype("float32")


@pytest.fixture(scope="module")
def device(onednn, start_rpc_server):
    """A device whose server finds oneDNN."""
    maps = Path("/proc/self/maps").read_text().split()
    path = next(word for word in maps if Path(word).name.startswith(ONEDNN_SONAME))
    with start_rpc_server("onednn", **{ONEDNN_VARIABLE: path}) as tracker:
        yield tracker


def described(device) -> RemoteDevice:
    address = DeviceAddress(host=device.host, port=device.port, key=device.key)
    return RemoteDevice(address=address, cores=1, processor="Mite 3", target=TARGET)


@pytest.fixture(scope="module")
def network():
    data, weight = relay.var("data", shape=DATA.shape), relay.var("weight", shape=(64, 32, 3, 3))
    value = relay.nn.relu(
        relay.nn.conv2d(data, weight, padding=(1, 1), channels=64, kernel_size=(3, 3))
    )
    value = relay.nn.max_pool2d(value, (2, 2), strides=(2, 2))
    random = np.random.default_rng(1)
    params = {"weight": random.uniform(-1, 1, (64, 32, 3, 3)).astype("float32")}
    return tvm.IRModule.from_expr(value), params


@pytest.fixture(scope="module")
def built(network) -> BuiltModel:
    return replace(build_model(*network, TARGET), libraries=(OnednnLibrary(),))


@pytest.fixture
def nothing_here(monkeypatch):
    """No oneDNN in this process: whatever is computed by it is computed there."""

    def missing():
        pytest.fail("oneDNN is looked for on the host")

    monkeypatch.setattr("tvm_ios.runtime.libraries.onednn.device.load_onednn", missing)
    monkeypatch.setattr(onednn_here, "load_onednn", missing)


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
def test_calls_compute_there_what_they_compute_here(
    device, network, built, monkeypatch, precision, onednn
):
    if precision == "bfloat16":
        if "bf16" not in onednn.facts.isa and "amx" not in onednn.facts.isa:
            pytest.skip(f"oneDNN need not have bfloat16 for {onednn.facts.isa}")
        prepared = prepare(*network, TARGET)
        low = with_low_precision(prepared, low_values(prepared.extraction).most())
        built = replace(build_prepared(low), libraries=built.libraries)
    elif precision == "int8":
        prepared = prepare(quantised_images(), None, host_target())
        built = replace(build_prepared(prepared), libraries=built.libraries)
    data = DATA[:, :16, :12, :12] if precision == "int8" else DATA
    model = lower_schedule(built, sequential_schedule(built.graph), lanes=1)
    with model.executor() as module:
        module.run(data=data)
        expected = module.get_output(0).numpy()
        calls = [launch.call is not None for launch in module.plan.launches]
        params = {
            name: module.get_input(name).copyto(tvm.cpu()) for name in model.kernels.staged.params
        }
    assert any(calls)
    monkeypatch.setattr(remote_kernels, "LARGEST_SENT_BYTES", 0)
    with described(device).open() as session:
        there = compiled_for(session, built, sequential_schedule(built.graph), lanes=1)
        assert [launch.call is not None for launch in there.plan.launches] == calls
        with session.executor(there) as executor:
            assert executor.time_ns(3) > 0  # constants are made of other numbers, and read anew
            for name, value in {**params, "data": data}.items():
                executor.set_input(name, value)
            executor.run()
            np.testing.assert_array_equal(executor.get_output(0), expected)
    assert device.becomes_free()


def test_stages_with_calls_are_priced_and_cuts_are_found_there(device, built, nothing_here):
    with described(device).open() as session, ExitStack() as stack:
        there = replace(built, libraries=(session.require(OnednnLibrary()),))
        runner = stack.enter_context(StageKernels(there, lanes=1, session=session))
        able = runner.library_names["onednn"]
        assert able
        kernels = MeasuredKernels(runner, options=MEASURE)
        prices = measure_operators(kernels)
        assert all(prices.by_maker["onednn"][index].alone_ns > 0 for index in able)
        stages = StagePrices(kernels, prices.choice())
        order = sequential_schedule(stages.graph)
        assert all(price > 0 for price in stages.price(stages.graph, order.stages))
        cuts = session.libraries().open(OnednnLibrary())._found
        assert {found.cut.device.partition(",")[0] for found in cuts.values() if found.cut} == {
            "Mite 3"
        }
    assert device.becomes_free()


def test_a_call_that_is_complete_needs_no_device(device, built):
    order = sequential_schedule(built.graph)
    with described(device).open() as session:
        with session.in_stage(""):
            first = compiled_for(session, built, order, lanes=1)
        assert device.becomes_free()
        assert compiled_for(session, built, order, lanes=1).plan == first.plan
        assert device.becomes_free()
        with session.in_stage(""), session.executor(first) as executor:
            assert executor.time_ns(1) > 0
        assert device.becomes_free()


def test_a_call_that_fails_there_says_why(device, built):
    with described(device).open() as session:
        model = compiled_for(session, built, sequential_schedule(built.graph), lanes=1)
        with session.executor(model) as executor:
            prepared = next(iter(executor._calls._calls.values()))
            connection = session.processor.runtime.connection
            # The first primitive of the whole call.
            parts = int.from_bytes(connection.read(prepared.resource, 8), "little")
            primitives = int.from_bytes(connection.read(parts, 8), "little")
            count = int.from_bytes(connection.read(parts + 8, 8), "little")
            for number in range(count):
                connection.write(primitives + 32 * number, bytes(8))
            with pytest.raises(
                ExecutionError,
                match=r"by oneDNN\) on the device with key 'onednn'.*: dnnl_primitive_execute fail",
            ):
                executor.run()


def test_a_device_without_the_library_is_named_before_the_work(
    network, start_rpc_server, nothing_here, tmp_path
):
    with start_rpc_server("bare", **{ONEDNN_VARIABLE: "/nowhere/libdnnl.so"}) as device:
        with pytest.raises(
            HostError,
            match=r"oneDNN 3 is to compute on the device with key 'bare'.* there is none: .*"
            r"/nowhere/libdnnl\.so: .*; install it there \(pip install .* leave out it \(libraries",
        ):
            tuned(network, device, tmp_path)
        assert device.becomes_free()


def tuned(network, device, folder):
    where = DeviceOptions(rpc_tracker=device.address, rpc_key=device.key)
    options = TuneOptions(
        device=where,
        build=BuildOptions(libraries=("onednn",), pad_channels=False),
        measure=MEASURE,
        compare=CompareOptions(rounds=6, min_repeat_ms=0.05, mode=CALM),
    )
    database = folder / "prices.sqlite"
    return tvm_ios.tune(*network, TARGET, options=options, lanes=1, database=database)


def test_a_network_is_tuned_with_the_library_of_the_device(network, device, nothing_here, tmp_path):
    report = tuned(network, device, tmp_path).report()
    assert any("can compute" in note and "oneDNN 3." in note for note in report.notes)
    assert device.becomes_free()
    assert tuned(network, device, tmp_path).report().measured == 0
