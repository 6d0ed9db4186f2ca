"""Packing keeps buffers that may be alive together apart, and wastes little."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from tvm_ios.core.graph import bits_of, mask_of
from tvm_ios.plan.memory import Lifetime, pack_buffers


def random_lifetimes(seed):
    """Launches in a random partial order, and buffers touched by a few of them."""
    chooser = random.Random(seed)
    before = []
    for launch in range(chooser.randrange(1, 20)):
        mask = 0
        for earlier in chooser.sample(range(launch), min(launch, chooser.randrange(3))):
            mask |= before[earlier] | 1 << earlier
        before.append(mask)
    lifetimes = []
    for writer, mask in enumerate(before):
        later = [launch for launch, seen in enumerate(before) if seen >> writer & 1]
        readers = chooser.sample(later, min(len(later), chooser.randrange(4)))
        lifetimes.append(
            Lifetime(
                size_bytes=64 * chooser.randrange(1, 9) - chooser.choice((0, 4)),
                first_write=writer,
                accesses=mask_of([writer, *readers]),
                before=mask,
            )
        )
    return lifetimes, before


@given(seed=st.integers(0, 10**9))
def test_what_may_be_alive_together_lies_apart(seed):
    lifetimes, before = random_lifetimes(seed)
    offsets, arena = pack_buffers(lifetimes)
    for index, first in enumerate(lifetimes):
        assert offsets[index] % 64 == 0
        assert offsets[index] + first.size_bytes <= arena
        for other, second in enumerate(lifetimes[:index]):
            apart = (
                offsets[index] + first.size_bytes <= offsets[other]
                or offsets[other] + second.size_bytes <= offsets[index]
            )
            in_order = any(
                all(before[late.first_write] >> a & 1 for a in bits_of(early.accesses))
                for early, late in ((first, second), (second, first))
            )
            assert apart or in_order


@given(seed=st.integers(0, 10**9))
def test_the_arena_is_no_larger_than_all_buffers(seed):
    lifetimes, _ = random_lifetimes(seed)
    total = sum(-(-lifetime.size_bytes // 64) * 64 for lifetime in lifetimes)
    largest = max(lifetime.size_bytes for lifetime in lifetimes)
    assert largest <= pack_buffers(lifetimes)[1] <= total


def test_nothing_needs_nothing():
    assert pack_buffers([]) == ([], 0)
