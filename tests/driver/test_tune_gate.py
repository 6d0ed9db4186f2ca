"""``tune`` as a job: the stages it passes a gate for, and how it goes on where it ended."""

from __future__ import annotations

import os

import numpy as np
import pytest
import tvm
from tvm import relay

import tvm_ios
from tests.driver.test_tune import COMPARE, MEASURE
from tests.tuning.autotvm.test_backend import measured
from tvm_ios import BuildOptions, TuneOptions
from tvm_ios.support.stage_gate import StageKind, gated_by
from tvm_ios.tuning.options import TuningOptions

TARGET = "llvm -mcpu=core-avx2 -opt-level=0"
KERNELS = TuningOptions(trials=4, number=1, repeat=1, min_repeat_ms=0, tuner="grid")
BUILD = BuildOptions(libraries=())
OPTIONS = TuneOptions(measure=MEASURE, compare=COMPARE, build=BUILD, kernels=KERNELS)


def two_branches():
    """Two convolutions that may run at a time, of different shapes."""
    data = relay.var("data", shape=(1, 16, 8, 8))
    branches = [
        relay.nn.conv2d(
            data,
            relay.var(f"weight{size}", shape=(16, 16, size, size)),
            channels=16,
            kernel_size=(size, size),
            padding=(size // 2, size // 2),
        )
        for size in (1, 3)
    ]
    body = relay.nn.relu(relay.add(*branches))
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(body))
    shapes = {size: (16, 16, size, size) for size in (1, 3)}
    return mod, {
        f"weight{size}": tvm.nd.array(np.ones(shape, "float32")) for size, shape in shapes.items()
    }


def tuned(folder, **given):
    """What a job does, with its log and its database in a folder."""
    return tvm_ios.tune(
        *two_branches(),
        TARGET,
        tuning="autotvm",
        tuning_records=folder / "autotvm.log",
        database=folder / "prices.sqlite",
        lanes=1,
        options=OPTIONS,
        **given,
    )


@pytest.mark.slow
@pytest.mark.usefixtures("shared_processes")
def test_a_job_ended_while_it_tunes_kernels_goes_on_from_its_log(recording_gate, tmp_path):
    log = tmp_path / "autotvm.log"

    def interrupt(step):
        if step.phase == "tune" and (step.done or 0) >= 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tuned(tmp_path, progress=interrupt)
    before = measured(log)
    assert before

    gate = recording_gate()
    with gated_by(gate):
        model = tuned(tmp_path)
    after = measured(log)
    assert len(after) == len(set(after))
    assert after[: len(before)] == before
    tasks = {task for task, _ in after}
    assert len(after) == KERNELS.trials * len(tasks)
    assert f"tell {len(after)} of {len(after)}" in gate.events

    kinds = gate.kinds
    batches = -(-(len(after) - len(before)) // 2)
    assert batches <= kinds.count("build") == kinds.count("search") <= batches + len(tasks)
    first, last = kinds.index("search"), len(kinds) - 1 - kinds[::-1].index("search")
    assert set(kinds[:first]) <= {"prepare", "profile"}
    assert kinds[last : last + 3] == ["search", "build", "profile"]
    assert set(kinds[last + 3 :]) == {"prepare", "profile"}
    named = {need.task: need.kind for need in gate.needs}
    assert named["build"] is named["build tuned"] is named["lower"] is StageKind.PREPARE
    assert named["search"] is named["check tuned"] is StageKind.PROFILE

    # Everything is known now: nothing is tuned, and nothing is priced.
    again = recording_gate()
    with gated_by(again):
        assert tuned(tmp_path).schedule == model.schedule
    assert "search" not in again.kinds
    assert measured(log) == after


@pytest.mark.slow
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core: there is no second lane")
def test_what_measures_asks_for_a_core_a_lane(busy_gate, tmp_path):
    gate = busy_gate
    options = TuneOptions(measure=MEASURE, compare=COMPARE, build=BUILD)
    with gated_by(gate):
        model = tvm_ios.tune(
            *two_branches(),
            TARGET,
            lanes=2,
            database=tmp_path / "prices.sqlite",
            options=options,
            time_budget=40_000.0,
        )
    # What waits for others has all the time that it was given; what cannot gain takes none of it.
    cuts = [note for note in model.tune_report.notes if "time_budget" in note]
    assert all("no other order was tried: " in cut for cut in cuts)
    profiles = [need for need in gate.needs if need.kind is StageKind.PROFILE]
    assert {need.task for need in profiles} >= {"search", "compare"}
    assert {(need.least_cores, need.most_cores) for need in profiles} == {(2, 2)}
    assert {need.least_cores for need in gate.needs if need not in profiles} == {1}
