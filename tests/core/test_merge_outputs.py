"""Which tensors a merge stage makes, on graphs that are lists of numbers."""

from __future__ import annotations

import pytest

from tvm_ios.core.merge_outputs import CALLER, merge_outputs


def outputs(members, *, joins, readers):
    """``joins`` and ``readers`` by operator; there are six operators."""
    found = merge_outputs(
        members,
        [joins.get(index, ()) for index in range(6)],
        [readers.get(index, ()) for index in range(6)],
    )
    assert found.members == tuple(members)
    return found.whole, found.sliced


def test_the_merged_convolution_is_the_concatenation():
    assert outputs((0, 1), joins={3: (0, 1)}, readers={0: {3}, 1: {3}}) == (3, ())


@pytest.mark.parametrize(
    "joined",
    [
        (1, 0),  # in another order
        (0, 1, 2),  # of more than the members
        (0,),  # of less
        (0, 1, 1),  # one of them twice
    ],
)
def test_other_concatenations_read_slices(joined):
    readers = {0: {3}, 1: {3}}
    assert outputs((0, 1), joins={3: joined}, readers=readers) == (None, (0, 1))


def test_a_member_that_others_read_is_sliced_as_well():
    readers = {0: {3}, 1: {3, 4}, 2: {3, CALLER}}
    assert outputs((0, 1, 2), joins={3: (0, 1, 2)}, readers=readers) == (3, (1, 2))


def test_an_output_of_the_network_is_sliced():
    assert outputs((0, 1), joins={}, readers={0: {CALLER}, 1: {2}}) == (None, (0, 1))


def test_of_two_equal_concatenations_the_second_reads_slices():
    readers = {0: {3, 4}, 1: {3, 4}}
    assert outputs((0, 1), joins={3: (0, 1), 4: (0, 1)}, readers=readers) == (3, (0, 1))


def test_slices_follow_the_order_of_the_members():
    readers = {0: {4}, 1: {4}, 2: {4}}
    assert outputs((2, 0, 1), joins={}, readers=readers) == (None, (2, 0, 1))
