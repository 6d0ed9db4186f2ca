"""Recorded scheduling problems: operators, edges and their synthetic cost in a JSON file.

The layout: top-level ``cost`` holds the constants of the synthetic device, ``parts`` the graphs.
A part has ``n`` operators, ``succ`` (direct successors of each), ``prims`` (rows of work, output
elements and kernels of each) and, if convolutions may merge, ``conv`` (null for what is none).
"""

from __future__ import annotations

import heapq
import json
from dataclasses import dataclass

from tvm_ios.core.graph import Convolution, Operator, OperatorGraph
from tvm_ios.core.verify import verify_graph
from tvm_ios.errors import GraphError, ProblemError
from tvm_ios.support.stored_value import StoredValue, UnreadableValueError, parse_json
from tvm_ios_lab.problems.synthetic import PrimitiveWork, SyntheticConstants, SyntheticCostModel

__all__ = ["RecordedPart", "RecordedProblem", "parse_problem"]

_LARGEST = 1 << 40
"""No layer of a network has a trillion of anything; larger numbers are mistakes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedPart:
    """Graph of a problem, scheduled by itself."""

    graph: OperatorGraph
    positions: tuple[int, ...]
    """Index in the file of every operator of the graph, which is in topological order."""
    works: tuple[tuple[PrimitiveWork, ...], ...]
    """Recorded primitives of every operator of the graph."""
    cost_model: SyntheticCostModel


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedProblem:
    """Parts that run one after another."""

    name: str
    parts: tuple[RecordedPart, ...]


def parse_problem(text: str) -> RecordedProblem:
    """Read a recorded problem."""
    try:
        return _problem(parse_json(text, "the problem"))
    except UnreadableValueError as error:
        raise ProblemError(str(error)) from error


def _problem(data: StoredValue) -> RecordedProblem:
    if not isinstance(data.value, dict):
        raise ProblemError(f"the problem is {data}; expected an object with 'cost', 'parts'")
    constants = _constants(data.field("cost"))
    name = data.value.get("model", "problem")
    return RecordedProblem(
        name=name if isinstance(name, str) else "problem",
        parts=tuple(_part(part, constants) for part in data.field("parts").rows()),
    )


def _constants(data: StoredValue) -> SyntheticConstants:
    return SyntheticConstants(
        peak_per_ns=data.field("PEAK").whole(1, _LARGEST),
        saturation=data.field("SAT").whole(1, _LARGEST),
        launch_ns=data.field("LAUNCH").whole(0, _LARGEST),
        host_ns=data.field("HOST").whole(0, _LARGEST),
        barrier_ns=data.field("BARRIER").whole(0, _LARGEST),
    )


def _part(data: StoredValue, constants: SyntheticConstants) -> RecordedPart:
    where = data.where
    count = data.field("n").whole(0, _LARGEST)
    successors = _list_of(data, "succ", count)
    primitives = _list_of(data, "prims", count)
    convolutions = (
        _list_of(data, "conv", count)
        if data.value.get("conv") is not None
        else [StoredValue(None, where)] * count
    )
    predecessors: list[set[int]] = [set() for _ in range(count)]
    for tail, row in enumerate(successors):
        for head in row.wholes(count - 1):
            predecessors[head].add(tail)
    order = _topological_order(predecessors, where)
    rank = {position: index for index, position in enumerate(order)}
    works = [_works(primitives[i]) for i in order]
    operators = tuple(
        Operator(
            name=str(i),
            kind="operator" if convolutions[i].value is None else "conv2d",
            predecessors=tuple(sorted(rank[p] for p in predecessors[i])),
            workload=f"{primitives[i].value} {convolutions[i].value}",
            flops=2 * sum(p.work for p in works[rank[i]]),
            convolution=convolutions[i].or_none(_convolution),
        )
        for i in order
    )
    graph = OperatorGraph(where, operators)
    try:
        verify_graph(graph)
    except GraphError as error:
        raise ProblemError(str(error)) from error
    for index, i in enumerate(order):
        if operators[index].convolution is not None and not works[index]:
            raise ProblemError(
                f"{where}.prims[{i}] is []; a convolution needs a row of work, output elements "
                "and kernels"
            )
    cost_model = SyntheticCostModel(constants, works)
    return RecordedPart(
        graph=graph,
        positions=tuple(order),
        works=tuple(map(tuple, works)),
        cost_model=cost_model,
    )


def _works(data: StoredValue) -> list[PrimitiveWork]:
    """Rows of work, output elements and kernels."""
    rows = [row.rows(3) for row in data.rows()]
    return [
        PrimitiveWork(
            work.whole(0, _LARGEST), elements.whole(1, _LARGEST), kernels.whole(0, _LARGEST)
        )
        for work, elements, kernels in rows
    ]


def _convolution(data: StoredValue) -> Convolution:
    terms = data.field("in_key").rows()
    channels, height, width = _numbers(data, "in_shape", 3, 1)
    kernel_h, kernel_w = _numbers(data, "kernel", 2, 1)
    stride_h, stride_w = _numbers(data, "stride", 2, 1)
    pad_h, pad_w = _numbers(data, "pad", 2, 0)
    return Convolution(
        operand=json.dumps([term.value for term in terms]),
        plain_operand=len(terms) == 1 and len(terms[0].rows()) == 1,
        input_shape=(channels, height, width),
        out_channels=data.field("out").whole(1, _LARGEST),
        kernel=(kernel_h, kernel_w),
        strides=(stride_h, stride_w),
        padding=(pad_h, pad_w, pad_h, pad_w),
        groups=data.field("groups").whole(1, _LARGEST),
        epilogue=data.field("act").text(),
    )


def _topological_order(predecessors: list[set[int]], where: str) -> list[int]:
    waiting = [len(row) for row in predecessors]
    readers: list[list[int]] = [[] for _ in predecessors]
    for head, row in enumerate(predecessors):
        for tail in row:
            readers[tail].append(head)
    ready = [index for index, count in enumerate(waiting) if count == 0]
    order: list[int] = []
    while ready:
        index = heapq.heappop(ready)
        order.append(index)
        for head in readers[index]:
            waiting[head] -= 1
            if waiting[head] == 0:
                heapq.heappush(ready, head)
    if len(order) < len(predecessors):
        stuck = next(index for index, count in enumerate(waiting) if count)
        raise ProblemError(
            f"{where}.succ has a cycle through or before operator {stuck}; "
            "dependencies must not be circular"
        )
    return order


def _list_of(data: StoredValue, name: str, count: int) -> list[StoredValue]:
    rows = data.field(name).rows()
    if len(rows) != count:
        raise ProblemError(
            f"{data.where}.{name} has {len(rows)} entries but {data.where}.n is {count}; "
            "give one entry an operator"
        )
    return rows


def _numbers(data: StoredValue, name: str, count: int, least: int) -> list[int]:
    return [value.whole(least, _LARGEST) for value in data.field(name).rows(count)]
