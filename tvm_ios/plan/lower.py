"""Lowering of a graph of kernels to an execution plan: the step between build and run. No TVM."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from tvm_ios.errors import PlanError
from tvm_ios.plan.kernel_graph import KernelGraph
from tvm_ios.plan.lanes import CORES, HandOver, assign_lanes
from tvm_ios.plan.memory import pack_buffers
from tvm_ios.plan.placement import Placement
from tvm_ios.plan.plan import ExecutionPlan, Group, Launch, PlanInput, launches_before
from tvm_ios.plan.storage import Layout, Storage, lay_out_groups, one_after_another
from tvm_ios.plan.views import resolve_views

__all__ = ["lower_plan"]


def lower_plan(
    graph: KernelGraph,
    placements: Sequence[Placement],
    *,
    lanes: int,
    operator_names: Sequence[str] | None = None,
    reuse: bool = True,
    hand_over: HandOver = CORES,
) -> ExecutionPlan:
    """The execution plan of a built module.

    ``operator_names`` are names for people, in place of those of the graph. Without ``reuse`` every
    buffer has bytes of its own. The cost of a hand-over from one lane to another is
    :data:`~tvm_ios.plan.lanes.STREAMS` on a GPU.
    """
    names = tuple(operator_names or (operator.name for operator in graph.operators))
    if not len(graph.operators) == len(placements) == len(names):
        raise PlanError(
            f"the graph has {len(graph.operators)} operators, but there are {len(placements)} "
            f"placements and {len(names)} names; give one for every operator"
        )
    if lanes < 1:
        raise PlanError(f"a plan for {lanes} lanes cannot run; give at least 1")
    aliasing = resolve_views(graph, [placement.view for placement in placements])
    layout = lay_out_groups(placements, aliasing.dropped)
    storage = Storage(graph, aliasing, layout)
    storage.check_order(names)
    costs_ns = [placements[index].cost_ns for index in layout.order]
    if not any(costs_ns):
        costs_ns = storage.bytes_touched()  # at 1 GB/s, as good a guess as any
    groups = _groups(layout, storage.bytes_read(), costs_ns, lanes, hand_over)
    lifetimes = storage.lifetimes(launches_before(groups))
    if reuse:
        offsets, arena_bytes = pack_buffers(lifetimes)
    else:
        offsets, arena_bytes = one_after_another(lifetimes)
    buffers = storage.buffers(dict(zip(storage.arena_owners, offsets, strict=True)))
    tensors, arguments = storage.tensors()
    return ExecutionPlan(
        lanes=lanes,
        buffers=buffers,
        tensors=tensors,
        launches=tuple(
            Launch(
                operator=names[index],
                operator_index=index,
                kernel=str(graph.operators[index].kernel),
                inputs=tuple(arguments[index][t] for t in graph.operators[index].inputs),
                outputs=tuple(arguments[index][t] for t in graph.operators[index].outputs),
                split=placements[index].split,
                call=placements[index].call,
            )
            for index in layout.order
        ),
        groups=groups,
        inputs=tuple(PlanInput(name, tensor) for name, tensor in graph.inputs),
        outputs=graph.outputs,
        arena_bytes=arena_bytes,
    )


def _groups(
    layout: Layout,
    reads: Sequence[Mapping[int, int]],
    costs_ns: Sequence[int],
    lanes: int,
    hand_over: HandOver,
) -> tuple[Group, ...]:
    """Groups of the plan: those of the schedule, cut so that none waits for more than its data."""
    keys, steps, runs = [], [], []
    given: list[int | None] = []
    for key, members, lane in zip(layout.keys, layout.members, layout.lanes, strict=True):
        pieces = _cut([layout.access[index].launch for index in members], reads)
        keys += [key] * len(pieces)
        given += [lane] * len(pieces)
        steps += [(key[0], place) for place in range(len(pieces))]
        runs += pieces
    run_of = [number for number, run in enumerate(runs) for _ in run]
    waits = _data_between(runs, run_of, reads)
    homes = [lane for lane in given if lane is not None]
    if len(homes) < len(runs):
        # Stages of one group run in order, though no data may pass: a sequential schedule is what
        # it says, never two kernels at once on lanes that happen to be idle.
        width = Counter(stage for stage, _ in layout.keys)
        for number in range(1, len(runs)):
            if width[steps[number - 1][0]] == width[steps[number][0]] == 1:
                waits[number].setdefault(number - 1, 0)
    # Lanes of a list for more of them than there are mean nothing here.
    if len(homes) < len(runs) or max(homes, default=0) >= lanes:
        run_ns = [sum(costs_ns[launch] for launch in run) for run in runs]
        homes = list(assign_lanes(steps, run_ns, waits, lanes=lanes, hand_over=hand_over))
    return tuple(
        Group(
            stage=stage,
            position=position,
            launches=tuple(run),
            dependencies=dependencies,
            lane=lane,
        )
        for (stage, position), run, dependencies, lane in zip(
            keys, runs, _reduced(waits), homes, strict=True
        )
    )


def _data_between(
    runs: Sequence[Sequence[int]], run_of: Sequence[int], reads: Sequence[Mapping[int, int]]
) -> list[dict[int, int]]:
    """Bytes that each run reads of what each other run writes."""
    between: list[dict[int, int]] = [{} for _ in runs]
    for number, run in enumerate(runs):
        for launch in run:
            for writer, size in reads[launch].items():
                other = run_of[writer]
                if other != number:
                    between[number][other] = between[number].get(other, 0) + size
    return between


def _reduced(waits: Sequence[Mapping[int, int]]) -> list[tuple[int, ...]]:
    """Runs that each run waits for, transitively reduced."""
    ancestors: list[int] = []
    reduced = []
    for row in waits:
        seen, kept = 0, []
        # Latest first: only a later run can have another dependency among its ancestors.
        for dependency in sorted(row, reverse=True):
            if not seen >> dependency & 1:
                kept.append(dependency)
                seen |= ancestors[dependency] | 1 << dependency
        ancestors.append(seen)
        reduced.append(tuple(reversed(kept)))
    return reduced


def _cut(launches: Sequence[int], reads: Sequence[Mapping[int, int]]) -> list[list[int]]:
    """Runs of launches: cut before a launch that waits for more, and after one others wait for.

    A run begins when all its dependencies are complete, and is complete when all its launches are.
    So a launch joins a run only if that delays neither it nor any reader.
    """
    readers: dict[int, set[int]] = {launch: set() for launch in launches}
    for reader, row in enumerate(reads):
        for writer in row.keys() & readers.keys():
            readers[writer].add(reader)
    runs: list[list[int]] = []
    for launch in launches:
        if (
            runs
            and readers[runs[-1][-1]] == {launch}
            and reads[launch].keys() <= reads[runs[-1][0]].keys() | set(runs[-1])
        ):
            runs[-1].append(launch)
        else:
            runs.append([launch])
    return runs
