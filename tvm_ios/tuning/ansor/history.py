"""Ansor's records in logs: those of given tasks, and as a context to compile in."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import tvm
from tvm import auto_scheduler
from tvm.auto_scheduler.measure_record import load_record_from_string

from tvm_ios.report.records_in_force import RecordFormat
from tvm_ios.tuning.ansor.tasks import ansor_context
from tvm_ios.tuning.records.records import TuningRecord, distinct_records, read_records
from tvm_ios.tuning.records.target_records import is_target, preferred_records, targets_with_key

__all__ = ["apply_history", "known_records", "recorded_workloads"]


def known_records(
    log: Path, workloads: Collection[str], target: tvm.target.Target
) -> Mapping[str, list[TuningRecord]]:
    """Records of workloads on a target, failed candidates included.

    A candidate that occurs twice, as after merging logs, counts once, with its better time. A
    missing log is empty.
    """
    found: dict[str, list[TuningRecord]] = {}
    if not log.exists():
        return {}
    same: dict[str, bool] = {}
    for record in read_records(log).records:
        if record.format is not RecordFormat.AUTO_SCHEDULER or record.workload not in workloads:
            continue
        if record.target not in same:
            same[record.target] = is_target(record.target, target)
        if same[record.target] and _loaded(record) is not None:
            found.setdefault(record.workload, []).append(record)
    return {workload: distinct_records(records) for workload, records in found.items()}


def recorded_workloads(logs: Sequence[Path], target: tvm.target.Target) -> frozenset[str]:
    """Workloads with a candidate that ran, for targets that TVM accepts in place of this one."""
    records = [record for record in read_records(*logs).records if record.ok]
    fitting = targets_with_key(records, target)
    return frozenset(
        record.workload
        for record in records
        if record.format is RecordFormat.AUTO_SCHEDULER and record.target in fitting
    )


@contextmanager
def apply_history(
    logs: Sequence[Path], target: tvm.target.Target | None, *, without: Collection[str]
) -> Iterator[None]:
    """Context to compile in with the best of these records, and default schedules elsewhere.

    Arguments are those of :meth:`tvm_ios.tuning.ansor.backend.AnsorBackend.applied`.
    """
    records = read_records(*logs).records if logs else ()
    wanted = [record for record in records if record.workload not in without]
    if target is not None:
        wanted = preferred_records(wanted, target)
    history = auto_scheduler.ApplyHistoryBest(list(_pairs(wanted)))
    with history, ansor_context():
        yield


def _pairs(records: Iterable[TuningRecord]) -> Iterator[tuple[Any, Any]]:
    """Pairs that stock TVM reads from a log, one line at a time: a refused line harms no other."""
    for record in records:
        if record.format is RecordFormat.AUTO_SCHEDULER and record.ok:
            pair = _loaded(record)
            if pair is not None:
                yield pair


def _loaded(record: TuningRecord) -> tuple[Any, Any] | None:
    with suppress(tvm.TVMError, ValueError):
        measured, result = load_record_from_string(record.line)
        return measured, result
    return None
