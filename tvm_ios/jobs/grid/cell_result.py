"""Results of cells: a versioned JSON file each, written when the cell is over. Free of TVM."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tvm_ios.driver.chain.run_folder import RunReport
from tvm_ios.errors import ArtifactError
from tvm_ios.jobs.core.trace import Span
from tvm_ios.jobs.grid.grid_file import Cell, Value
from tvm_ios.jobs.ledger import CellStatus
from tvm_ios.support.json_nouns import noun_from, noun_record
from tvm_ios.support.stored_value import StoredValue, UnreadableValueError, parse_json
from tvm_ios.support.whole_file import write_text

__all__ = ["CellResult", "JobFacts", "read_result", "result_path", "write_result"]

RESULT_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFacts:
    """A cell as its scheduler has seen it: a job of stages, beside others or alone."""

    waiting_s: float
    """Mean seconds that a stage waited for cores or a device."""
    utilisation: float
    """Share of the job's time in which it had its device to measure, from 0 to 1."""

    @classmethod
    def of_spans(cls, spans: Sequence[Span]) -> Self:
        """The facts of a job that has ended, from its stages."""
        ends = [span.end_s(span.granted_s) for span in spans]
        measured_s = sum(
            end_s - span.granted_s
            for span, end_s in zip(spans, ends, strict=True)
            if span.need.kind.measures
        )
        seconds = max(ends, default=0.0) - min((span.asked_s for span in spans), default=0.0)
        return cls(
            waiting_s=sum(span.waited_s for span in spans) / max(len(spans), 1),
            utilisation=measured_s / seconds if seconds else 0.0,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CellResult:
    """Everything that is kept of one cell."""

    cell_id: str
    parameters: Mapping[str, Value]
    repeat: int
    status: CellStatus
    seconds: float
    """Seconds from the start of the cell's process to its end, with all waiting."""
    taken_at: str
    """Time of the result in ISO 8601, in UTC."""
    commit: str
    """Commit of this package; empty where it is not known."""
    machine: str
    """Processor and cores."""
    message: str = ""
    """Reason of the failure; empty for cells that have not failed."""
    trials: int = 0
    """Candidates that were measured, failed ones included."""
    failures: int = 0
    """Candidates that did not compile or run."""
    report: RunReport | None = None
    """Report of the run; None where the cell failed."""
    job: JobFacts | None = None
    """Facts of the job; None where the cell failed, or an older tvm-ios ran it."""

    def to_json(self) -> str:
        """The result as versioned JSON; :meth:`from_json` reads it back."""
        report = None if self.report is None else json.loads(self.report.to_json())
        record = noun_record(CellResult, self) | {"version": RESULT_VERSION, "report": report}
        return json.dumps(record, indent=1)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what :meth:`to_json` made."""
        try:
            data = parse_json(text, "the result")
            version = data.field("version").whole()
            if version != RESULT_VERSION:
                raise ArtifactError(
                    f"the result has version {version}, this tvm-ios reads {RESULT_VERSION}; "
                    "delete it, and run the grid again"
                )
            return noun_from(
                cls,
                data.without("version"),
                whole=True,
                repeat=lambda number: number.whole(least=1),
                parameters=lambda each: {n: one.value for n, one in each.fields().items()},
                report=lambda each: each.or_none(_report),
            )
        except UnreadableValueError as error:
            raise ArtifactError(f"{error}; delete it, and run the grid again") from error


def result_path(folder: Path, cell: Cell) -> Path:
    """The file of a cell's result."""
    return folder / f"{cell.cell_id}.json"


def read_result(folder: Path, cell: Cell) -> CellResult | None:
    """The result of a cell; None where it has none yet."""
    path = result_path(folder, cell)
    try:
        return CellResult.from_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError, ArtifactError) as error:
        raise ArtifactError(f"{path}: {error}") from error


def write_result(folder: Path, cell: Cell, result: CellResult) -> None:
    """Keep a result; readers find all of it or nothing."""
    write_text(result_path(folder, cell), result.to_json() + "\n")


def _report(value: StoredValue) -> RunReport:
    return RunReport.from_json(json.dumps(value.value))
