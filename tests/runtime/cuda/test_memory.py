"""What a plan needs on a GPU, in words; allocation itself is tested with the module."""

from __future__ import annotations

from tvm_ios.plan.plan import Buffer, BufferKind, ExecutionPlan, PlanInput, Tensor
from tvm_ios.runtime.cuda.memory import describe_bytes


def test_bytes_are_told_by_what_they_are_for():
    plan = ExecutionPlan(
        lanes=1,
        buffers=(
            Buffer(kind=BufferKind.INPUT, size_bytes=40),
            Buffer(kind=BufferKind.INPUT, size_bytes=4000),
            Buffer(kind=BufferKind.OUTPUT, size_bytes=80),
        ),
        tensors=(
            Tensor(buffer=0, byte_offset=0, shape=(10,), dtype="float32"),
            Tensor(buffer=1, byte_offset=0, shape=(1000,), dtype="float32"),
        ),
        launches=(),
        groups=(),
        inputs=(PlanInput("data", 0), PlanInput("weight", 1)),
        outputs=(),
        arena_bytes=123456,
    )
    assert describe_bytes(plan, {"weight": None}) == (
        "4,000 bytes of parameters, 123,456 of intermediate tensors and 120 of inputs and outputs"
    )
