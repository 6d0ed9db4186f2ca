"""AutoTVM: templates, its tuners, builders and runners, its log format."""

from __future__ import annotations

import importlib.util
import itertools
import logging
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import tvm
from tvm import autotvm
from tvm.autotvm.tuner import RandomTuner, Tuner, XGBTuner

from tvm_ios.errors import TuningError
from tvm_ios.host import default_lanes
from tvm_ios.runtime.base.device import is_gpu_target
from tvm_ios.support.progress import Progress, ProgressListener
from tvm_ios.tuning.autotvm.tasks import (
    KernelTask,
    Layout,
    blocks_of,
    config_blocks,
    extract_tasks,
    layout_candidates,
)
from tvm_ios.tuning.backend import Application
from tvm_ios.tuning.device_options import DeviceOptions
from tvm_ios.tuning.guard import guarded_workers
from tvm_ios.tuning.options import TuningOptions
from tvm_ios.tuning.outcome import TaskOutcome, TuningOutcome
from tvm_ios.tuning.records.records import RecordFormat, append_records, read_records
from tvm_ios.tuning.remote import parse_tracker, require_device

__all__ = ["AutoTvmBackend"]

WHOLE_SPACE_TRIALS = 1000
"""Candidates of a whole space to try where nobody says how many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoTvmBackend:
    """Tunes with TVM's templates."""

    name: str = "autotvm"
    extra_modules: tuple[tvm.IRModule, ...] = ()
    """Modules whose kernels are tuned as well: merged convolutions the search may choose."""
    device: DeviceOptions = field(default_factory=DeviceOptions)
    """Where candidates are measured."""

    def tune(
        self,
        mod: tvm.IRModule,
        params: Mapping[str, Any],  # noqa: ARG002 - shapes are all that AutoTVM needs
        target: tvm.target.Target,
        records: Path,
        options: TuningOptions,
        progress: ProgressListener | None = None,
    ) -> TuningOutcome:
        """Measure candidates of every task until the budget is spent."""
        begin = time.monotonic()
        gpu = is_gpu_target(target)
        tuner_name = options.tuner_for(gpu=gpu)
        _require_tuner(tuner_name)
        require_device(self.device)
        tasks = extract_tasks([mod, *self.extra_modules], target)
        history = _read_history(records, {task.task.workload for task in tasks})
        run = _Run(
            records=records,
            options=options,
            device=self.device,
            gpu=gpu,
            progress=progress,
            begin=begin,
            rows=[_row(task, history.get(task.task.workload, [])) for task in tasks],
        )
        pending = [
            (place, tuner)
            for place, task in enumerate(tasks)
            if (tuner := _tuner_for(task, history.get(task.task.workload, []), options, tuner_name))
        ]
        run.total = sum(tuner.left for _, tuner in pending)
        if pending:
            with guarded_workers(threads=options.threads or 1), _quiet():
                for place, tuner in pending:
                    run.tune(place, tuner)
                    if run.is_late():
                        break
        return TuningOutcome(
            backend=self.name,
            tasks=tuple(run.rows),
            seconds=time.monotonic() - begin,
            notes=tuple(_notes(run)),
        )

    def applied(self, records: Sequence[Path]) -> AbstractContextManager[None]:
        """Everything inside is compiled with the best records of these logs."""
        return _itself(autotvm.apply_history_best(_load(records)))

    def variants(self, records: Sequence[Path]) -> Mapping[str, Application]:
        """Ways to apply the records of logs: all of them, and those of one layout at a time.

        Ways that choose the same candidates are there once.

        """
        pairs = [pair for pair in _load(records) if pair[1].error_no == 0]
        # A task that comes out of a log has no space of candidates.
        tasks = {
            workload: autotvm.task.create(one.task.name, one.task.args, target=one.target)
            for workload, one in {m.task.workload: m for m, _ in pairs}.items()
        }
        choices: dict[str, list[Any]] = {"the fastest of each task": _best(pairs)}
        for layout in Layout:
            blocks = {workload: blocks_of(task, layout) for workload, task in tasks.items()}
            if not any(blocks.values()):
                continue  # templates for a GPU keep one layout
            fitting = [
                (measured, result)
                for measured, result in pairs
                if config_blocks(measured.config) == blocks[measured.task.workload]
                or not blocks[measured.task.workload]
            ]
            choices[f"layout {layout.value}"] = _best(fitting)
        distinct = {
            tuple(sorted((str(m.task.workload), m.config.index) for m, _ in best)): (name, best)
            for name, best in choices.items()
            if best
        }
        # The very same context each time: preparing adds to it what compiling looks up.
        return {
            name: partial(_itself, autotvm.apply_history_best(best))
            for name, best in distinct.values()
        }


def _itself(context: Any) -> AbstractContextManager[None]:
    """A context of TVM's may be entered again."""
    return cast("AbstractContextManager[None]", context)


def _load(logs: Sequence[Path]) -> list[tuple[Any, Any]]:
    """AutoTVM's records in logs, without those of other tuners and of targets unknown here."""
    pairs = []
    for record in read_records(*logs).records:
        if record.format is RecordFormat.AUTOTVM:
            with suppress(ValueError, tvm.TVMError):  # a target of another TVM
                pairs.append(autotvm.record.decode(record.line))
    return [pair for pair in pairs if pair is not None]


def _best(pairs: Sequence[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """The fastest candidate of each workload."""
    best: dict[Any, tuple[Any, Any]] = {}
    for measured, result in pairs:
        known = best.get(measured.task.workload)
        if known is None or np.mean(result.costs) < np.mean(known[1].costs):
            best[measured.task.workload] = (measured, result)
    return list(best.values())


class _OpenTuner:
    """A tuner of TVM's, and how many candidates it may still measure."""

    def __init__(self, tuner: Tuner, left: int) -> None:
        self.tuner = tuner
        self.left = left


class _ListTuner(Tuner):  # type: ignore[misc]
    """Tries given candidates in order."""

    def __init__(self, task: autotvm.task.Task, candidates: Sequence[int]) -> None:
        super().__init__(task)
        self._waiting = list(candidates)

    def has_next(self) -> bool:
        return bool(self._waiting)

    def next_batch(self, batch_size: int) -> list[Any]:
        batch, self._waiting = self._waiting[:batch_size], self._waiting[batch_size:]
        return [self.space.get(index) for index in batch]

    def load_history(self, data_set: Any, min_seed_records: int = 500) -> None:
        """There is nothing to learn from."""


@dataclass(slots=True, kw_only=True)
class _Run:
    """State of one tuning run: the table, the clock, and who is told."""

    records: Path
    options: TuningOptions
    device: DeviceOptions
    gpu: bool
    progress: ProgressListener | None
    begin: float
    rows: list[TaskOutcome]
    total: int = 0
    done: int = 0
    late: bool = False
    _place: int = field(default=0)

    def tune(self, place: int, tuner: _OpenTuner) -> None:
        self._place = place
        measure = autotvm.measure_option(
            builder=autotvm.LocalBuilder(
                timeout=self.options.build_timeout_s, n_parallel=default_lanes(), do_fork=True
            ),
            runner=_runner(self.options, self.device, self.options.run_timeout_s(gpu=self.gpu)),
        )
        tuner.tuner.tune(
            n_trial=tuner.left,
            measure_option=measure,
            early_stopping=self.options.early_stopping,
            callbacks=[self.keep],
        )

    def keep(self, tuner: Tuner, inputs: Sequence[Any], results: Sequence[Any]) -> None:
        """Write a batch into the log, at once and whole; then count it."""
        append_records(
            self.records,
            [
                autotvm.record.encode(measured, result)
                for measured, result in zip(inputs, results, strict=True)
            ],
        )
        self.done += len(results)
        row = self.rows[self._place]
        row = replace(row, trials=row.trials + len(results))
        self.rows[self._place] = row.with_candidates(
            [_cost_s(result) for result in results], tuner.task.flop
        )
        if self.is_late():
            # The tuner asks for more until it has none: TVM offers no other way to stop early.
            tuner.has_next = lambda: False
        self._tell()

    def is_late(self) -> bool:
        budget = self.options.time_budget_s
        self.late = budget is not None and time.monotonic() - self.begin > budget
        return self.late

    def _tell(self) -> None:
        if self.progress is None:
            return
        elapsed_s = time.monotonic() - self.begin
        left_s = elapsed_s / max(1, self.done) * (self.total - self.done)
        row = self.rows[self._place]
        total_ns = sum(one.weight * (one.latency_ns or 0) for one in self.rows)
        best = "no candidate ran yet" if row.gflops is None else f"{row.gflops:.1f} GFLOPS"
        self.progress(
            Progress(
                phase="tune",
                detail=f"task {self._place + 1} of {len(self.rows)}: {row.name}, {best}; "
                f"{self.done} of {self.total} candidates, kernels in a row "
                f"{total_ns / 1e6:.3f} ms, {left_s:.0f} s left",
                done=self.done,
                elapsed_s=elapsed_s,
            )
        )


def _tuner_for(
    task: KernelTask, history: Sequence[tuple[Any, Any]], options: TuningOptions, name: str
) -> _OpenTuner | None:
    """A tuner that measures nothing twice; None where the budget is spent."""
    known = {measured.config.index for measured, _ in history}
    space = len(task.task.config_space)
    if name == "layout":
        each = [layout_candidates(task.task, layout) for layout in Layout]
        # By turns, so that a few trials see something of each layout.
        turns = itertools.chain.from_iterable(itertools.zip_longest(*each))
        distinct = dict.fromkeys(index for index in turns if index is not None)
        candidates = list(distinct)[: options.trials]
        waiting = [index for index in candidates if index not in known]
        return _OpenTuner(_ListTuner(task.task, waiting), len(waiting)) if waiting else None
    left = min(options.trials or WHOLE_SPACE_TRIALS, space) - len(known)
    if left <= 0:
        return None
    if name == "grid":
        waiting = [index for index in range(space) if index not in known][:left]
        return _OpenTuner(_ListTuner(task.task, waiting), len(waiting))
    tuner = XGBTuner(task.task, loss_type="reg") if name == "xgb" else RandomTuner(task.task)
    if name == "xgb" and history:
        tuner.load_history(list(history), min_seed_records=1)
    tuner.visited = type(tuner.visited)(known)
    return _OpenTuner(tuner, left)


def _require_tuner(name: str) -> None:
    if name == "xgb" and importlib.util.find_spec("xgboost") is None:
        raise TuningError(
            "tuner 'xgb' needs the package xgboost, which is not installed; "
            "run: python -m pip install xgboost, or choose the tuner 'layout'"
        )


def _runner(options: TuningOptions, device: DeviceOptions, timeout_s: float) -> Any:
    common = {
        "timeout": timeout_s,
        "number": options.number,
        "repeat": options.repeat,
        "min_repeat_ms": options.min_repeat_ms,
        "cooldown_interval": 0.0,
    }
    if device.rpc_tracker is None:
        return autotvm.LocalRunner(**common)
    host, port = parse_tracker(device.rpc_tracker)
    return autotvm.RPCRunner(device.rpc_key, host, port, **common)


def _read_history(records: Path, workloads: set[Any]) -> dict[Any, list[tuple[Any, Any]]]:
    """The records that a log holds of these workloads, each candidate once."""
    history: dict[Any, dict[int, tuple[Any, Any]]] = {}
    if not records.exists():
        return {}
    for measured, result in _load([records]):
        if measured.task.workload in workloads:
            history.setdefault(measured.task.workload, {})[measured.config.index] = (
                measured,
                result,
            )
    return {workload: list(rows.values()) for workload, rows in history.items()}


def _row(task: KernelTask, history: Sequence[tuple[Any, Any]]) -> TaskOutcome:
    empty = TaskOutcome(
        name=task.name, workload=str(task.task.workload), weight=task.weight, known=len(history)
    )
    return empty.with_candidates([_cost_s(result) for _, result in history], task.task.flop)


def _cost_s(result: Any) -> float:
    return math.inf if result.error_no else float(np.mean(result.costs))


def _notes(run: _Run) -> Iterator[str]:
    without = [row.name for row in run.rows if row.latency_ns is None]
    if without:
        yield (
            f"{len(without)} of {len(run.rows)} tasks have no record and keep TVM's default "
            f"schedule, such as {without[0]}"
        )
    if run.late:
        yield (
            f"the time budget of {run.options.time_budget_s:g} s ended tuning after {run.done} of "
            f"{run.total} candidates; the same call goes on from there"
        )


@contextmanager
def _quiet() -> Iterator[None]:
    """AutoTVM logs every failure with a trace; the table counts them."""
    logger: logging.Logger = logging.getLogger("autotvm")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)
