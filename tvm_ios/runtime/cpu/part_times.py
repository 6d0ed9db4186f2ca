"""Parts of a joined network timed beside each other and alone, on this machine's CPU."""

from __future__ import annotations

from collections.abc import Sequence

from tvm_ios.measure.part_times import PartTime, PartTimes, waits_of
from tvm_ios.plan.part_masks import launch_masks, launches_read
from tvm_ios.plan.plan import ExecutionPlan
from tvm_ios.plan.trace import TraceEvent
from tvm_ios.runtime.base.plan_module import PlanModule
from tvm_ios.runtime.base.sample_inputs import sample_inputs

__all__ = ["ends_in_trace", "part_times", "times_in_trace"]

ROUNDS = 15
"""Number of samples, the least of which counts: it is the one that others disturbed least."""
SAMPLE_NS = 2_000_000
"""Nanoseconds of a sample, at least that of one run."""
TRACES = 5


def part_times(executor: PlanModule) -> PartTimes:
    """Times of all parts together and of each alone, in rounds one after the other."""
    names = [part.name for part in executor.parts]
    executor.run(**sample_inputs(executor.plan, _parameters(executor)))
    samples: dict[str | None, list[float]] = {None: [], **{name: [] for name in names}}
    numbers = {who: max(1, SAMPLE_NS // _warm_ns(executor, who)) for who in samples}
    for _ in range(ROUNDS):
        for who, number in numbers.items():
            samples[who].append(executor.time_ns(number, parts=who) / number)
    trace = min((executor.trace(2) for _ in range(TRACES)), key=_length_ns)
    least_ns = {who: round(min(taken)) for who, taken in samples.items()}
    return PartTimes(
        together_ns=least_ns[None],
        traced_ns=_length_ns(trace),
        parts=tuple(
            PartTime(name=name, alone_ns=least_ns[name], done_ns=done_ns, waits_ns=waits_ns)
            for name, (done_ns, waits_ns) in times_in_trace(executor.plan, trace).items()
        ),
    )


def times_in_trace(
    plan: ExecutionPlan, trace: Sequence[TraceEvent]
) -> dict[str, tuple[int, dict[str, int]]]:
    """End of each part in a traced run, and its waits by the part that ran meanwhile."""
    events = {event.operator: event for event in trace}
    ran = [events.get(launch.operator) for launch in plan.launches]
    masks, reads = launch_masks(plan), launches_read(plan)
    of_part = {
        part.name: [
            number for number, event in enumerate(ran) if event and masks[number] >> place & 1
        ]
        for place, part in enumerate(plan.parts)
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


def ends_in_trace(plan: ExecutionPlan, trace: Sequence[TraceEvent]) -> dict[str, int]:
    """End of each part in a traced run, in nanoseconds from its start."""
    events = {event.operator: event for event in trace}
    ran = [events.get(launch.operator) for launch in plan.launches]
    masks = launch_masks(plan)
    return {
        part.name: max(
            (
                event.end_ns
                for mask, event in zip(masks, ran, strict=True)
                if event and mask >> place & 1
            ),
            default=0,
        )
        for place, part in enumerate(plan.parts)
    }


def _parameters(executor: PlanModule) -> set[str]:
    return {entry.name for entry in executor.plan.inputs} - set(executor.input_names)


def _warm_ns(executor: PlanModule, who: str | None) -> int:
    """Time of a run after the first."""
    executor.time_ns(1, parts=who)
    return max(1, executor.time_ns(1, parts=who))


def _length_ns(trace: Sequence[TraceEvent]) -> int:
    return max((event.end_ns for event in trace), default=0)
