"""What a worker does, and the gate that it passes meanwhile."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from tvm_ios.jobs.core.job_state import JobSpec
from tvm_ios.support.stage_gate import JobProgress, StageGate

__all__ = ["JobGate", "Work"]


class JobGate(StageGate, Protocol):
    """A gate of one job of many."""

    @property
    def told(self) -> JobProgress:
        """What was told last."""

    def revoked(self) -> bool:
        """Whether the device of the present stage was lost; TVM finds that out by itself."""


class Work(Protocol):
    """What a worker does between its start and its end; it goes on from what is in its folder."""

    def run(self, spec: JobSpec, gate: JobGate, folder: Path) -> None:
        """Do all of it that is not done, and leave the result in the folder."""
