"""Progress as data: phases are counted, listeners told, lines shown where a person looks."""

from __future__ import annotations

import io

import pytest

from tvm_ios.support.progress import PhaseClock, Progress, StderrProgress
from tvm_ios.support.stage_gate import StageNeed


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_phase_that_is_a_stage_passes_the_gate_and_is_named_after_the_phase(
    recording_gate,
) -> None:
    gate = recording_gate()
    clock = PhaseClock(gate=gate)
    with clock.phase("tune"), clock.phase("build", StageNeed.to_prepare(2)):
        assert gate.is_open
    with clock.phase("check", StageNeed.to_profile(2, "two lanes")):
        pass
    assert [need.task for need in gate.needs] == ["build", "two lanes"]
    assert gate.kinds == ["prepare", "profile"]
    assert list(clock.phase_s) == ["build", "tune", "check"]


def test_the_clock_names_phases_in_order_and_adds_them_up() -> None:
    steps: list[Progress] = []
    clock = PhaseClock(steps.append)
    with clock.phase("build"):
        pass
    with clock.phase("search"):
        clock.say("half way", done=3)
    with clock.phase("build"):
        pass
    assert list(clock.phase_s) == ["build", "search"]
    assert all(seconds >= 0 for seconds in clock.phase_s.values())
    assert [(step.phase, step.detail, step.done) for step in steps] == [
        ("build", "", None),
        ("search", "", None),
        ("search", "half way", 3),
        ("build", "", None),
    ]
    elapsed = [step.elapsed_s for step in steps]
    assert elapsed == sorted(elapsed)


def test_a_phase_that_fails_is_counted() -> None:
    clock = PhaseClock()
    with pytest.raises(ZeroDivisionError), clock.phase("search"):
        raise ZeroDivisionError
    assert set(clock.phase_s) == {"search"}


def test_a_file_gets_a_line_a_phase() -> None:
    stream = io.StringIO()
    with StderrProgress(stream=stream) as show:
        show(Progress(phase="build", elapsed_s=0.5))
        for done in range(5):
            show(Progress(phase="search", detail="block 1", done=done, elapsed_s=2.0))
        show(Progress(phase="compare", elapsed_s=12.25))
    assert stream.getvalue().splitlines() == [
        "[   0.5 s] build",
        "[   2.0 s] search 0 stages priced, block 1",
        "[  12.2 s] compare",
    ]


def test_a_terminal_gets_one_moving_line_a_phase() -> None:
    stream = Terminal()
    with StderrProgress(stream=stream, min_interval_s=0.0) as show:
        show(Progress(phase="search", detail="a long detail"))
        show(Progress(phase="search", detail="short"))
        show(Progress(phase="compare"))
    first, second, end = stream.getvalue().split("\n")
    assert first.split("\r") == [
        "",
        "[   0.0 s] search a long detail",
        "[   0.0 s] search short        ",
    ]
    assert second.strip("\r ") == "[   0.0 s] compare"
    assert end == ""


def test_steps_that_come_too_fast_are_left_out() -> None:
    stream = Terminal()
    show = StderrProgress(stream=stream, min_interval_s=3600.0)
    for done in range(100):
        show(Progress(phase="search", done=done))
    assert stream.getvalue().count("\r") == 1


def test_a_line_never_wraps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    stream = Terminal()
    show = StderrProgress(stream=stream, min_interval_s=0.0)
    show(Progress(phase="search", detail="x" * 200))
    assert len(stream.getvalue().strip("\r")) == 29


def test_silence_leaves_nothing_behind() -> None:
    stream = Terminal()
    with StderrProgress(stream=stream):
        pass
    assert stream.getvalue() == ""
