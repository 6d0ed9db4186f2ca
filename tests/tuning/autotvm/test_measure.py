"""The builder and the runner of AutoTVM's candidates, on devices that others have."""

from __future__ import annotations

import pickle
from types import SimpleNamespace

import pytest
import tvm
from tvm import autotvm, rpc, te, tir
from tvm.contrib import tar

from tests.tuning.ansor.test_workers import code_in
from tvm_ios.errors import DeviceLostError
from tvm_ios.runtime.rpc.address import DeviceAddress
from tvm_ios.support.exact_bits import exact_bits
from tvm_ios.support.stage_gate import GrantedStage
from tvm_ios.tuning.autotvm.measure import ArithmeticBuild, Measuring
from tvm_ios.tuning.device_options import DeviceOptions
from tvm_ios.tuning.options import TuningOptions


@pytest.mark.slow
def test_limits_of_kernels_are_not_waited_for_without_end(start_rpc_server, monkeypatch):
    task = SimpleNamespace(target=tvm.target.Target("cuda -arch=sm_80"))
    kwargs = {"options": TuningOptions(), "device": DeviceOptions(), "gpu": True, "width": 1}
    monkeypatch.setattr("tvm_ios.tuning.autotvm.measure.WAIT_LIMIT_S", 1.0)
    with start_rpc_server("held") as device, Measuring(**kwargs) as measuring:
        address = DeviceAddress(host=device.host, port=device.port, key=device.key)
        granted = GrantedStage(cores=(0,), device="d", address=f"{address.tracker}:held")
        held = rpc.connect_tracker(device.host, device.port).request("held")
        with pytest.raises(DeviceLostError, match=r"key 'held'.* does not answer: not within 1 s"):
            measuring.learn_limits(granted, task)
        del held
        device.kill()
        with pytest.raises(DeviceLostError, match="rpc_server --tracker"):
            measuring.learn_limits(granted, task)


@autotvm.template("tests.erf")
def erf_in_blocks():
    """A template with mathematics, which TVM's own for CPUs do not have."""
    x = te.placeholder((64,), name="x")
    y = te.compute((64,), lambda i: tir.erf(x[i]), name="y")
    schedule = te.create_schedule(y.op)
    autotvm.get_config().add_flop(64)
    autotvm.get_config().define_split("lanes", y.op.axis[0], num_outputs=2)
    autotvm.get_config()["lanes"].apply(schedule, y, y.op.axis[0])
    return schedule, [x, y]


def test_candidates_are_built_as_kernels_are(tmp_path):
    """Mathematics of a candidate by arithmetic; by libm where bits are exact."""
    task = autotvm.task.create("tests.erf", args=(), target="llvm")
    candidate = autotvm.MeasureInput(task.target, task, task.config_space.get(0))
    stock = autotvm.measure.measure_methods._WrappedBuildFunc(tar.tar)
    for build, calls in ((stock, True), (ArithmeticBuild(stock), False)):
        built = build(candidate, str(tmp_path))
        assert built.error is None, built.error
        assert (b"erff" in code_in(built.filename)) is calls


@pytest.mark.parametrize(("gpu", "exact", "ours"), [(0, 0, 1), (1, 0, 0), (0, 1, 0)])
def test_builders_for_cpus_have_vector_mathematics_unless_bits_are_exact(gpu, exact, ours):
    kwargs = {"options": TuningOptions(), "device": DeviceOptions(), "gpu": bool(gpu), "width": 1}
    with exact_bits(bool(exact)), Measuring(**kwargs) as measuring:
        build = measuring._builder.build_func
    assert isinstance(build, ArithmeticBuild) is bool(ours)
    assert type(pickle.loads(pickle.dumps(build))) is type(build)
