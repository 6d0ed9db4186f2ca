"""Schedules that are lowered onto compiled kernels."""

from __future__ import annotations

import numpy as np
import pytest

import tvm_ios
from tests.relay_modules import weights_of_bytes
from tvm_ios.compile.built_model import build_prepared
from tvm_ios.compile.lower import lower_schedule
from tvm_ios.host import host_target
from tvm_ios.relay.prepare import prepare
from tvm_ios.search.baselines import greedy_schedule, sequential_schedule


@pytest.mark.slow
def test_weights_of_bytes_take_as_many_in_a_file_and_no_order_changes_bits(tmp_path) -> None:
    built = build_prepared(prepare(weights_of_bytes(), None, host_target()))
    data = np.random.default_rng(0).standard_normal((1, 16, 12, 12), "float32")
    weights = 512 * 144 + 2 * 640 * 512 + 200 * 640
    results = []
    for schedule in (sequential_schedule(built.graph), greedy_schedule(built.graph)):
        compiled = lower_schedule(built, schedule, lanes=2)
        path = tmp_path / f"{schedule.scheduler}.so"
        compiled.export_library(path)
        assert weights < path.stat().st_size < 2 * weights
        with compiled.executor() as here, tvm_ios.load(path) as loaded:
            for executor in (here, loaded):
                executor.run(data=data)
                results.append(executor.get_output(0).numpy())
    for each in results[1:]:
        np.testing.assert_array_equal(each, results[0])
