"""The graph executor, TVM and its CUDA modules under a recording stand-in for CUDA."""

from __future__ import annotations

import pytest

IN_A_CAPTURE = {
    "cuEventRecord",
    "cuLaunchKernel",
    "cuStreamWaitEvent",
    "cudaGetDevice",
    "cudaSetDevice",
}


def check_replays(seen):
    replay = {"launches": 1, "kernels": 0, "captures": 0}
    anew = {"launches": 1, "kernels": seen["nodes"][0], "captures": 1}
    assert seen["runs"] == [replay, replay, anew, anew, replay]
    assert seen["captures"] == 3
    assert seen["nodes"] == seen["kernels"]
    assert len(set(seen["nodes"])) == 1
    assert set(seen["inside"]) == IN_A_CAPTURE
    assert seen["warm"]
    assert seen["bound"] == [True, True]
    assert seen["zero_copy"]
    assert seen["fallback"] is None
    assert seen["timed"] > 0
    for wrong in ("launches", "unordered", "needless", "sharing"):
        assert seen[wrong] == []
    assert seen["live"] == {}


@pytest.mark.slow
@pytest.mark.parametrize("lanes", [1, 3])
def test_one_launch_replays_what_was_captured(cuda_stand_in, lanes):
    check_replays(cuda_stand_in.run("graph", "small", lanes=lanes))


@pytest.mark.slow
@pytest.mark.parametrize("lanes", [1, 2, 3, 4])
@pytest.mark.parametrize(
    "model", [pytest.param("squeezenet", marks=pytest.mark.full), "nasnet_small"]
)
def test_networks_are_captured_in_order(cuda_stand_in, model, lanes):
    check_replays(cuda_stand_in.run("graph", model, lanes=lanes))


@pytest.mark.slow
@pytest.mark.parametrize("lanes", [1, 3])
def test_workspace_belongs_to_a_stream_and_is_there_before_the_capture(cuda_stand_in, lanes):
    seen = cuda_stand_in.run("workspace", "sorting", lanes=lanes)
    for wrong in ("launches", "unordered", "needless", "sharing", "allocations"):
        assert seen[wrong] == []
    assert (seen["strangers"], seen["shared_workspace"]) == (0, 0)
    assert seen["workspace"] >= lanes
    assert 0 < seen["used"] <= seen["sizes"]
    # The file was loaded again by stock TVM, the graph captured again: with the same workspace.
    assert seen["captures"] == 2
    assert seen["same"]
    assert seen["live"] == {}


@pytest.mark.parametrize("kernel", ["waiting_kernel", "allocating_kernel"])
@pytest.mark.slow
def test_streams_take_over_what_cannot_be_captured(cuda_stand_in, kernel):
    seen = cuda_stand_in.run("other_kernel", "small", kernel=kernel)
    (warning,) = seen["graph"]["warnings"]
    assert "runs on streams, not as a CUDA graph" in warning
    assert repr(seen["operator"]) in warning
    assert "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED" in warning
    assert "cuda_graph=False" in warning
    assert seen["graph"]["fallback"] in warning
    assert seen["graph"]["error"] is None
    assert seen["streams"] == {"warnings": [], "fallback": None, "error": None}
    assert seen["replays"] == 0
    assert seen["live"] == {}


@pytest.mark.slow
def test_a_kernel_that_fails_is_no_reason_for_streams(cuda_stand_in):
    seen = cuda_stand_in.run("other_kernel", "small", kernel="failing_kernel")
    for way in ("graph", "streams"):
        assert f"operator {seen['operator']!r} (kernel failing_kernel" in seen[way]["error"]
        assert seen[way]["error"].startswith("CudaCallError")
        assert (seen[way]["warnings"], seen[way]["fallback"]) == ([], None)
    assert seen["live"] == {}
