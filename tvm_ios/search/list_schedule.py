"""List scheduling: schedules of operators on lanes without stages, the step after IOS.

Merged convolutions stay merged and are one task. The order of the schedule to start from is the
first list that ``list_search.py`` looks at.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.schedule import InterOpSchedule, LibraryOperators, Stage, Strategy
from tvm_ios.core.verify import verify_schedule
from tvm_ios.plan.lanes import CORES, HandOver
from tvm_ios.search.baselines import make_schedule
from tvm_ios.search.list_decoder import (
    NEVER_DUE,
    ListProblem,
    ListTask,
    Source,
    Timeline,
    make_list_decoder,
)
from tvm_ios.search.list_search import ListOptions, best_list

__all__ = ["OperatorTimes", "list_problem", "list_schedule", "mixed_list"]

_FLOAT_BYTES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorTimes:
    """Times of single operators and of merge stages in nanoseconds."""

    alone_ns: Sequence[int]
    """Nanoseconds of each operator on one lane; 0 where it needs no kernel."""
    helped_ns: Sequence[int]
    """Nanoseconds of each operator on all lanes; those on one lane where idle lanes may not
    help."""
    due_ns: Mapping[int, int] = field(default_factory=dict)
    """Nanoseconds from the start of a run until which operators should be done, where any."""
    merged_ns: Mapping[Stage, int] = field(default_factory=dict)
    """Nanoseconds of each merge stage of the schedule to start from."""
    priced_by: str = ""
    """Source of the times, if they were not measured where the schedule is to run; else empty."""


def list_schedule(
    graph: OperatorGraph,
    times: OperatorTimes,
    *,
    lanes: int,
    hand_over: HandOver = CORES,
    start: InterOpSchedule,
    options: ListOptions | None = None,
) -> InterOpSchedule:
    """Best list found, as a schedule whose stages are runs of operators, or merges, by start time.

    The simulated time is never above that of the order of ``start``, whose merges are kept:
    sequential order where there is none better. Operators that are due come first, as far as that
    keeps them in time. Idle lanes help where the simulation has them idle,
    whatever ``start`` says.
    """
    chosen = options or ListOptions()
    start.require_graph(graph)
    members, problem = list_problem(graph, times, lanes=lanes, hand_over=hand_over, start=start)
    decoder = make_list_decoder(problem)
    timeline = decoder.timeline(best_list(problem, decoder, chosen))
    stages, homes = _in_order(graph, members, timeline)
    latency_ns = max(timeline.ends_ns, default=0)
    rows = zip(members, timeline.helped, strict=True)
    helped = {index for row, together in rows if together for index in row}
    listed = replace(
        make_schedule(graph, stages, "list", latency_ns, times.priced_by),
        home_lanes=homes,
        unsplit=tuple(index for index in range(len(graph)) if index not in helped),
    )
    verify_schedule(listed, graph)
    return listed


def list_problem(
    graph: OperatorGraph,
    times: OperatorTimes,
    *,
    lanes: int,
    hand_over: HandOver,
    start: InterOpSchedule,
) -> tuple[tuple[tuple[int, ...], ...], ListProblem]:
    """Operators of each task, and the tasks, in the order of ``start``.

    Operators without a kernel are no tasks: their readers read what they read.
    """
    ordered = []
    for number, stage in enumerate(start.stages):
        if stage.is_merge:
            ordered.append((number, 0, 0, stage.operators))
            continue
        for group in stage.groups:
            # At one place of the groups the longest come first, as where lanes choose by stages.
            rows = [(number, at, -times.alone_ns[i], (i,)) for at, i in enumerate(group)]
            ordered += [row for row in rows if row[2]]
    members = tuple(row[3] for row in sorted(ordered))
    task_of = {index: number for number, row in enumerate(members) for index in row}
    read_bytes = _bytes_read(graph, task_of)
    due_ns = _due_ns(times.due_ns, task_of, read_bytes)
    merged_ns = {stage.operators: time_ns for stage, time_ns in times.merged_ns.items()}
    tasks: list[ListTask] = []
    for row in members:
        alone_ns = times.alone_ns[row[0]] if len(row) == 1 else merged_ns[row]
        # Members of a merge read the very same tensor.
        size_of = {task: size for index in row for task, size in read_bytes[index].items()}
        tasks.append(
            ListTask(
                alone_ns=alone_ns,
                helped_ns=times.helped_ns[row[0]] if len(row) == 1 else alone_ns,
                sources=tuple(
                    Source(task, size_of[task] * hand_over.fetch_ns_per_kb // 1000)
                    for task in sorted(size_of)
                ),
                due_ns=due_ns.get(len(tasks), NEVER_DUE),
            )
        )
    return members, ListProblem(tasks=tuple(tasks), lanes=lanes, signal_ns=hand_over.signal_ns)


def _due_ns(
    of_operators: Mapping[int, int],
    task_of: Mapping[int, int],
    read_bytes: Sequence[Mapping[int, int]],
) -> dict[int, int]:
    """Time (ns) until which tasks should be done; what has no kernel is done with its sources."""
    due: dict[int, int] = {}
    for index, until_ns in of_operators.items():
        for task in [task_of[index]] if index in task_of else read_bytes[index]:
            due[task] = min(until_ns, due.get(task, until_ns))
    return due


def _bytes_read(graph: OperatorGraph, task_of: Mapping[int, int]) -> list[dict[int, int]]:
    """Bytes each operator reads of each task, through operators without a kernel."""
    read: list[dict[int, int]] = []
    for operator in graph.operators:
        sizes: dict[int, int] = {}
        for index in operator.predecessors:
            whole = _FLOAT_BYTES * graph.operators[index].output_elements
            behind = {task_of[index]: whole} if index in task_of else read[index]
            for task, size in behind.items():
                # Through a slice, less is read than was written.
                sizes[task] = sizes.get(task, 0) + min(whole, size)
        read.append(sizes)
    return read


def _in_order(
    graph: OperatorGraph, members: Sequence[tuple[int, ...]], timeline: Timeline
) -> tuple[tuple[Stage, ...], tuple[int, ...]]:
    """A stage for each run of tasks by start time, and the lane of each operator.

    An operator without a kernel follows the last run that it reads, on the lane of that run.
    """
    runs = _runs(graph, members, timeline)
    homes = [0] * len(graph)
    place_of: dict[int, int] = {}
    behind: list[list[int]] = [[] for _ in range(len(runs) + 1)]
    """Operators without a kernel, ascending: those before the first run, then those behind each
    run."""
    for place, run in enumerate(runs):
        for task in run:
            for index in members[task]:
                place_of[index], homes[index] = place, timeline.homes[task]
    for index, operator in enumerate(graph.operators):
        if index not in place_of:
            last = max(operator.predecessors, key=place_of.__getitem__, default=None)
            place_of[index] = -1 if last is None else place_of[last]
            homes[index] = 0 if last is None else homes[last]
            behind[place_of[index] + 1].append(index)
    stages = [Stage(((index,),)) for index in behind[0]]
    for run, views in zip(runs, behind[1:], strict=True):
        merge = members[run[0]] if len(members[run[0]]) > 1 else ()
        stages.append(
            Stage(tuple((index,) for index in merge), Strategy.MERGE)
            if merge
            else Stage((tuple(members[task][0] for task in run),))
        )
        stages += [Stage(((index,),)) for index in views]
    return tuple(stages), tuple(homes)


def _runs(
    graph: OperatorGraph, members: Sequence[tuple[int, ...]], timeline: Timeline
) -> list[list[int]]:
    """Tasks in the order they start, in runs: chains without branches on one lane are one run.

    Runs save lanes the completion of groups, and delay nobody: a task that joins is the only reader
    of the task before, reads nothing else that the run's first task does not read, and is next on
    the lane.
    """
    placed = {task: place for place, task in enumerate(timeline.order)}
    readers = graph.successor_masks()
    runs: list[list[int]] = []
    last_on: dict[int, list[int]] = {}
    for task in sorted(placed, key=lambda task: (timeline.starts_ns[task], placed[task])):
        home = timeline.homes[task]
        run = last_on.get(home)
        if run is not None and not timeline.helped[task]:
            inside = {index for other in run for index in members[other]}
            first, operator = (graph.operators[members[other][0]] for other in (run[0], task))
            known = inside.union(first.predecessors)
            if (
                len(members[task]) == len(members[run[0]]) == 1
                and first.schedulable
                and operator.schedulable
                and readers[members[run[-1]][0]] == 1 << members[task][0]
                and known.issuperset(operator.predecessors)
            ):
                run.append(task)
                continue
        runs.append([task])
        # A task that all lanes run together begins and ends a run on each of them.
        last_on = {} if timeline.helped[task] else last_on | {home: runs[-1]}
    return runs


def mixed_list(
    listed: InterOpSchedule, behind: InterOpSchedule, as_listed: Collection[int]
) -> InterOpSchedule | None:
    """List of some operators as they are listed, and behind it another schedule of the others.

    Lanes take those behind where they have nothing else to do; without lanes of their own they are
    on lane 0. Who computes an operator, and whether it is split, is as in the schedule that it is
    from. None where a merge is of operators of both.

    Parameters
    ----------
    listed
        A list.
    behind
        A list or a sequential schedule of the same graph.
    as_listed
        Operators of the list; no others depend on them, nor they on others.
    """
    chosen = frozenset(as_listed)
    stages = [stage for stage in listed.stages if not chosen.isdisjoint(stage.operators)]
    if any(not chosen.issuperset(stage.operators) for stage in stages):
        return None
    stages += [stage for stage in behind.stages if chosen.isdisjoint(stage.operators)]
    rows: dict[str, list[int]] = {}
    for schedule, taken in ((listed, True), (behind, False)):
        for row in schedule.libraries or ():
            own = [index for index in row.operators if (index in chosen) is taken]
            rows.setdefault(row.library, []).extend(own)
    others = behind.home_lanes or (0,) * len(listed.home_lanes)
    unsplit = {index for index in listed.unsplit if index in chosen}
    unsplit |= {index for index in behind.unsplit if index not in chosen}
    return replace(
        listed,
        stages=tuple(stages),
        latency_ns=None,
        home_lanes=tuple(
            lane if index in chosen else other
            for index, (lane, other) in enumerate(zip(listed.home_lanes, others, strict=True))
        ),
        unsplit=tuple(sorted(unsplit)),
        libraries=None
        if listed.libraries is None and behind.libraries is None
        else tuple(
            LibraryOperators(library=name, operators=tuple(sorted(own)))
            for name, own in rows.items()
        ),
    )
