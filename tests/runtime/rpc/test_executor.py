"""Whole plans on a device: the bits of a local run, and kernels that go wrong there."""

from __future__ import annotations

import gc
import struct
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from tvm_ios.errors import CostError, ExecutionError, OptionError
from tvm_ios.plan.lower import lower_plan
from tvm_ios.plan.plan import Buffer, BufferKind, ExecutionPlan, Group, Launch, Tensor
from tvm_ios.runtime.base import native_runtime
from tvm_ios.runtime.rpc import connection as remote_connection
from tvm_ios.runtime.rpc import kernels as remote_kernels
from tvm_ios.runtime.rpc.address import DeviceAddress
from tvm_ios.runtime.rpc.code import RemoteRuntime
from tvm_ios.runtime.rpc.connection import RemoteConnection
from tvm_ios.runtime.rpc.executor import RemoteExecutor
from tvm_ios.runtime.rpc.kernels import RemoteKernels
from tvm_ios.support.c_compiler import compile_shared

pytestmark = pytest.mark.slow  # a tracker, servers, and each runs compiled code

_NATIVE = Path(native_runtime.__file__).parent / "native"
_SOURCE = Path(__file__).parents[1] / "native" / "remote_kernels.c"


def address_of(device):
    return DeviceAddress(host=device.host, port=device.port, key=device.key)


@pytest.fixture(scope="module")
def connection(loopback_tracker):
    with RemoteConnection(address_of(loopback_tracker)) as connection:
        yield connection


@pytest.fixture(scope="module")
def runtime(connection):
    return RemoteRuntime(connection)


def plan_of(*kernels, groups=1, lanes=1):
    """Kernels one after another, or each in a group of its own, on one tensor of a number."""
    launches = tuple(
        Launch(operator=f"{name}{i}", operator_index=i, kernel=name, inputs=(), outputs=(0,))
        for i, name in enumerate(kernels)
    )
    rows = [range(len(kernels))] if groups == 1 else [(i,) for i in range(len(kernels))]
    return ExecutionPlan(
        lanes=lanes,
        buffers=(Buffer(kind=BufferKind.OUTPUT, size_bytes=4),),
        tensors=(Tensor(buffer=0, byte_offset=0, shape=(1,), dtype="float32"),),
        launches=launches,
        groups=tuple(
            Group(stage=i, position=0, launches=tuple(row), dependencies=(i - 1,) if i else ())
            for i, row in enumerate(rows)
        ),
        inputs=(),
        outputs=(0,),
        arena_bytes=0,
    )


def kernels_on(runtime):
    return RemoteKernels(runtime, compile_shared(_SOURCE, [f"-I{_NATIVE}"]), {})


@pytest.fixture(scope="module")
def kernels(runtime):
    return kernels_on(runtime)


@pytest.mark.parametrize("lanes", [1, 2])
def test_every_bit_is_that_of_a_local_run(
    connection, runtime, build_random, place_built, tmp_path, lanes, monkeypatch
):
    if lanes > connection.cores:
        pytest.skip(f"needs {lanes} cores, the device has {connection.cores}")
    monkeypatch.setattr(remote_kernels, "LARGEST_SENT_BYTES", 2048)  # some sent, some made up
    built = build_random(seed=9, size=12, opt_level=2)
    built.factory.export_library(str(tmp_path / "model.so"))
    params = built.factory.get_params()
    kernels = RemoteKernels(runtime, tmp_path / "model.so", params)
    for schedule in range(3):
        plan = lower_plan(built.graph, place_built(built, schedule), lanes=lanes)
        with RemoteExecutor(plan, kernels) as executor:
            assert executor.time_ns(3) > 0  # with numbers that are made up
            for name, value in {**params, "data": built.input}.items():
                executor.set_input(name, value if name == "data" else value.numpy())
            executor.run()
            for number, expected in enumerate(built.expected):
                actual = executor.get_output(number)
                np.testing.assert_array_equal(actual.view("uint32"), expected.view("uint32"))


def test_runs_are_counted(kernels):
    for groups in (1, 3):
        with RemoteExecutor(plan_of("count", "count", "count", groups=groups), kernels) as executor:
            executor.run()
            executor.time_ns(100)
            assert executor.get_output(0).item() == 303
            assert executor.ping_pong_ns() == 0


def test_made_up_parameters_have_the_spread_of_the_real_ones(connection, runtime):
    values = np.random.default_rng(1).normal(3, 0.5, 40_000)
    params = {
        "large": values.astype("float32"),
        "small": np.arange(7, dtype="float32"),
        "numbers": np.arange(40_000, dtype="int32"),
    }
    kernels = RemoteKernels(runtime, compile_shared(_SOURCE, [f"-I{_NATIVE}"]), params)
    for name, value in params.items():
        sent = connection.read(kernels._addresses[name], value.nbytes)
        actual = np.frombuffer(sent, value.dtype)
        if name == "large":
            assert not np.array_equal(actual, value)
            np.testing.assert_allclose([actual.mean(), actual.std()], [3, 0.5], rtol=0.05)
        else:
            np.testing.assert_array_equal(actual, value)


def test_a_packed_function_of_the_server_is_a_kernel(kernels):
    with RemoteExecutor(plan_of("tvm.contrib.random.random_fill"), kernels) as executor:
        executor.run()
        assert executor.get_output(0).item() != 0


def test_a_kernel_that_fails_is_named_and_the_device_goes_on(kernels):
    with RemoteExecutor(plan_of("count", "refuse"), kernels) as executor:
        for _ in range(2):
            with pytest.raises(ExecutionError, match=r"'refuse1' .*loopback.*the shape is wrong"):
                executor.run()
    with RemoteExecutor(plan_of("count"), kernels) as executor:
        executor.run()


def test_unknown_kernels_are_named(kernels):
    with pytest.raises(CostError, match="key 'loopback'.* fly"):
        RemoteExecutor(plan_of("fly"), kernels)


def test_more_lanes_than_cores_are_refused(kernels, connection):
    many = connection.cores + 1
    with pytest.raises(OptionError, match=f"lanes is {many}, .*'loopback'.* {connection.cores} co"):
        RemoteExecutor(plan_of("count"), kernels, lanes=many)


def test_inputs_that_do_not_fit_are_named(build_random, place_built, runtime, tmp_path):
    built = build_random(seed=9, size=12, opt_level=2)
    built.factory.export_library(str(tmp_path / "model.so"))
    kernels = RemoteKernels(runtime, tmp_path / "model.so", {})
    plan = lower_plan(built.graph, place_built(built, 0), lanes=1)
    with RemoteExecutor(plan, kernels) as executor:
        with pytest.raises(
            ExecutionError, match=r"'data' is float32\(1, 16, 8, 8\), but float64\(3,\)"
        ):
            executor.set_input("data", np.zeros(3))
        with pytest.raises(ExecutionError, match=r"'data' is float32.* equal length"):
            executor.set_input("data", [[1], [2, 3]])
        for key in (99, -1, 0.5, True):
            with pytest.raises(ExecutionError, match=f"no output {key}"):
                executor.get_output(key)
        with pytest.raises(ExecutionError, match="no input 'date'"):
            executor.set_input("date", np.zeros(3))


@pytest.mark.parametrize("kernel", ["hang", "crash"])
def test_a_kernel_that_takes_the_server_down_costs_an_error(start_rpc_server, kernel, monkeypatch):
    monkeypatch.setattr(remote_connection, "CALL_LIMIT_S", 1)
    with start_rpc_server(kernel) as device:
        with RemoteConnection(address_of(device)) as connection:
            executor = RemoteExecutor(
                plan_of("count", kernel), kernels_on(RemoteRuntime(connection))
            )
            with pytest.raises(CostError, match=f"key '{kernel}'.* was lost: it closed the conn"):
                executor.run()
            executor.close()
        assert device.becomes_free()


def test_memory_is_freed(kernels, runtime, connection, monkeypatch):
    freed, closed = Counter(), []
    call = connection.call

    def heard(name, *rest):
        if name == "free":
            functions = struct.unpack(f"<{len(rest[0]) // 8}q", rest[0])[::2]
            freed.update(functions)
        return call(name, *rest)

    monkeypatch.setattr(connection, "call", heard)
    monkeypatch.setattr(runtime, "pool_close", closed.append)
    for _ in range(3):
        RemoteExecutor(plan_of("count"), kernels).close()
    gc.collect()
    connection.free()
    names = ("tvm_ios_pool_free", "tvm_ios_program_free", "tvm_ios_plan_free")
    assert len(closed) == 3
    assert all(freed[runtime.library[name].address] >= 3 for name in names)
    assert freed[connection.find("", "free")] >= 3
