"""Order of a plan on streams: the calls issued to each, and the events between them. No TVM here.

A stream runs its calls in the order given. So an event is recorded and awaited only where a
dependency crosses streams and no earlier wait implies it (vector clocks).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from itertools import zip_longest

from tvm_ios.plan.plan import ExecutionPlan, Group

__all__ = ["CALLER", "Step", "StepKind", "StreamProgram", "order_on_streams", "with_timing"]

CALLER = 0
"""Number of the caller's stream; the plan's own streams count from 1."""
_FORK = -1
"""Number among groups for the event that everything waits for."""


class StepKind(IntEnum):
    """Kinds of calls; the numbers are those of ``runtime/cuda/native/cuda_streams.c``."""

    LAUNCH = 0
    RECORD = 1
    WAIT = 2


@dataclass(frozen=True, slots=True)
class Step:
    """A call that is issued to a stream."""

    kind: StepKind
    stream: int
    index: int
    """Index of a launch of the plan, or of an event of the program."""
    group: int | None
    """Group that the call is for; None for the fork and the join."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamProgram:
    """A plan as calls to streams, in the order they are issued."""

    num_streams: int
    """Number of streams of its own; the caller's comes on top."""
    num_events: int
    num_timed_events: int = 0
    """Number of events that also take the time, numbered after the others."""
    steps: tuple[Step, ...]

    def as_text(self, plan: ExecutionPlan) -> str:
        """Text, a line for each stream: operators; ``!n`` records event n, ``?n`` awaits it."""
        marks = {StepKind.RECORD: "!", StepKind.WAIT: "?"}
        rows: list[list[str]] = [[] for _ in range(self.num_streams + 1)]
        for step in self.steps:
            mark = marks.get(step.kind)
            name = plan.launches[step.index].operator if mark is None else f"{mark}{step.index}"
            rows[step.stream].append(name)
        names = ["caller", *(f"stream {number}" for number in range(1, len(rows)))]
        return "\n".join(f"{name}: {' '.join(row)}" for name, row in zip(names, rows, strict=True))


def order_on_streams(plan: ExecutionPlan) -> StreamProgram:
    """Program that forks from the caller's stream, runs each group on its lane's stream, and joins.

    Lanes without a group get no stream. No wait can be left out: without it, the awaited launch
    could still run. Groups that may overlap are issued launch by launch in turns, so that no stream
    waits while another is filled. O(streams x (groups + dependencies)) and a sort.
    """
    if not plan.groups:
        return StreamProgram(num_streams=0, num_events=0, steps=())
    lanes = sorted({group.lane for group in plan.groups})
    homes = [lanes.index(group.lane) + 1 for group in plan.groups]
    waits, join = _needed_waits(plan.groups, homes, num_streams=len(lanes))
    awaited = sorted({group for row in (*waits, join) for group in row})
    events = {group: number for number, group in enumerate(awaited)}
    steps = [Step(StepKind.RECORD, CALLER, events[_FORK], None)]
    for batch in _overlapping(plan.groups):
        queues: dict[int, list[list[Step]]] = {}
        for number in batch:
            calls = _calls(plan.groups[number], number, homes[number], waits[number], events)
            queues.setdefault(homes[number], []).extend(calls)
        for turn in zip_longest(*queues.values(), fillvalue=()):
            steps += [step for calls in turn for step in calls]
    steps += [Step(StepKind.WAIT, CALLER, events[group], None) for group in join]
    return StreamProgram(num_streams=len(lanes), num_events=len(events), steps=tuple(steps))


def with_timing(program: StreamProgram) -> StreamProgram:
    """A copy of the program that takes times: timed event 0 at the start, two around every launch.

    The i-th launch issued lies between timed events 2i + 1 and 2i + 2.
    """
    timed = program.num_events
    steps = [Step(StepKind.RECORD, CALLER, timed, None)]
    for step in program.steps:
        if step.kind is not StepKind.LAUNCH:
            steps.append(step)
            continue
        record = replace(step, kind=StepKind.RECORD, index=timed + 1)
        steps += [record, step, replace(record, index=timed + 2)]
        timed += 2
    return replace(program, steps=tuple(steps), num_timed_events=timed + 1 - program.num_events)


def _needed_waits(
    groups: Sequence[Group], homes: Sequence[int], *, num_streams: int
) -> tuple[list[list[int]], list[int]]:
    """Groups (or the fork) whose events each group awaits, and those that the join awaits.

    A clock counts the groups of each stream that are known to be complete. Groups are visited
    latest first: one that is known through a later one needs no wait of its own.
    """
    clocks = [[0] * (num_streams + 1) for _ in range(num_streams + 1)]
    clocks[CALLER][CALLER] = 1  # the fork
    after = {_FORK: list(clocks[CALLER])}
    place = {_FORK: (CALLER, 1)}

    def wait(stream: int, dependencies: Sequence[int]) -> list[int]:
        needed = []
        # The fork is -1, so it comes last: any wait implies it.
        for dependency in sorted(dependencies, reverse=True):
            other, position = place[dependency]
            if clocks[stream][other] < position:
                needed.append(dependency)
                clocks[stream] = list(map(max, clocks[stream], after[dependency]))
        return needed

    waits, last = [], {}
    for number, (group, stream) in enumerate(zip(groups, homes, strict=True)):
        waits.append(wait(stream, (*group.dependencies, _FORK)))
        clocks[stream][stream] += 1
        after[number] = list(clocks[stream])
        place[number] = (stream, clocks[stream][stream])
        last[stream] = number
    return waits, wait(CALLER, tuple(last.values()))


def _overlapping(groups: Sequence[Group]) -> Iterator[range]:
    """Runs of groups of one stage, none of which waits for another of its run."""
    begin = 0
    for number, group in enumerate(groups):
        same = group.stage == groups[begin].stage
        if not same or any(dependency >= begin for dependency in group.dependencies):
            yield range(begin, number)
            begin = number
    yield range(begin, len(groups))


def _calls(
    group: Group, number: int, stream: int, waits: Sequence[int], events: Mapping[int, int]
) -> list[list[Step]]:
    """Calls that are issued for a group, a list for each of its launches.

    Waits come before the first and the event after the last: a stream keeps the order between.
    """
    calls = [[Step(StepKind.LAUNCH, stream, launch, number)] for launch in group.launches]
    calls[0][:0] = [Step(StepKind.WAIT, stream, events[other], number) for other in waits]
    if number in events:
        calls[-1].append(Step(StepKind.RECORD, stream, events[number], number))
    return calls
