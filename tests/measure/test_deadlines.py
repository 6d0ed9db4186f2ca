"""Deadlines against the runs that were measured."""

from __future__ import annotations

from tvm_ios.measure.deadlines import PartDeadline


def deadline(*ends_ns):
    return PartDeadline(part="a", deadline_ns=2_000_000, ends_ns=ends_ns)


def test_nine_of_ten_runs_have_to_be_in_time():
    kept = deadline(*[1_500_000] * 9, 9_000_000)
    assert (kept.in_time, kept.is_kept, kept.late_ns) == (9, True, 0)
    missed = deadline(*[1_500_000] * 8, 2_400_000, 9_000_000)
    assert (missed.in_time, missed.is_kept, missed.late_ns) == (8, False, 7_000_000)
    assert deadline(2_000_000).is_kept
    assert deadline(2_500_000).late_ns == 500_000


def test_a_line_tells_the_runs():
    assert deadline(1_000_000, 1_200_000, 3_000_000).as_text() == (
        "deadline of a, 2 ms: missed, in time in 2 of 3 traced runs (done after 1.2 ms, at most 3)"
    )
