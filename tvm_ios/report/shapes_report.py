"""Report on one model that was tuned in several shapes: a row and a report for each."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from tvm_ios.report.contestants import Contestant
from tvm_ios.report.html.report_page import ReportPage
from tvm_ios.report.table import Table
from tvm_ios.report.tune_report import TuneReport

__all__ = ["ShapesReport"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapesReport:
    """Reports of one model's tunings, one for each shape."""

    reports: Mapping[str, TuneReport]
    """Report of each shape, by the shape's name."""
    weight_bytes: int
    """Bytes of all weights, those of equal values once."""
    separate_bytes: int
    """Bytes of the weights of a model for each shape."""

    def summary(self) -> str:
        """A row for each shape, and what all of them took."""
        seconds = sum(sum(each.phase_s.values()) for each in self.reports.values())
        return "\n".join([*self._table(), f"took {seconds:.0f} s"])

    def as_text(self) -> str:
        """Rows of all shapes, then the report of each."""
        told = (f"{name}\n{each.as_text()}" for name, each in self.reports.items())
        return "\n\n".join(["\n".join(self._table()), *told])

    def schedules_text(self) -> str:
        """Text of the schedule of each shape."""
        return "\n\n".join(
            f"{name}\n{each.schedules_text()}" for name, each in self.reports.items()
        )

    def pages(self, *, title: str = "", command: str = "") -> dict[str, ReportPage]:
        """Page of each shape, by the shape's name."""
        return {
            name: each.page(title=f"{title} {name}", command=command)
            for name, each in self.reports.items()
        }

    def to_json(self) -> str:
        """Report as JSON: bytes of weights, and the JSON of each shape's report."""
        data = {
            "weight_bytes": self.weight_bytes,
            "separate_bytes": self.separate_bytes,
            "shapes": {name: json.loads(each.to_json()) for name, each in self.reports.items()},
        }
        return json.dumps(data, indent=1)

    def _table(self) -> tuple[str, str]:
        table = Table(
            header=("shape", "ms", "times as fast as in order", "kept"),
            rows=tuple(_row(name, each) for name, each in self.reports.items()),
        )
        weights = (
            f"weights of {len(self.reports)} shapes: {self.weight_bytes / 1e6:.1f} MB, in a file "
            f"for each {self.separate_bytes / 1e6:.1f} MB"
        )
        return table.as_text(), weights


def _row(name: str, report: TuneReport) -> tuple[str, str, str, str]:
    race, kept, base = report.comparison, report.kept.value, Contestant.SEQUENTIAL.value
    speedup = "1"
    if kept != base and base in race.names:
        found = race.speedup(kept, over=base)
        speedup = f"{found.ratio:.3f} ({found.low:.3f}-{found.high:.3f})"
    time_ms = f"{race.median_ns(kept) / 1e6:.4f}" if kept in race.names else "not timed"
    return (name, time_ms, speedup, kept)
