"""Lowers a graph of kernels to an execution plan: the step between build and run. No TVM."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_

from tvm_ios.core.graph import mask_of
from tvm_ios.errors import PlanError
from tvm_ios.plan.data_type import dtype_bytes
from tvm_ios.plan.kernel_graph import KernelGraph
from tvm_ios.plan.lanes import CORES, HandOver, assign_lanes
from tvm_ios.plan.memory import Lifetime, pack_buffers
from tvm_ios.plan.placement import Placement
from tvm_ios.plan.plan import (
    Buffer,
    BufferKind,
    ExecutionPlan,
    Group,
    Launch,
    PlanInput,
    Tensor,
    launches_before,
)
from tvm_ios.plan.views import Aliasing, resolve_views

__all__ = ["lower_plan"]


@dataclass(frozen=True, slots=True, order=True)
class _Access:
    """A launch that touches a buffer, and where it runs."""

    stage: int
    group: int
    launch: int


def lower_plan(
    graph: KernelGraph,
    placements: Sequence[Placement],
    *,
    lanes: int,
    operator_names: Sequence[str] | None = None,
    reuse: bool = True,
    hand_over: HandOver = CORES,
) -> ExecutionPlan:
    """Make the execution plan of a built module.

    Parameters
    ----------
    graph
        The operators and the tensors between them.
    placements
        One for every operator, in their order.
    lanes
        Threads that will run the plan, the caller's included.
    operator_names
        Names for people, one for every operator; those of the graph where omitted.
    reuse
        False gives every buffer bytes of its own.
    hand_over
        Time it takes from one lane to another; :data:`~tvm_ios.plan.lanes.STREAMS` on a GPU.

    Raises
    ------
    PlanError
        If the counts differ, or the placements break the data order.
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
    layout = _lay_out_groups(placements, aliasing.dropped)
    storage = _Storage(graph, aliasing, layout)
    storage.check_order(names)
    costs_ns = [placements[index].cost_ns for index in layout.order]
    if not any(costs_ns):
        costs_ns = storage.bytes_touched()  # at 1 GB/s, as good a guess as any
    groups = _groups(layout, storage.bytes_read(), costs_ns, lanes, hand_over)
    lifetimes = storage.lifetimes(launches_before(groups))
    if reuse:
        offsets, arena_bytes = pack_buffers(lifetimes)
    else:
        offsets, arena_bytes = _one_after_another(lifetimes)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layout:
    """Groups that still hold a launch, in (stage, position) order, and the launches in them."""

    keys: tuple[tuple[int, int], ...]
    """Stage and position of each group."""
    members: tuple[tuple[int, ...], ...]
    """Operators of each group."""
    lanes: tuple[int | None, ...]
    """Lane that each group calls home; None where lowering is to choose."""
    order: tuple[int, ...]
    """Operator of each launch."""
    access: dict[int, _Access]
    """The launch of each operator, and where it runs."""


def _lay_out_groups(placements: Sequence[Placement], dropped: frozenset[int]) -> _Layout:
    by_key: dict[tuple[int, int], list[int]] = {}
    for index, placement in enumerate(placements):
        if index not in dropped:
            by_key.setdefault((placement.stage, placement.group), []).append(index)
    keys = tuple(sorted(by_key))
    access: dict[int, _Access] = {}
    for number, key in enumerate(keys):
        for index in by_key[key]:
            access[index] = _Access(key[0], number, len(access))
    return _Layout(
        keys=keys,
        members=tuple(tuple(by_key[key]) for key in keys),
        lanes=tuple(placements[by_key[key][0]].lane for key in keys),
        order=tuple(access),
        access=access,
    )


class _Storage:
    """Buffers, and which launches write and read which bytes of them."""

    def __init__(self, graph: KernelGraph, aliasing: Aliasing, layout: _Layout) -> None:
        self._graph = graph
        self._location = aliasing.location
        self._layout = layout
        self._size = [math.prod(t.shape) * dtype_bytes(t.dtype) for t in graph.tensors]
        self._writes: dict[int, list[tuple[int, int, _Access]]] = {}
        self._reads: dict[int, list[tuple[int, int, _Access]]] = {}
        for index in layout.order:
            operator, access = graph.operators[index], layout.access[index]
            for tensors, table in (
                (operator.inputs, self._reads),
                (operator.outputs, self._writes),
            ):
                for tensor in tensors:
                    owner, begin = self._location[tensor]
                    row = (begin, begin + self._size[tensor], access)
                    table.setdefault(owner, []).append(row)
        external = {self._location[tensor][0] for _, tensor in graph.inputs}
        heads = {self._location[tensor][0] for tensor in graph.outputs}
        self._kinds = {
            owner: BufferKind.INPUT
            if owner in external
            else BufferKind.OUTPUT
            if owner in heads
            else BufferKind.ARENA
            for owner, _ in self._location
        }
        self.arena_owners = [
            owner for owner in sorted(self._kinds) if self._kinds[owner] is BufferKind.ARENA
        ]

    def _true_dependencies(self) -> list[tuple[_Access, _Access]]:
        return [
            (writer, reader)
            for owner, reads in self._reads.items()
            for begin, end, reader in reads
            for low, high, writer in self._writes.get(owner, ())
            if low < end and begin < high
        ]

    def check_order(self, names: Sequence[str]) -> None:
        """Refuse placements that run a reader before, or beside, its writer."""
        for writer, reader in self._true_dependencies():
            in_order = writer.stage < reader.stage or (
                writer.group == reader.group and writer.launch < reader.launch
            )
            if not in_order:
                order = self._layout.order
                raise PlanError(
                    f"operator {names[order[reader.launch]]!r} (stage {reader.stage}) reads what "
                    f"operator {names[order[writer.launch]]!r} (stage {writer.stage}) writes, but "
                    "is neither in a later stage nor later in the same group; "
                    "mend the schedule, verify_schedule names the rule"
                )

    def bytes_touched(self) -> list[int]:
        """For each launch the bytes it reads or writes."""
        touched = [0] * len(self._layout.order)
        for table in (self._reads, self._writes):
            for accesses in table.values():
                for begin, end, access in accesses:
                    touched[access.launch] += end - begin
        return touched

    def bytes_read(self) -> list[dict[int, int]]:
        """For each launch the bytes it reads of what each other launch writes."""
        read: list[dict[int, int]] = [{} for _ in self._layout.order]
        for owner, reads in self._reads.items():
            for begin, end, reader in reads:
                for low, high, writer in self._writes.get(owner, ()):
                    size = min(end, high) - max(begin, low)
                    if size > 0:
                        row = read[reader.launch]
                        row[writer.launch] = row.get(writer.launch, 0) + size
        return read

    def lifetimes(self, before: Sequence[int]) -> list[Lifetime]:
        """A lifetime for every buffer of the arena; ``before`` is what precedes each launch."""
        lifetimes = []
        for owner in self.arena_owners:
            writers = {access.launch for _, _, access in self._writes[owner]}
            readers = {access.launch for _, _, access in self._reads.get(owner, ())}
            lifetimes.append(
                Lifetime(
                    size_bytes=self._size[owner],
                    first_write=min(writers),
                    accesses=mask_of(writers | readers),
                    # Writers may run in any order: only what precedes each of them is over.
                    before=reduce(and_, (before[launch] for launch in writers)),
                )
            )
        return lifetimes

    def buffers(self, offsets: dict[int, int]) -> tuple[Buffer, ...]:
        return tuple(
            Buffer(
                kind=self._kinds[owner],
                size_bytes=self._size[owner],
                arena_offset=offsets.get(owner),
            )
            for owner in sorted(self._kinds)
        )

    def tensors(self) -> tuple[tuple[Tensor, ...], dict[int, dict[int, int]]]:
        """The plan's tensors, and for each operator the plan tensor of each graph tensor."""
        number = {owner: index for index, owner in enumerate(sorted(self._kinds))}
        tensors = [
            Tensor(buffer=number[owner], byte_offset=offset, shape=tensor.shape, dtype=tensor.dtype)
            for tensor, (owner, offset) in zip(self._graph.tensors, self._location, strict=True)
        ]
        arguments: dict[int, dict[int, int]] = {}
        for index in self._layout.order:
            operator = self._graph.operators[index]
            arguments[index] = {t: t for t in (*operator.inputs, *operator.outputs)}
            for tensor in arguments[index] if operator.flatten else ():
                flat = tensors[tensor]
                arguments[index][tensor] = len(tensors)
                tensors.append(
                    Tensor(
                        buffer=flat.buffer,
                        byte_offset=flat.byte_offset,
                        shape=(math.prod(flat.shape),),
                        dtype=flat.dtype,
                    )
                )
        return tuple(tensors), arguments


def _one_after_another(lifetimes: Sequence[Lifetime]) -> tuple[list[int], int]:
    """Offsets without any reuse, and the size of the arena."""
    offsets, cursor = [], 0
    for lifetime in lifetimes:
        offsets.append(cursor)
        cursor += pack_buffers([lifetime])[1]
    return offsets, cursor


def _groups(
    layout: _Layout,
    reads: Sequence[Mapping[int, int]],
    costs_ns: Sequence[int],
    lanes: int,
    hand_over: HandOver,
) -> tuple[Group, ...]:
    """The plan's groups: those of the schedule, cut so that nobody waits for more than data."""
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
    """For each run the bytes it reads of what each other run writes."""
    between: list[dict[int, int]] = [{} for _ in runs]
    for number, run in enumerate(runs):
        for launch in run:
            for writer, size in reads[launch].items():
                other = run_of[writer]
                if other != number:
                    between[number][other] = between[number].get(other, 0) + size
    return between


def _reduced(waits: Sequence[Mapping[int, int]]) -> list[tuple[int, ...]]:
    """The runs that each run waits for, transitively reduced."""
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
    """Runs of launches: cut before whoever waits for more, and after whoever others wait for.

    A run begins when all its dependencies are complete and is complete when all of it is, so a
    launch joins one only if that delays neither it nor any reader.
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
