"""Facts in TVM's text about a failed CUDA call of its own. No TVM here.

The text is a stack trace and a dump of the kernel around the one line that tells.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from tvm_ios.errors import ExecutionError
from tvm_ios.plan.plan import ExecutionPlan
from tvm_ios.plan.stream_order import Step, StepKind, StreamProgram
from tvm_ios.runtime.cuda.native_streams import (
    BEGIN_CAPTURE,
    END_CAPTURE,
    WORKSPACE_CALLS,
    Outcome,
)
from tvm_ios.runtime.gpu.driver import CudaDriver, call_failed, is_of_capture
from tvm_ios.runtime.libraries.open_libraries import LaunchCalls
from tvm_ios.support.error_text import lines_that_tell

__all__ = ["explain", "read_tvm_error"]

_LAUNCH = re.compile(r"CUDALaunch Error: (CUDA_ERROR_\w+)")
_DRIVER = re.compile(r"CUDAError: (cu\w+).*? failed with error: (CUDA_ERROR_\w+)")
_RUNTIME = re.compile(r"CUDA(?: Runtime Error: \w+ \(\d+\))?: (.+)")
_NAMES = {
    "out of memory": "CUDA_ERROR_OUT_OF_MEMORY",
    "no CUDA-capable device is detected": "CUDA_ERROR_NO_DEVICE",
    "an illegal memory access was encountered": "CUDA_ERROR_ILLEGAL_ADDRESS",
    "unspecified launch failure": "CUDA_ERROR_LAUNCH_FAILED",
    "operation not permitted when stream is capturing": "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
    "operation failed due to a previous error during capture": (
        "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"
    ),
}
"""Names of errors of the CUDA runtime by their texts, since TVM gives only the texts."""
CAPTURE_INVALIDATED = 901
"""``CUDA_ERROR_STREAM_CAPTURE_INVALIDATED``: how a capture with a forbidden call ends."""


def read_tvm_error(text: str, *, default_call: str) -> tuple[str, str, str]:
    """The call that failed, the name of the error, and TVM's reason, in a line.

    ``default_call`` is named where the text names no call.
    """
    launch, driver = _LAUNCH.search(text), _DRIVER.search(text)
    if launch is not None:
        return "cuLaunchKernel", launch[1], "as TVM reports it"
    if driver is not None:
        return driver[1], driver[2], "as TVM reports it"
    runtime = _RUNTIME.search(text)
    if runtime is not None:
        said = runtime[1].strip()
        name = _NAMES.get(said, "an error of the CUDA runtime")
        # Nothing else that TVM calls runs out of memory.
        return "cudaMalloc" if name == "CUDA_ERROR_OUT_OF_MEMORY" else default_call, name, said
    lines = lines_that_tell(text, "no error text")
    telling = [line for line in lines if re.match(r"(\w*Error: |Check failed|Assert fail)", line)]
    said = (telling or lines)[-1]
    return default_call, "an error of TVM", said[:300]


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
