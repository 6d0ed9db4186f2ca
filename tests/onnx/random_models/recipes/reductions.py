"""Recipes of operators that look at all of an axis."""

from __future__ import annotations

from tests.onnx.random_models.drawing import Drawing, recipe

NUMBERS = ("float32", "float32", "float64", "int32", "int64")
RANKED = (1, 2, 3, 4)


def _axes(graph: Drawing, rank: int) -> list[int]:
    chosen = graph.chance.sample(range(rank), graph.whole(1, rank)) if rank else []
    return [axis - rank if graph.yes() else axis for axis in chosen]


_REAL = ("ReduceL2", "ReduceLogSumExp", "ReduceMean", "ReduceProd")


@recipe(
    *(f"Reduce{name}" for name in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min")),
    *(f"Reduce{name}" for name in ("Prod", "Sum", "SumSquare")),
)
def reduction(graph: Drawing) -> None:
    if graph.op_type == "ReduceLogSum":
        value = graph.fresh(graph.shape(graph.whole(1, 4)), low=0.1)
    else:
        value = graph.value(*(("float32", "float64") if graph.op_type in _REAL else NUMBERS))
    attributes = {"keepdims": graph.whole(0, 1)} if graph.yes() else {}
    axes = _axes(graph, len(graph.shape_of(value)))
    first = 13 if graph.op_type == "ReduceSum" else 18
    if graph.opset < first:
        graph.add(value, **attributes, **({"axes": axes} if axes and graph.yes() else {}))
        return
    if graph.yes():
        attributes["noop_with_empty_axes"] = graph.whole(0, 1)
    given = [graph.const(axes)] if axes and graph.yes() else [""] if graph.yes() else []
    graph.add(value, *given, **attributes)


@recipe("ArgMax", "ArgMin")
def extreme_place(graph: Drawing) -> None:
    value = graph.value("int32", "float32", rank=RANKED)
    attributes = {"select_last_index": graph.whole(0, 1)} if graph.opset >= 12 else {}
    axis = graph.axis(len(graph.shape_of(value)))
    axis = axis if graph.opset >= 11 else abs(axis) % len(graph.shape_of(value))
    graph.add(value, axis=axis, keepdims=graph.whole(0, 1), **attributes)


@recipe("Softmax", "LogSoftmax", "Hardmax")
def along_axis(graph: Drawing) -> None:
    value = graph.value("float32", "float32", "float64", "float16", rank=RANKED)
    rank = len(graph.shape_of(value))
    axis = graph.axis(rank) if graph.opset >= 11 else graph.whole(0, rank - 1)
    graph.add(value, **({"axis": axis} if graph.yes() or rank == 1 else {}))


@recipe("CumSum", since=11)
def running_total(graph: Drawing) -> None:
    value = graph.value("float32", "float64", "int32", "int64", rank=RANKED)
    axis = graph.const(graph.axis(len(graph.shape_of(value))))
    graph.add(value, axis, exclusive=graph.whole(0, 1), reverse=graph.whole(0, 1))
