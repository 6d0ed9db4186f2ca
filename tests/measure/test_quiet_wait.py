from __future__ import annotations

from itertools import count

import pytest

from tvm_ios.measure.machine_mode import ModeOptions, ModeWatch
from tvm_ios.measure.quiet_wait import QuietWait, wait_until_quiet


class Machine:
    """A machine with a clock of its own, on which another process works until a second."""

    def __init__(self, busy_until_s: float, *, told: bool = True) -> None:
        self.busy_until_s = busy_until_s
        self.told = told
        self.now_ns = self.waits_ns = 0
        self.left_s: list[float] = []

    def clock_ns(self) -> int:
        return self.now_ns

    def sleep_s(self, seconds: float) -> None:
        self.now_ns += round(seconds * 1e9)

    def ping_pong_ns(self) -> float:
        self.now_ns += 100_000
        if self.now_ns < self.busy_until_s * 1e9:
            self.waits_ns += 50_000
        return 50.0

    def wait(self, most_s: float) -> QuietWait:
        watch = ModeWatch(
            self.ping_pong_ns,
            ModeOptions(patience_s=0),
            waited_ns=lambda: self.waits_ns if self.told else None,
            stolen_ns=lambda: 0,
            clock_ns=self.clock_ns,
            sleep_s=self.sleep_s,
        )
        return wait_until_quiet(
            watch, most_s, self.left_s.append, clock_ns=self.clock_ns, sleep_s=self.sleep_s
        )


@pytest.mark.parametrize("told", [True, False])
def test_a_quiet_machine_costs_a_second(told: bool) -> None:
    machine = Machine(0.0, told=told)
    found = machine.wait(60)
    assert found.quiet
    assert found.seconds == pytest.approx(1, abs=0.2)
    assert machine.left_s == []


def test_it_ends_a_second_after_the_last_disturbance() -> None:
    machine = Machine(3.0)
    found = machine.wait(60)
    assert found.quiet
    assert found.seconds == pytest.approx(4, abs=0.3)
    assert machine.left_s == sorted(machine.left_s, reverse=True)
    assert 57 <= machine.left_s[-1] <= machine.left_s[0] <= 60


def test_it_goes_on_after_its_seconds() -> None:
    found = Machine(1e9).wait(5)
    assert not found.quiet
    assert found.seconds == pytest.approx(5, abs=0.2)


def test_the_slow_mode_is_no_quiet_machine() -> None:
    seconds = count(0, 10**8)
    watch = ModeWatch(lambda: 380.0, ModeOptions(patience_s=0), clock_ns=seconds.__next__)
    found = wait_until_quiet(
        watch, 3, lambda _: None, clock_ns=seconds.__next__, sleep_s=lambda _: None
    )
    assert not found.quiet
    assert "slow mode" in watch.told()
