"""Operations and bytes of an ONNX model's nodes, and the operators that they become."""

from __future__ import annotations

import onnx.parser
import pytest

from tests.onnx_models import two_ways
from tvm_ios.core.fusing import fused_graph
from tvm_ios.driver.onnx_file import OnnxFile
from tvm_ios.onnx.model_nodes import model_nodes

HEAD = '<ir_version: 8, opset_import: ["" : 17]>'


def graph_of(model):
    return fused_graph("net", model_nodes(OnnxFile.open(model).model))


def parsed(text):
    return graph_of(onnx.parser.parse_model(f"{HEAD} net {text}"))


def test_two_ways_are_two_convolutions_and_a_view():
    graph = graph_of(two_ways(batch=1))
    assert [(each.kind, each.predecessors, each.view) for each in graph.operators] == [
        ("Conv", (), False),
        ("Conv", (), False),
        ("Concat", (0, 1), True),
    ]
    left, right, _ = graph.operators
    assert left.flops == 2 * 8 * 36 * 8
    # The slopes, three operations an element in the normal form, are of what they follow.
    assert right.flops == 2 * 16 * 36 * 8 * 9 + 3 * 16 * 36
    assert left.memory_bytes == 4 * (8 * 36 + 8 * 8 + 8 * 36)


@pytest.mark.parametrize(
    ("text", "flops"),
    [
        ("(float[2,3,4] x, float[4,5] w) => (float[2,3,5] y) { y = MatMul(x, w) }", 2 * 30 * 4),
        (
            "(float[1,4,6,6] x, float[4,2,3,3] w) => (float[1,2,8,8] y)"
            " { y = ConvTranspose(x, w) }",
            2 * 4 * 36 * 2 * 9,
        ),
        (
            "(float[1,4,6,6] x) => (float[1,4,4,4] y) { y = MaxPool <kernel_shape = [3, 3]> (x) }",
            64 * 9,
        ),
        ("(float[1,4,6,6] x) => (float[1,4,1,1] y) { y = GlobalAveragePool (x) }", 4 * 36),
        ("(float[3,4] x) => (float[4,3] y) { y = Transpose <perm = [1, 0]> (x) }", 0),
    ],
    ids=["product", "transposed", "pooling", "mean", "transpose"],
)
def test_operations_are_counted_by_node(text, flops):
    assert sum(each.flops for each in parsed(text).operators) == flops


def test_shape_arithmetic_and_constants_are_no_operators():
    graph = parsed(
        "(float[2,6] x) => (float[3,4] y) {"
        " s = Shape(x) t = Constant <value_ints = [3, 4]> () u = Add(s, s) v = Sub(u, s)"
        " z = Reshape(x, v) w = Relu(z) y = Reshape(w, t) }"
    )
    assert [each.kind for each in graph.operators if not each.view] == ["Relu"]


def test_weights_that_are_unpacked_are_no_operators():
    graph = parsed(
        "(float[2,4] x) => (float[2,3] y)"
        " <int8[4,3] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, float s = {0.5}>"
        " { v = DequantizeLinear(w, s) y = MatMul(x, v) }"
    )
    assert [(each.kind, each.memory_bytes) for each in graph.operators] == [
        ("MatMul", 4 * (2 * 4 + 4 * 3 + 2 * 3))
    ]
