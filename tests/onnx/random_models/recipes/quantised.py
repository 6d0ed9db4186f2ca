"""Recipes of quantised operators."""

from __future__ import annotations

import numpy as np

from tests.onnx.random_models.drawing import Drawing, recipe


@recipe("QuantizeLinear", "DequantizeLinear", since=10)
def steps(graph: Drawing) -> None:
    count = graph.whole(2, 4)
    real = graph.op_type == "QuantizeLinear"
    along = graph.opset >= 13 and graph.yes()
    blocks = along and graph.opset >= 21 and graph.yes()
    kinds = ["uint8", "int8"] + (["uint16", "int16"] if graph.opset >= 21 else [])
    dtype = graph.pick(*kinds)
    shape, given = [2, count, 4], {"axis": graph.pick(1, -2)} if along else {}
    steps_of = [count] if along else []
    if blocks:
        given, steps_of = {"axis": graph.pick(2, -1), "block_size": 2}, [2, count, 2]
    scale = graph.const(graph.numbers_of(steps_of, low=0.02, high=0.1), "float32")
    zeros = [graph.const(np.full(steps_of, 5), dtype)]
    if graph.chance.random() < 0.2:
        zeros, dtype = [], "uint8" if real else dtype
    value = graph.fresh(shape) if real else graph.fresh(shape, dtype, high=100)
    graph.add(value, scale, *zeros, **given)


@recipe("DynamicQuantizeLinear", since=11)
def dynamic(graph: Drawing) -> None:
    graph.add(graph.value(rank=(1, 2, 3)), outputs=3)


@recipe("MatMulInteger", since=10)
def matmul_integer(graph: Drawing) -> None:
    kinds = graph.pick("uint8", "uint8", "int8"), graph.pick("uint8", "int8")
    batch = graph.shape(graph.whole(0, 2))
    left = graph.fresh([*batch, 3, 4], kinds[0], high=120)
    right = graph.told([*(batch if graph.yes() else ()), 4, 5], kinds[1], high=120)
    zeros = [graph.const(9, kinds[0])] if graph.yes() else []
    if zeros and graph.yes():
        zeros.append(graph.const(graph.pick(3, [1, 2, 3, 4, 5]), kinds[1]))
    graph.add(left, right, *zeros)


def _step(graph: Drawing, dtype: str = "uint8") -> list[str]:
    zero = graph.whole(90, 120) if dtype == "uint8" else graph.whole(-5, 5)
    return [graph.const(graph.chance.uniform(0.01, 0.1), "float32"), graph.const(zero, dtype)]


@recipe("QLinearMatMul", since=10)
def quantised_matmul(graph: Drawing) -> None:
    kinds = graph.pick(["uint8"] * 3, ["int8"] * 3, ["uint8", "int8", "uint8"])
    batch = graph.shape(graph.whole(0, 2))
    left = graph.fresh([*batch, 3, 4], kinds[0], high=120)
    right = graph.told([*batch, 4, 5], kinds[1], high=120)
    steps_of = [_step(graph, kind) for kind in kinds]
    graph.add(left, *steps_of[0], right, *steps_of[1], *steps_of[2])


@recipe("QLinearConv", since=10)
def quantised_conv(graph: Drawing) -> None:
    kinds = graph.pick(["uint8"] * 3, ["int8"] * 3, ["uint8", "int8", "uint8"])
    groups = graph.pick(1, 2)
    value = graph.fresh([graph.whole(1, 2), 2 * groups, 5, 6], kinds[0], high=120)
    weight = graph.const(graph.numbers_of([2 * groups, 2, 3, 3], kinds[1], high=120), kinds[1])
    by_channel = _step(graph, kinds[1])
    if graph.yes():
        scales = graph.numbers_of([2 * groups], low=0.01, high=0.1)
        by_channel[0] = graph.const(scales, "float32")
        by_channel[1] = graph.const([0 if kinds[1] == "int8" else 99] * 2 * groups, kinds[1])
    inputs = [value, *_step(graph, kinds[0]), weight, *by_channel, *_step(graph, kinds[2])]
    bias = [graph.const(graph.numbers_of([2 * groups], "int32", high=99), "int32")]
    given = {"strides": [1, 2]} if graph.yes() else {}
    given |= {"pads": [1, 1, 1, 1]} if graph.yes() else {}
    given |= {"dilations": [2, 1]} if graph.chance.random() < 0.3 else {}
    graph.add(*inputs, *(bias if graph.yes() else []), group=groups, **given)
