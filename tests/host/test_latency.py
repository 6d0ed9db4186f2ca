from __future__ import annotations

import os

import pytest

from tvm_ios.host.latency import LatencyMode, core_to_core_ns, latency_mode


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_a_hop_between_cores_is_measured():
    hop_ns = core_to_core_ns()
    assert hop_ns is None or hop_ns > 1


def test_modes():
    assert latency_mode(60.0) is LatencyMode.FAST
    assert latency_mode(360.0) is LatencyMode.SLOW
