"""The table of efficiencies from samples: medians of distinct operators, and spreads that hold."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tvm_ios.cost.efficiencies import Spread
from tvm_ios.host.lane_speeds import LaneSpeeds
from tvm_ios_lab.scripts.efficiencies import FEW_SPREAD, LEAST_SPREAD, Sample, held_against, rows_of

SAMPLE = Sample(
    network="a",
    workload="w0",
    kind="conv2d",
    flops=1 << 24,
    memory_bytes=1 << 18,
    layout="NHWC/HWIO//float32/float32/float32",
    maker="onednn",
    alone_ns=200,
    helped_ns=125,
    lanes=2,
)
SPEEDS = LaneSpeeds(
    flops_per_ns=(1 << 24) / 100,
    memory_bytes_per_ns=1e6,
    shared_bytes_per_ns=1e6,
    cached_bytes_per_ns=1e6,
    cache_bytes=1 << 20,
    hop_ns=60,
    launch_ns=5,
)


def test_a_row_is_the_median_of_distinct_operators():
    (row,) = rows_of(
        [
            replace(SAMPLE, workload=f"w{alone_ns}", alone_ns=alone_ns, helped_ns=alone_ns)
            for alone_ns in (100, 200, 250, 250, 400)
        ],
        SPEEDS,
    )
    assert (row.kind, row.maker, row.count) == ("conv2d, channels last", "onednn", 4)
    assert row.reached == pytest.approx(0.45)
    assert row.serial == 1


def test_a_spread_is_never_small_and_for_few_operators_larger():
    (few,) = rows_of([SAMPLE], SPEEDS)
    assert (few.spread, few.serial) == (Spread(faster=FEW_SPREAD, slower=FEW_SPREAD), 0.25)
    (many,) = rows_of([replace(SAMPLE, workload=f"w{number}") for number in range(9)], SPEEDS)
    assert many.spread == Spread(faster=LEAST_SPREAD, slower=LEAST_SPREAD)


def test_a_network_is_predicted_from_the_others():
    other = replace(SAMPLE, network="b", workload="w1", alone_ns=400, helped_ns=250)
    table = held_against([SAMPLE, other], SPEEDS)
    assert table.rows == (("conv2d, channels last", "onednn", "2", "1.00", "2.00", "2.00", "0%"),)
