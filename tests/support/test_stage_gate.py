from __future__ import annotations

import os

from tvm_ios.support.stage_gate import (
    JobProgress,
    OpenGate,
    StageGate,
    StageKind,
    StageNeed,
    gate_around,
    gated_by,
)


def test_an_open_gate_grants_every_usable_core() -> None:
    gate: StageGate = OpenGate()
    with gate.stage(StageNeed(kind=StageKind.PROFILE)) as granted:
        assert set(granted.cores) == os.sched_getaffinity(0)
        assert not granted.device
    gate.tell(JobProgress(trials=1))


def test_only_profiling_measures() -> None:
    assert [kind for kind in StageKind if kind.measures] == [StageKind.PROFILE]


def test_a_gate_is_around_what_is_inside_of_it() -> None:
    outside, gate, inner = OpenGate(), OpenGate(most_cores=7), OpenGate(most_cores=8)
    assert gate_around(outside) is outside
    with gated_by(gate):
        with gated_by(inner):
            assert gate_around(outside) is inner
        assert gate_around(outside) is gate
    assert gate_around(outside) is outside


def test_what_measures_needs_all_of_its_cores() -> None:
    assert StageNeed.to_profile(3).least_cores == StageNeed.to_profile(3).most_cores == 3
    assert StageNeed.to_prepare(3).least_cores == 1
