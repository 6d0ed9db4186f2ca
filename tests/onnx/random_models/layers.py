"""Recipes of layers of networks: convolutions, poolings, norms, products, recurrent layers."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.onnx.random_models.drawing import Drawing, recipe


def _window(graph: Drawing, count: int, *, dilated: bool = True) -> dict[str, Any]:
    """Attributes of a window over images of a dimension."""
    given: dict[str, Any] = {"kernel_shape": [graph.whole(1, 3) for _ in range(count)]}
    if graph.yes():
        given["strides"] = [graph.whole(1, 2) for _ in range(count)]
    if dilated and graph.yes():
        given["dilations"] = [graph.whole(1, 2) for _ in range(count)]
    mode = graph.pick("pads", "pads", "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")
    if mode == "pads":
        given["pads"] = [min(graph.whole(0, 1), k - 1) for k in given["kernel_shape"]] * 2
    elif not given.get("dilations") or mode in ("NOTSET", "VALID"):
        given["auto_pad"] = mode
    return given


def _image(graph: Drawing, count: int, channels: int) -> str:
    return graph.fresh([graph.whole(1, 2), channels, *(graph.whole(5, 8) for _ in range(count))])


@recipe("Conv", "ConvInteger")
def conv(graph: Drawing) -> None:
    count = graph.pick(1, 2, 2, 3) if graph.op_type == "Conv" else 2
    groups = graph.pick(1, 2) if graph.op_type == "Conv" else 1
    given = _window(graph, count)
    ins, outs = 2 * groups, 2 * groups
    shape = [outs, ins // groups, *given["kernel_shape"]]
    if graph.op_type == "ConvInteger":
        if graph.opset < 10:
            graph.op_type = "Conv"
        else:
            value = graph.fresh([1, ins, 6, 5], "uint8", high=200)
            zeros = [graph.const(7, "uint8")] if graph.yes() else []
            graph.add(value, graph.told(shape, "uint8", high=200), *zeros, **given)
            return
    bias = [graph.told([outs])] if graph.yes() else []
    graph.add(_image(graph, count, ins), graph.told(shape), *bias, group=groups, **given)


@recipe("ConvTranspose")
def transposed(graph: Drawing) -> None:
    count, groups = graph.pick(1, 2, 2, 3), graph.pick(1, 2)
    given = _window(graph, count)
    if given.get("auto_pad", "").startswith("SAME"):
        del given["auto_pad"]
    strides = given.get("strides", [1] * count)
    if graph.yes():
        given["output_padding"] = [graph.whole(0, step - 1) for step in strides]
    shape = [2 * groups, 3, *given["kernel_shape"]]
    bias = [graph.told([3 * groups])] if graph.yes() else []
    graph.add(_image(graph, count, 2 * groups), graph.told(shape), *bias, group=groups, **given)


@recipe("MaxPool", "AveragePool", "LpPool")
def pool(graph: Drawing) -> None:
    count, name = graph.pick(1, 2, 2, 3), graph.op_type
    first = {"MaxPool": 10, "AveragePool": 19, "LpPool": 18}[name]
    given = _window(graph, count, dilated=graph.opset >= first)
    if name == "LpPool" and graph.yes():
        given["p"] = graph.whole(1, 3)
    if graph.opset >= (18 if name == "LpPool" else 10) and "pads" in given and graph.yes():
        given["ceil_mode"] = 1
    if name == "AveragePool" and graph.yes():
        given["count_include_pad"] = 1
    outputs = 2 if name == "MaxPool" and graph.opset >= 8 and graph.yes() else 1
    graph.add(_image(graph, count, 2), outputs=outputs, **given)


@recipe("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def whole_pool(graph: Drawing) -> None:
    graph.add(_image(graph, graph.whole(1, 3), 3))


@recipe("LRN")
def local_response(graph: Drawing) -> None:
    graph.add(_image(graph, 2, 4), size=graph.pick(1, 3), alpha=0.1, beta=0.6, bias=1.5)


@recipe("BatchNormalization")
def batch_norm(graph: Drawing) -> None:
    told = [graph.const(graph.numbers_of([3]), "float32") for _ in range(3)]
    variance = graph.const(graph.numbers_of([3], low=0.1), "float32")
    graph.add(_image(graph, graph.whole(1, 3), 3), *told, variance, epsilon=1e-3)


@recipe("InstanceNormalization")
def instance_norm(graph: Drawing) -> None:
    graph.add(_image(graph, graph.whole(1, 3), 3), graph.told([3]), graph.told([3]), epsilon=0.01)


@recipe("LayerNormalization", since=17)
def layer_norm(graph: Drawing) -> None:
    value = graph.fresh(graph.shape(3, most=6))
    shape = graph.shape_of(value)
    axis = graph.axis(3)
    bias = [graph.told(shape[axis % 3 :])] if graph.yes() else []
    graph.add(value, graph.told(shape[axis % 3 :]), *bias, axis=axis, epsilon=0.01)


@recipe("GroupNormalization", since=21)
def group_norm(graph: Drawing) -> None:
    graph.add(_image(graph, 2, 4), graph.told([4]), graph.told([4]), num_groups=2, epsilon=0.01)


@recipe("RMSNormalization", since=23)
def rms_norm(graph: Drawing) -> None:
    value = graph.fresh(graph.shape(3))
    graph.add(value, graph.told(graph.shape_of(value)[-1:]), epsilon=0.01)


@recipe("LpNormalization")
def lp_norm(graph: Drawing) -> None:
    value = graph.fresh(graph.shape(3), low=0.5)
    graph.add(value, axis=graph.axis(3), p=graph.whole(1, 2))


@recipe("MeanVarianceNormalization", since=9)
def mean_variance(graph: Drawing) -> None:
    graph.add(_image(graph, 2, 3))


@recipe("MatMul")
def matmul(graph: Drawing) -> None:
    left = graph.value(rank=(1, 2, 3, 4))
    shape = graph.shape_of(left)
    batch = graph.broadcast(shape[:-2])
    right = graph.told([*batch, shape[-1], graph.whole(1, 4)])
    if not batch and len(shape) > 1 and graph.yes():
        right = graph.told([shape[-1]])
    graph.add(left, right)


@recipe("Gemm")
def gemm(graph: Drawing) -> None:
    rows, inner, columns = graph.shape(3)
    left, right = graph.whole(0, 1), graph.whole(0, 1)
    a = graph.fresh([inner, rows] if left else [rows, inner])
    b = graph.told([columns, inner] if right else [inner, columns])
    bias = graph.told(graph.broadcast([rows, columns]))
    optional = [] if graph.opset >= 11 and graph.yes() else [bias]
    graph.add(a, b, *optional, transA=left, transB=right, alpha=0.5, beta=2.0)


@recipe("Einsum", since=12)
def einsum(graph: Drawing) -> None:
    equation, left, right = graph.pick(
        ("ij,jk->ik", [2, 3], [3, 4]), ("bij,bkj->bik", [2, 3, 4], [2, 5, 4]), ("i,i->", [3], [3])
    )
    graph.add(graph.fresh(left), graph.told(right), equation=equation)


@recipe("MatMulInteger", since=10)
def matmul_integer(graph: Drawing) -> None:
    left = graph.fresh([3, 4], "uint8", high=250)
    right = graph.told([4, 5], graph.pick("uint8", "int8"), high=120)
    zeros = [graph.const(9, "uint8")] if graph.yes() else []
    graph.add(left, right, *zeros)


@recipe("QuantizeLinear", "DequantizeLinear", since=10)
def steps(graph: Drawing) -> None:
    count = graph.whole(2, 4)
    along = graph.opset >= 13 and graph.yes()
    scale = graph.const(graph.numbers_of([count] if along else [], low=0.02, high=0.1), "float32")
    dtype = graph.pick("uint8", "int8")
    zero = graph.const(np.full([count] if along else [], 5), dtype)
    shape = [2, count, 3]
    real = graph.op_type == "QuantizeLinear"
    value = graph.fresh(shape) if real else graph.fresh(shape, dtype, high=100)
    graph.add(value, scale, zero, **({"axis": graph.pick(1, -2)} if along else {}))


@recipe("DynamicQuantizeLinear", since=11)
def dynamic(graph: Drawing) -> None:
    graph.add(graph.value(rank=(1, 2, 3)), outputs=3)


def _step(graph: Drawing, dtype: str = "uint8") -> list[str]:
    return [graph.const(graph.chance.uniform(0.01, 0.1), "float32"), graph.const(100, dtype)]


@recipe("QLinearMatMul", since=10)
def quantised_matmul(graph: Drawing) -> None:
    left, right = graph.fresh([3, 4], "uint8", high=250), graph.told([4, 5], "uint8", high=250)
    graph.add(left, *_step(graph), right, *_step(graph), *_step(graph))


@recipe("QLinearConv", since=10)
def quantised_conv(graph: Drawing) -> None:
    value = graph.fresh([1, 2, 5, 6], "uint8", high=250)
    weight = graph.const(graph.numbers_of([4, 2, 3, 3], "uint8", high=250), "uint8")
    inputs = [value, *_step(graph), weight, *_step(graph), *_step(graph)]
    bias = [graph.const(graph.numbers_of([4], "int32", high=99), "int32")] if graph.yes() else []
    graph.add(*inputs, *bias, kernel_shape=[3, 3], pads=[1, 1, 1, 1])


@recipe("LSTM", "GRU", "RNN")
def recurrent(graph: Drawing) -> None:
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[graph.op_type]
    steps_, batch, width, hidden = 3, 2, graph.whole(1, 3), graph.whole(1, 3)
    direction = graph.pick("forward", "reverse", "bidirectional")
    ways = 2 if direction == "bidirectional" else 1
    inputs = [
        graph.fresh([steps_, batch, width]),
        graph.const(graph.numbers_of([ways, gates * hidden, width], low=-1, high=1), "float32"),
        graph.const(graph.numbers_of([ways, gates * hidden, hidden], low=-1, high=1), "float32"),
    ]
    inputs.append(graph.told([ways, 2 * gates * hidden]) if graph.yes() else "")
    inputs.append(graph.const([3, graph.whole(1, 3)], "int32") if graph.yes() else "")
    inputs.append(graph.told([ways, batch, hidden]) if graph.yes() else "")
    more: dict[str, Any] = {"clip": 1.5} if graph.yes() else {}
    if graph.op_type == "GRU":
        more["linear_before_reset"] = graph.whole(0, 1)
    outputs = 3 if graph.op_type == "LSTM" else 2
    graph.add(*inputs, outputs=outputs, hidden_size=hidden, direction=direction, **more)


@recipe("Resize", since=10)
def resize(graph: Drawing) -> None:
    value = graph.fresh([1, 2, graph.whole(2, 5), graph.whole(2, 5)])
    mode = graph.pick("nearest", "linear")
    scales = graph.const([1, 1, graph.pick(0.5, 0.7, 1.5, 2), graph.pick(1, 2, 3)], "float32")
    if graph.opset < 11:
        graph.add(value, scales, mode=mode)
        return
    places = graph.pick("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")
    way = graph.pick("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")
    mode = graph.pick(mode, "cubic")
    given = {"mode": mode, "coordinate_transformation_mode": places, "nearest_mode": way}
    roi = graph.const(np.zeros(0), "float32")
    if graph.yes():
        sizes = graph.const([1, 2, graph.whole(2, 7), graph.whole(2, 7)])
        none = graph.const(np.zeros(0), "float32") if graph.opset < 13 else ""
        graph.add(value, roi, none, sizes, **given)
    else:
        graph.add(value, roi, scales, **given)


@recipe("Upsample")
def upsample(graph: Drawing) -> None:
    mode, scales = graph.pick("nearest", "linear"), [1.0, 1.0, 2.0, 3.0]
    if graph.opset >= 9:
        graph.add(graph.fresh([1, 2, 3, 4]), graph.const(scales, "float32"), mode=mode)
    else:
        graph.add(graph.fresh([1, 2, 3, 4]), scales=scales, mode=mode)


@recipe("GridSample", since=16)
def grid_sample(graph: Drawing) -> None:
    new = graph.opset >= 20
    mode = graph.pick("nearest", "linear", "cubic") if new else graph.pick("nearest", "bilinear")
    grid = graph.fresh([1, 3, 4, 2], low=-1.2, high=1.2)
    padding = graph.pick("zeros", "border", "reflection")
    value, corners = graph.fresh([1, 2, 5, 4]), graph.whole(0, 1)
    graph.add(value, grid, mode=mode, padding_mode=padding, align_corners=corners)


@recipe("DFT", since=17)
def fourier(graph: Drawing) -> None:
    graph.add(graph.fresh([1, graph.whole(3, 6), 1]), onesided=graph.whole(0, 1))


@recipe("Col2Im", since=18)
def columns(graph: Drawing) -> None:
    graph.add(graph.fresh([1, 8, 6]), graph.const([3, 4]), graph.const([2, 2]))


@recipe("Attention", since=23)
def attention(graph: Drawing) -> None:
    shape = [1, 2, graph.whole(1, 4), 4]
    query, key, value = (graph.fresh(shape) for _ in range(3))
    graph.add(query, key, value, is_causal=graph.whole(0, 1))


@recipe("AffineGrid", since=20)
def affine_grid(graph: Drawing) -> None:
    theta, size = graph.fresh([1, 2, 3]), graph.const([1, 2, 3, 4])
    graph.add(theta, size, align_corners=graph.whole(0, 1))
