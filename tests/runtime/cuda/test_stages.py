"""Stages priced on a GPU: by the clock of the stand-in, in which a kernel takes a microsecond."""

from __future__ import annotations

import shutil

import pytest

from tvm_ios.runtime.cuda.stages import stage_groups

KERNEL_NS, VIEW_NS = 1000, 1


def test_a_stage_repeats_its_groups_copy_after_copy():
    groups = stage_groups([[4, 1], [2]], [1, 0], copies=2)
    assert [group.launches for group in groups] == [(4, 1), (2,), (4, 1), (2,)]
    assert [group.dependencies for group in groups] == [(), (), (0, 1), (0, 1)]
    assert [(group.stage, group.position) for group in groups] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert [group.lane for group in groups] == [1, 0, 1, 0]


# Slices are views at batch one, so a merged convolution is one kernel. In the small network the
# concatenation of two of its members and a pooling is no view any more.
@pytest.mark.parametrize(
    ("model", "merged"),
    [
        ("small", [2 * KERNEL_NS]),
        ("workspace", [KERNEL_NS]),
        ("bfloat16", [KERNEL_NS]),
        pytest.param("squeezenet", [], marks=pytest.mark.full),
    ],
)
@pytest.mark.slow
def test_a_stage_costs_what_its_longest_group_costs(cuda_stand_in, tmp_path, model, merged):
    check_prices(
        cuda_stand_in.run("priced", network_name=model, database_folder=str(tmp_path)), merged
    )


def check_prices(seen, merged):
    """Each stage costs as much as the kernels of its longest group, and each library loads once."""
    assert seen["rows"]
    for price, longest, _ in seen["rows"]:
        assert price == longest
    assert max(groups for _, _, groups in seen["rows"]) > 1
    assert {cost % KERNEL_NS for cost in seen["alone_ns"] if cost != VIEW_NS} == {0}
    assert seen["merged"] == merged
    assert seen["images"] == seen["libraries"] < seen["measured"]  # a library is loaded once
    assert seen["graphs"] + seen["alone_ns"].count(VIEW_NS) >= seen["measured"] > 0
    assert any("clocks are not known" in note for note in seen["notes"])
    assert seen["live"] == {}


@pytest.mark.slow
def test_tuning_keeps_a_schedule_on_several_streams(cuda_stand_in, tmp_path):
    seen = cuda_stand_in.run("tuned", network_name="small", database_folder=str(tmp_path))
    first, second = seen["runs"]
    for run in seen["runs"]:
        assert run["kept"] != "sequential"
        assert run["fallback"] is None
        assert run["took"] < 10 * KERNEL_NS * run["launches"]
    assert "0 measured" not in first["text"]
    assert second["launches"] == first["launches"]
    assert seen["live"] == {}


@pytest.mark.slow
@pytest.mark.parametrize(
    "backend", ["autotvm", pytest.param("auto_scheduler", marks=pytest.mark.full)]
)
def test_kernels_are_tuned_by_tvm(cuda_stand_in, tmp_path, backend):
    if backend == "auto_scheduler" and shutil.which("nvcc") is None:
        pytest.skip("auto_scheduler's builder compiles device code, which needs nvcc on PATH")
    seen = cuda_stand_in.run(
        "kernels_tuned", network_name="one", database_folder=str(tmp_path), backend=backend
    )
    assert seen["good"] == seen["records"] > 0
    assert "cuda" in seen["lines"][0]
    assert "tuned kernels, " in seen["text"]
    assert seen["live"] == {}


@pytest.mark.slow(1)
def test_what_tuning_needs_is_told(cuda_stand_in):
    errors = cuda_stand_in.run("no_gpu", network_name="small")
    assert "give 1 to 32 streams" in errors["lanes"]
    assert "run tune there, without rpc_tracker" in errors["tracker"]
    assert "the kernels are for sm_90, but Stand-in is sm_80" in errors["arch"]
    for words in ("the driver shows 0 GPUs", "tvm_ios.compile_schedule", "tvm-ios solve --gpu"):
        assert words in errors["none"]
