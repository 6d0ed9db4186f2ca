"""Rows of the task table: what more candidates change."""

from __future__ import annotations

import math

from tvm_ios.tuning.outcome import TaskOutcome

ROW = TaskOutcome(name="dense", workload="w")


def test_the_best_candidate_counts_and_failures_are_told():
    row = ROW.with_candidates([2e-6, math.inf, 1e-6], flop=4e3)
    assert (row.latency_ns, row.gflops, row.failed, row.trials) == (1000, 4.0, 1, 0)
    slower = row.with_candidates([3e-6], flop=4e3)
    assert (slower.latency_ns, slower.failed) == (1000, 1)


def test_a_row_of_nothing_but_failures_has_no_latency():
    row = ROW.with_candidates([math.inf], flop=4e3)
    assert (row.latency_ns, row.gflops, row.failed) == (None, None, 1)
