"""The gate that the work of a job passes, stage by stage."""

from __future__ import annotations

from typing import Protocol

from tvm_ios.support.stage_gate import JobProgress, StageGate

__all__ = ["JobGate"]


class JobGate(StageGate, Protocol):
    """A gate of one job of many."""

    @property
    def told(self) -> JobProgress:
        """The progress that was told last."""

    def revoked(self) -> bool:
        """Whether the device of the present stage was lost; TVM finds that out by itself."""
