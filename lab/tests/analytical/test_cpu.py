from __future__ import annotations

import pytest

from tvm_ios.errors import OptionError
from tvm_ios_lab.analytical.cpu import CPU, MOST_CORES


def test_a_core_does_what_the_data_sheet_says_and_shared_caches_grow_with_cores():
    two, sixteen = CPU.of_cores(2), CPU.of_cores(16)
    assert two.flops_per_ns == sixteen.flops_per_ns == pytest.approx(118.4)
    assert (two.l3_bytes, sixteen.l3_bytes) == (32 << 20, 64 << 20)
    assert two.memory_gb_per_s < sixteen.memory_gb_per_s
    assert CPU.of_cores(MOST_CORES).memory_gb_per_s == 461
    assert sixteen.as_text() == (
        "AMD EPYC 9004 (Zen 4): 16 cores at 3700 MHz, 118 GFLOP/s float32 each, 461 GB/s, L3 64 MB"
    )


@pytest.mark.parametrize("cores", [0, -1, MOST_CORES + 1, 1.5, "4", True, None])
def test_other_numbers_of_cores_are_refused(cores):
    with pytest.raises(OptionError, match=f"cores is {cores!r}; give a whole number from 1 to 96"):
        CPU.of_cores(cores)
