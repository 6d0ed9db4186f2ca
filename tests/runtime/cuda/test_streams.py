"""The stream executor, TVM and its CUDA modules under a recording stand-in for CUDA."""

from __future__ import annotations

import pytest

IN_A_RUN = {
    "cuCtxSetCurrent",
    "cuEventRecord",
    "cuLaunchKernel",
    "cuStreamWaitEvent",
    "cudaGetDevice",
    "cudaSetDevice",
}
"""No allocation, and nothing that waits."""


def check_run(seen, lanes):
    assert seen["launches"] == []
    assert seen["unordered"] == []
    assert seen["sharing"] == []
    assert seen["needless"] == []
    assert (seen["strangers"], seen["shared_workspace"]) == (0, 0)
    assert seen["streams"] <= lanes
    assert seen["pointers"] > 0
    assert seen["live"] == {}


@pytest.mark.slow
@pytest.mark.parametrize("lanes", [1, 3])
def test_every_launch_is_on_its_stream_and_in_order(cuda_stand_in, lanes):
    seen = cuda_stand_in.run("streams", "small", lanes=lanes)
    check_run(seen, lanes)
    assert set(seen["calls"]) <= IN_A_RUN
    assert seen["shape"] == [1, 24, 8, 8]
    assert seen["timed"] > 0
    assert seen["streams"] == lanes


@pytest.mark.slow
def test_the_checks_see_a_wait_too_few_and_one_too_many(cuda_stand_in):
    *too_few, too_many = cuda_stand_in.run("faults", "small", lanes=3)["rows"]
    assert len(too_few) == 9
    assert all(unordered for unordered, _ in too_few)
    assert too_many == [0, 2]  # either of the two alike will do


NETWORKS = [pytest.param("squeezenet", marks=pytest.mark.full), "nasnet_small"]


@pytest.mark.slow
@pytest.mark.parametrize("lanes", [1, 2, 3, 4])
@pytest.mark.parametrize("model", NETWORKS)
def test_networks_are_in_order(cuda_stand_in, model, lanes):
    seen = cuda_stand_in.run("streams", model, lanes=lanes)
    check_run(seen, lanes)
    assert set(seen["calls"]) <= IN_A_RUN
    assert (seen["waits"] == 2) == (lanes == 1)


@pytest.mark.slow
@pytest.mark.parametrize("lanes", [2, 3])
def test_a_list_is_in_order_on_its_streams(cuda_stand_in, lanes):
    seen = cuda_stand_in.run("streams", "small", lanes=lanes, listed=True)
    check_run(seen, lanes)
    assert seen["streams"] == lanes


@pytest.mark.slow
@pytest.mark.parametrize("model", NETWORKS)
def test_lists_of_networks_are_in_order(cuda_stand_in, model):
    seen = cuda_stand_in.run("streams", model, lanes=4, listed=True)
    check_run(seen, 4)
    assert set(seen["calls"]) <= IN_A_RUN
