"""The reference executor's orders; its results are compared with stock in test_lane_executor."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from tests.runtime.reference_executor import random_order
from tvm_ios.plan.lower import lower_plan


@given(seed=st.integers(0, 10**9))
def test_random_orders_keep_dependencies(random_graph, seed):
    plan = lower_plan(*random_graph(random.Random(seed)), lanes=1)
    order = random_order(plan, seed)
    assert sorted(order) == list(range(len(plan.launches)))
    position = {launch: index for index, launch in enumerate(order)}
    for group in plan.groups:
        assert sorted(group.launches, key=position.__getitem__) == list(group.launches)
        for dependency in group.dependencies:
            last = plan.groups[dependency].launches[-1]
            assert position[last] < position[group.launches[0]]
