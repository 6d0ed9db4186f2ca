"""The verifier names the rule that a broken plan breaks."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from tests.runtime.libraries.cudnn.calls import CALL, CONVOLUTION
from tvm_ios.errors import PlanError
from tvm_ios.plan.library_call import LibraryCall
from tvm_ios.plan.plan import (
    Buffer,
    BufferKind,
    ExecutionPlan,
    Group,
    Launch,
    PlanInput,
    Tensor,
)
from tvm_ios.plan.verify import verify_plan
from tvm_ios.runtime.libraries.cudnn.provider import CudnnLibrary


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


def by_cudnn(**changes: object) -> ExecutionPlan:
    """One convolution, with a bias of another shape than cuDNN's."""
    channels = CONVOLUTION.weight_shape[0]
    operands = (CONVOLUTION.weight_shape, CONVOLUTION.input_shape, (channels, 1, 1))
    shapes = (*operands, CONVOLUTION.output_shape)
    sizes = [4 * math.prod(shape) for shape in shapes]
    made = LibraryCall(CudnnLibrary.name, replace(CALL, **changes))
    return ExecutionPlan(
        lanes=1,
        buffers=tuple(
            Buffer(kind=BufferKind.INPUT if n < 3 else BufferKind.OUTPUT, size_bytes=size)
            for n, size in enumerate(sizes)
        ),
        tensors=tuple(
            Tensor(buffer=n, byte_offset=0, shape=shape, dtype="float32")
            for n, shape in enumerate(shapes)
        ),
        launches=(replace(launch("a", (0, 1, 2), 3), call=made),),
        groups=(Group(stage=0, position=0, launches=(0,), dependencies=()),),
        inputs=tuple(PlanInput(str(n), n) for n in range(3)),
        outputs=(3,),
        arena_bytes=0,
    )


def test_what_cudnn_computes_has_the_tensors_of_its_call() -> None:
    plan = by_cudnn()
    verify_plan(plan)
    for wrong in (
        {"data": 0, "weight": 1},
        {"bias": None},
        {"bias": 3},
        {"convolution": replace(CONVOLUTION, bias=False)},
        {"convolution": replace(CONVOLUTION, padding=(2, 2))},
        {"convolution": replace(CONVOLUTION, weight_shape=(16, 4, 1, 1))},
        {"convolution": replace(CONVOLUTION, dtype="float16")},
    ):
        with pytest.raises(PlanError, match="rule 6: the tensors of 'a' .* call of cuDNN"):
            verify_plan(by_cudnn(**wrong))
