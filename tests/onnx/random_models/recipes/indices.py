"""Recipes of operators that take or put elements by indices."""

from __future__ import annotations

import numpy as np

from tests.onnx.random_models.drawing import Drawing, recipe
from tests.onnx.random_models.recipes.places import ANY, RANKED


def _spread(graph: Drawing, shape: list[int] | tuple[int, ...], extent: int, low: int) -> str:
    made = np.asarray(graph.numbers.integers(low * extent, extent, shape)).astype("int64")
    if graph.yes():
        return graph.const(made)
    name = graph.fresh(shape, "int64")
    graph.inputs[name] = made
    return name


@recipe("Gather")
def gather(graph: Drawing) -> None:
    value = graph.value(*ANY, rank=RANKED)
    axis = graph.axis(len(graph.shape_of(value)))
    extent = graph.shape_of(value)[axis]
    low = -1 if graph.opset >= 11 else 0
    graph.add(value, _spread(graph, graph.shape(graph.whole(0, 2)), extent, low), axis=axis)


@recipe("GatherElements", since=11)
def gather_elements(graph: Drawing) -> None:
    value = graph.value(*ANY, rank=RANKED)
    shape = list(graph.shape_of(value))
    axis = graph.axis(len(shape))
    extent = shape[axis]
    shape[axis] = graph.whole(1, 4)
    graph.add(value, _spread(graph, shape, extent, -1), axis=axis)


@recipe("GatherND", since=11)
def gather_nd(graph: Drawing) -> None:
    value = graph.value(*ANY, rank=(2, 3, 4))
    shape = graph.shape_of(value)
    batch = graph.whole(0, 1) if graph.opset >= 12 else 0
    count = graph.whole(1, len(shape) - batch)
    rows = [*shape[:batch], graph.whole(1, 3)]
    made = np.stack(
        [graph.numbers.integers(-extent, extent, rows) for extent in shape[batch:][:count]], -1
    )
    graph.add(value, graph.const(made), **({"batch_dims": batch} if batch else {}))


@recipe("ScatterElements", since=11)
def scatter_elements(graph: Drawing) -> None:
    value = graph.value("float32", rank=(1, 2, 3))
    shape = list(graph.shape_of(value))
    axis = graph.axis(len(shape))
    extent = shape[axis]
    rows = [graph.whole(1, each) for each in shape]
    rows[axis] = 1  # several of one place come in any order
    modes = ["none"] + (["add", "mul"] if graph.opset >= 16 else [])
    modes += ["min", "max"] if graph.opset >= 18 else []
    mode = {"reduction": graph.pick(*modes)} if graph.opset >= 16 else {}
    graph.add(value, _spread(graph, rows, extent, -1), graph.told(rows), axis=axis, **mode)


@recipe("ScatterND", since=11)
def scatter_nd(graph: Drawing) -> None:
    value = graph.value("float32", rank=(1, 2, 3))
    shape = graph.shape_of(value)
    count = graph.whole(1, len(shape))
    row = [[graph.whole(-extent, extent - 1) for extent in shape[:count]]]
    modes = ["none"] + (["add", "mul"] if graph.opset >= 16 else [])
    modes += ["min", "max"] if graph.opset >= 18 else []
    mode = {"reduction": graph.pick(*modes)} if graph.opset >= 16 else {}
    if graph.yes():
        rows = graph.const(row)
    else:
        rows = graph.fresh([1, count], "int64")
        graph.inputs[rows] = np.array(row, "int64")
    graph.add(value, rows, graph.told([1, *shape[count:]]), **mode)


@recipe("OneHot", since=9)
def one_hot(graph: Drawing) -> None:
    depth, rank = graph.whole(1, 4), graph.whole(0, 2)
    low = -1 if graph.opset >= 11 else 0
    indices = _spread(graph, graph.shape(rank), depth, low)
    values = graph.const([0.5, 2.0], "float32")
    axis = graph.whole(-rank - 1, rank) if graph.yes() else -1
    graph.add(indices, graph.const(depth), values, axis=axis)


@recipe("Scatter", since=9, until=10)
def scatter(graph: Drawing) -> None:
    value = graph.value(rank=1)
    graph.add(value, graph.const([0]), graph.told([1]), axis=0)
