from __future__ import annotations

from contextlib import contextmanager

import pytest

from tvm_ios.support.stage_gate import GrantedStage, StageKind
from tvm_ios_lab.jobs.simulation.mock_job import batched_job, random_jobs

JOB = batched_job("a", 2, search_s=1.0, build_s=8.0, profile_s=3.0, update_s=2.0)


class Gate:
    """Three cores for everybody, written down."""

    waited_s = 0.0

    def __init__(self):
        self.log = []

    @contextmanager
    def stage(self, need):
        self.log.append(need.kind)
        yield GrantedStage(cores=(0, 1, 2))
        self.log.append("end")

    def tell(self, progress):
        self.log.append(progress.trials)


def test_a_job_goes_through_a_gate_from_any_stage():
    gate, slept = Gate(), []
    JOB.run(gate, slept.append, first=5)
    assert slept == [pytest.approx(8 / 3), 3.0, 2.0]
    assert gate.log == [
        StageKind.BUILD,
        "end",
        StageKind.PROFILE,
        128,
        "end",
        StageKind.UPDATE,
        "end",
    ]


def test_a_job_adds_up():
    assert (JOB.device_s, JOB.core_s) == (6.0, 22.0)
    assert JOB.alone_s(2) == 20.0
    assert (JOB.spec.trials, JOB.spec.batch) == (128, 64)


def test_random_jobs_follow_from_their_seed():
    assert random_jobs(3, 1) == random_jobs(3, 1)
    assert random_jobs(3, 1) != random_jobs(3, 2)
    for job in random_jobs(20, 0):
        assert 8 <= len(job.stages) // 4 <= 40
