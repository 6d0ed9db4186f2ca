"""The fluid simulation: by hand, and the two bounds it has to keep."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvm_ios_lab.analytical.gpu_kernel import KernelTime
from tvm_ios_lab.analytical.gpu_sharing import (
    LaunchedKernel,
    kernels_in_order,
    share_gpu,
    share_gpu_in_order,
)


def kernel(busy_ns, *rates, wait_ns=0.0):
    return LaunchedKernel(wait_ns=wait_ns, busy_ns=float(busy_ns), rates=rates)


def ends(groups, issue_ns=0.0):
    return [row[-1][1] for row in share_gpu(groups, issue_ns)]


def test_kernels_that_fit_do_not_slow_each_other():
    assert ends([[kernel(10, 0.4, 1)], [kernel(20, 0.6, 0)]]) == [10, 20]


def test_kernels_that_fill_the_gpu_share_it():
    # Half speed until 20, then the longer one has 10 left and goes on alone.
    assert ends([[kernel(10, 1)], [kernel(20, 1)]]) == [20, 30]


def test_the_modest_is_not_slowed_by_the_greedy():
    # The first wants a quarter and has it; the second gets three quarters until 40.
    spans = share_gpu([[kernel(40, 0.25)], [kernel(40, 1)]], 0)
    assert spans[0] == [(0, 40)]
    assert spans[1][0] == (0, pytest.approx(50))


def test_the_scarcest_resource_decides():
    assert ends([[kernel(10, 1, 0.1)], [kernel(10, 1, 0.9)]]) == [20, 20]


def test_waiting_takes_nothing_from_others():
    groups = [[kernel(10, 1, wait_ns=10)], [kernel(10, 1)]]
    assert share_gpu(groups, 0) == [[(10, 20)], [(0, 10)]]


def test_kernels_of_other_groups_are_awaited():
    """The second group waits for the first kernel of the first one, and for an event."""
    groups = [[kernel(10, 0.5), kernel(30, 0.5)], [kernel(20, 0.5, wait_ns=1)]]
    after = [[(), ()], [((0, 0),)]]
    issued = [[0.0, 0.0], [0.0]]
    spans = share_gpu_in_order(groups, issued, after, event_ns=3)
    assert spans == [[(0, 10), (10, 40)], [(14, 34)]]
    late = share_gpu_in_order(groups, [[0.0, 0.0], [50.0]], after, event_ns=3)
    assert late[1] == [(51, 71)]


def test_the_next_kernel_of_a_group_follows():
    groups = [[kernel(10, 1, wait_ns=1), kernel(5, 1, wait_ns=2)]]
    assert share_gpu(groups, 0) == [[(1, 11), (13, 18)]]


def test_the_host_issues_group_by_group():
    tiny = kernel(1, 0.1)
    groups = [[tiny, tiny], [tiny]]
    assert share_gpu(groups, 10) == [[(0, 1), (20, 21)], [(10, 11)]]


def test_groups_without_kernels():
    assert share_gpu([[], [kernel(3, 1)]], 5) == [[], [(0, 3)]]
    assert share_gpu([], 5) == []
    assert share_gpu([[kernel(0, 0)], [kernel(0, 0)]], 0) == [[(0, 0)], [(0, 0)]]


def test_a_kernel_is_made_of_its_time():
    time = KernelTime(fill_ns=100, busy_ns=50, demand_ns=(50, 25), blocks=1)
    made = LaunchedKernel.make(time, 1000)
    assert (made.wait_ns, made.busy_ns, made.rates) == (1100, 50, (1, 0.5))


@st.composite
def kernels(draw):
    return kernel(
        draw(st.floats(0, 1e6)),
        draw(st.floats(0, 1)),
        draw(st.floats(0, 1)),
        wait_ns=draw(st.floats(0, 1e4)),
    )


@given(
    st.lists(st.lists(kernels(), min_size=1, max_size=4), min_size=1, max_size=6),
    st.sampled_from([0.0, 100.0, 5000.0]),
)
def test_between_the_longest_group_and_all_in_order(groups, issue_ns):
    spans = share_gpu(groups, issue_ns)
    end = max(row[-1][1] for row in spans)
    slack = 1 + 1e-6 * (1 + end)
    alone = [kernels_in_order(group, issue_ns) for group in groups]
    assert end >= max(alone) - slack
    assert end <= sum(max(a, issue_ns * len(g)) for a, g in zip(alone, groups, strict=True)) + slack
    for resource in range(2):
        wanted = sum(k.busy_ns * k.rates[resource] for group in groups for k in group)
        assert end >= wanted - slack
    for row, group in zip(spans, groups, strict=True):
        assert len(row) == len(group)
        previous = 0.0
        for (start, stop), one in zip(row, group, strict=True):
            assert start >= previous + one.wait_ns - slack
            assert stop - start >= one.busy_ns - slack
            previous = stop
