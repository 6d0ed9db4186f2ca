"""Line of a tuning log: a record of AutoTVM or auto_scheduler, or the reason why it is none.

A line is accepted if stock TVM, of any version that writes JSON, reads it, since one line that it
cannot read makes it refuse the whole log.
"""

from __future__ import annotations

import json
import math
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from tvm_ios.errors import RecordError
from tvm_ios.report.records_in_force import RecordFormat

__all__ = [
    "FAILURE_COST_S",
    "RejectedLine",
    "TuningRecord",
    "parse_line",
    "parse_record",
]

FAILURE_COST_S = 1e9
"""Seconds from which on a cost is a failure: AutoTVM writes 1e9, auto_scheduler 1e10."""
HARDWARE_PARAMETERS = 8
_BEGINNING = re.compile(r'(?=\{"i(?:nput)?": ?\[)')
"""Begin of a record, as TVM writes it."""
_ESCAPE = re.compile(r"\\(.)")

_Fields: TypeAlias = "tuple[str, str, tuple[float, ...], int]"


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningRecord:
    """A candidate that was measured, or failed."""

    format: RecordFormat
    line: str
    """The record as it stands in the log, without the newline."""
    workload: str
    """Computation without a kernel's name: for AutoTVM the JSON of template and arguments, for
    auto_scheduler its workload key."""
    target: str
    """Target as TVM prints it."""
    costs_s: tuple[float, ...]
    """Seconds of each measurement; empty if the candidate failed."""
    error: int
    """TVM's ``MeasureErrorNo``, 0 for none; the same numbers in both formats."""
    path: Path
    line_number: int
    """Line number in the log, from 1."""

    @property
    def ok(self) -> bool:
        """True if the candidate compiled and ran."""
        return bool(self.costs_s)

    @property
    def mean_s(self) -> float:
        """Mean of the costs in seconds, by which TVM compares candidates; infinite if it failed."""
        return math.fsum(self.costs_s) / len(self.costs_s) if self.ok else math.inf

    def candidate(self) -> str:
        """Schedule that was measured, as JSON; equal for equal schedules of a workload."""
        data = json.loads(self.line)
        tried = data["config"]["entity"] if self.format is RecordFormat.AUTOTVM else data["i"][1]
        return json.dumps(tried)


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedLine:
    """A line, or a part of one, that is no record."""

    path: Path
    line_number: int
    line: str
    """Text of the line; bytes that are no UTF-8 are kept as by ``errors="surrogateescape"``."""
    reason: str


def parse_line(text: str, *, path: Path, line_number: int) -> list[TuningRecord | RejectedLine]:
    """Records of a line without its newline, and its parts that are none.

    A writer that was killed leaves half a record without a newline, with the next record behind it;
    that one is found. Records that share a line are kept, and the line is rejected as well.
    """

    def one(part: str) -> TuningRecord | RejectedLine:
        try:
            return parse_record(part, path=path, line_number=line_number)
        except RecordError as error:
            return rejected(part, str(error))

    def rejected(part: str, reason: str) -> RejectedLine:
        return RejectedLine(path=path, line_number=line_number, line=part, reason=reason)

    whole = one(text)
    if isinstance(whole, TuningRecord):
        return [whole]
    parts = [one(part) for part in _BEGINNING.split(text) if part]
    if not any(isinstance(part, TuningRecord) for part in parts):
        return [whole]
    if all(isinstance(part, TuningRecord) for part in parts):
        parts.append(rejected(text, f"{len(parts)} records without a newline between them"))
    return parts


def parse_record(text: str, *, path: Path, line_number: int) -> TuningRecord:
    """Record read from a text."""
    data = _parse_json(text)
    parts: _Fields
    if "input" in data:
        kind, parts = RecordFormat.AUTOTVM, _read_autotvm(data)
    elif data.get("v") == 0.1:
        raise RecordError("AutoTVM's log version 0.1, which TVM no longer reads")
    elif "i" in data:
        kind, parts = RecordFormat.AUTO_SCHEDULER, _read_auto_scheduler(data)
        _require_known_escapes(text)
    else:
        raise RecordError("JSON, but no tuning record: it has neither 'input' nor 'i'")
    workload, target, costs_s, error = parts
    return TuningRecord(
        format=kind,
        line=text.strip(),
        workload=workload,
        target=target,
        costs_s=costs_s,
        error=error,
        path=path,
        line_number=line_number,
    )


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


def _parse_json(text: str) -> dict[str, Any]:
    if not text.strip():
        raise RecordError("the line is empty")
    try:
        # Bytes that are no UTF-8 came as surrogates, which only encoding refuses.
        text.encode()
        data = _DECODER.decode(text)
    except UnicodeEncodeError as error:
        raise RecordError(f"not UTF-8 from character {error.start + 1} on") from error
    except (ValueError, RecursionError) as error:
        raise RecordError(f"no JSON, perhaps torn: {error}") from error
    if not isinstance(data, dict):
        raise RecordError(f"JSON, but no tuning record: a {type(data).__name__}")
    return data


def _read_autotvm(data: dict[str, Any]) -> _Fields:
    match data["input"]:
        case [str(target), str(name), list(arguments), _]:
            workload = json.dumps([name, arguments])
        case _:
            raise RecordError("AutoTVM: 'input' is not [target, template, [arguments], {}]")
    match data.get("config"):
        case {"index": int(), "code_hash": str() | None, "entity": list(knobs)}:
            if not all(map(_is_knob, knobs)):
                raise RecordError("AutoTVM: a knob in 'config' is not [name, kind, value]")
        case _:
            raise RecordError("AutoTVM: 'config' is not {index, code_hash, entity}")
    return workload, target, *_read_result(data.get("result"), "AutoTVM: 'result'")


def _is_knob(knob: object) -> bool:
    match knob:
        case [str(), "sp" | "re" | "an", list()] | [str(), "ot", _]:
            return True
    return False


def _read_auto_scheduler(data: dict[str, Any]) -> _Fields:
    match data["i"]:
        case [[str(workload), str(target), *others], [[], list(steps)]]:
            if not _are_task_fields(others):
                raise RecordError(
                    "auto_scheduler: the task in 'i' is not [workload, target, [8 hardware "
                    "parameters], host, layout rewriting, [inputs]], or a beginning of it"
                )
            if not all(isinstance(step, list) and step[:1] and _is_text(step[0]) for step in steps):
                raise RecordError("auto_scheduler: a transform step in 'i' is not [kind, ...]")
        case _:
            raise RecordError("auto_scheduler: 'i' is not [[workload, target, ...], [[], [steps]]]")
    foreign = data.keys() - {"i", "r", "v"}
    if foreign:
        raise RecordError(f"auto_scheduler: unknown key {min(foreign)!r}")
    if not _is_text(data.get("v", "")):
        raise RecordError(f"auto_scheduler: the version 'v' is {data['v']!r}, no text")
    return workload, target, *_read_result(data.get("r"), "auto_scheduler: 'r'")


def _require_known_escapes(text: str) -> None:
    """Refuse escapes that TVM's own reader of JSON does not know."""
    unknown = set(_ESCAPE.findall(text)) - set('"\\nrt')
    if unknown:
        raise RecordError(f"auto_scheduler: TVM does not know the escape \\{min(unknown)}")


def _are_task_fields(others: list[Any]) -> bool:
    """True if these may follow workload and target; TVM 0.7 wrote none, later ones five fields."""
    match others:
        case []:
            return True
        case [hardware]:
            return _is_hardware(hardware)
        case [hardware, str(), rewriting]:
            return _is_hardware(hardware) and _is_whole(rewriting)
        case [hardware, str(), rewriting, list(inputs)]:
            return _is_hardware(hardware) and _is_whole(rewriting) and all(map(_is_text, inputs))
    return False


def _is_hardware(value: Any) -> bool:
    whole = isinstance(value, list) and all(map(_is_whole, value))
    return whole and len(value) == HARDWARE_PARAMETERS


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 31


def _is_number(value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and abs(value) <= sys.float_info.max


def _read_result(result: Any, where: str) -> tuple[tuple[float, ...], int]:
    """Costs in seconds (none if it failed), and the number of the error."""
    match result:
        case [[_, *_], error, seconds, timestamp]:
            costs = result[0]
            sound = _is_whole(error) and all(map(_is_number, [*costs, seconds, timestamp]))
        case _:
            sound = False
    if not sound:
        raise RecordError(f"{where} is not [[costs], error, seconds, timestamp]")
    if error or any(cost >= FAILURE_COST_S for cost in costs):
        return (), error
    if any(cost <= 0 for cost in costs):
        raise RecordError(f"{where} has a cost of {min(costs)} seconds")
    return tuple(map(float, costs)), error
