"""What a model is compiled for, and which device of this machine that is."""

from __future__ import annotations

import pytest
import tvm

from tvm_ios.devices.gpu import MAX_STREAMS
from tvm_ios.devices.local import LocalCpu
from tvm_ios.devices.targets import (
    lanes_for_target,
    local_device,
)
from tvm_ios.errors import OptionError
from tvm_ios.host import default_lanes

CUDA, CPU = tvm.target.Target("cuda -arch=sm_90"), tvm.target.Target("llvm")


def test_lanes_of_a_model_that_is_not_measured() -> None:
    assert lanes_for_target(None, CPU) == lanes_for_target(None, None) == default_lanes()
    assert lanes_for_target(1, CPU) == 1
    # As many as the schedule can use.
    assert lanes_for_target(None, CUDA) is None
    assert lanes_for_target(MAX_STREAMS, CUDA) == MAX_STREAMS
    with pytest.raises(OptionError, match="lanes is 33; give 1 to 32 streams"):
        lanes_for_target(MAX_STREAMS + 1, CUDA)
    for target in (CPU, None):
        with pytest.raises(OptionError, match="lanes is 0, but this process may use"):
            lanes_for_target(0, target)


def test_a_cpu_target_is_for_the_cpu_of_this_machine() -> None:
    assert local_device(CPU) == LocalCpu()
    with pytest.raises(OptionError, match="target is 'opencl.*llvm and cuda targets"):
        local_device(tvm.target.Target("opencl"))
