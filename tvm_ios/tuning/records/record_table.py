"""Tuning records as a table for people: short workload, target, latency, place."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from tvm_ios.report.records_in_force import RecordFormat
from tvm_ios.report.table import Table
from tvm_ios.tuning.records.records import TuningRecord

__all__ = ["printable", "record_table"]

WORKLOAD_WIDTH = 56
TARGET_WIDTH = 32
_ERRORS = {
    0: "no cost",
    1: "instantiation",
    2: "compile host",
    3: "compile device",
    4: "runtime",
    5: "wrong answer",
    6: "build timeout",
    7: "run timeout",
    8: "unknown",
}
"""Short texts for TVM's ``MeasureErrorNo``."""
_UNTELLING_FLAGS = re.compile(r" -(?:keys|link-params)=\S*")
_HASH = re.compile(r"[0-9a-f]{32}")


def record_table(records: Iterable[TuningRecord]) -> Table:
    """Table with a row for each record, in order; ``-`` in place of the latency of a failure."""
    header = ("workload", "target", "best ms", "mean ms", "error", "file:line")
    return Table(header=header, rows=tuple(map(_row, records)))


def printable(text: str) -> str:
    """Text without control characters: a log may be anybody's, and must not steer the terminal."""
    return "".join(each if each.isprintable() else "?" for each in text)


def _row(record: TuningRecord) -> tuple[str, ...]:
    return (
        _shortened(_workload(record), WORKLOAD_WIDTH),
        _shortened(_UNTELLING_FLAGS.sub("", record.target), TARGET_WIDTH),
        f"{min(record.costs_s) * 1e3:.4f}" if record.ok else "-",
        f"{record.mean_s * 1e3:.4f}" if record.ok else "-",
        "-" if record.ok else _ERRORS.get(record.error, f"error {record.error}"),
        printable(f"{record.path}:{record.line_number}"),
    )


def _workload(record: TuningRecord) -> str:
    """Name and shapes, such as ``conv2d_NCHWc 1x64x28x28 96x64x3x3 1x1 1x1x1x1``."""
    try:
        name, *arguments = json.loads(record.workload)
    except (ValueError, TypeError, RecursionError):
        return record.workload
    if record.format is RecordFormat.AUTOTVM:
        arguments = arguments[0]
    # auto_scheduler names what Relay gives it by a hash of 32 digits.
    short = name[:8] if _HASH.fullmatch(str(name)) else str(name).partition(".")[0]
    return " ".join([short, *filter(None, map(_extents, arguments))])


def _extents(argument: object) -> str:
    """Whole numbers of an argument as text; layouts and types are left out."""
    match argument:
        case ["TENSOR", list(shape), *_]:
            return _extents(shape)
        case list(extents):
            return "x".join(str(each) for each in extents if isinstance(each, int))
        case int():
            return str(argument)
    return ""


def _shortened(text: str, width: int) -> str:
    shown = printable(text)
    return shown if len(shown) <= width else f"{shown[: width - 1]}…"
