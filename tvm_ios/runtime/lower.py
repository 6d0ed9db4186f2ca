"""Lowers graph JSON and placements to an execution plan: the step between build and run. No TVM."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tvm_ios.errors import PlanError
from tvm_ios.runtime.graph_json import OperatorJson, read_graph_json
from tvm_ios.runtime.lanes import assign_lanes
from tvm_ios.runtime.memory import Access, Lifetime, pack_buffers, reuse_dependencies
from tvm_ios.runtime.placement import Placement
from tvm_ios.runtime.plan import (
    Buffer,
    BufferKind,
    ExecutionPlan,
    Group,
    Launch,
    PlanInput,
    Tensor,
    dtype_bytes,
)
from tvm_ios.runtime.views import Aliasing, resolve_views

__all__ = ["lower_plan"]


def lower_plan(
    graph_json: str,
    placements: Sequence[Placement],
    *,
    lanes: int,
    operator_names: Sequence[str] | None = None,
    reuse: bool = True,
) -> ExecutionPlan:
    """Make the execution plan of a built module.

    Parameters
    ----------
    graph_json
        Stock graph JSON. Its ``storage_id`` is not used: it assumes sequential order.
    placements
        One for every ``tvm_op`` node, in node order.
    lanes
        Threads that will run the plan, the caller's included.
    operator_names
        Names for people, one for every ``tvm_op`` node; node names where omitted.
    reuse
        False gives every buffer bytes of its own.

    Raises
    ------
    PlanError
        If the graph cannot be read, the counts differ, or the placements break the data order.
    """
    graph = read_graph_json(graph_json)
    names = tuple(operator_names or (operator.name for operator in graph.operators))
    if not len(graph.operators) == len(placements) == len(names):
        raise PlanError(
            f"the graph has {len(graph.operators)} operators, but there are {len(placements)} "
            f"placements and {len(names)} names; give one for every tvm_op node"
        )
    if lanes < 1:
        raise PlanError(f"a plan for {lanes} lanes cannot run; give at least 1")
    aliasing = resolve_views(graph, [placement.view for placement in placements])
    layout = _lay_out_groups(placements, aliasing.dropped)
    storage = _Storage(graph, aliasing, layout)
    storage.check_order(names)
    lifetimes = [storage.lifetime(owner) for owner in storage.arena_owners]
    if reuse:
        offsets, arena_bytes = pack_buffers(lifetimes)
    else:
        offsets, arena_bytes = _one_after_another(lifetimes)
    pairs = storage.data_dependencies() | reuse_dependencies(lifetimes, offsets)
    stages = [stage for stage, _ in layout.keys]
    costs_ns = [sum(placements[index].cost_ns for index in row) for row in layout.members]
    if not any(costs_ns):
        costs_ns = storage.bytes_touched()  # at 1 GB/s, as good a guess as any
    in_line = _in_line(stages)
    reads = storage.bytes_read()
    for earlier, later in in_line:
        reads[later].setdefault(earlier, 0)
    homes = assign_lanes(stages, costs_ns, reads, lanes=lanes)
    pairs |= in_line
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
            )
            for index in layout.order
        ),
        groups=_groups(layout, pairs, homes),
        inputs=tuple(PlanInput(name, tensor) for name, tensor in graph.inputs),
        outputs=graph.outputs,
        arena_bytes=arena_bytes,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layout:
    """Groups that still hold a launch, in (stage, position) order, and the launches in them."""

    keys: tuple[tuple[int, int], ...]
    members: tuple[tuple[int, ...], ...]
    """Operators of each group."""
    order: tuple[int, ...]
    """Operator of each launch."""
    access: dict[int, Access]
    """By operator."""


def _lay_out_groups(placements: Sequence[Placement], dropped: frozenset[int]) -> _Layout:
    by_key: dict[tuple[int, int], list[int]] = {}
    for index, placement in enumerate(placements):
        if index not in dropped:
            by_key.setdefault((placement.stage, placement.group), []).append(index)
    keys = tuple(sorted(by_key))
    access: dict[int, Access] = {}
    for number, key in enumerate(keys):
        for index in by_key[key]:
            access[index] = Access(key[0], number, len(access))
    return _Layout(
        keys=keys,
        members=tuple(tuple(by_key[key]) for key in keys),
        order=tuple(access),
        access=access,
    )


class _Storage:
    """Buffers, and which launches write and read which bytes of them."""

    def __init__(self, graph: OperatorJson, aliasing: Aliasing, layout: _Layout) -> None:
        self._graph = graph
        self._location = aliasing.location
        self._layout = layout
        self._size = [math.prod(t.shape) * dtype_bytes(t.dtype) for t in graph.tensors]
        self._writes: dict[int, list[tuple[int, int, Access]]] = {}
        self._reads: dict[int, list[tuple[int, int, Access]]] = {}
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

    def _true_dependencies(self) -> list[tuple[Access, Access]]:
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
        """For each group the bytes it reads or writes."""
        touched = [0] * len(self._layout.keys)
        for table in (self._reads, self._writes):
            for accesses in table.values():
                for begin, end, access in accesses:
                    touched[access.group] += end - begin
        return touched

    def bytes_read(self) -> list[dict[int, int]]:
        """For each group the bytes it reads from each other group."""
        read: list[dict[int, int]] = [{} for _ in self._layout.keys]
        for owner, reads in self._reads.items():
            for begin, end, reader in reads:
                for low, high, writer in self._writes.get(owner, ()):
                    size = min(end, high) - max(begin, low)
                    if size > 0 and writer.group != reader.group:
                        row = read[reader.group]
                        row[writer.group] = row.get(writer.group, 0) + size
        return read

    def data_dependencies(self) -> set[tuple[int, int]]:
        return {
            (writer.group, reader.group)
            for writer, reader in self._true_dependencies()
            if writer.group != reader.group
        }

    def lifetime(self, owner: int) -> Lifetime:
        writers = sorted({access for _, _, access in self._writes[owner]})
        readers = {access for _, _, access in self._reads.get(owner, ())}
        return Lifetime(self._size[owner], tuple(writers), tuple(sorted(readers.union(writers))))

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


def _in_line(stages: Sequence[int]) -> set[tuple[int, int]]:
    """Order between adjacent stages of one group each: a sequential schedule stays sequential."""
    size = Counter(stages)
    return {
        (number, number + 1)
        for number in range(len(stages) - 1)
        if size[stages[number]] == size[stages[number + 1]] == 1
    }


def _groups(
    layout: _Layout, pairs: set[tuple[int, int]], homes: Sequence[int]
) -> tuple[Group, ...]:
    """Groups with transitively reduced dependencies."""
    before: list[set[int]] = [set() for _ in layout.keys]
    for earlier, later in pairs:
        before[later].add(earlier)
    ancestors: list[int] = []
    groups = []
    for number, (stage, position) in enumerate(layout.keys):
        seen, kept = 0, []
        for dependency in sorted(before[number], reverse=True):
            if not seen >> dependency & 1:
                kept.append(dependency)
                seen |= ancestors[dependency] | 1 << dependency
        ancestors.append(seen)
        groups.append(
            Group(
                stage=stage,
                position=position,
                launches=tuple(layout.access[index].launch for index in layout.members[number]),
                dependencies=tuple(reversed(kept)),
                lane=homes[number],
            )
        )
    return tuple(groups)
