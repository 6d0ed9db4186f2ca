"""Settings of a cell that is measured on this CPU. Free of TVM, as cells are listed without it."""

from __future__ import annotations

from dataclasses import dataclass

from tvm_ios_lab.harness.protocol import Settings

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
    """Images in a batch."""

    @property
    def size(self) -> str:
        """Size of the network, in a word."""
        return "small" if self.small else "full size"

    def __str__(self) -> str:
        """The values in words."""
        batch = f"batch {self.batch}, " if self.batch > 1 else ""
        return f"{self.size}, {batch}{self.lanes} lanes, {self.rounds} rounds"


def cpu_run(
    settings: Settings, *, batch: int = 1, has_sizes: bool = True, rounds: int | None = None
) -> CpuRun:
    """Lanes, rounds and size of cells that are measured under these settings.

    Parameters
    ----------
    has_sizes
        Whether there is a small network of the kind, for quick cells.
    rounds
        Rounds of the race; those of the settings where omitted.
    """
    return CpuRun(
        lanes=settings.lanes,
        rounds=settings.rounds if rounds is None else rounds,
        small=settings.quick and has_sizes,
        batch=batch,
    )
