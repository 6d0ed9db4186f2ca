"""Progress as data: phases are counted and listeners told."""

from __future__ import annotations

import pytest

from tvm_ios.support.progress import PhaseClock, Progress


def test_the_clock_names_phases_in_order_and_adds_them_up() -> None:
    steps: list[Progress] = []
    clock = PhaseClock(steps.append)
    with clock.phase("build"):
        pass
    with clock.phase("search"):
        clock.say("half way", done=3, unit="of 6 candidates")
    with clock.phase("build"):
        pass
    assert list(clock.phase_s) == ["build", "search"]
    assert all(seconds >= 0 for seconds in clock.phase_s.values())
    assert [(step.phase, step.detail, step.done, step.unit) for step in steps] == [
        ("build", "", None, "stages priced"),
        ("search", "", None, "stages priced"),
        ("search", "half way", 3, "of 6 candidates"),
        ("build", "", None, "stages priced"),
    ]
    elapsed = [step.elapsed_s for step in steps]
    assert elapsed == sorted(elapsed)


def test_a_phase_that_fails_is_counted() -> None:
    clock = PhaseClock()
    with pytest.raises(ZeroDivisionError), clock.phase("search"):
        raise ZeroDivisionError
    assert set(clock.phase_s) == {"search"}
