"""Joint models against others one after another: rounds and what they say."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace

from tvm_ios_lab.scripts.joined_models import ROUNDS, raced, summary


def model(ns):
    executor = SimpleNamespace(time_ns=lambda number: ns * number)
    return SimpleNamespace(executor=lambda: nullcontext(executor))


def test_a_round_has_a_run_of_each():
    rounds = raced(model(3), {"a": model(1), "b": model(4)})
    assert rounds == [[3, 1, 4]] * ROUNDS


def test_the_sum_of_the_others_is_compared():
    rounds = [[4_000_000, 3_000_000, 3_000_000], [5_000_000, 3_000_000, 3_000_000]] * 50
    assert summary(rounds) == (
        "joint 4.500 ms, one after another 6.000 ms, 1.500 (1.200 to 1.500) times as fast"
    )
