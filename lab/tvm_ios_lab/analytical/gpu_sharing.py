"""Several groups of kernels on one GPU at a time: a fluid simulation from kernel end to kernel end.

A kernel waits for the host to issue it and for its launch and fill, which cost others nothing; then
it is busy and takes its share of every resource. Where kernels together want more of a resource
than there is, they share it max-min fairly, and each goes as fast as its scarcest share lets it.
So a kernel is never faster than alone, and no moment is lost: together they are never slower than
one after another.

Like real devices, and any scheduling of work with limited parallelism (Graham, 1969), the fluid has
anomalies: a group that becomes shorter may, once in a while, meet others at a worse moment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvm_ios_lab.analytical.gpu_kernel import RESOURCES, KernelTime

__all__ = ["LaunchedKernel", "kernels_in_order", "share_gpu", "share_gpu_in_order"]

_NOTHING = 1e-6
"""Nanoseconds below which a remainder is rounding."""


@dataclass(frozen=True, slots=True)
class LaunchedKernel:
    """Kernel with its launch, as the simulation needs it."""

    wait_ns: float
    """Time for launch and fill."""
    busy_ns: float
    """Time that the kernel takes alone."""
    rates: tuple[float, ...]
    """Share of each resource that it takes while busy, alone; at most 1."""

    @classmethod
    def make(cls, time: KernelTime, launch_ns: float) -> LaunchedKernel:
        """A kernel that starts so long after the one before it."""
        return cls(
            wait_ns=launch_ns + time.fill_ns,
            busy_ns=time.busy_ns,
            rates=tuple(min(1.0, demand / time.busy_ns) for demand in time.demand_ns)
            if time.busy_ns
            else (0.0,) * len(RESOURCES),
        )


def kernels_in_order(kernels: Sequence[LaunchedKernel], issue_ns: float) -> float:
    """Nanoseconds of one group by itself; the host issues a kernel every ``issue_ns``."""
    end = 0.0
    for number, kernel in enumerate(kernels):
        end = max(end, number * issue_ns) + kernel.wait_ns + kernel.busy_ns
    return end


def share_gpu(
    groups: Sequence[Sequence[LaunchedKernel]], issue_ns: float
) -> list[list[tuple[float, float]]]:
    """Start and end of each kernel of each group, in nanoseconds from the first launch.

    Takes O(kernels * groups) steps.

    Parameters
    ----------
    groups
        Kernels of a group run one after another.
    issue_ns
        Nanoseconds between two launches of the host, groups in turn; 0 in a CUDA graph.
    """
    nobody: list[list[tuple[tuple[int, int], ...]]] = [[()] * len(kernels) for kernels in groups]
    return share_gpu_in_order(groups, _issue_times(groups, issue_ns), nobody, event_ns=0.0)


def share_gpu_in_order(
    groups: Sequence[Sequence[LaunchedKernel]],
    issued: Sequence[Sequence[float]],
    after: Sequence[Sequence[Sequence[tuple[int, int]]]],
    *,
    event_ns: float,
) -> list[list[tuple[float, float]]]:
    """Start and end of kernels as of :func:`share_gpu`, where they wait for those of other groups.

    Parameters
    ----------
    issued
        Times at which the host issues each kernel of each group.
    after
        For each kernel the group and position of each kernel that must be done before.
    event_ns
        Time from the end of the last of these until the kernel may start its launch.
    """
    spans: list[list[tuple[float, float]]] = [[] for _ in groups]
    wakes = [0.0] * len(groups)
    """Time at which the wait of the next kernel is over, by group."""
    left = [0.0] * len(groups)
    starts = [0.0] * len(groups)
    waiting: list[int] = []
    blocked = [group for group, kernels in enumerate(groups) if kernels]
    """Groups whose next kernel waits for kernels that are not done."""

    def admit() -> None:
        """Let those go on that nothing blocks any more."""
        for group in list(blocked):
            number = len(spans[group])
            before = after[group][number]
            if all(place < len(spans[other]) for other, place in before):
                blocked.remove(group)
                waiting.append(group)
                begin = max([0.0, *(spans[other][place][1] for other, place in before)])
                begin = max(now, begin + event_ns if before else 0.0, issued[group][number])
                wakes[group] = begin + groups[group][number].wait_ns

    busy: list[int] = []
    now = 0.0
    speeds: list[float] = []
    admit()
    while waiting or busy:
        step = min(
            [wakes[group] - now for group in waiting]
            + [left[group] / speed for group, speed in zip(busy, speeds, strict=True)]
        )
        now += step
        for group, speed in zip(busy, speeds, strict=True):
            left[group] -= step * speed
        for group in [group for group in busy if left[group] <= _NOTHING]:
            busy.remove(group)
            spans[group].append((starts[group], now))
            if len(spans[group]) < len(groups[group]):
                blocked.append(group)
        if blocked:
            admit()
        for group in [group for group in waiting if wakes[group] <= now + _NOTHING]:
            waiting.remove(group)
            busy.append(group)
            starts[group] = now
            left[group] = groups[group][len(spans[group])].busy_ns
        speeds = _speeds([groups[group][len(spans[group])].rates for group in busy])
    return spans


def _issue_times(groups: Sequence[Sequence[LaunchedKernel]], issue_ns: float) -> list[list[float]]:
    """Times at which the host issues kernels: the first of every group, then all second ones."""
    times: list[list[float]] = [[] for _ in groups]
    count = 0
    for place in range(max(map(len, groups), default=0)):
        for group, kernels in enumerate(groups):
            if place < len(kernels):
                times[group].append(count * issue_ns)
                count += 1
    return times


def _speeds(rates: Sequence[Sequence[float]]) -> list[float]:
    """Speed of each kernel, 1 being its speed alone."""
    speeds = [1.0] * len(rates)
    if len(rates) < 2:
        return speeds
    for wanted in zip(*rates, strict=True):
        if sum(wanted) > 1:
            level = _fair_level(wanted)
            for kernel, rate in enumerate(wanted):
                if rate > level:
                    speeds[kernel] = min(speeds[kernel], level / rate)
    return speeds


def _fair_level(wanted: Sequence[float]) -> float:
    """The most anyone gets of a resource that all together want more of than there is."""
    rest = 1.0
    ordered = sorted(wanted)
    for place, rate in enumerate(ordered):
        level = rest / (len(ordered) - place)
        if rate >= level:
            return level
        rest -= rate
    return 1.0
