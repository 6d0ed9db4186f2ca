"""The builder and the runner of AutoTVM's candidates, on devices that others have."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import tvm
from tvm import rpc

from tvm_ios.errors import DeviceLostError
from tvm_ios.runtime.rpc.address import DeviceAddress
from tvm_ios.support.stage_gate import GrantedStage
from tvm_ios.tuning.autotvm.measure import Measuring
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
