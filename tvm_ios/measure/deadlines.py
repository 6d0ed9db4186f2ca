"""Deadlines of parts against measured runs: how often each was kept. No TVM here."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

__all__ = ["PartDeadline"]

KEPT_SHARE = 0.9
"""Least share of runs in which a deadline has to be kept: single runs are disturbed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartDeadline:
    """Deadline of one part, with the ends of that part in traced runs of all parts."""

    part: str
    deadline_ns: int
    ends_ns: tuple[int, ...]
    """Nanoseconds from the start of each run to the end of the part's last operator."""

    @property
    def in_time(self) -> int:
        """Number of runs in which it was kept."""
        return sum(end_ns <= self.deadline_ns for end_ns in self.ends_ns)

    @property
    def is_kept(self) -> bool:
        """True if it was kept in nearly all runs."""
        return self.in_time >= KEPT_SHARE * len(self.ends_ns)

    @property
    def late_ns(self) -> int:
        """Nanoseconds by which runs are late at the share that has to be in time; 0 in time."""
        ends_ns = sorted(self.ends_ns)
        at = min(len(ends_ns) - 1, int(KEPT_SHARE * len(ends_ns)))
        return 0 if self.is_kept else max(0, ends_ns[at] - self.deadline_ns)

    def as_text(self) -> str:
        """Line for people."""
        verdict = "kept" if self.is_kept else "missed"
        return (
            f"deadline of {self.part}, {self.deadline_ns / 1e6:g} ms: {verdict}, in time in "
            f"{self.in_time} of {len(self.ends_ns)} traced runs (done after "
            f"{median(self.ends_ns) / 1e6:.3g} ms, at most {max(self.ends_ns) / 1e6:.3g})"
        )
