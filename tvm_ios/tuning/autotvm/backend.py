"""AutoTVM: templates, its tuners, builders and runners, its log format."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import tvm
from tvm import autotvm

from tvm_ios.host import default_lanes
from tvm_ios.profile.fastest_build import Records
from tvm_ios.report.records_in_force import RecordFormat
from tvm_ios.runtime.base.device import is_gpu_target
from tvm_ios.support.progress import ProgressListener
from tvm_ios.support.safe_imports import safe_imports
from tvm_ios.support.stage_gate import OpenGate, StageGate, StageNeed, clock_at_work
from tvm_ios.support.time_budget import TimeBudget
from tvm_ios.tuning.autotvm.measure import Measuring
from tvm_ios.tuning.autotvm.run import TuningRun, cost_s, outcome_row, quiet
from tvm_ios.tuning.autotvm.tasks import Layout, blocks_of, config_blocks, extract_tasks
from tvm_ios.tuning.autotvm.tuners import plan_tuner, require_tuner
from tvm_ios.tuning.device_options import DeviceOptions
from tvm_ios.tuning.guard import guarded_workers
from tvm_ios.tuning.options import TuningOptions
from tvm_ios.tuning.outcome import TuningOutcome
from tvm_ios.tuning.records.records import TuningRecord, read_records
from tvm_ios.tuning.records.target_records import preferred_records
from tvm_ios.tuning.remote import require_device

__all__ = ["AutoTvmBackend"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoTvmBackend:
    """Tuner that uses TVM's templates (AutoTVM)."""

    name: str = "autotvm"
    extra_modules: tuple[tvm.IRModule, ...] = ()
    """Modules whose kernels are tuned as well: merged convolutions that the search may choose."""
    device: DeviceOptions = field(default_factory=DeviceOptions)
    """Device that candidates are measured on, if not this machine."""
    gate: StageGate = field(default_factory=lambda: OpenGate(most_cores=default_lanes()))
    """Gate that each of its stages passes before it begins."""

    def tune(
        self,
        mod: tvm.IRModule,
        params: Mapping[str, Any],  # noqa: ARG002 - shapes are all that AutoTVM needs
        target: tvm.target.Target,
        records: Path,
        options: TuningOptions,
        progress: ProgressListener | None = None,
    ) -> TuningOutcome:
        """Measure candidates of every task until the budget is spent.

        Candidates in the log are not measured again, and new ones are appended to it.
        """
        begin = time.monotonic()
        time_left = TimeBudget(options.time_budget_s, clock_s=clock_at_work(self.gate))
        gpu = is_gpu_target(target)
        tuner_name = options.tuner_for(gpu=gpu)
        require_tuner(tuner_name)
        require_device(self.device)
        with self.gate.stage(StageNeed.to_prepare(1, "tasks of AutoTVM")):
            tasks = extract_tasks([mod, *self.extra_modules], target)
            history = _read_history(records, {task.task.workload for task in tasks}, target)
            known = [history.get(task.task.workload, []) for task in tasks]
            plans = [
                plan_tuner(task, found, options, tuner_name)
                for task, found in zip(tasks, known, strict=True)
            ]
        run = TuningRun(
            records=records,
            options=options,
            gate=self.gate,
            progress=progress,
            time_left=time_left,
            begin=begin,
            rows=[outcome_row(task, found) for task, found in zip(tasks, known, strict=True)],
            total=sum(plan.left for plan in plans if plan),
        )
        if run.total:
            measuring = Measuring(
                options=options, device=self.device, gpu=gpu, width=self.gate.most_cores
            )
            with (
                guarded_workers(threads=options.threads or 1),
                safe_imports(),
                measuring,
                quiet(),
            ):
                for place, (task, plan) in enumerate(zip(tasks, plans, strict=True)):
                    if plan is not None and not run.late:
                        run.tune(place, task, plan, measuring)
        return TuningOutcome(
            backend=self.name,
            tasks=tuple(run.rows),
            seconds=time.monotonic() - begin,
            notes=tuple(run.notes()),
        )

    def applied(
        self, records: Sequence[Path], target: tvm.target.Target | None = None
    ) -> AbstractContextManager[None]:
        """Context in which models are compiled with the best records of these logs."""
        return _itself(autotvm.apply_history_best(_load(records, target)))

    def variants(self, records: Sequence[Path], target: tvm.target.Target) -> Mapping[str, Records]:
        """Ways to apply records of logs: all of them, and those of one layout at a time.

        Of ways that choose the same candidates only one is kept.
        """
        pairs = _load(records, target)
        layouts = {
            workload: _blocks_by_layout(one)
            for workload, one in {m.task.workload: m for m, _ in pairs}.items()
        }
        choices: dict[str, list[Any]] = {"the fastest of each task": _best(pairs)}
        for layout in Layout:
            blocks = {workload: by_layout.get(layout) for workload, by_layout in layouts.items()}
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


def _blocks_by_layout(measured: Any) -> dict[Layout, dict[str, int]]:
    """Channel blocks that each layout prescribes to a record's task, by knob.

    Empty where the template has no blocks, or is unknown in this process: a log may have records of
    templates that users registered.
    """
    if not config_blocks(measured.config):
        return {}
    with suppress(Exception):  # a template is anybody's code
        # A task that comes out of a log has no space of candidates.
        task = autotvm.task.create(measured.task.name, measured.task.args, target=measured.target)
        return {layout: blocks_of(task, layout) for layout in Layout}
    return {}


def _itself(context: Any) -> AbstractContextManager[None]:
    """Context of TVM as the type of contexts that may be entered again."""
    return cast("AbstractContextManager[None]", context)


def _load(logs: Sequence[Path], target: tvm.target.Target | None = None) -> list[tuple[Any, Any]]:
    """AutoTVM's records in logs, without those of other tuners and of targets unknown here.

    With a target only candidates that ran, and for a kernel those of this target if it has any.
    """
    records: Sequence[TuningRecord] = read_records(*logs).records
    if target is not None:
        records = preferred_records(records, target)
    pairs = []
    for record in records:
        if record.format is RecordFormat.AUTOTVM:
            with suppress(ValueError, tvm.TVMError):  # a target of another TVM
                pairs.append(autotvm.record.decode(record.line))
    return [pair for pair in pairs if pair is not None]


def _best(pairs: Sequence[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Fastest candidate of each workload."""
    best: dict[Any, tuple[Any, Any]] = {}
    for measured, result in pairs:
        known = best.get(measured.task.workload)
        if known is None or np.mean(result.costs) < np.mean(known[1].costs):
            best[measured.task.workload] = (measured, result)
    return list(best.values())


def _read_history(
    records: Path, workloads: set[Any], target: tvm.target.Target
) -> dict[Any, list[tuple[Any, Any]]]:
    """Records in a log for some workloads on a target.

    A candidate that occurs twice counts once, with its better time.
    """
    history: dict[Any, dict[int, tuple[Any, Any]]] = {}
    if not records.exists():
        return {}
    for measured, result in _load([records]):
        if measured.task.workload in workloads and str(measured.target) == str(target):
            candidates = history.setdefault(measured.task.workload, {})
            _, other = candidates.setdefault(measured.config.index, (measured, result))
            if cost_s(result) < cost_s(other):
                candidates[measured.config.index] = measured, result
    return {workload: list(rows.values()) for workload, rows in history.items()}
