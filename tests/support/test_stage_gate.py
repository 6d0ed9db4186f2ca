from __future__ import annotations

import os

from tvm_ios.support.stage_gate import JobProgress, OpenGate, StageGate, StageKind, StageNeed


def test_an_open_gate_grants_every_usable_core() -> None:
    gate: StageGate = OpenGate()
    with gate.stage(StageNeed(kind=StageKind.PROFILE)) as granted:
        assert set(granted.cores) == os.sched_getaffinity(0)
        assert not granted.device
    gate.tell(JobProgress(trials=1))


def test_only_profiling_measures() -> None:
    assert [kind for kind in StageKind if kind.measures] == [StageKind.PROFILE]
