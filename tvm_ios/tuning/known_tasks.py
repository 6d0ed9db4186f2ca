"""What is known of a model's tasks before anything is measured.

A job that has a time to meet asks first: where every task has a record in some log, one build and
one evaluation decide whether there is anything to tune at all.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tvm

from tvm_ios.profile.build_candidates import BuildCandidate, ModelChange, all_candidates
from tvm_ios.tuning.ansor.tasks import extract_tasks as ansor_tasks
from tvm_ios.tuning.autotvm.tasks import extract_tasks as autotvm_tasks
from tvm_ios.tuning.records.record_index import KnownWorkload, RecordIndex
from tvm_ios.tuning.records.record_line import RecordFormat
from tvm_ios.tuning.records.target_records import is_target

__all__ = ["KnownTask", "KnownTasks", "known_tasks"]

NAMED = 3
"""Tasks without a record that the one line names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownTask:
    """A task of a model, and what the logs hold of it for one target."""

    name: str
    """Operators and shapes, for people."""
    workload: str
    """What its records carry."""
    records: tuple[KnownWorkload, ...]
    """Empty where nothing is known."""

    @property
    def is_known(self) -> bool:
        """Whether a candidate ran."""
        return any(row.candidates for row in self.records)

    def candidates_in(self, log: Path) -> int:
        """Candidates in a log, failed ones too, as its tuner counts them."""
        return sum(row.candidates.get(log, 0) + row.failed.get(log, 0) for row in self.records)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownTasks:
    """All tasks of a model in one of its forms, each with what is known of it."""

    tuner: RecordFormat
    """The tuner whose tasks they are."""
    tasks: tuple[KnownTask, ...]
    """The most work first."""

    @property
    def missing(self) -> tuple[KnownTask, ...]:
        """Tasks without a record of a candidate that ran."""
        return tuple(task for task in self.tasks if not task.is_known)

    @property
    def is_complete(self) -> bool:
        """Whether every task has a record, and there is at least one."""
        return bool(self.tasks) and not self.missing

    @property
    def logs(self) -> tuple[Path, ...]:
        """Logs that hold any of the records, each once."""
        found = (log for task in self.tasks for row in task.records for log in row.candidates)
        return tuple(dict.fromkeys(found))

    def as_text(self) -> str:
        """One line: how many tasks are known, in how many logs, and the first few that are not."""
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
    """Look up each task of a model in an index of logs.

    Nothing is compiled or measured; TVM lowers the model, which takes seconds.

    Parameters
    ----------
    mod, params
        A Relay module, and its parameters by name.
    target
        The target that records have to be for: candidates of another one are not taken for known.
    tuner
        Whose tasks are meant: each tuner divides a model in its own way.
    index
        Such as ``RecordIndex.of(logs_in())``, all logs of the cache folder.
    changes
        Changes that a build of the model may come with, since kernels are tuned for the form that
        is built. The form that most is known of is the answer, the first one of equals.
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
