"""Errors of stream programs that were not issued to their end: call, reason, and operator."""

from __future__ import annotations

from collections.abc import Callable

from tvm_ios.errors import ExecutionError
from tvm_ios.plan.plan import ExecutionPlan
from tvm_ios.plan.stream_order import Step, StepKind, StreamProgram
from tvm_ios.runtime.cuda.errors import read_tvm_error
from tvm_ios.runtime.cuda.native_streams import (
    BEGIN_CAPTURE,
    END_CAPTURE,
    WORKSPACE_CALLS,
    Outcome,
)
from tvm_ios.runtime.gpu.driver import CudaDriver, call_failed, is_of_capture
from tvm_ios.runtime.libraries.open_libraries import LaunchCalls

__all__ = ["explain"]

CAPTURE_INVALIDATED = 901
"""``CUDA_ERROR_STREAM_CAPTURE_INVALIDATED``: how a capture with a forbidden call ends."""


def explain(
    driver: CudaDriver,
    plan: ExecutionPlan,
    program: StreamProgram,
    outcome: Outcome,
    last_error_text: Callable[[], str],
    calls: LaunchCalls | None = None,
) -> ExecutionError:
    """The error to raise for a program that was not issued to its end.

    To be called on the same thread, before TVM is called again: TVM keeps its text that long, which
    ``last_error_text`` returns.
    ``calls`` are those of operator libraries in the program.
    """
    if outcome.step in (BEGIN_CAPTURE, END_CAPTURE):
        begin = outcome.step == BEGIN_CAPTURE
        call = "cuStreamBeginCapture_v2" if begin else "cuStreamEndCapture"
        return driver.failed(call, outcome.status, "the capture of this model")
    step = program.steps[outcome.step]
    where = _where(plan, step)
    if step.kind is not StepKind.LAUNCH:
        call = "cuEventRecord" if step.kind is StepKind.RECORD else "cuStreamWaitEvent"
        return driver.failed(call, outcome.status, where)
    if outcome.workspace_status:
        where += f", {outcome.workspace_bytes:,} bytes of workspace"
        return driver.failed(
            WORKSPACE_CALLS[outcome.workspace_call], outcome.workspace_status, where
        )
    error = None if calls is None else calls.failure(step.index, where)
    if error is None:
        call, name, text = read_tvm_error(last_error_text(), default_call="its host function")
        error = call_failed(call, name=name, text=text, where=where)
    if outcome.end_status == CAPTURE_INVALIDATED and not is_of_capture(error):
        return driver.failed("a call inside it", CAPTURE_INVALIDATED, where)
    return error


def _where(plan: ExecutionPlan, step: Step) -> str:
    if step.group is None:
        fork = step.kind is StepKind.RECORD
        return "the fork from the caller's stream" if fork else "the join to the caller's stream"
    group = plan.groups[step.group]
    number = {
        StepKind.LAUNCH: step.index,
        StepKind.RECORD: group.launches[-1],
        StepKind.WAIT: group.launches[0],
    }[step.kind]
    launch = plan.launches[number]
    return (
        f"operator {launch.operator!r} ({launch.computed_by}, stage {group.stage}, "
        f"stream {step.stream})"
    )
