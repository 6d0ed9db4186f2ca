"""Sources of a cell's tuned kernels: a log of the checkout, or a search of its own."""

from __future__ import annotations

from dataclasses import dataclass

from tvm_ios_lab.harness.checkout import stored_digest
from tvm_ios_lab.harness.protocol import Settings

__all__ = ["KernelSource", "kernel_source"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelSource:
    """A part of a cell: how many candidates are measured for it."""

    trials: int
    """Candidates of a search with a log of its own; 0 takes the committed log."""

    def __str__(self) -> str:
        """Source of the kernels, in words."""
        return f"{self.trials} candidates" if self.trials else "committed log"

    def digest(self, log: str) -> str:
        """Digest of the committed log as it is now; empty where a cell has a log of its own."""
        return "" if self.trials else stored_digest(log)

    def remark(self, digest: str, log: str) -> str:
        """Remark of a row whose log is not the one of now, or is not known."""
        if digest == self.digest(log):
            return ""
        return " (another log)" if digest else " (unknown log)"


def kernel_source(settings: Settings, *, quick_trials: int, trials: int) -> KernelSource:
    """The source that these settings ask for: a search only with ``--tune``."""
    if not settings.tune:
        return KernelSource(trials=0)
    return KernelSource(trials=quick_trials if settings.quick else trials)
