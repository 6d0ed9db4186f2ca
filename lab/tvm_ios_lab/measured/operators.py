"""Single operators, searched by Ansor and timed on this CPU."""

from __future__ import annotations

import statistics
from functools import singledispatch
from pathlib import Path

import numpy as np
import tvm
from tvm import auto_scheduler, te, topi
from tvm.auto_scheduler.compute_dag import LayoutRewriteOption
from tvm.auto_scheduler.workload_registry import register_workload_tensors

from tvm_ios.errors import RecordError
from tvm_ios.host import host_target
from tvm_ios.runtime.rpc.address import last_line
from tvm_ios.support.progress import Progress
from tvm_ios.support.whole_file import write_text
from tvm_ios.tuning.ansor.backend import AnsorBackend
from tvm_ios.tuning.ansor.history import known_records
from tvm_ios.tuning.ansor.tasks import KernelTask, hardware_params
from tvm_ios.tuning.options import TuningOptions
from tvm_ios.tuning.records.records import best_records
from tvm_ios_lab.cells.ansor_operators import (
    MeasuredOperator,
    NhwcConvolution,
    OperatorCell,
    SingleOperator,
    SquareProduct,
)
from tvm_ios_lab.harness.protocol import Bench
from tvm_ios_lab.places import ROOT

__all__ = ["COMMITTED_LOG", "measured", "operator_task"]

COMMITTED_LOG = "lab/records/ansor_operators.auto_scheduler.log"
_SAMPLE_MS = 50
"""Least length of a sample."""


def measured(cell: OperatorCell, operator: SingleOperator, bench: Bench) -> MeasuredOperator:
    """Search where the cell says so, and time the best program of the log."""
    task = operator_task(cell.operator, operator, cell.run.lanes)
    log = ROOT / COMMITTED_LOG
    if cell.source.trials:
        stem = f"{cell.operator}.{cell.run.lanes}.{cell.source.trials}"
        log = bench.folder / "logs" / f"{stem}.auto_scheduler.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        _search(task, log, cell, bench)
    workload, target = task.workload, task.task.target
    records = known_records(log, {workload}, target).get(workload, [])
    best = next(iter(best_records(records)), None)
    if best is None:
        raise RecordError(
            f"{log} has no record of {cell.operator} on {target}; search one with --tune"
        )
    try:
        inputs, _ = auto_scheduler.measure_record.load_record_from_string(best.line)
        schedule, tensors = task.task.compute_dag.apply_steps_from_state(inputs.state)
        lowered = tvm.lower(schedule, tensors, simple_mode=True).script()
        samples_ms = _samples_ms(tvm.build(schedule, tensors, target), tensors, cell.run.rounds)
    except tvm.TVMError as error:
        raise RecordError(
            f"the best program of {cell.operator} in {log} does not run here: {last_line(error)}; "
            "search another one with --tune"
        ) from error
    path = bench.folder / f"{cell.operator}.txt"
    write_text(path, lowered + "\n")
    ms = statistics.median(samples_ms)
    return MeasuredOperator(
        ms=ms,
        gflops=operator.flops / ms / 1e6,
        samples_ms=samples_ms,
        candidates=len(records),
        log=str(log.relative_to(ROOT)) if log.is_relative_to(ROOT) else log.name,
        lowered=lowered,
        program=path.name,
        log_digest=cell.source.digest(COMMITTED_LOG),
    )


def operator_task(name: str, operator: SingleOperator, lanes: int) -> KernelTask:
    """Ansor's task of an operator on this processor.

    Parameters
    ----------
    lanes
        Threads that run it.
    """
    dag = auto_scheduler.ComputeDAG(_tensors(operator))
    workload = dag.workload_key()
    register_workload_tensors(workload, list(dag.tensors))
    target = tvm.target.Target(host_target())
    task = auto_scheduler.SearchTask(
        compute_dag=dag,
        workload_key=workload,
        target=target,
        hardware_params=hardware_params(target, lanes),
        layout_rewrite_option=LayoutRewriteOption.NO_REWRITE,
        desc=name,
    )
    return KernelTask(task=task, weight=1)


@singledispatch
def _tensors(operator: SingleOperator) -> list[te.Tensor]:
    """Tensors that an operator reads and makes, as tensor expressions."""
    raise NotImplementedError(type(operator))


@_tensors.register
def _(operator: SquareProduct) -> list[te.Tensor]:
    shape = (operator.size, operator.size)
    left, right = (te.placeholder(shape, name=name) for name in ("left", "right"))
    term = te.reduce_axis((0, operator.size), name="term")
    product = te.compute(
        shape, lambda i, j: te.sum(left[i, term] * right[term, j], axis=term), name="product"
    )
    return [left, right, product]


@_tensors.register
def _(operator: NhwcConvolution) -> list[te.Tensor]:
    size, kernel = operator.size, operator.kernel
    image = te.placeholder((1, size, size, operator.channels_in), name="image")
    shape = (kernel, kernel, operator.channels_in, operator.channels_out)
    weight = te.placeholder(shape, name="weight")
    bias = te.placeholder((operator.channels_out,), name="bias")
    made = topi.nn.conv2d_nhwc(image, weight, operator.stride, operator.padding, dilation=1)
    return [image, weight, bias, topi.add(made, bias)]


def _search(task: KernelTask, log: Path, cell: OperatorCell, bench: Bench) -> None:
    options = TuningOptions(trials=cell.source.trials, threads=cell.run.lanes)

    def tell(step: Progress) -> None:
        if bench.progress is not None:
            bench.progress(step)

    AnsorBackend().tune_tasks([task], log, options, tell)


def _samples_ms(
    program: tvm.runtime.Module, tensors: list[te.Tensor], rounds: int
) -> tuple[float, ...]:
    random, device = np.random.default_rng(0), tvm.cpu()
    arrays = [
        tvm.nd.array(
            random.standard_normal([int(extent) for extent in tensor.shape], dtype=np.float32),
            device,
        )
        for tensor in tensors
    ]
    time = program.time_evaluator(
        program.entry_name, device, number=1, repeat=rounds, min_repeat_ms=_SAMPLE_MS
    )
    return tuple(1e3 * seconds for seconds in time(*arrays).results)
