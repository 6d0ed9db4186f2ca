"""What one call of ``tune`` did, as immutable data: read by people and by the benchmarks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tvm_ios.core.schedule import InterOpSchedule, Strategy
from tvm_ios.cost.comparison import Comparison, Speedup

__all__ = ["TuneReport"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneReport:
    """Facts of one tuning."""

    kept: str
    """``ios``, or ``sequential`` where IOS did not win."""
    reason: str
    coverage: str
    """How much of the model was scheduled, and what was left in place."""
    operators: int
    stages: int
    """Of the schedule that was kept."""
    concurrent_stages: int
    """Those with more than one group."""
    merged_stages: int
    blocks: int
    states: int
    transitions: int
    stages_possible: int
    stages_priced: int
    """Distinct stages whose price the search asked for."""
    measured: int
    """Distinct workloads measured for it; the rest were equal to these or in the database."""
    from_database: int
    predicted_ns: int
    """Sum of the prices of the IOS schedule."""
    predicted_sequential_ns: int
    speedup: Speedup
    """IOS over sequential order, both on our runtime, measured in one interleaved run."""
    comparison: Comparison
    """The raw rounds behind it."""
    arena_bytes: int
    """Planned memory of activations."""
    phase_s: Mapping[str, float]
    """Seconds by phase, in order."""
    notes: tuple[str, ...]

    def as_text(self) -> str:
        """A page for people."""
        phases = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in self.phase_s.items())
        lines = [
            f"kept {self.kept}: {self.reason}",
            self.coverage,
            f"{self.operators} operators in {self.stages} stages, {self.concurrent_stages} of them "
            f"concurrent, {self.merged_stages} merged",
            f"search: {self.blocks} blocks, {self.states} states, {self.transitions} transitions; "
            f"{self.stages_priced} of {self.stages_possible} stages priced "
            f"({self.measured} measured, {self.from_database} from the profile database)",
            f"predicted {self.predicted_ns / 1e6:.4f} ms, sequential "
            f"{self.predicted_sequential_ns / 1e6:.4f} ms; measured "
            f"{self.comparison.median_ns('ios') / 1e6:.4f} ms, sequential "
            f"{self.comparison.median_ns('sequential') / 1e6:.4f} ms",
            f"memory of activations {self.arena_bytes / 1e6:.2f} MB",
            f"time: {phases}",
        ]
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])

    def to_json(self) -> str:
        """The same as JSON, raw rounds included."""
        data: dict[str, Any] = {name: getattr(self, name) for name in self.__slots__}
        data["speedup"] = {
            "ratio": self.speedup.ratio,
            "low": self.speedup.low,
            "high": self.speedup.high,
            "verdict": self.speedup.verdict.value,
        }
        data["comparison"] = self.comparison.as_record()
        data["phase_s"] = dict(self.phase_s)
        return json.dumps(data, indent=1)


def stage_counts(schedule: InterOpSchedule) -> tuple[int, int]:
    """Stages with several concurrent groups, and stages that merge several operators."""
    wide = [stage for stage in schedule.stages if len(stage.groups) > 1]
    merged = sum(stage.strategy is Strategy.MERGE for stage in wide)
    return len(wide) - merged, merged
