"""Prices of stages of kernels of TVM 0.27, timed on lanes."""

from __future__ import annotations

import pytest
import tvm

from tests.relax.runtime import built
from tvm_ios.errors import CostError
from tvm_ios.host.processor import usable_cores
from tvm_ios.runtime.cpu.stage_runner import NativeStageRunner
from tvm_ios.runtime.libraries.processor import ThisProcessor

HALF = (built.ROWS // 2, built.COLUMNS)


@pytest.fixture
def runner():
    runner = NativeStageRunner(ThisProcessor(), min(2, len(usable_cores())))
    yield runner
    runner.close()


def test_any_stage_takes_time_and_a_wrong_one_tells_its_operator(runner, library):
    params = {"weight": tvm.runtime.tensor(built.values()[1])}
    views = [None] * 4
    number = runner.add_library(lambda: library.path, built.kernel_graph(), params, views)
    groups = [[(number, 0)], [(number, 1)]][: runner.lanes]
    assert runner.prepare(groups).time_ns(3) > 0
    assert runner.prepare([[(number, index) for index in range(4)]]).time_ns(3) > 0
    wrong = runner.add_library(lambda: library.path, built.kernel_graph(HALF), params, views)
    with pytest.raises(
        CostError, match=r"'shifted' failed .*: ValueError: Invalid data.shape\[0\]"
    ):
        runner.prepare([[(wrong, 1)]]).time_ns(1)
    assert runner.prepare(groups).time_ns(3) > 0
