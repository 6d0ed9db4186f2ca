"""What a model is compiled for, and on how many lanes it is measured."""

from __future__ import annotations

import pytest
import tvm
from tvm_ios.targets import (
    DEFAULT_STREAMS,
    MAX_STREAMS,
    require_cudnn,
    require_lanes,
    require_streams,
)

from tvm_ios.devices.gpu import GpuDevice
from tvm_ios.errors import OptionError
from tvm_ios.host import default_lanes
from tvm_ios.runtime.cuda_device import DeviceFacts
from tvm_ios.runtime.libraries.known import cudnn_library

H100 = GpuDevice(
    ordinal=0,
    facts=DeviceFacts(
        name="NVIDIA H100",
        compute_capability=(9, 0),
        multiprocessors=132,
        memory_bytes=80 << 30,
        l2_bytes=50 << 20,
        driver_version=12080,
    ),
)


def test_lanes_are_the_cores_where_omitted() -> None:
    assert require_lanes(None) == default_lanes()
    assert require_lanes(1) == 1


@pytest.mark.parametrize("lanes", [0, -1, True, 1.0, "2", 10**6])
def test_lanes_nobody_can_honour_are_refused(lanes) -> None:
    with pytest.raises(OptionError, match="lanes is"):
        require_lanes(lanes)


def test_streams_of_a_gpu_are_not_bound_to_cores() -> None:
    assert require_lanes(None, H100) == DEFAULT_STREAMS
    assert require_lanes(MAX_STREAMS, H100) == require_streams(MAX_STREAMS) == MAX_STREAMS
    with pytest.raises(OptionError, match="lanes is 33; give 1 to 32 streams"):
        require_lanes(MAX_STREAMS + 1, H100)


def test_a_gpu_says_what_its_prices_are_kept_under() -> None:
    assert H100.name == "NVIDIA H100 (sm_90), driver for CUDA 12.8"
    assert "warm L2 cache of 52 MB" in H100.as_text()


def test_cudnn_is_for_gpus_and_tf32_for_cudnn() -> None:
    cuda, cpu = tvm.target.Target("cuda -arch=sm_90"), tvm.target.Target("llvm")
    assert require_cudnn(False, False, cpu) == ()
    assert require_cudnn(False, False, None) == ()
    assert require_cudnn(True, False, cuda) == (cudnn_library(tf32=False),)
    assert require_cudnn(True, True, cuda) == (cudnn_library(tf32=True),)
    for target, named in ((cpu, "'llvm"), (None, "left out")):
        with pytest.raises(OptionError, match=f"cudnn is True, but the target is {named}"):
            require_cudnn(True, False, target)
    with pytest.raises(OptionError, match="tf32 is True.*give cudnn=True as well"):
        require_cudnn(False, True, cuda)
    with pytest.raises(OptionError, match="cudnn is 'yes'; give True or False"):
        require_cudnn("yes", False, cuda)
