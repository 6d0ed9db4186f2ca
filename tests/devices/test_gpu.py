"""A GPU of this machine as a device: streams, names, and what it does not allow."""

from __future__ import annotations

import pytest
import tvm

from tests.devices.conftest import H100
from tvm_ios.devices.gpu import DEFAULT_STREAMS, MAX_STREAMS, require_streams
from tvm_ios.errors import OptionError


def test_streams_of_a_gpu_are_not_bound_to_cores() -> None:
    assert H100.require_lanes(None) == DEFAULT_STREAMS
    assert H100.require_lanes(MAX_STREAMS) == require_streams(MAX_STREAMS) == MAX_STREAMS
    with pytest.raises(OptionError, match="lanes is 33; give 1 to 32 streams"):
        H100.require_lanes(MAX_STREAMS + 1)


def test_a_gpu_says_what_its_prices_are_kept_under() -> None:
    assert H100.name == "NVIDIA H100 (sm_90), driver for CUDA 12.8"
    assert "warm L2 cache of 50 MB" in H100.as_text()
    assert H100.notes == (f"priced and raced on {H100.as_text()}",)


def test_kernels_are_compiled_for_its_architecture() -> None:
    assert str(tvm.target.Target(H100.target).attrs["arch"]) == "sm_90"


def test_what_streams_do_not_do() -> None:
    traits = H100.traits
    given = traits.idle_lanes_help, traits.pads_channels, traits.tunes_float16
    assert given == (False, False, False)
