"""The benchmark context: machine, versions, and seconds of every step on the way to a latency.

Without it two latencies say little: one may have taken a second to find and the other an hour. Free
of TVM.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean

__all__ = ["BenchmarkContext", "StepTime"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTime:
    """Time of a step of a chain, and of its calls of ``tune``."""

    step: str
    """Name of the verb."""
    seconds: float
    calls: tuple[Mapping[str, float], ...] = ()
    """Seconds by phase of each call of :func:`tvm_ios.tune` in the step, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkContext:
    """Seconds of all steps so far, with the machine and the versions."""

    steps: tuple[StepTime, ...] = ()
    machine: Mapping[str, str]
    """Processor, cores, memory and kernel of the machine that ran the steps."""
    versions: Mapping[str, str]

    @property
    def seconds(self) -> float:
        """Sum of the seconds of all steps."""
        return sum(step.seconds for step in self.steps)

    @property
    def mean_phase_s(self) -> dict[str, float]:
        """Mean seconds of each phase over the calls of ``tune`` that had it, in order."""
        calls = [call for step in self.steps for call in step.calls]
        names = dict.fromkeys(name for call in calls for name in call)
        return {name: mean(call[name] for call in calls if name in call) for name in names}

    def as_text(self) -> str:
        """Text with a line for each step, and one for the machine."""
        width = max((len(step.step) for step in self.steps), default=0)
        lines = [
            f"{step.step:<{width}} {step.seconds:9.3f} s{_inside(step.calls)}"
            for step in self.steps
        ]
        items = (*self.machine.items(), *self.versions.items())
        facts = ", ".join(f"{name} {value}" for name, value in items)
        return "\n".join([*lines, facts])


def _inside(calls: Sequence[Mapping[str, float]]) -> str:
    """Text on the phases of a step's calls of ``tune``, summed up."""
    names = dict.fromkeys(name for call in calls for name in call)
    if not names:
        return ""
    told = ", ".join(f"{name} {sum(call.get(name, 0.0) for call in calls):.1f}" for name in names)
    return f" (calls of tune: {len(calls)}; {told})"
