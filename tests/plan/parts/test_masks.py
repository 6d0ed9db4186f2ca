"""What each part of a plan needs, against its operator graph."""

from __future__ import annotations

import random
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.plan.test_image import in_parts, plan_of
from tvm_ios.plan.parts.masks import group_masks, groups_of_parts, input_masks


@given(seed=st.integers(0, 10**9))
def test_groups_of_a_part_have_all_that_its_outputs_read(random_graph, seed):
    plan = in_parts(plan_of(random_graph, seed))
    for place, part in enumerate(plan.parts):
        groups = groups_of_parts(plan, 1 << place)
        launches = {launch for group in groups for launch in group.launches}
        written = {
            plan.tensors[tensor].buffer
            for launch in launches
            for tensor in plan.launches[launch].outputs
        }
        external = {plan.tensors[entry.tensor].buffer for entry in plan.inputs}
        read = [tensor for launch in launches for tensor in plan.launches[launch].inputs]
        for tensor in (*read, *(plan.outputs[number] for number in part.outputs)):
            assert plan.tensors[tensor].buffer in written | external


def test_parts_share_what_both_need_and_nothing_else(random_graph):
    plan = plan_of(random_graph, random.Random(0).randrange(1000))
    assert set(group_masks(plan)) == {0}
    assert groups_of_parts(plan, 0) == plan.groups
    parts = in_parts(plan)
    assert groups_of_parts(parts, (1 << len(parts.parts)) - 1) == tuple(
        group for group, mask in zip(parts.groups, group_masks(parts), strict=True) if mask
    )
    assert input_masks(parts) == [1] * len(plan.inputs)
    assert input_masks(replace(parts, parts=())) == [0] * len(plan.inputs)
