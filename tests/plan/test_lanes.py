"""Lanes of groups: in range, balanced, near their data, and one for what has no width."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from tvm_ios.plan.lanes import CORES, STREAMS, assign_lanes

COSTS = st.integers(0, 10**6)


@st.composite
def programs(draw):
    """Stages, costs and reads of earlier stages, at random."""
    stages = sorted(draw(st.lists(st.integers(0, 6), max_size=20)))
    costs_ns = [draw(COSTS) for _ in stages]
    reads = [
        {
            earlier: draw(st.integers(0, 10**6))
            for earlier in range(group)
            if stages[earlier] < stage and draw(st.booleans())
        }
        for group, stage in enumerate(stages)
    ]
    return stages, costs_ns, reads


@given(programs(), st.integers(1, 5))
def test_every_group_has_a_lane_and_equal_questions_equal_answers(program, lanes):
    homes = assign_lanes(*program, lanes=lanes)
    assert len(homes) == len(program[0])
    assert all(0 <= home < lanes for home in homes)
    assert assign_lanes(*program, lanes=lanes) == homes


@given(st.lists(COSTS, min_size=1, max_size=20), st.integers(1, 5))
def test_a_stage_is_balanced_as_well_as_list_scheduling_can(costs_ns, lanes):
    homes = assign_lanes([0] * len(costs_ns), costs_ns, [{} for _ in costs_ns], lanes=lanes)
    loads = [0] * lanes
    for home, cost in zip(homes, costs_ns, strict=True):
        loads[home] += cost
    # Graham's bound, SIAM J. Appl. Math., 1969.
    assert max(loads) * lanes <= sum(costs_ns) + (lanes - 1) * max(costs_ns)


@given(st.data(), st.integers(2, 5))
def test_a_group_goes_to_the_lane_that_wrote_what_it_reads(data, lanes):
    width = data.draw(st.integers(1, lanes))
    costs_ns = data.draw(
        st.lists(st.integers(1, 10**6), min_size=2 * width, max_size=2 * width), label="costs"
    )
    sources = data.draw(st.permutations(range(width)), label="sources")
    reads = [{} for _ in range(width)]
    reads += [{source: data.draw(st.integers(0, 10**6))} for source in sources]
    homes = assign_lanes([0] * width + [1] * width, costs_ns, reads, lanes=lanes)
    assert len(set(homes[:width])) == width
    assert [homes[width + i] for i in range(width)] == [homes[source] for source in sources]


@given(st.lists(COSTS, min_size=1, max_size=20), st.integers(1, 5), st.randoms())
def test_groups_one_after_another_stay_on_one_lane(costs_ns, lanes, chooser: random.Random):
    count = len(costs_ns)
    reads = [{group - 1: chooser.randrange(10**6)} if group else {} for group in range(count)]
    assert assign_lanes(range(count), costs_ns, reads, lanes=lanes) == (0,) * count


def test_a_lane_fetches_data_rather_than_wait_long():
    """Two groups read what lane 0 wrote: the second one moves only where the move is cheaper."""
    fetch_ns = CORES.signal_ns + 1_000 * CORES.fetch_ns_per_kb / 1000
    for cost_ns, expected in ((int(fetch_ns) - 1, 0), (int(fetch_ns) + 1, 1)):
        homes = assign_lanes([0, 1, 1], [500, cost_ns, 1], [{}, {0: 1000}, {0: 1000}], lanes=2)
        assert homes == (0, 0, expected)


def test_no_groups_have_no_lanes():
    assert assign_lanes([], [], [], lanes=2) == ()


def test_streams_share_a_cache_so_bytes_keep_nobody_together():
    steps, costs_ns = [(0, 0), (1, 0), (1, 0)], [5_000, 5_000, 5_000]
    reads = [{}, {0: 10_000_000}, {0: 10_000_000}]
    assert assign_lanes(steps, costs_ns, reads, lanes=2) == (0, 0, 0)
    assert assign_lanes(steps, costs_ns, reads, lanes=2, hand_over=STREAMS) == (0, 0, 1)
