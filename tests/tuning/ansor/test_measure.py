"""Ctrl-C during a search of auto_scheduler, whose C++ code loses exceptions."""

from __future__ import annotations

import signal

import pytest

from tvm_ios.tuning.ansor.measure import Interruption

pytestmark = pytest.mark.usefixtures("hears_ctrl_c")


def presses(times):
    """Steps done before KeyboardInterrupt: one a press of Ctrl-C, and one after the last."""
    done = []
    with pytest.raises(KeyboardInterrupt):
        _press(times, done)
    return len(done)


def _press(times, done):
    with Interruption().kept():
        for _ in range(times):
            done.append(None)
            signal.raise_signal(signal.SIGINT)
        done.append(None)


def test_the_first_is_raised_at_the_end_and_the_second_at_once():
    assert presses(1) == 2
    assert presses(9) == 2
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_handler_of_somebody_else_hears_all():
    heard = []
    signal.signal(signal.SIGINT, lambda number, _frame: heard.append(number))
    assert presses(3) == 4
    assert heard == [signal.SIGINT] * 3
