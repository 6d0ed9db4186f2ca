"""Recipes of operators that move elements, or look at all of an axis."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from tests.onnx.random_models.drawing import Drawing, Undrawable, recipe

ANY = ("float32", "float32", "int32", "int64", "bool")
NUMBERS = ("float32", "float32", "int32", "int64")
RANKED = (1, 2, 3, 4)


def _axes(graph: Drawing, rank: int) -> list[int]:
    chosen = graph.chance.sample(range(rank), graph.whole(1, rank)) if rank else []
    return [axis - rank if graph.yes() else axis for axis in chosen]


@recipe(
    *(f"Reduce{name}" for name in ("L1", "L2", "LogSumExp", "Max", "Mean", "Min", "Prod")),
    *(f"Reduce{name}" for name in ("Sum", "SumSquare")),
)
def reduction(graph: Drawing) -> None:
    value = graph.value(*(("float32",) if graph.op_type == "ReduceLogSumExp" else NUMBERS[:3]))
    if graph.op_type in ("ReduceL2", "ReduceProd", "ReduceMean"):
        value = graph.value("float32")
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


@recipe("ReduceLogSum")
def logarithm(graph: Drawing) -> None:
    graph.add(graph.fresh(graph.shape(3), low=0.1))


@recipe("ArgMax", "ArgMin")
def extreme_place(graph: Drawing) -> None:
    value = graph.value("int32", "float32", rank=RANKED)
    attributes = {"select_last_index": graph.whole(0, 1)} if graph.opset >= 12 else {}
    axis = graph.axis(len(graph.shape_of(value)))
    axis = axis if graph.opset >= 11 else abs(axis) % len(graph.shape_of(value))
    graph.add(value, axis=axis, keepdims=graph.whole(0, 1), **attributes)


@recipe("Softmax", "LogSoftmax", "Hardmax")
def along_axis(graph: Drawing) -> None:
    value = graph.value(rank=RANKED)
    rank = len(graph.shape_of(value))
    axis = graph.axis(rank) if graph.opset >= 11 else graph.whole(0, rank - 1)
    graph.add(value, **({"axis": axis} if graph.yes() or rank == 1 else {}))


@recipe("CumSum", since=11)
def running_total(graph: Drawing) -> None:
    value = graph.value("float32", "int32", "int64", rank=RANKED)
    axis = graph.const(graph.axis(len(graph.shape_of(value))))
    graph.add(value, axis, exclusive=graph.whole(0, 1), reverse=graph.whole(0, 1))


@recipe("Reshape")
def reshape(graph: Drawing) -> None:
    value = graph.value(*ANY, rank=RANKED)
    shape = list(graph.shape_of(value))
    kind = graph.whole(0, 3)
    if kind == 0:
        wanted = [-1]
    elif kind == 1:
        wanted = [0, -1]
    elif kind == 2:
        wanted = [int(np.prod(shape)), 1]
    else:
        wanted = [*shape[::-1]]
    graph.add(value, graph.const(wanted))


@recipe("Flatten")
def flatten(graph: Drawing) -> None:
    value = graph.value(rank=RANKED)
    rank = len(graph.shape_of(value))
    graph.add(value, axis=graph.whole(-rank if graph.opset >= 11 else 0, rank))


@recipe("Squeeze", "Unsqueeze")
def ones(graph: Drawing) -> None:
    if graph.op_type == "Squeeze":
        value = graph.fresh([1, graph.whole(1, 4), 1, graph.whole(1, 3)])
        axes = [0, 2] if graph.yes() else [2]
    else:
        value = graph.value(*ANY, rank=(0, 1, 2, 3))
        axes = [0, len(graph.shape_of(value)) + 1] if graph.yes() else [0]
    if graph.opset < 13:
        graph.add(value, axes=axes)
    else:
        graph.add(value, graph.const(axes))


@recipe("Transpose")
def transpose(graph: Drawing) -> None:
    value = graph.value(*ANY)
    rank = len(graph.shape_of(value))
    order = graph.chance.sample(range(rank), rank)
    graph.add(value, **({"perm": order} if graph.yes() else {}))


@recipe("Expand", since=8)
def expand(graph: Drawing) -> None:
    shape = graph.shape()
    value = graph.fresh(graph.broadcast(shape))
    graph.add(value, graph.const(np.array(shape, "int64")))


@recipe("Tile")
def tile(graph: Drawing) -> None:
    value = graph.value("float32", "int32", rank=RANKED)
    graph.add(value, graph.const([graph.whole(1, 2) for _ in graph.shape_of(value)]))


@recipe("Slice")
def slices(graph: Drawing) -> None:
    value = graph.value(*ANY, rank=RANKED)
    shape = graph.shape_of(value)
    axes = sorted(graph.chance.sample(range(len(shape)), graph.whole(1, len(shape))))
    begins = [graph.whole(-shape[axis], shape[axis] - 1) for axis in axes]
    ends = [
        (begin % shape[axis]) + graph.pick(1, 2, 99)
        for begin, axis in zip(begins, axes, strict=True)
    ]
    if graph.opset < 10:
        graph.add(value, starts=begins, ends=ends, axes=axes)
        return
    steps = [graph.pick(1, 1, 2) for _ in axes]
    if graph.yes():
        place = graph.whole(0, len(axes) - 1)
        steps[place], ends[place] = -1, graph.pick(-99, 0)
        begins[place] = shape[axes[place]] - 1 if shape[axes[place]] > 1 else 0
        if ends[place] == 0 and shape[axes[place]] == 1:
            ends[place] = -99
    graph.add(value, *(graph.const(each) for each in (begins, ends, axes, steps)))


@recipe("Split")
def split(graph: Drawing) -> None:
    value = graph.value("float32", "int32", rank=RANKED, where=lambda shape: shape[0] > 1)
    extent = graph.shape_of(value)[0]
    sizes = [graph.whole(1, extent - 1)]
    sizes.append(extent - sizes[0])
    if graph.opset < 13:
        graph.add(value, axis=0, outputs=2, split=sizes)
    else:
        graph.add(value, graph.const(sizes), axis=0, outputs=2)


@recipe("Concat")
def concat(graph: Drawing) -> None:
    value = graph.value("float32", "int64", rank=RANKED)
    shape, axis = list(graph.shape_of(value)), 0
    axis = graph.whole(0, len(shape) - 1)
    shape[axis] = graph.whole(1, 3)
    graph.add(value, graph.told(shape, graph.dtype_of(value)), value, axis=axis)


@recipe("Pad")
def pad(graph: Drawing) -> None:
    value = graph.value(rank=RANKED, where=lambda shape: min(shape) > 1)
    rank = len(graph.shape_of(value))
    mode = graph.pick("constant", "reflect", "edge", *(["wrap"] if graph.opset >= 19 else []))
    low = -1 if mode == "constant" and min(graph.shape_of(value)) > 2 else 0
    pads = [graph.whole(low, 1) for _ in range(2 * rank)]
    if graph.opset < 11:
        graph.add(value, pads=pads, mode=mode, **({"value": 2.5} if graph.yes() else {}))
        return
    number = [graph.const(1.5, "float32")] if mode == "constant" and graph.yes() else []
    if graph.opset >= 18 and graph.yes():
        axes = graph.const([rank - 1 if graph.yes() else -1])
        graph.add(value, graph.const(pads[:2]), *(number or [""]), axes, mode=mode)
    else:
        graph.add(value, graph.const(pads), *number, mode=mode)


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
    value = graph.value("float32", "int32", rank=RANKED)
    shape = list(graph.shape_of(value))
    axis = graph.axis(len(shape))
    extent = shape[axis]
    shape[axis] = graph.whole(1, 4)
    graph.add(value, _spread(graph, shape, extent, -1), axis=axis)


@recipe("GatherND", since=11)
def gather_nd(graph: Drawing) -> None:
    value = graph.value("float32", "int64", rank=(2, 3, 4))
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
    graph.add(value, graph.const(row), graph.told([1, *shape[count:]]))


@recipe("OneHot", since=9)
def one_hot(graph: Drawing) -> None:
    depth, rank = graph.whole(1, 4), graph.whole(0, 2)
    low = -1 if graph.opset >= 11 else 0
    indices = _spread(graph, graph.shape(rank), depth, low)
    values = graph.const([0.5, 2.0], "float32")
    axis = graph.whole(-rank - 1, rank) if graph.yes() else -1
    graph.add(indices, graph.const(depth), values, axis=axis)


@recipe("TopK")
def greatest(graph: Drawing) -> None:
    value = graph.fresh(graph.shape(graph.whole(1, 3)))
    shape = graph.shape_of(value)
    axis = graph.whole(0, len(shape) - 1)
    count = graph.whole(1, shape[axis])
    if graph.opset < 10:
        graph.add(value, k=count, axis=axis, outputs=2)
        return
    largest = {"largest": graph.whole(0, 1)} if graph.opset >= 11 else {}
    graph.add(value, graph.const([count]), axis=axis, outputs=2, **largest)


@recipe("Trilu", since=14)
def triangle(graph: Drawing) -> None:
    value = graph.value("float32", "int64", rank=(2, 3, 4))
    extra = [graph.const(graph.whole(-3, 3))] if graph.yes() else []
    graph.add(value, *extra, upper=graph.whole(0, 1))


@recipe("DepthToSpace", "SpaceToDepth")
def blocks(graph: Drawing) -> None:
    if graph.op_type == "SpaceToDepth":
        graph.add(graph.fresh([1, 2, 4, 6]), blocksize=2)
        return
    mode = {"mode": graph.pick("DCR", "CRD")} if graph.opset >= 11 else {}
    graph.add(graph.fresh([2, 8, 2, 3]), blocksize=2, **mode)


@recipe("EyeLike", since=9)
def eye(graph: Drawing) -> None:
    graph.add(graph.value(rank=2), k=graph.whole(-3, 3), dtype=TensorProto.FLOAT)


@recipe("Shape", "Size")
def size(graph: Drawing) -> None:
    part = {}
    if graph.op_type == "Shape" and graph.opset >= 15 and graph.yes():
        part = {"start": graph.whole(-2, 1), "end": graph.whole(2, 4)}
    graph.add(graph.value(rank=(3, 4)), **part)


@recipe("ConstantOfShape", since=9)
def filled(graph: Drawing) -> None:
    graph.add(graph.const(np.array(graph.shape(), "int64")))


@recipe("Range", since=11)
def numbers(graph: Drawing) -> None:
    graph.add(graph.const(graph.whole(0, 3)), graph.const(graph.whole(5, 9)), graph.const(2))


@recipe("Compress", since=9)
def compress(graph: Drawing) -> None:
    value = graph.value(rank=(1, 2))
    taken = graph.numbers_of([graph.shape_of(value)[0]], "bool")
    taken[0] = True
    graph.add(value, graph.const(taken, "bool"), axis=0)


@recipe("ReverseSequence", since=10)
def reverse_sequence(graph: Drawing) -> None:
    value = graph.value(rank=(2, 3))
    time, batch = graph.shape_of(value)[:2]
    lengths = graph.numbers.integers(1, time + 1, batch).astype("int64")
    graph.add(value, graph.const(lengths), time_axis=0, batch_axis=1)


@recipe("Dropout")
def dropout(graph: Drawing) -> None:
    graph.add(graph.value())


@recipe("CenterCropPad", since=18)
def centre(graph: Drawing) -> None:
    value = graph.value(rank=(2, 3))
    sizes = [graph.whole(1, 6) for _ in graph.shape_of(value)]
    graph.add(value, graph.const(sizes))


@recipe("Scatter", since=9)
def scatter(graph: Drawing) -> None:
    if graph.opset > 10:
        raise Undrawable
    value = graph.value(rank=1)
    graph.add(value, graph.const([0]), graph.told([1]), axis=0)
