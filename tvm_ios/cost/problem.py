"""Recorded scheduling problems: operators, edges and their synthetic cost in a JSON file.

The layout: top-level ``cost`` holds the constants of the synthetic device, ``parts`` the graphs.
A part has ``n`` operators, ``succ`` (direct successors of each), ``prims`` (rows of work, output
elements and kernels of each) and, if convolutions may merge, ``conv`` (null for what is none).
"""

from __future__ import annotations

import heapq
import json
from dataclasses import dataclass
from typing import Any

from tvm_ios.core.graph import Convolution, Operator, OperatorGraph
from tvm_ios.core.verify import verify_graph
from tvm_ios.cost.synthetic import PrimitiveWork, SyntheticConstants, SyntheticCostModel
from tvm_ios.errors import GraphError, ProblemError

__all__ = ["RecordedPart", "RecordedProblem", "parse_problem"]

_LARGEST = 1 << 40
"""No layer of a network has a trillion of anything; larger numbers are mistakes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedPart:
    """One graph of a problem, scheduled by itself."""

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
    """Read a recorded problem.

    Raises
    ------
    ProblemError
        At the first thing wrong, naming the part, the field and the value.
    """
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ProblemError(
            f"not a recorded problem: the file is no JSON ({error}); expected an object with "
            "'cost' and 'parts'"
        ) from error
    if not isinstance(data, dict):
        raise ProblemError(f"the problem is {_show(data)}; expected an object with 'cost', 'parts'")
    constants = _constants(_field(data, "cost", "the problem"))
    parts = _rows(_field(data, "parts", "the problem"), "parts")
    name = data.get("model", "problem")
    return RecordedProblem(
        name=name if isinstance(name, str) else "problem",
        parts=tuple(_part(part, f"parts[{i}]", constants) for i, part in enumerate(parts)),
    )


def _constants(data: Any) -> SyntheticConstants:
    where = "cost"
    return SyntheticConstants(
        peak_per_ns=_number(_field(data, "PEAK", where), "cost.PEAK", 1),
        saturation=_number(_field(data, "SAT", where), "cost.SAT", 1),
        launch_ns=_number(_field(data, "LAUNCH", where), "cost.LAUNCH", 0),
        host_ns=_number(_field(data, "HOST", where), "cost.HOST", 0),
        barrier_ns=_number(_field(data, "BARRIER", where), "cost.BARRIER", 0),
    )


def _part(data: Any, where: str, constants: SyntheticConstants) -> RecordedPart:
    count = _number(_field(data, "n", where), f"{where}.n", 0)
    successors = _list_of(data, "succ", where, count)
    primitives = _list_of(data, "prims", where, count)
    convolutions = (
        _list_of(data, "conv", where, count) if data.get("conv") is not None else [None] * count
    )
    predecessors: list[set[int]] = [set() for _ in range(count)]
    for tail, row in enumerate(successors):
        for j, value in enumerate(_rows(row, f"{where}.succ[{tail}]")):
            head = _number(value, f"{where}.succ[{tail}][{j}]", 0, count - 1)
            predecessors[head].add(tail)
    order = _topological_order(predecessors, where)
    rank = {position: index for index, position in enumerate(order)}
    works = [_works(primitives[i], f"{where}.prims[{i}]") for i in order]
    operators = tuple(
        Operator(
            name=str(i),
            kind="operator" if convolutions[i] is None else "conv2d",
            predecessors=tuple(sorted(rank[p] for p in predecessors[i])),
            workload=f"{primitives[i]} {convolutions[i]}",
            flops=2 * sum(p.work for p in works[rank[i]]),
            convolution=_convolution(convolutions[i], f"{where}.conv[{i}]"),
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


def _works(data: Any, where: str) -> list[PrimitiveWork]:
    works = []
    for j, row in enumerate(_rows(data, where)):
        at = f"{where}[{j}]"
        if len(_rows(row, at)) != 3:
            raise ProblemError(
                f"{at} is {_show(row)}; expected three numbers: work, output elements, kernels"
            )
        works.append(
            PrimitiveWork(
                _number(row[0], f"{at}[0]", 0),
                _number(row[1], f"{at}[1]", 1),
                _number(row[2], f"{at}[2]", 0),
            )
        )
    return works


def _convolution(data: Any, where: str) -> Convolution | None:
    if data is None:
        return None
    terms = _rows(_field(data, "in_key", where), f"{where}.in_key")
    channels, height, width = _numbers(data, "in_shape", where, 3, 1)
    kernel_h, kernel_w = _numbers(data, "kernel", where, 2, 1)
    stride_h, stride_w = _numbers(data, "stride", where, 2, 1)
    pad_h, pad_w = _numbers(data, "pad", where, 2, 0)
    epilogue = _field(data, "act", where)
    if not isinstance(epilogue, str):
        raise ProblemError(f"{where}.act is {_show(epilogue)}; expected the name of an activation")
    plain = len(terms) == 1 and len(_rows(terms[0], f"{where}.in_key[0]")) == 1
    return Convolution(
        operand=json.dumps(terms),
        plain_operand=plain,
        input_shape=(channels, height, width),
        out_channels=_number(_field(data, "out", where), f"{where}.out", 1),
        kernel=(kernel_h, kernel_w),
        strides=(stride_h, stride_w),
        padding=(pad_h, pad_w, pad_h, pad_w),
        groups=_number(_field(data, "groups", where), f"{where}.groups", 1),
        epilogue=epilogue,
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


def _field(data: Any, name: str, where: str) -> Any:
    if not isinstance(data, dict):
        raise ProblemError(f"{where} is {_show(data)}; expected an object")
    if name not in data:
        raise ProblemError(f"{where} lacks the field {name!r}; add it")
    return data[name]


def _rows(data: Any, where: str) -> list[Any]:
    if not isinstance(data, list):
        raise ProblemError(f"{where} is {_show(data)}; expected a list")
    return data


def _list_of(data: Any, name: str, where: str, count: int) -> list[Any]:
    rows = _rows(_field(data, name, where), f"{where}.{name}")
    if len(rows) != count:
        raise ProblemError(
            f"{where}.{name} has {len(rows)} entries but {where}.n is {count}; "
            "give one entry an operator"
        )
    return rows


def _numbers(data: Any, name: str, where: str, count: int, least: int) -> list[int]:
    rows = _rows(_field(data, name, where), f"{where}.{name}")
    if len(rows) != count:
        raise ProblemError(f"{where}.{name} is {_show(rows)}; expected {count} numbers")
    return [_number(value, f"{where}.{name}[{i}]", least) for i, value in enumerate(rows)]


def _number(value: Any, where: str, least: int, most: int = _LARGEST) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ProblemError(
            f"{where} is {_show(value)}; expected a whole number from {least} to {most}"
        )
    return value


def _show(value: Any) -> str:
    """A value on one short line."""
    text = repr(value) if not isinstance(value, list | dict) else json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."
