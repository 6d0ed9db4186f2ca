"""Overhead of small operators: runs, bare loops over their calls, and what is said of both."""

from __future__ import annotations

import pytest

from tvm_ios_lab.scripts.small_operators import as_text, lookups, measured


@pytest.mark.slow
def test_a_run_takes_turns_with_bare_loops_over_the_calls_of_each_lane():
    sequential, listed = measured("4 lookups", lookups(4, 16), rounds_each=2)
    assert (sequential["order"], sequential["operators"]) == ("sequential", [4])
    assert (listed["order"], sum(listed["operators"])) == ("list", 4)
    assert len(listed["operators"]) == 2
    for record in (sequential, listed):
        assert [len(row) for row in record["rounds_ns"]] == [1 + len(record["operators"])] * 2
        assert all(ns > 0 for row in record["rounds_ns"] for ns in row)


def test_overhead_is_what_the_longest_lane_does_not_explain():
    record = {
        "network": "n",
        "order": "list",
        "operators": [10, 20],
        "longest_operator_ns": 1500,
        "rounds_ns": [[5000, 1000, 3000], [7000, 1000, 3000], [9000, 1000, 3000]],
        "ping_pongs_ns": [50, 60, 70],
    }
    assert as_text(record) == (
        "n, list: 30 operators, longest 1.50 us; run 5.00 us, bare 1.00 and 3.00 us, "
        "overhead of an operator 100 ns (ping-pong 60 ns)"
    )
