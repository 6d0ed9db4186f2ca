"""Stages priced on a GPU under TVM 0.27: tests of Relay's, and which merges Relax has."""

from __future__ import annotations

import pytest

from tests.runtime.cuda.test_stages import (  # noqa: F401 - tests
    KERNEL_NS,
    check_prices,
    test_tuning_keeps_a_schedule_on_several_streams,
)


# Relax merges no convolutions that somebody casts.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "merged"),
    [("small", [2 * KERNEL_NS]), ("workspace", [KERNEL_NS]), ("bfloat16", [])],
)
def test_a_stage_costs_what_its_longest_group_costs(cuda_stand_in, tmp_path, model, merged):
    check_prices(
        cuda_stand_in.run("priced", network_name=model, database_folder=str(tmp_path)), merged
    )


@pytest.mark.slow(1)
def test_what_tuning_needs_is_told(cuda_stand_in):
    errors = cuda_stand_in.run("no_gpu", network_name="small")
    assert "give 1 to 32 streams" in errors["lanes"]
    assert "needs a TVM with Relay" in errors["tracker"]
    assert "the kernels are for sm_90, but Stand-in is sm_80" in errors["arch"]
    assert "the driver shows 0 GPUs" in errors["none"]
