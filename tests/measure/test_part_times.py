"""Times of parts in words, and whom a part waits for."""

from __future__ import annotations

from tvm_ios.measure.part_times import PartTime, PartTimes, waits_of


def test_a_part_waits_for_those_that_run_while_it_could():
    running = {"a": [(0, 10), (30, 40)], "b": [(10, 30)], "c": [(20, 30)]}
    # What could run from 5 on began at 30: until 10 the part itself ran.
    assert waits_of([(5, 30)], running, "a") == {"b": 15, "c": 5}
    assert waits_of([(0, 10)], running, "a") == {}
    assert waits_of([], running, "a") == {}


def test_waits_that_overlap_count_once_and_those_for_nobody_have_no_name():
    running = {"a": [(50, 60)], "b": [(0, 20)]}
    assert waits_of([(0, 50), (10, 50)], running, "a") == {"b": 20, "": 30}


def test_lines_tell_what_a_part_costs_and_whom_it_waits_for():
    times = PartTimes(
        together_ns=4_000_000,
        traced_ns=4_200_000,
        parts=(
            PartTime(
                name="a",
                alone_ns=3_000_000,
                done_ns=4_100_000,
                waits_ns={"b": 900_000, "": 500_000, "c": 1_000},
            ),
            PartTime(name="b", alone_ns=2_000_000, done_ns=3_000_000, waits_ns={}),
        ),
    )
    assert times.lines() == (
        "parts: together 4 ms, one after another 5 ms (1.25 times as long)",
        "part a 3 ms alone, done after 4.1 ms, waits 0.9 ms for b",
        "part b 2 ms alone, done after 3 ms",
    )
