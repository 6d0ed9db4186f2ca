"""Use of cores and devices in a run of jobs, from the stages of its trace.

Runs that know nothing of each other are judged together: their times are seconds since 1970.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tvm_ios.jobs.core.trace import Span, Stay

__all__ = ["Distortion", "HardwareUse", "distortion", "hardware_use"]

TOUCH_S = 0.001
"""Seconds of overlap below which two stages only touch: two clocks told the same moment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HardwareUse:
    """Seconds of cores and devices, and what no order of the stages could beat."""

    core_s: float
    """Seconds in which a core had any stage, of all cores together."""
    device_s: float
    """Seconds in which a device was profiled on, of all devices together."""
    bound_s: float
    """Seconds that the same stages take at least: the cores, or the busiest device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Distortion:
    """Profiles beside which others computed, on a core of theirs."""

    profiles: int
    distorted: int
    profile_s: float
    """Seconds of all profiles."""
    distorted_s: float
    """Seconds of profiles in which others were there."""


def hardware_use(spans: Sequence[Span], cores: int) -> HardwareUse:
    """Use of a machine with so many cores by stages that have ended."""
    stays = [stay for span in spans for stay in span.stays()]
    core_s = sum(
        covered_s((stay.since_s, stay.until_s) for stay in stays if stay.core == core)
        for core in {stay.core for stay in stays}
    )
    devices_s = [
        covered_s((span.granted_s, _end(span)) for span in spans if span.device == device)
        for device in {span.device for span in spans if span.device}
    ]
    return HardwareUse(
        core_s=core_s,
        device_s=sum(devices_s),
        bound_s=max([core_s / cores, *devices_s]),
    )


def distortion(spans: Sequence[Span]) -> Distortion:
    """Number of profiles on a core that a stage of another job had, too."""
    profiles = [span for span in spans if span.need.kind.measures]
    beside_s = [_beside_s(span, spans) for span in profiles]
    return Distortion(
        profiles=len(profiles),
        distorted=sum(seconds > TOUCH_S for seconds in beside_s),
        profile_s=sum(_end(span) - span.granted_s for span in profiles),
        distorted_s=sum(seconds for seconds in beside_s if seconds > TOUCH_S),
    )


def covered_s(intervals: Iterable[tuple[float, float]]) -> float:
    """Seconds that lie in any of the intervals.

    Examples
    --------
    >>> covered_s([(0.0, 2.0), (1.0, 3.0), (5.0, 6.0)])
    4.0
    """
    total_s, end_s = 0.0, float("-inf")
    for since_s, until_s in sorted(intervals):
        total_s += max(0.0, until_s - max(since_s, end_s))
        end_s = max(end_s, until_s)
    return total_s


def _beside_s(profile: Span, spans: Sequence[Span]) -> float:
    """Seconds in which any other job had a core of a profile."""
    own = profile.stays()
    others = [
        stay
        for span in spans
        if span.job != profile.job and _end(span) > profile.granted_s
        for stay in span.stays()
    ]
    return covered_s(overlap for mine in own for stay in others for overlap in _overlap(mine, stay))


def _overlap(one: Stay, other: Stay) -> list[tuple[float, float]]:
    since_s = max(one.since_s, other.since_s)
    until_s = min(one.until_s, other.until_s)
    return [(since_s, until_s)] if one.core == other.core and since_s < until_s else []


def _end(span: Span) -> float:
    assert span.ended_s is not None  # the run is over
    return span.ended_s
