"""Recipes of branches, loops, sequences, and values that may be missing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import helper

from tests.onnx.random_models.drawing import Drawing, described, recipe


def _graph(
    nodes: Sequence[onnx.NodeProto], given: Sequence[onnx.ValueInfoProto], made: Sequence[str]
) -> onnx.GraphProto:
    """A graph inside of a node, whose outputs are left to be inferred."""
    outputs = [onnx.ValueInfoProto(name=name) for name in made]
    return helper.make_graph(nodes, "inside", given, outputs)


def _taken(graph: Drawing, shape: Sequence[int] = ()) -> str:
    """A value that a graph inside of a node reads."""
    name = graph.fresh(shape) if shape else graph.value()
    graph.captured.add(name)
    return name


@recipe("If")
def branches(graph: Drawing) -> None:
    value = _taken(graph)
    rows = []
    for place in range(2):
        made = graph.pick("Neg", "Tanh", "Relu", "Identity")
        node = helper.make_node(made, [value], [f"b{len(graph.nodes)}_{place}"])
        rows.append(_graph([node], [], node.output))
    known = graph.yes()
    yes = graph.numbers_of([], "bool")
    condition = graph.const(yes, "bool") if known else graph.fresh([], "bool")
    graph.add(condition, then_branch=rows[0], else_branch=rows[1])


@recipe("Loop")
def loop(graph: Drawing) -> None:
    shape = graph.shape(graph.whole(1, 2))
    start, step, mark = graph.fresh(shape), _taken(graph, shape), f"l{len(graph.nodes)}_"
    like = np.zeros(shape, "float32")
    given = [
        described(f"{mark}number", np.array(0)),
        described(f"{mark}go", np.array(True)),
        described(f"{mark}value", like),
    ]
    nodes = [
        helper.make_node("Identity", [f"{mark}go"], [f"{mark}on"]),
        helper.make_node(graph.pick("Add", "Sub", "Mul"), [f"{mark}value", step], [f"{mark}next"]),
        helper.make_node("Cast", [f"{mark}number"], [f"{mark}real"], to=1),
        helper.make_node("Add", [f"{mark}next", f"{mark}real"], [f"{mark}row"]),
    ]
    body = _graph(nodes, given, [f"{mark}on", f"{mark}next", f"{mark}row"])
    on = graph.const(True, "bool") if graph.yes() else ""
    graph.add(graph.const(graph.whole(1, 4)), on, start, outputs=2, body=body)


@recipe("Scan", since=9)
def scan(graph: Drawing) -> None:
    width, length, mark = graph.whole(1, 3), graph.whole(1, 4), f"s{len(graph.nodes)}_"
    like = np.zeros(width, "float32")
    given = [described(f"{mark}{name}", like) for name in ("state", "row")]
    names = [each.name for each in given]
    made = [f"{mark}next", f"{mark}shown"]
    nodes = [
        helper.make_node(graph.pick("Add", "Sub", "Mul"), names, made[:1]),
        helper.make_node(graph.pick("Tanh", "Neg"), made[:1], made[1:]),
    ]
    ways = {"scan_input_directions": [1]} if graph.yes() else {}
    ways |= {"scan_output_directions": [1]} if graph.yes() else {}
    inputs = [graph.fresh([width]), graph.fresh([length, width])]
    graph.add(*inputs, outputs=2, body=_graph(nodes, given, made), num_scan_inputs=1, **ways)


def _sequence(graph: Drawing, count: int) -> str:
    shape = graph.shape(graph.whole(1, 3))
    elements = [graph.fresh(shape) for _ in range(count)]
    return graph.add(*elements, op_type="SequenceConstruct")[0]


@recipe("SequenceConstruct", "SequenceAt", "SequenceErase", "SequenceInsert", since=11)
@recipe("SequenceEmpty", "SequenceLength", "ConcatFromSequence", "SplitToSequence", since=11)
def sequences(graph: Drawing) -> None:
    wanted, count = graph.op_type, graph.whole(2, 4)
    if wanted == "SplitToSequence":
        value = graph.fresh([count, *graph.shape(graph.whole(0, 2))])
        parts = [graph.const([1, count - 1])] if graph.yes() else []
        keep = {"keepdims": graph.whole(0, 1)} if not parts else {}
        made = graph.add(value, *parts, axis=graph.pick(0, 0 - len(graph.shape_of(value))), **keep)[
            0
        ]
        count = 2 if parts else count
    elif wanted == "SequenceEmpty":
        made, count = graph.add()[0], 1
        made = graph.add(made, graph.fresh([2, 3]), op_type="SequenceInsert")[0]
    else:
        made = _sequence(graph, count)
    place = graph.const(graph.whole(-count, count - 1))
    if wanted == "SequenceErase":
        made, place = graph.add(made, place, op_type=wanted)[0], graph.const(0)
    elif wanted == "SequenceInsert":
        value = graph.fresh([2])
        made, place = graph.add(made, value, place, op_type=wanted)[0], graph.const(-1)
    last = "SequenceAt"
    if wanted in ("SequenceLength", "ConcatFromSequence"):
        last = wanted
    if last == "ConcatFromSequence":
        axes = {"axis": graph.pick(0, -1)} if graph.yes() else {"axis": 0, "new_axis": 1}
        graph.add(made, op_type=last, **axes)
    else:
        graph.add(*([made] if last == "SequenceLength" else [made, place]), op_type=last)


@recipe("SequenceMap", since=17)
def mapped(graph: Drawing) -> None:
    count, mark = graph.whole(1, 3), f"m{len(graph.nodes)}_"
    made = _sequence(graph, count)
    node = helper.make_node(graph.pick("Neg", "Tanh"), [f"{mark}in"], [f"{mark}out"])
    given = helper.make_tensor_value_info(f"{mark}in", 1, None)
    told = helper.make_tensor_value_info(f"{mark}out", 1, None)
    body = helper.make_graph([node], "inside", [given], [told])
    rows = graph.add(made, op_type="SequenceMap", body=body)
    graph.add(rows[0], graph.const(count - 1), op_type="SequenceAt")


@recipe("Optional", "OptionalGetElement", "OptionalHasElement", since=15)
def optional(graph: Drawing) -> None:
    wanted = graph.op_type
    value = graph.fresh(graph.shape(2))
    made = graph.add(value, op_type="Optional")[0]
    graph.hidden.add(made)
    last = (
        graph.pick("OptionalGetElement", "OptionalHasElement") if wanted == "Optional" else wanted
    )
    graph.add(made, op_type=last)
