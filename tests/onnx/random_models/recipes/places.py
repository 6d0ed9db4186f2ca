"""Recipes of operators that move elements."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto, numpy_helper

from tests.onnx.random_models.drawing import Drawing, recipe

ANY = ("float32", "float32", "int32", "int64", "bool", "uint8", "float64", "float16")
RANKED = (1, 2, 3, 4)


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
    low = graph.opset >= 11
    if graph.op_type == "Squeeze":
        value = graph.fresh([1, graph.whole(2, 4), 1, graph.whole(2, 3)])
        axes = graph.pick([0, 2], [2], [-2, 0] if low else [0], None)
    else:
        value = graph.value(*ANY, rank=(0, 1, 2, 3))
        axes = graph.pick([0, len(graph.shape_of(value)) + 1], [0], [-1] if low else [0])
    if axes is None:
        graph.add(value)
    elif graph.opset < 13:
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
    value = graph.fresh(graph.broadcast(shape), graph.pick(*ANY))
    graph.add(value, graph.const(np.array(shape, "int64")))


@recipe("Tile")
def tile(graph: Drawing) -> None:
    value = graph.value(*ANY, rank=RANKED)
    graph.add(value, graph.const([graph.whole(1, 3) for _ in graph.shape_of(value)]))


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
    value = graph.value(*ANY, rank=RANKED, where=lambda shape: max(shape) > 1)
    shape = graph.shape_of(value)
    axis = graph.pick(*(axis for axis, extent in enumerate(shape) if extent > 1))
    given = {"axis": axis - len(shape) if graph.yes() and graph.opset >= 11 else axis}
    if graph.opset >= 18 and graph.yes():
        graph.add(value, outputs=2, num_outputs=2, **given)
        return
    first = graph.whole(1, shape[axis] - 1)
    sizes = [first, shape[axis] - first]
    if sizes[0] == sizes[1] and graph.opset < 18 and graph.yes():
        graph.add(value, outputs=2, **given)
    elif graph.opset < 13:
        graph.add(value, outputs=2, split=sizes, **given)
    else:
        graph.add(value, graph.const(sizes), outputs=2, **given)


@recipe("Concat")
def concat(graph: Drawing) -> None:
    value = graph.value(*ANY, rank=RANKED)
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


@recipe("TopK")
def greatest(graph: Drawing) -> None:
    value = graph.fresh(graph.shape(graph.whole(1, 3)), graph.pick("float32", "float32", "float64"))
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
    size = graph.pick(2, 3)
    if graph.op_type == "SpaceToDepth":
        graph.add(graph.fresh([1, 2, 2 * size, 3 * size]), blocksize=size)
        return
    mode = {"mode": graph.pick("DCR", "CRD")} if graph.opset >= 11 else {}
    graph.add(graph.fresh([2, 2 * size * size, 2, 3]), blocksize=size, **mode)


@recipe("EyeLike", since=9)
def eye(graph: Drawing) -> None:
    given = {"dtype": graph.pick(TensorProto.FLOAT, TensorProto.INT64)} if graph.yes() else {}
    given |= {"k": graph.whole(-3, 3)} if graph.yes() else {}
    graph.add(graph.value(rank=2), **given)


@recipe("Shape", "Size")
def size(graph: Drawing) -> None:
    part = {}
    if graph.op_type == "Shape" and graph.opset >= 15 and graph.yes():
        part = {"start": graph.whole(-2, 1), "end": graph.whole(2, 4)}
    graph.add(graph.value(rank=(3, 4)), **part)


@recipe("ConstantOfShape", since=9)
def filled(graph: Drawing) -> None:
    kind = graph.pick("float32", "int64", "bool")
    number = numpy_helper.from_array(graph.numbers_of([1], kind))
    shape = graph.const(np.array(graph.shape(), "int64"))
    graph.add(shape, **({"value": number} if graph.yes() else {}))


@recipe("Range", since=11)
def numbers(graph: Drawing) -> None:
    ends = graph.pick((graph.whole(0, 3), graph.whole(5, 9), 2), (5, graph.whole(-3, 2), -2))
    kind = graph.pick("int64", "int32", "float32")
    graph.add(*(graph.const(each, kind) for each in ends))


@recipe("Compress", since=9)
def compress(graph: Drawing) -> None:
    value = graph.value(rank=(1, 2))
    taken = graph.numbers_of([graph.shape_of(value)[0]], "bool")
    taken[0] = True
    graph.add(value, graph.const(taken, "bool"), **({"axis": 0} if graph.yes() else {}))


@recipe("ReverseSequence", since=10)
def reverse_sequence(graph: Drawing) -> None:
    value = graph.value(rank=(2, 3))
    time, batch = graph.shape_of(value)[:2]
    turned = graph.yes()
    time, batch = (batch, time) if turned else (time, batch)
    lengths = graph.numbers.integers(1, time + 1, batch).astype("int64")
    graph.add(value, graph.const(lengths), time_axis=int(turned), batch_axis=1 - turned)


@recipe("Dropout")
def dropout(graph: Drawing) -> None:
    graph.add(graph.value(), outputs=graph.pick(1, 2) if graph.opset >= 12 else 1)


@recipe("Constant")
def constant(graph: Drawing) -> None:
    numbers = graph.numbers_of(graph.shape())
    given = {"value": numpy_helper.from_array(numbers)}
    if graph.opset >= 12:
        others: list[dict[str, Any]] = [{"value_float": 1.5}, {"value_floats": [1.5, -2.0]}]
        others += [{"value_int": 3}, {"value_ints": [3, -1]}]
        given = graph.pick(given, *others)
    made = graph.add(**given)
    if given.get("value_int") is None and given.get("value_ints") is None:
        graph.add(*made, op_type="Tanh")


@recipe("CenterCropPad", since=18)
def centre(graph: Drawing) -> None:
    value = graph.value(rank=(2, 3))
    rank = len(graph.shape_of(value))
    if graph.yes():
        graph.add(value, graph.const([graph.whole(1, 6)]), axes=[graph.axis(rank)])
        return
    graph.add(value, graph.const([graph.whole(1, 6) for _ in range(rank)]))
