"""Plans of several shapes as one plan: each comes out again as it went in."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.plan.test_image import plan_of
from tvm_ios.errors import PlanError
from tvm_ios.plan.image import image_bytes
from tvm_ios.plan.image_reader import read_image
from tvm_ios.plan.parts.masks import group_masks
from tvm_ios.plan.parts.shapes import joined_shapes, shape_alone
from tvm_ios.plan.plan import Buffer, BufferKind, PlanInput, Tensor
from tvm_ios.plan.verify import verify_plan


def joined(*plans, parameters=()):
    named = [
        {entry.name: entry.name for entry in plan.inputs if entry.name in parameters}
        for plan in plans
    ]
    return joined_shapes({f"shape{n}": plan for n, plan in enumerate(plans)}, named)


def content(plan):
    """All that a plan does, with types in the place of numbers of tensors."""

    def types(tensors):
        return [(plan.tensors[each].type, plan.tensors[each].byte_offset) for each in tensors]

    return (
        [(each.kernel, types(each.inputs), types(each.outputs)) for each in plan.launches],
        plan.groups,
        types(plan.outputs),
    )


@given(seeds=st.lists(st.integers(0, 10**9), min_size=1, max_size=3))
def test_each_shape_is_its_own_plan(random_graph, seeds):
    plans = [plan_of(random_graph, seed) for seed in seeds]
    whole = joined(*plans)
    verify_plan(whole)
    assert whole.is_of_shapes
    assert whole.arena_bytes == max(plan.arena_bytes for plan in plans)
    for place, plan in enumerate(plans):
        alone = shape_alone(whole, place)
        verify_plan(alone)
        if all(group_masks(whole)):  # what no output needs does not run
            assert content(alone) == content(plan)
        assert {entry.name for entry in alone.inputs} == {entry.name for entry in plan.inputs}


@given(seed=st.integers(0, 10**9))
def test_an_image_reads_back_as_the_same_shapes(random_graph, seed):
    whole = joined(plan_of(random_graph, seed), plan_of(random_graph, seed + 1))
    assert read_image(image_bytes(whole)) == whole


def with_inputs(plan, **shapes):
    """A plan with further inputs before its own, which nobody reads."""
    buffer, tensor = len(plan.buffers), len(plan.tensors)
    more = Buffer(kind=BufferKind.INPUT, size_bytes=64)
    return replace(
        plan,
        buffers=(*plan.buffers, *(more for _ in shapes)),
        tensors=(
            *plan.tensors,
            *(
                Tensor(buffer=buffer + n, byte_offset=0, shape=shape, dtype="float32")
                for n, shape in enumerate(shapes.values())
            ),
        ),
        inputs=(*(PlanInput(name, tensor + n) for n, name in enumerate(shapes)), *plan.inputs),
    )


def test_inputs_have_the_same_numbers_in_all_shapes(random_graph):
    plan = plan_of(random_graph, 1)
    short = with_inputs(plan, ids=(8,), weight=(2,), mask=(8,), scale=(1,))
    long = with_inputs(plan, ids=(16,), weight=(2,), mask=(16,), scale=(1,))
    whole = joined(short, long, parameters=["weight"])
    names = [part.inputs for part in whole.parts]
    assert names[0] == names[1] == ("ids", "mask", "scale", "n0")
    numbered = [[entry.name for entry in shape_alone(whole, n).inputs] for n in range(2)]
    assert numbered[0] == numbered[1] == [*names[0], "weight"]
    assert [part.shapes[:3] for part in whole.parts] == [((8,), (8,), (1,)), ((16,), (16,), (1,))]
    assert read_image(image_bytes(whole)) == whole
    assert len(whole.inputs) == 7  # two of each shape, and three that all have


def test_inputs_of_one_type_and_parameters_of_one_name_are_there_once(random_graph):
    plan = plan_of(random_graph, 1)
    twice = joined(plan, plan)
    assert [entry.name for entry in twice.inputs] == [entry.name for entry in plan.inputs]
    first, *others = (entry.name for entry in plan.inputs)
    assert joined(plan, plan, parameters=[first]).parts[1].inputs == tuple(others)
    once = sum(buffer.kind.value == "input" for buffer in plan.buffers)
    assert sum(buffer.kind.value == "input" for buffer in twice.buffers) == once


def test_a_shape_that_breaks_a_rule_is_refused(random_graph):
    plan = plan_of(random_graph, 1)
    whole = joined(plan, plan)
    launches = [*whole.launches]
    launches[-1] = replace(launches[-1], inputs=launches[-1].outputs)
    with pytest.raises(PlanError, match="lower the module again"):
        verify_plan(replace(whole, launches=tuple(launches)))
