"""The verifier names the rule that a broken plan breaks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tvm_ios.errors import PlanError
from tvm_ios.runtime.plan import (
    Buffer,
    BufferKind,
    ExecutionPlan,
    Group,
    Launch,
    PlanInput,
    Tensor,
)
from tvm_ios.runtime.verify import verify_plan


def launch(name: str, inputs: tuple[int, ...], output: int) -> Launch:
    return Launch(operator=name, operator_index=0, kernel=name, inputs=inputs, outputs=(output,))


@pytest.fixture
def plan() -> ExecutionPlan:
    """x -> a, x -> b beside each other, then c(a, b), all of 64 bytes."""
    kinds = (BufferKind.INPUT, BufferKind.ARENA, BufferKind.ARENA, BufferKind.OUTPUT)
    return ExecutionPlan(
        lanes=2,
        buffers=tuple(
            Buffer(
                kind=kind,
                size_bytes=64,
                arena_offset=64 * (number - 1) if kind is BufferKind.ARENA else None,
            )
            for number, kind in enumerate(kinds)
        ),
        tensors=tuple(
            Tensor(buffer=number, byte_offset=0, shape=(16,), dtype="float32")
            for number in range(4)
        ),
        launches=(launch("a", (0,), 1), launch("b", (0,), 2), launch("c", (1, 2), 3)),
        groups=(
            Group(stage=0, position=0, launches=(0,), dependencies=()),
            Group(stage=0, position=1, launches=(1,), dependencies=()),
            Group(stage=1, position=0, launches=(2,), dependencies=(0, 1)),
        ),
        inputs=(PlanInput("x", 0),),
        outputs=(3,),
        arena_bytes=128,
    )


def test_a_right_plan_passes(plan):
    verify_plan(plan)


def with_buffer(plan: ExecutionPlan, number: int, **changes: object) -> ExecutionPlan:
    buffers = list(plan.buffers)
    buffers[number] = replace(buffers[number], **changes)
    return replace(plan, buffers=tuple(buffers))


def with_tensor(plan: ExecutionPlan, number: int, **changes: object) -> ExecutionPlan:
    tensors = list(plan.tensors)
    tensors[number] = replace(tensors[number], **changes)
    return replace(plan, tensors=tuple(tensors))


def with_group(plan: ExecutionPlan, number: int, **changes: object) -> ExecutionPlan:
    groups = list(plan.groups)
    groups[number] = replace(groups[number], **changes)
    return replace(plan, groups=tuple(groups))


@pytest.mark.parametrize(
    ("breaks", "message"),
    [
        (lambda p: with_group(p, 1, launches=(2,)), "rule 1: groups list"),
        (lambda p: with_group(p, 0, dependencies=(2,)), "rule 1: group 0 waits"),
        (lambda p: with_group(p, 1, position=-1), "rule 1: group 1 is at"),
        (lambda p: with_buffer(p, 1, arena_offset=96), "rule 2: buffer 1"),
        (lambda p: with_buffer(p, 1, arena_offset=128), "rule 2: buffer 1"),
        (lambda p: with_buffer(p, 1, arena_offset=None), "rule 2: buffer 1"),
        (lambda p: with_tensor(p, 1, shape=(17,)), "rule 2: tensor 1"),
        (lambda p: with_tensor(p, 1, byte_offset=4), "rule 2: tensor 1"),
        (lambda p: replace(p, outputs=(2,)), "rule 2: output tensor 2 lies in the arena"),
        (lambda p: with_tensor(p, 1, buffer=0), "rule 3: operator 'a' writes buffer 0"),
        (lambda p: with_tensor(p, 2, buffer=1), "rule 3: operators 'a' and 'b'"),
        (lambda p: with_group(p, 2, dependencies=(0,)), "rule 4: 'c' reads.*does not wait.*'b'"),
        (lambda p: with_tensor(p, 1, shape=(8,)), None),
        (lambda p: with_buffer(p, 2, arena_offset=0), "rule 5: buffers 1 and 2 share"),
    ],
)
def test_broken_plans_are_refused(plan, breaks, message):
    broken = breaks(plan)
    if message is None:
        verify_plan(broken)
        return
    with pytest.raises(PlanError, match=message):
        verify_plan(broken)


def test_unwritten_bytes_are_refused(plan):
    tensors = (*plan.tensors, Tensor(buffer=1, byte_offset=0, shape=(8,), dtype="float32"))
    launches = (launch("a", (0,), 4), *plan.launches[1:])
    with pytest.raises(PlanError, match="rule 4: 'c' reads bytes 32 to 64"):
        verify_plan(replace(plan, tensors=tensors, launches=launches))
