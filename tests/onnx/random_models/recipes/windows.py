"""Recipes of convolutions, poolings, and what else looks at windows of images."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.onnx.random_models.drawing import Drawing, Undrawable, recipe


def _window(graph: Drawing, count: int, *, dilated: bool = True) -> dict[str, Any]:
    """Attributes of a window over images of a dimension."""
    given: dict[str, Any] = {"kernel_shape": [graph.whole(1, 3) for _ in range(count)]}
    if graph.yes():
        given["strides"] = [graph.whole(1, 3) for _ in range(count)]
    if dilated and graph.yes():
        given["dilations"] = [graph.whole(1, 2) for _ in range(count)]
    mode = graph.pick("pads", "pads", "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")
    if mode == "pads":
        given["pads"] = [graph.whole(0, k - 1) for k in given["kernel_shape"] * 2]
    else:
        given["auto_pad"] = mode
    return given


def image(graph: Drawing, count: int, channels: int, dtype: str = "float32", **more: float) -> str:
    """An image of a dimension, or two."""
    shape = [graph.whole(1, 2), channels, *(graph.whole(5, 8) for _ in range(count))]
    return graph.fresh(shape, dtype, **more)


@recipe("Conv")
def conv(graph: Drawing) -> None:
    count, groups = graph.pick(1, 2, 2, 3), graph.pick(1, 2, 4)
    ins, outs = groups * graph.whole(1, 2), groups * graph.whole(1, 2)
    given = _window(graph, count)
    shape = [outs, ins // groups, *given["kernel_shape"]]
    if graph.yes():
        del given["kernel_shape"]
    bias = [graph.told([outs])] if graph.yes() else [""] if graph.yes() else []
    graph.add(image(graph, count, ins), graph.told(shape), *bias, group=groups, **given)


@recipe("ConvInteger", since=10)
def conv_integer(graph: Drawing) -> None:
    count, groups = graph.pick(1, 2, 2), graph.pick(1, 2)
    given = _window(graph, count)
    shape = [2 * groups, 2, *given["kernel_shape"]]
    kinds = graph.pick("uint8", "uint8", "int8"), graph.pick("uint8", "int8")
    zeros = [graph.const(7, kinds[0])] if graph.yes() else []
    if zeros and graph.yes():
        zeros.append(graph.const(graph.pick(3, [5] * shape[0]), kinds[1]))
    value = image(graph, count, 2 * groups, kinds[0], high=100)
    graph.add(value, graph.told(shape, kinds[1], high=100), *zeros, group=groups, **given)


@recipe("ConvTranspose")
def transposed(graph: Drawing) -> None:
    count, groups = graph.pick(1, 2, 2, 3), graph.pick(1, 2)
    given = _window(graph, count)
    strides = given.get("strides", [1] * count)
    if graph.yes():
        given["output_padding"] = [graph.whole(0, step - 1) for step in strides]
    if graph.chance.random() < 0.2:
        given["output_shape"] = [graph.whole(6, 20) for _ in strides]
    shape = [2 * groups, 3, *given["kernel_shape"]]
    bias = [graph.told([3 * groups])] if graph.yes() else []
    graph.add(image(graph, count, 2 * groups), graph.told(shape), *bias, group=groups, **given)


@recipe("MaxPool", "AveragePool", "LpPool")
def pool(graph: Drawing) -> None:
    count, name = graph.pick(1, 2, 2, 3), graph.op_type
    first = {"MaxPool": 10, "AveragePool": 19, "LpPool": 18}[name]
    given = _window(graph, count, dilated=graph.opset >= first)
    if name == "LpPool" and graph.yes():
        given["p"] = graph.whole(1, 3)
    if graph.opset >= (18 if name == "LpPool" else 10) and graph.yes():
        given["ceil_mode"] = 1
    if name == "AveragePool" and graph.yes():
        given["count_include_pad"] = 1
    outputs = 2 if name == "MaxPool" and graph.opset >= 8 and graph.yes() else 1
    if outputs == 2 and graph.yes():
        given["storage_order"] = 1
    kinds = ["float32", "float64", "int8"] if name == "MaxPool" else ["float32"]
    graph.add(image(graph, count, 2, graph.pick("float32", *kinds)), outputs=outputs, **given)


@recipe("MaxUnpool", since=9)
def unpool(graph: Drawing) -> None:
    given = {"kernel_shape": [2, graph.whole(2, 3)], "strides": [2, 3]}
    pooled = graph.add(image(graph, 2, 2), op_type="MaxPool", outputs=2, **given)
    graph.add(*pooled, op_type="MaxUnpool", **given)


@recipe("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def whole_pool(graph: Drawing) -> None:
    power = {"p": graph.whole(1, 3)} if graph.op_type == "GlobalLpPool" and graph.yes() else {}
    graph.add(image(graph, graph.whole(1, 3), 3), **power)


def _regions(graph: Drawing, count: int) -> np.ndarray:
    """Corners of regions of an image, ``[count, 4]``."""
    low = graph.numbers.uniform(0, 4, [count, 2])
    return np.hstack([low, low + graph.numbers.uniform(0.5, 6, [count, 2])]).astype("float32")


@recipe("MaxRoiPool")
def region_pool(graph: Drawing) -> None:
    rows = np.hstack([np.zeros([2, 1]), _regions(graph, 2).round()]).astype("float32")
    shape = [graph.whole(1, 3), graph.whole(1, 3)]
    scale = {"spatial_scale": 0.5} if graph.yes() else {}
    graph.add(image(graph, 2, 2), graph.const(rows, "float32"), pooled_shape=shape, **scale)


@recipe("RoiAlign", since=10)
def region_align(graph: Drawing) -> None:
    rows = graph.const(_regions(graph, 3), "float32")
    value = image(graph, 2, 2)
    batches = graph.const(graph.numbers.integers(0, graph.shape_of(value)[0], 3))
    given: dict[str, Any] = {"output_height": graph.whole(1, 3), "output_width": graph.whole(1, 3)}
    given |= {"sampling_ratio": graph.whole(0, 2), "spatial_scale": graph.pick(0.5, 1.0)}
    given["mode"] = graph.pick("avg", "max")
    if graph.opset >= 16 and graph.yes():
        given["coordinate_transformation_mode"] = graph.pick("output_half_pixel", "half_pixel")
    graph.add(value, rows, batches, **given)


@recipe("DeformConv", since=19)
def moved_conv(graph: Drawing) -> None:
    given = _window(graph, 2)
    given.pop("auto_pad", None)
    height, width = given["kernel_shape"]
    parts = graph.whole(1, 2)
    value = graph.fresh([1, 2 * parts, 6, 5])
    weight = graph.told([2, 2 * parts, height, width])
    out = _counts(given, (6, 5))
    offsets = graph.fresh([1, parts * height * width * 2, *out], low=-1, high=1)
    rest = [graph.told([2]) if graph.yes() else ""]
    rest += [graph.told([1, parts * height * width, *out])] if graph.yes() else []
    graph.add(value, weight, offsets, *rest, offset_group=parts, **given)


def _counts(given: dict[str, Any], extents: tuple[int, int]) -> list[int]:
    """Windows along both axes of an image."""
    strides, dilations = given.get("strides", [1, 1]), given.get("dilations", [1, 1])
    pads = given.get("pads", [0] * 4)
    counts = [
        (extent + pads[axis] + pads[axis + 2] - (kernel - 1) * dilations[axis] - 1) // strides[axis]
        + 1
        for axis, (extent, kernel) in enumerate(zip(extents, given["kernel_shape"], strict=True))
    ]
    if min(counts) < 1:
        raise Undrawable
    return counts


@recipe("Col2Im", since=18)
def columns(graph: Drawing) -> None:
    given = _window(graph, 2)
    given.pop("auto_pad", None)
    kernel = given.pop("kernel_shape")
    shape = [graph.whole(4, 6), graph.whole(4, 6)]
    blocks = int(np.prod(_counts(given | {"kernel_shape": kernel}, (shape[0], shape[1]))))
    value = graph.fresh([graph.whole(1, 2), 2 * kernel[0] * kernel[1], blocks])
    graph.add(value, graph.const(shape), graph.const(kernel), **given)
