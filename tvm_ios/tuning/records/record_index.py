"""Index over logs: workloads that have records, and the files they are in.

It is read once and asked often, to know before measuring whether a model can be built from known
records. Free of TVM.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tvm_ios.report.records_in_force import RecordFormat
from tvm_ios.support.cache_folder import cache_directory
from tvm_ios.tuning.records.record_line import TuningRecord
from tvm_ios.tuning.records.records import distinct_records, read_records

__all__ = ["KnownWorkload", "RecordIndex", "logs_in"]

SUFFIX = ".log"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownWorkload:
    """A workload that was measured for a target, with the candidates of all logs together."""

    format: RecordFormat
    workload: str
    """Workload as :attr:`~tvm_ios.tuning.records.record_line.TuningRecord.workload`."""
    target: str
    """The target as the tuner printed it."""
    best_s: float
    """Mean seconds of the fastest candidate; infinite where none ran."""
    candidates: Mapping[Path, int]
    """Number of candidates that ran, by file, in the order of the index."""
    failed: Mapping[Path, int]
    """Number of candidates that never ran, by file; a tuner does not try them again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordIndex:
    """Known workloads of several logs, by tuner and workload."""

    logs: tuple[Path, ...]
    """Files that were read."""
    workloads: Mapping[tuple[RecordFormat, str], tuple[KnownWorkload, ...]]
    """A row for each target that a workload was measured for."""

    @classmethod
    def of(cls, logs: Iterable[str | os.PathLike[str]]) -> RecordIndex:
        """Index of logs of either tuner; lines that are no records are left out."""
        paths = tuple(map(Path, logs))
        found: dict[tuple[RecordFormat, str, str], list[TuningRecord]] = {}
        for record in read_records(*paths).records:
            found.setdefault((record.format, record.workload, record.target), []).append(record)
        workloads: dict[tuple[RecordFormat, str], tuple[KnownWorkload, ...]] = {}
        for (kind, workload, target), records in found.items():
            by_log: dict[Path, list[TuningRecord]] = {}
            for record in records:
                by_log.setdefault(record.path, []).append(record)
            distinct = [record for log in by_log.values() for record in distinct_records(log)]
            row = KnownWorkload(
                format=kind,
                workload=workload,
                target=target,
                best_s=min(record.mean_s for record in distinct),
                candidates=Counter(record.path for record in distinct if record.ok),
                failed=Counter(record.path for record in distinct if not record.ok),
            )
            workloads[kind, workload] = (*workloads.get((kind, workload), ()), row)
        return cls(logs=paths, workloads=workloads)

    def find(self, log_format: RecordFormat, workload: str) -> tuple[KnownWorkload, ...]:
        """Known workloads of a key, one for each target; empty where there is no record."""
        return self.workloads.get((log_format, workload), ())


def logs_in(folder: Path | None = None) -> tuple[Path, ...]:
    """Tuning logs (``.log``) in a folder and below it, by name; the cache folder where omitted."""
    top = cache_directory() if folder is None else folder
    found = (
        Path(place) / name
        for place, _, names in os.walk(top)
        for name in names
        if name.endswith(SUFFIX)
    )
    return tuple(sorted(path for path in found if path.is_file()))
