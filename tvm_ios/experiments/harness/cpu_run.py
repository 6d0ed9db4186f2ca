"""How a cell is measured on this CPU. Free of TVM, as cells are listed without it."""

from __future__ import annotations

from dataclasses import dataclass

from tvm_ios.experiments.harness.protocol import Settings

__all__ = ["CpuRun", "cpu_run"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuRun:
    """A part of a cell: what is measured with how many lanes and rounds."""

    lanes: int
    rounds: int
    """Rounds of the race."""
    small: bool
    """Whether the network is a small one of its kind."""
    batch: int = 1
    """Images."""

    def __str__(self) -> str:
        """The values in words."""
        size = "small network" if self.small else "full size"
        return f"{size}, batch {self.batch}, {self.lanes} lanes, {self.rounds} rounds"


def cpu_run(settings: Settings, *, batch: int = 1) -> CpuRun:
    """How cells are measured under these settings."""
    return CpuRun(lanes=settings.lanes, rounds=settings.rounds, small=settings.quick, batch=batch)
