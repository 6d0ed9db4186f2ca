"""Jobs at their gates, and which of them have waited too long."""

from __future__ import annotations

import heapq
from itertools import count

from tvm_ios.jobs.core.view import Candidate

__all__ = ["Requests"]


class Requests:
    """At most one request a job. Adding and removing take logarithmic time."""

    def __init__(self) -> None:
        self.profiles: dict[str, Candidate] = {}
        """Those that need a device."""
        self.stages: dict[str, Candidate] = {}
        """Those that need cores only."""
        self._by_age: list[tuple[float, int, Candidate]] = []
        self._old: dict[str, Candidate] = {}
        self._order = count()

    def __len__(self) -> int:
        return len(self.profiles) + len(self.stages)

    def get(self, job: str) -> Candidate | None:
        """What a job waits for."""
        return self.profiles.get(job) or self.stages.get(job)

    def add(self, candidate: Candidate) -> None:
        """A job waits from now on."""
        waiting = self.profiles if candidate.need.kind.measures else self.stages
        waiting[candidate.job] = candidate
        heapq.heappush(self._by_age, (candidate.asked_s, next(self._order), candidate))

    def remove(self, job: str) -> Candidate | None:
        """A job waits no more; None: it did not."""
        self._old.pop(job, None)
        return self.profiles.pop(job, None) or self.stages.pop(job, None)

    def too_old(self, now: float, bound_s: float) -> tuple[Candidate, ...]:
        """Those that have waited longer than this, oldest first."""
        grown = False
        while self._by_age and self._by_age[0][0] + bound_s <= now:
            candidate = heapq.heappop(self._by_age)[2]
            if self.get(candidate.job) is candidate:
                self._old[candidate.job] = candidate
                grown = True
        if grown:
            ordered = sorted(self._old.values(), key=lambda old: old.asked_s)
            self._old = {candidate.job: candidate for candidate in ordered}
        return tuple(self._old.values())

    def oldest_s(self) -> float | None:
        """When the oldest that is not yet too old was asked for."""
        while self._by_age:
            candidate = self._by_age[0][2]
            if self.get(candidate.job) is candidate:
                return candidate.asked_s
            heapq.heappop(self._by_age)
        return None
