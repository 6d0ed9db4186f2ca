"""Parts of a joined network timed beside each other and alone, on this machine's CPU."""

from __future__ import annotations

import time
from collections.abc import Sequence

from tvm_ios.measure.part_times import PartTime, PartTimes, waits_of
from tvm_ios.plan.parts.masks import launches_of_parts, launches_read
from tvm_ios.plan.plan import ExecutionPlan
from tvm_ios.plan.trace import TraceEvent
from tvm_ios.runtime.base.plan_module import PlanModule
from tvm_ios.runtime.base.sample_inputs import sample_inputs

__all__ = ["least_ns_alone", "part_times", "times_in_trace"]

ROUNDS = 15
"""Number of samples, the least of which counts: it is the one that others disturbed least."""
LEAST_ROUNDS = 2
MOST_S = 0.5
"""Seconds after which no round begins: on a busy machine a run may take many times as long."""
SAMPLE_NS = 2_000_000
"""Nanoseconds of a sample, at least those of one turn."""
TRACES = 5


def part_times(executor: PlanModule) -> PartTimes:
    """Times of all parts together and of each alone, in rounds one after the other."""
    least_ns = _least_ns(executor, [None, *_names(executor)])
    trace = min((executor.trace(2) for _ in range(TRACES)), key=_length_ns)
    return PartTimes(
        together_ns=least_ns[None],
        traced_ns=_length_ns(trace),
        parts=tuple(
            PartTime(name=name, alone_ns=least_ns[name], done_ns=done_ns, waits_ns=waits_ns)
            for name, (done_ns, waits_ns) in times_in_trace(executor.plan, trace).items()
        ),
    )


def least_ns_alone(executor: PlanModule) -> dict[str, int]:
    """Least nanoseconds of each part alone, in rounds one after the other."""
    return {str(who): ns for who, ns in _least_ns(executor, _names(executor)).items()}


def _least_ns(executor: PlanModule, names: Sequence[str | None]) -> dict[str | None, int]:
    """Least nanoseconds of runs of parts, of all where the name is None.

    Runs take turns: repeated by itself a part finds its weights in caches that others empty.
    """
    parameters = {entry.name for entry in executor.plan.inputs} - set(executor.input_names)
    executor.run(**sample_inputs(executor.plan, parameters))
    number = max(1, SAMPLE_NS // sum(_warm_ns(executor, who) for who in names))
    samples: dict[str | None, list[float]] = {who: [] for who in names}
    begin_s = time.monotonic()
    for taken in range(ROUNDS):
        if taken >= LEAST_ROUNDS and time.monotonic() - begin_s > MOST_S:
            break
        turns = [[executor.time_ns(1, parts=who) for who in names] for _ in range(number)]
        for who, times in zip(names, zip(*turns, strict=True), strict=True):
            samples[who].append(sum(times) / number)
    return {who: round(min(times)) for who, times in samples.items()}


def _names(executor: PlanModule) -> list[str]:
    return [part.name for part in executor.parts]


def times_in_trace(
    plan: ExecutionPlan, trace: Sequence[TraceEvent]
) -> dict[str, tuple[int, dict[str, int]]]:
    """End of each part in a traced run, and its waits by the part that ran meanwhile."""
    events = {event.operator: event for event in trace}
    ran = [events.get(launch.operator) for launch in plan.launches]
    reads = launches_read(plan)
    of_part = {
        name: [number for number in own if ran[number]]
        for name, own in launches_of_parts(plan).items()
    }
    spans = [(0, 0) if event is None else (event.start_ns, event.end_ns) for event in ran]
    running = {name: [spans[number] for number in own] for name, own in of_part.items()}
    found = {}
    for name, own in of_part.items():
        waiting = [
            (max((spans[writer][1] for writer in reads[number]), default=0), spans[number][0])
            for number in own
        ]
        waits = waits_of([each for each in waiting if each[0] < each[1]], running, name)
        found[name] = (max((spans[number][1] for number in own), default=0), waits)
    return found


def _warm_ns(executor: PlanModule, who: str | None) -> int:
    """Time of a run after the first."""
    executor.time_ns(1, parts=who)
    return max(1, executor.time_ns(1, parts=who))


def _length_ns(trace: Sequence[TraceEvent]) -> int:
    return max((event.end_ns for event in trace), default=0)
