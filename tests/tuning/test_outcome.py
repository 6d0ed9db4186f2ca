"""Rows of the task table: what more candidates change."""

from __future__ import annotations

import math

from tvm_ios.tuning.outcome import TaskOutcome, step_of_run

ROW = TaskOutcome(name="dense", workload="w")


def test_the_best_candidate_counts_and_failures_are_told():
    row = ROW.with_candidates([2e-6, math.inf, 1e-6], flop=4e3)
    assert (row.latency_ns, row.gflops, row.failed, row.trials) == (1000, 4.0, 1, 0)
    slower = row.with_candidates([3e-6], flop=4e3)
    assert (slower.latency_ns, slower.failed) == (1000, 1)


def test_a_row_of_nothing_but_failures_has_no_latency():
    row = ROW.with_candidates([math.inf], flop=4e3)
    assert (row.latency_ns, row.gflops, row.failed) == (None, None, 1)


def test_kernels_have_no_latency_in_a_row_while_one_of_them_has_none():
    tuned = ROW.with_batch([2e-3, math.inf], flop=4e3)
    step = step_of_run([tuned, ROW], "dense", done=2, total=4, elapsed_s=1.0)
    assert (tuned.trials, step.done, step.unit, step.share) == (2, 2, "of 4 candidates", 0.5)
    assert step.best_ms is None
    assert step_of_run([tuned, tuned], "", done=2, total=4, elapsed_s=1.0).best_ms == 4.0
