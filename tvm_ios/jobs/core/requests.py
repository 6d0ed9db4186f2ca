"""Jobs at their gates, and which of them have waited too long."""

from __future__ import annotations

import heapq
from itertools import count

from tvm_ios.jobs.core.view import Candidate

__all__ = ["Requests"]


class Requests:
    """Requests of jobs, one a job at most. Adding and removing take logarithmic time."""

    def __init__(self) -> None:
        self.profiles: dict[str, Candidate] = {}
        """Requests that need a device, by job."""
        self.stages: dict[str, Candidate] = {}
        """Requests that need cores only, by job."""
        self._by_age: list[tuple[float, int, Candidate]] = []
        self._old: dict[str, Candidate] = {}
        self._order = count()

    def __len__(self) -> int:
        return len(self.profiles) + len(self.stages)

    def get(self, job: str) -> Candidate | None:
        """The request of a job; None: it waits for nothing."""
        return self.profiles.get(job) or self.stages.get(job)

    def add(self, candidate: Candidate) -> None:
        """Add the request of a job that has none."""
        waiting = self.profiles if candidate.need.kind.measures else self.stages
        waiting[candidate.job] = candidate
        heapq.heappush(self._by_age, (candidate.asked_s, next(self._order), candidate))

    def remove(self, job: str) -> Candidate | None:
        """Remove and return a job's request; None if it had none."""
        self._old.pop(job, None)
        return self.profiles.pop(job, None) or self.stages.pop(job, None)

    def too_old(self, now: float, bound_s: float) -> tuple[Candidate, ...]:
        """Requests that have waited longer than a bound, oldest first."""
        grown = False
        while self._by_age and self._by_age[0][0] + bound_s <= now:
            candidate = heapq.heappop(self._by_age)[2]
            # Removed requests stay in the heap until they come up, and their job may have another.
            if self.get(candidate.job) is candidate:
                self._old[candidate.job] = candidate
                grown = True
        if grown:
            ordered = sorted(self._old.values(), key=lambda old: old.asked_s)
            self._old = {candidate.job: candidate for candidate in ordered}
        return tuple(self._old.values())

    def oldest_s(self) -> float | None:
        """Time of the oldest request that is not yet too old; None: there is none."""
        while self._by_age:
            candidate = self._by_age[0][2]
            if self.get(candidate.job) is candidate:
                return candidate.asked_s
            heapq.heappop(self._by_age)
        return None
