"""Timeline of a schedule on a GPU, operator by operator, by the analytical model."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

from tvm_ios.core.merge_outputs import merged_name

__all__ = ["SimulatedOperator", "SimulatedRun"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedOperator:
    """Operator in a simulated run; the convolution of a merge stage stands for all its members."""

    members: tuple[str, ...]
    """Name of the operator; of a merge stage those of all its members."""
    stage: int
    group: int
    start_ns: int
    """Time at which its first kernel is busy, since the run began."""
    end_ns: int

    @property
    def operator(self) -> str:
        """Name for people."""
        return merged_name(self.members)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedRun:
    """A run that nobody made."""

    graph_name: str
    scheduler: str
    priced_by: str
    """The model and the GPU."""
    stage_ns: tuple[int, ...]
    """Time of each stage, launches and join included."""
    operators: tuple[SimulatedOperator, ...]
    """Operators by stage, then group, then order in the group."""

    @property
    def latency_ns(self) -> int:
        """Time of the whole run."""
        return sum(self.stage_ns)

    def as_text(self) -> str:
        """A line a stage: start, length, and the groups with their spans in microseconds."""
        lines = [
            f"simulated run of {self.graph_name}, schedule {self.scheduler}: "
            f"{self.latency_ns / 1e6:.4f} ms by the {self.priced_by}"
        ]
        starts_ns = accumulate((0, *self.stage_ns))
        for number, (start_ns, stage_ns) in enumerate(zip(starts_ns, self.stage_ns, strict=False)):
            groups: dict[int, list[str]] = {}
            for run in self.operators:
                if run.stage == number:
                    span = f"{run.start_ns / 1e3:.1f}-{run.end_ns / 1e3:.1f}"
                    groups.setdefault(run.group, []).append(f"{run.operator} [{span}]")
            text = " | ".join(" -> ".join(row) for row in groups.values())
            lines.append(
                f"  stage {number} at {start_ns / 1e3:.1f} us for {stage_ns / 1e3:.1f} us: {text}"
            )
        return "\n".join(lines)
