"""A gate that counts what passes another one."""

from __future__ import annotations

import pytest

from tvm_ios.support.stage_gate import StageKind, StageNeed
from tvm_ios.support.timed_gate import TimedGate


class Clock:
    now_s = 100.0

    def __call__(self):
        return self.now_s


def _fail_after(gate, clock, seconds):
    with gate.stage(StageNeed.to_profile(1)):
        clock.now_s += seconds
        raise ZeroDivisionError


def test_waiting_and_measuring_are_counted(recording_gate):
    inner, clock = recording_gate(waits_s=2.0, most_cores=3), Clock()
    gate = TimedGate(inner=inner, clock_s=clock)
    assert (gate.most_cores, gate.stages, gate.utilisation) == (3, 0, 0.0)
    for kind, seconds in ((StageKind.BUILD, 4.0), (StageKind.PROFILE, 6.0)):
        with gate.stage(StageNeed(kind=kind)) as granted:
            clock.now_s += seconds
        assert granted.cores
    with pytest.raises(ZeroDivisionError):
        _fail_after(gate, clock, 2.0)
    clock.now_s += 4.0
    assert (gate.stages, gate.waited_s, gate.measured_s) == (3, 6.0, 8.0)
    assert gate.utilisation == 0.5
    assert inner.kinds == ["build", "profile", "profile"]
