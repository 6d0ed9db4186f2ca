"""Loops that MetaSchedule has tuned, for kernels that its database knows.

They come before loops of ours, which leave scheduled kernels as they are. A database is in force
inside ``with database:``, as for TVM's own passes; :func:`read_records` makes one of files.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tvm

from tvm_ios.errors import RecordError
from tvm_ios.relax.extract import FLOPS, WORKLOAD, Extraction, kernel_of
from tvm_ios.relax.notes import COMPUTES
from tvm_ios.relax.schedules.in_force import IS_SCHEDULED

__all__ = [
    "IS_TUNED",
    "RECORD_FILES",
    "Records",
    "database_in_force",
    "digest_in_force",
    "read_records",
    "with_tuned_loops",
]

RECORD_FILES = ("database_workload.json", "database_tuning_record.json")
"""Files in a folder of MetaSchedule's: workloads, and records that name them by number."""
IS_TUNED = "tvm_ios_tuned"
"""Attribute of kernels with loops of a database."""
_NORMALIZED = "tvm.s_tir.meta_schedule.normalize_mod"
_MODULE = "tvm.s_tir.meta_schedule"


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """Records of one or several folders."""

    database: Any
    """MetaSchedule's database in memory; a context in which its records are in force."""
    notes: tuple[str, ...]
    """Lines on records that were set aside."""


def read_records(folders: Sequence[Path]) -> Records:
    """Records of MetaSchedule in folders; lines that are torn, or of another TVM, are set aside.

    Raises
    ------
    RecordError
        If a folder lacks one of the two files, or a file cannot be read.
    """
    from tvm.s_tir import meta_schedule  # noqa: PLC0415 - brings its tuners in

    database, notes = meta_schedule.database.MemoryDatabase(), []
    for folder in folders:
        workloads: dict[int, Any] = {}
        bad = []
        known, records = (_lines(folder, name) for name in RECORD_FILES)
        for number, line in enumerate(known):
            try:
                workload = meta_schedule.database.Workload.from_json(json.loads(line))
                workloads[number] = database.commit_workload(workload.mod)
            # TVM says what it cannot read in any error of its own.
            except Exception:  # noqa: BLE001
                bad.append(f"line {number + 1} of {RECORD_FILES[0]}")
        for number, line in enumerate(records):
            try:
                place, record = json.loads(line)
                made = meta_schedule.database.TuningRecord.from_json(record, workloads[place])
                database.commit_tuning_record(made)
            except Exception:  # noqa: BLE001 - as above
                bad.append(f"line {number + 1} of {RECORD_FILES[1]}")
        if bad:
            more = f" and {len(bad) - 1} more" if len(bad) > 1 else ""
            notes.append(
                f"tuning records: {bad[0]}{more} in {folder} cannot be read by TVM "
                f"{tvm.__version__}, and were set aside"
            )
    return Records(database=database, notes=tuple(notes))


def database_in_force() -> Any:
    """Database of MetaSchedule around the call; None without one."""
    known = sys.modules.get(_MODULE)  # else nobody has entered one
    return None if known is None else known.database.Database.current()


def digest_in_force() -> str:
    """Digest of the records of the database around the call; empty without one."""
    database = database_in_force()
    if database is None:
        return ""
    told = sorted(
        json.dumps([_text(record.workload.as_json()), _text(record.as_json())])
        for record in database.get_all_tuning_records()
    )
    return hashlib.sha256("\n".join(told).encode()).hexdigest()[:16]


def with_tuned_loops(extraction: Extraction, target: tvm.target.Target) -> tvm.IRModule:
    """Copy of a prepared module in which kernels have the loops of the database around the call."""
    module, database = extraction.module.clone(), database_in_force()
    if database is None:
        return module
    for call, operator in zip(extraction.line.calls, extraction.graph.operators, strict=True):
        function = kernel_of(module, call)
        if function is None or operator.view or IS_SCHEDULED in function.attrs:
            continue
        loops = _loops(database, function, target)
        if loops is not None:
            noted = {WORKLOAD: operator.workload, FLOPS: operator.flops}
            kept = {name: function.attrs[name] for name in function.attrs.keys()}  # noqa: SIM118
            marks = {IS_SCHEDULED: True, IS_TUNED: True}
            tuned = loops.without_attr("global_symbol").with_attrs({**kept, **noted, **marks})
            module.update_func(call.call.args[0], tuned)
    return module


def _loops(
    database: Any, function: tvm.tirx.PrimFunc, target: tvm.target.Target
) -> tvm.tirx.PrimFunc | None:
    """Best loops that a database has for a kernel; None without any."""
    plain = function.without_attr(COMPUTES) if COMPUTES in function.attrs else function
    module = tvm.get_global_func(_NORMALIZED)(plain)
    schedule = database.query_schedule(module, target, "main")
    return None if schedule is None else schedule.mod["main"]


def _lines(folder: Path, name: str) -> Iterator[str]:
    try:
        text = (folder / name).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise RecordError(
            f"{folder} has no tuning records of MetaSchedule: {error}; give a folder with "
            f"{' and '.join(RECORD_FILES)}"
        ) from error
    return iter(text.splitlines())


def _text(value: Any) -> Any:
    """Python's own values of JSON that TVM gives."""
    if isinstance(value, Mapping):
        return {str(key): _text(each) for key, each in value.items()}
    if isinstance(value, str | int | float | bool) or value is None:
        return value
    return [_text(each) for each in value] if hasattr(value, "__iter__") else str(value)
