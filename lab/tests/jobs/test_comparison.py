"""The arithmetic of the benchmark of jobs, on traces that were made up."""

from __future__ import annotations

import shutil

import pytest

from tvm_ios.jobs.core.trace import Span
from tvm_ios.jobs.jobs_file import read_jobs_file
from tvm_ios.measure.comparison import CompareRound, Comparison
from tvm_ios.support.stage_gate import StageKind, StageNeed
from tvm_ios_lab.jobs.comparison import (
    pairs_name,
    race_lines,
    raced,
    races_name,
    run_name,
    table,
)
from tvm_ios_lab.jobs.pairs import Pair, judge
from tvm_ios_lab.jobs.runs import Way, runs_of
from tvm_ios_lab.jobs.trace import covered_s, distortion, hardware_use


def span(job, kind, begin_s, end_s, *places):
    """A stage on core 0, or on these from these times on."""
    return Span(
        job=job,
        epoch=1,
        need=StageNeed(kind=kind),
        device="cpu0" if kind is StageKind.PROFILE else "",
        asked_s=begin_s - 1.0,
        granted_s=begin_s,
        ended_s=end_s,
        places=places or ((begin_s, (0,)),),
    )


PROFILE = span("a", StageKind.PROFILE, 10.0, 14.0, (10.0, (1,)))


def test_intervals_are_counted_once():
    assert covered_s([]) == 0.0
    assert covered_s([(5.0, 6.0), (0.0, 4.0), (1.0, 2.0), (3.0, 5.0)]) == 6.0


def test_cores_and_devices_are_counted_once_each():
    build = span("b", StageKind.BUILD, 8.0, 18.0, (8.0, (0, 1)), (10.0, (0,)))
    shared = span("c", StageKind.SEARCH, 12.0, 16.0)
    use = hardware_use([PROFILE, build, shared], 2)
    # Core 0 from 8 to 18, core 1 from 8 to 14.
    assert (use.core_s, use.device_s, use.bound_s) == (16.0, 4.0, 8.0)
    assert hardware_use([PROFILE], 2).bound_s == 4.0


@pytest.mark.parametrize(
    ("other", "distorted_s"),
    [
        (span("b", StageKind.BUILD, 0.0, 20.0), 0.0),  # on another core
        (span("b", StageKind.BUILD, 0.0, 20.0, (0.0, (0, 1)), (9.9, (0,))), 0.0),  # moved away
        (span("b", StageKind.BUILD, 0.0, 20.0, (0.0, (0, 1)), (11.0, (0,))), 1.0),  # too late
        (span("b", StageKind.BUILD, 12.0, 20.0, (12.0, (1,))), 2.0),
        (span("a", StageKind.BUILD, 0.0, 20.0, (0.0, (1,))), 0.0),  # its own job
        (span("b", StageKind.BUILD, 13.9995, 20.0, (13.9995, (1,))), 0.0),  # they only touch
    ],
)
def test_a_profile_is_distorted_by_others_on_its_core(other, distorted_s):
    found = distortion([other, PROFILE])
    assert (found.profiles, found.profile_s) == (1, 4.0)
    assert (found.distorted, found.distorted_s) == (int(distorted_s > 0), distorted_s)


def test_two_that_profile_on_one_core_are_both_distorted():
    again = span("b", StageKind.PROFILE, 13.0, 15.0, (13.0, (1,)))
    assert distortion([PROFILE, again]).distorted == 2


def test_pairs_are_judged_by_the_ratio_of_their_medians():
    pairs = [
        Pair(during_ns=101.0, idle_ns=100.0, others=2),
        Pair(during_ns=220.0, idle_ns=110.0, others=3),
        Pair(during_ns=99.0, idle_ns=90.0, others=0),
    ]
    assert judge(pairs) == {
        "pairs": 3,
        "beside_others": 2,
        "ratio_of_medians": 1.01,
        "lowest": 1.01,
        "median": pytest.approx(1.1),
        "highest": 2.0,
    }


def run(seconds, distorted):
    return {
        "seconds": seconds,
        "hardware_s": 2 * seconds,
        "core_s": 150.0,
        "over_bound": 1.25,
        "profiles": 50,
        "distorted": distorted,
    }


def test_the_table_shows_medians_over_seeds():
    lines = ["sequential: 9.000 ms", "slack wins over sequential: 1.100 times as fast (1.0 to 1.2)"]
    pieces = {
        run_name(Way.SEQUENTIAL, 0): run(200.0, 0),
        run_name(Way.SLACK, 0): run(100.0, 0),
        run_name(Way.SLACK, 1): run(300.0, 1),
        run_name(Way.UNSCHEDULED, 0): run(100.0, 40),
        races_name(0): {"net": lines},
        pairs_name(Way.SLACK): {"ratio_of_medians": 1.0123},
    }
    _, _, sequential, slack, unscheduled = table(pieces)
    assert sequential == (
        "| `sequential` | 1 | 200 | 1.00 | 1.25 | 400, 150 of them busy | 0% of 50 | 1.00 |  |"
    )
    assert slack == (
        "| `slack` | 2 | 200 | 2.00 | 1.25 | 400, 150 of them busy | 1% of 100 | 1.10 | "
        "1.012 of idle |"
    )
    # It did not race.
    assert unscheduled == (
        "| `unscheduled` | 1 | 100 | 2.00 | 1.25 | 200, 150 of them busy | 80% of 50 |  |  |"
    )


def test_the_table_reads_the_lines_of_a_race():
    rounds = tuple(
        CompareRound(run_ns=(9e6, 6e6 if i else None), ping_pong_ns=50.4, slow=not i)
        for i in range(9)
    )
    race = Comparison(
        names=("sequential", "slack"), rounds=rounds, confidence=0.95, notes=("it was busy",)
    )
    lines = race_lines(race)
    assert lines[:4] == [
        "sequential: 9.000 ms",
        "slack: 6.000 ms",
        "slack wins over sequential: 1.500 times as fast (1.500 to 1.500)",
        "it was busy",
    ]
    assert lines[4:] == ["9.000 - ping-pong 50 slow", *["9.000 6.000 ping-pong 50"] * 8]
    pieces = {
        **{run_name(way, 0): run(100.0, 0) for way in (Way.SEQUENTIAL, Way.SLACK)},
        races_name(0): {"net": lines},
    }
    assert [line.split("|")[-3].strip() for line in table(pieces)][2:] == ["1.00", "1.50"]


@pytest.mark.slow(3)
def test_compiled_models_are_raced_by_way(fork_library, tmp_path):
    other = tmp_path / "other.so"
    shutil.copy(fork_library, other)
    race = raced({Way.SEQUENTIAL: fork_library, Way.SLACK: other}, 8)
    assert race.names == ("sequential", "slack")
    assert len(race.rounds) >= 8


@pytest.mark.parametrize("way", Way)
def test_each_way_begins_with_a_file_that_can_be_read(way, tmp_path):
    runs = runs_of(way, ["squeezenet", "nasnet_small"], 2, tmp_path)
    names = [order.spec.name for each in runs for order in read_jobs_file(each.write_file()).orders]
    assert names == ["squeezenet", "nasnet_small"]
    assert len(runs) == (2 if way is Way.UNSCHEDULED else 1)
