"""Packing keeps buffers that may be alive together apart, and wastes little."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from tvm_ios.runtime.memory import Access, Lifetime, pack_buffers, reuse_dependencies


def random_lifetimes(seed):
    """Stages of up to three groups of up to three launches; buffers touched by a few of them."""
    chooser = random.Random(seed)
    accesses, group = [], 0
    for stage in range(chooser.randrange(1, 8)):
        for _ in range(chooser.randrange(1, 4)):
            for _ in range(chooser.randrange(1, 4)):
                accesses.append(Access(stage, group, len(accesses)))
            group += 1
    lifetimes = []
    for writer in accesses:
        later = [a for a in accesses if a.stage > writer.stage or a.group == writer.group]
        later = [a for a in later if a.launch > writer.launch]
        readers = chooser.sample(later, min(len(later), chooser.randrange(4)))
        size = 64 * chooser.randrange(1, 9) - chooser.choice((0, 4))
        lifetimes.append(Lifetime(size, (writer,), tuple(sorted([writer, *readers]))))
    return lifetimes


def comes_before(first: Access, second: Access) -> bool:
    """The order of stages, by definition."""
    return first.stage < second.stage or (
        first.group == second.group and first.launch < second.launch
    )


@given(seed=st.integers(0, 10**9))
def test_what_may_be_alive_together_lies_apart(seed):
    lifetimes = random_lifetimes(seed)
    offsets, arena = pack_buffers(lifetimes)
    dependencies = reuse_dependencies(lifetimes, offsets)
    for index, first in enumerate(lifetimes):
        assert offsets[index] % 64 == 0
        assert offsets[index] + first.size_bytes <= arena
        for other, second in enumerate(lifetimes[:index]):
            apart = (
                offsets[index] + first.size_bytes <= offsets[other]
                or offsets[other] + second.size_bytes <= offsets[index]
            )
            in_order = any(
                all(comes_before(a, w) for a in before.accesses for w in after.writers)
                for before, after in ((first, second), (second, first))
            )
            assert apart or in_order
    assert all(earlier < later for earlier, later in dependencies)


@given(seed=st.integers(0, 10**9))
def test_the_arena_is_no_larger_than_all_buffers(seed):
    lifetimes = random_lifetimes(seed)
    total = sum(-(-lifetime.size_bytes // 64) * 64 for lifetime in lifetimes)
    largest = max(lifetime.size_bytes for lifetime in lifetimes)
    assert largest <= pack_buffers(lifetimes)[1] <= total


def test_nothing_needs_nothing():
    assert pack_buffers([]) == ([], 0)
