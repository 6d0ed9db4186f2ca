"""The call that something is measured for: its patience, conditions and database."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.pricing import LANES, MEASURE
from tvm_ios.compile.built_model import BuiltModel
from tvm_ios.compile.dialects import relay
from tvm_ios.compile.lower import lower_schedule
from tvm_ios.cost.database import open_database
from tvm_ios.devices.local import LocalCpu
from tvm_ios.errors import DatabaseError
from tvm_ios.measure.compare import CompareOptions
from tvm_ios.measure.machine_mode import ModeOptions
from tvm_ios.measure.sampling import MeasureOptions
from tvm_ios.profile.last_race import Racer, run_last_race
from tvm_ios.profile.measured_kernels import MeasuredKernels, measure_operators
from tvm_ios.profile.measuring_call import MeasuringCall, profile_context
from tvm_ios.profile.race import race
from tvm_ios.profile.stage_kernels import StageKernels
from tvm_ios.report.tune_report import Contestant
from tvm_ios.search.baselines import sequential_schedule
from tvm_ios.support.stage_gate import StageNeed


def test_a_stage_passes_the_gate_and_is_named_after_its_phase(
    recording_gate, tmp_path: Path
) -> None:
    gate = recording_gate()
    call = replace(MeasuringCall.here(lanes=1, database=tmp_path / "p.sqlite"), gate=gate)
    with call.clock.phase("tune"), call.stage("build", StageNeed.to_prepare(2)):
        assert gate.is_open
    with call.stage("check", StageNeed.to_profile(2, "two lanes")) as granted:
        assert call.at(granted) == call  # no device of its own
    assert [need.task for need in gate.needs] == ["build", "two lanes"]
    assert gate.kinds == ["prepare", "profile"]
    assert list(call.clock.phase_s) == ["build", "tune", "check"]


@pytest.mark.slow(1)
@pytest.mark.skipif(LANES < 2, reason="one lane is never slow")
def test_pricing_and_races_of_a_call_wait_once(
    branching_built: BuiltModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a machine that is always slow; the last race of a call waits for as long once more."""
    # Tests have no patience where the pause is the real one; this one is as real, and waits.
    monkeypatch.setattr("time.sleep", lambda seconds, sleep=time.sleep: sleep(seconds))
    always = ModeOptions(slow_ns=1e-6, patience_s=0.4)
    in_order = sequential_schedule(branching_built.graph)
    model = lower_schedule(branching_built, in_order, lanes=LANES)
    options = CompareOptions(rounds=6, min_repeat_ms=0.05, mode=always)
    measure = replace(MEASURE, mode=always)
    call = replace(MeasuringCall.here(lanes=LANES, compare=options), measure=measure)
    assert call.patience.spent_ns == 0
    with (
        call.open() as session,
        StageKernels(branching_built, lanes=LANES, session=session) as runner,
    ):
        measure_operators(MeasuredKernels(runner, options=measure))
    spent_ns = call.patience.spent_ns
    assert spent_ns >= 200_000_000
    assert call.patience.left_s == 0
    with call.open() as session:
        assert len(race({"one": model}, options=options, session=session).rounds) == 6
        assert call.patience.spent_ns == spent_ns
        racer = Racer(built=branching_built, schedule=in_order, records="", lower=lambda _: model)
        last = run_last_race({Contestant.SEQUENTIAL: racer}, session, call)
        # Of rounds there are more than 6, but where others had the cores while it waited.
        assert len(last.rounds) >= 6
        # All of it is spent now, were it before: a disturbed sample may cost more than was left.
        assert call.patience.spent_ns >= 400_000_000


@pytest.mark.skipif(LANES < 2, reason="one lane is never slow")
def test_a_call_waits_for_a_quiet_machine_once(caplog: pytest.LogCaptureFixture) -> None:
    """A limit of no nanosecond makes each machine a slow one; the second session does not wait."""
    mode = ModeOptions(slow_ns=1e-6)
    call = replace(
        MeasuringCall.here(lanes=LANES), measure=MeasureOptions(mode=mode, wait_quiet_s=0.3)
    )
    for _ in range(2):
        with call.open():
            pass
    assert [message.partition(":")[0] for message in caplog.messages] == [
        "waiting for a quiet machine",
        "the machine is not quiet after 0 s; measuring goes on",
    ]
    assert "the machine was in its slow mode" in caplog.messages[0]
    assert call.clock.phase_s["wait for a quiet machine"] >= 0.3
    assert call.patience.spent_ns == 0


def test_the_context_tells_lanes_and_targets_apart(branching_built: BuiltModel) -> None:
    target = branching_built.prepared.target
    here = LocalCpu()
    assert profile_context(target, 1, here) == profile_context(target, 1, LocalCpu())
    assert profile_context(target, 1, here) != profile_context(target, 2, here)


def test_the_context_tells_compilers_apart(
    branching_built: BuiltModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    contexts = [profile_context(branching_built.prepared.target, 1, LocalCpu())]
    for llvm in ("16.0.6", "18.1.8"):
        monkeypatch.setattr(relay, "compilers_here", lambda llvm=llvm: ("0.17.0", "abc", llvm))
        contexts.append(profile_context(branching_built.prepared.target, 1, LocalCpu()))
    assert len({context.digest() for context in contexts}) == 3


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "not.sqlite"
    path.write_bytes(b"no database at all" * 100)
    with pytest.raises(DatabaseError, match=r"not\.sqlite"):
        open_database(path)
