"""What a model is compiled for, and which device of this machine that is."""

from __future__ import annotations

import pytest
import tvm

from tvm_ios.devices.gpu import MAX_STREAMS
from tvm_ios.devices.local import LocalCpu
from tvm_ios.devices.targets import (
    lanes_for_target,
    local_device,
    require_cudnn,
    require_onednn,
)
from tvm_ios.errors import OptionError
from tvm_ios.host import default_lanes
from tvm_ios.runtime.libraries.known import cudnn_library, onednn_library

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


def test_cudnn_is_for_gpus_and_tf32_for_cudnn() -> None:
    assert require_cudnn(False, False, CPU) == ()
    assert require_cudnn(False, False, None) == ()
    assert require_cudnn(True, False, CUDA) == (cudnn_library(tf32=False),)
    assert require_cudnn(True, True, CUDA) == (cudnn_library(tf32=True),)
    for target, named in ((CPU, "'llvm"), (None, "left out")):
        with pytest.raises(OptionError, match=f"cudnn is True, but the target is {named}"):
            require_cudnn(True, False, target)
    with pytest.raises(OptionError, match="tf32 is True.*give cudnn=True as well"):
        require_cudnn(False, True, CUDA)
    with pytest.raises(OptionError, match="cudnn is 'yes'; give True or False"):
        require_cudnn("yes", False, CUDA)


def test_onednn_is_for_cpus() -> None:
    assert require_onednn(False, CUDA) == ()
    assert require_onednn(True, CPU) == require_onednn(True, None) == (onednn_library(),)
    with pytest.raises(OptionError, match="onednn is True, but the target is 'cuda.*cudnn=True"):
        require_onednn(True, CUDA)
    with pytest.raises(OptionError, match="onednn is 'yes'; give True or False"):
        require_onednn("yes", CPU)
