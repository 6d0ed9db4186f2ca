"""Records known for a model's tasks before anything is measured.

A job with a deadline asks first: where every task has a record in some log, one build and one
evaluation decide whether tuning is needed at all.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tvm

from tvm_ios.profile.build_candidates import BuildCandidate, ModelChange, all_candidates
from tvm_ios.report.records_in_force import RecordFormat
from tvm_ios.tuning.ansor.tasks import extract_tasks as ansor_tasks
from tvm_ios.tuning.autotvm.tasks import extract_tasks as autotvm_tasks
from tvm_ios.tuning.records.record_index import KnownWorkload, RecordIndex
from tvm_ios.tuning.records.target_records import is_target

__all__ = ["KnownTask", "KnownTasks", "known_tasks"]

NAMED = 3
"""Number of tasks without a record that the one line names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownTask:
    """A task of a model, with the records in logs for one target."""

    name: str
    """Operators and shapes, for people."""
    workload: str
    """Key of the task's records."""
    records: tuple[KnownWorkload, ...]
    """Known workloads with this key; empty where nothing is known."""

    def candidates_in(self, log: Path) -> int:
        """Number of candidates in a log, failed ones included, as its tuner counts them."""
        return sum(row.candidates.get(log, 0) + row.failed.get(log, 0) for row in self.records)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownTasks:
    """Tasks of a model in one of its forms, each with its known records."""

    tuner: RecordFormat
    """Tuner whose tasks they are."""
    tasks: tuple[KnownTask, ...]
    """Tasks in order, the most work first."""

    @property
    def missing(self) -> tuple[KnownTask, ...]:
        """Tasks without a record of a candidate that ran."""
        return tuple(task for task in self.tasks if not any(row.candidates for row in task.records))

    @property
    def is_complete(self) -> bool:
        """True if every task has a record, and there is at least one task."""
        return bool(self.tasks) and not self.missing

    @property
    def logs(self) -> tuple[Path, ...]:
        """Logs that hold any of the records, each once."""
        found = (log for task in self.tasks for row in task.records for log in row.candidates)
        return tuple(dict.fromkeys(found))

    def as_text(self) -> str:
        """Line of text: how many tasks are known, in how many logs, and the first unknown ones."""
        known = len(self.tasks) - len(self.missing)
        line = f"records known for {known} of {len(self.tasks)} tasks of {self.tuner.value}"
        line += f" (logs: {len(self.logs)})" if self.logs else ""
        if not self.missing:
            return line
        more = len(self.missing) - NAMED
        names = ", ".join(task.name for task in self.missing[:NAMED])
        return f"{line}; without: {names}" + (f" and {more} more" if more > 0 else "")


def known_tasks(
    mod: tvm.IRModule,
    params: Mapping[str, Any] | None,
    target: tvm.target.Target,
    tuner: RecordFormat,
    index: RecordIndex,
    *,
    changes: Sequence[ModelChange] = (),
) -> KnownTasks:
    """Known records of each task of a model, from an index of logs.

    Nothing is compiled or measured; TVM lowers the model, which takes seconds. Records for other
    targets do not count.

    Parameters
    ----------
    tuner
        Tuner whose tasks are meant: each tuner divides a model in its own way.
    index
        Index of logs, such as ``RecordIndex.of(logs_in())`` for the cache folder.
    changes
        Changes that a build of the model may have, since kernels are tuned for the built form. The
        answer is for the form of which most is known, the first of equals.
    """
    best = None
    as_it_is = BuildCandidate(mod=mod, params=params)
    for candidate in all_candidates(as_it_is, changes, target):
        tasks = tuple(
            KnownTask(name=name, workload=workload, records=_for_target(rows, target))
            for name, workload in _tasks(candidate, target, tuner)
            for rows in [index.find(tuner, workload)]
        )
        found = KnownTasks(tuner=tuner, tasks=tasks)
        if found.is_complete:
            return found
        if best is None or len(found.missing) < len(best.missing):
            best = found
    assert best is not None  # the model as it is comes first
    return best


def _tasks(
    candidate: BuildCandidate, target: tvm.target.Target, tuner: RecordFormat
) -> Iterator[tuple[str, str]]:
    """Names and workloads of the tasks of a model, as logs have them."""
    if tuner is RecordFormat.AUTOTVM:
        for task in autotvm_tasks([candidate.mod], target):
            yield task.name, json.dumps([task.task.name, task.task.args])
    else:
        for kernel in ansor_tasks(candidate.mod, candidate.params, target, cores=1):
            yield kernel.name, kernel.workload


def _for_target(
    rows: Sequence[KnownWorkload], target: tvm.target.Target
) -> tuple[KnownWorkload, ...]:
    return tuple(row for row in rows if is_target(row.target, target))
