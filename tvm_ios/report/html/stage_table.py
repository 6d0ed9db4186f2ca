"""Table of stages: their operators, and predicted times beside measured ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.schedule import InterOpSchedule, Stage
from tvm_ios.runtime.artifact.evidence import Evidence

__all__ = ["StageRow", "StageTable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StageRow:
    """Row of a stage; times are nanoseconds, bars per cent of the longest time."""

    number: int
    how: str
    """Text on how it runs: alone, some groups side by side, merged, or on a lane."""
    operators: str
    predicted_ns: int | None
    measured_ns: int | None
    predicted_length: float = 0.0
    measured_length: float = 0.0

    @property
    def ratio(self) -> float | None:
        """Measured over predicted time; None where one is not known."""
        if not self.predicted_ns or self.measured_ns is None:
            return None
        return self.measured_ns / self.predicted_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class StageTable:
    """Rows of all stages in order, and their sums."""

    rows: tuple[StageRow, ...]
    is_list: bool
    """True if stages are an order only, so that they overlap."""
    predicted_ns: int | None
    """Sum of the prices in nanoseconds; None unless all are known."""
    measured_ns: int | None
    """Sum of the measured nanoseconds; None where there are none, or they overlap."""
    length_ns: int | None
    """Nanoseconds from the first launch of the traced run to the end of its last one."""

    @property
    def has_times(self) -> bool:
        """True if a time of any stage is known."""
        return any(row.predicted_ns is not None or row.measured_ns is not None for row in self.rows)

    @classmethod
    def of(cls, graph: OperatorGraph, schedule: InterOpSchedule, evidence: Evidence | None) -> Self:
        """Table of a schedule's stages, with the known times."""
        count = len(schedule.stages)
        nothing: tuple[int | None, ...] = (None,) * count
        prices = (evidence.prices_ns if evidence else ()) or nothing
        spans = (evidence.traced.stage_ns if evidence else ()) or nothing
        longest = max((ns for ns in (*prices, *spans) if ns is not None), default=0) or 1
        rows = tuple(
            StageRow(
                number=number,
                how=_how(schedule, stage),
                operators=_operators(graph, stage),
                predicted_ns=price_ns,
                measured_ns=span_ns,
                predicted_length=round(100 * (price_ns or 0) / longest, 2),
                measured_length=round(100 * (span_ns or 0) / longest, 2),
            )
            for number, (stage, price_ns, span_ns) in enumerate(
                zip(schedule.stages, prices, spans, strict=True)
            )
        )
        priced = [ns for ns in prices if ns is not None]
        measured = [ns for ns in spans if ns is not None]
        is_list = bool(schedule.home_lanes)
        timeline = evidence.traced.timeline if evidence else ()
        return cls(
            rows=rows,
            is_list=is_list,
            predicted_ns=sum(priced) if priced and len(priced) == count and not is_list else None,
            measured_ns=sum(measured) if measured and not is_list else None,
            length_ns=max((event.end_ns for event in timeline), default=None),
        )


def _how(schedule: InterOpSchedule, stage: Stage) -> str:
    merged = f"merge of {len(stage.groups)}" if stage.is_merge else ""
    if schedule.home_lanes:
        lane = f"lane {schedule.home_lanes[stage.operators[0]]}"
        return f"{merged}, {lane}" if merged else lane
    if merged:
        return merged
    if len(stage.groups) > 1:
        return f"{len(stage.groups)} groups side by side"
    return "one group" if len(stage.groups[0]) > 1 else "one operator"


def _operators(graph: OperatorGraph, stage: Stage) -> str:
    return " | ".join(
        " \N{RIGHTWARDS ARROW} ".join(graph.operators[index].name for index in group)
        for group in stage.groups
    )
