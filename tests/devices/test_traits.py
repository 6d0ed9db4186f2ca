"""How often a stage is timed in one program; pricing itself is tested through its users."""

from __future__ import annotations

import pytest

from tvm_ios.devices import traits

CORE, GPU = traits.CPU.rates, traits.GPU.rates


@pytest.mark.parametrize(
    ("rates", "stage_ns", "copies"),
    [
        (CORE, 0, 8),
        (CORE, 50_000, 8),
        (CORE, 100_000, 4),
        (CORE, 10_000_000, 1),
        (GPU, 3_000, 48),
        (GPU, 20_000, 10),
        (GPU, 1_000_000, 1),
    ],
)
def test_a_short_stage_is_timed_several_times_in_one_program(rates, stage_ns, copies):
    assert rates.copies(stage_ns) == copies


def test_the_start_of_a_graph_is_shared_by_what_takes_longer():
    assert all(GPU.copies(ns) * ns > 130_000 for ns in range(GPU.least_ns, 400_000, 500))
