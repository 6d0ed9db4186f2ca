"""Growth of reading and preparing with a model: ``python -m tvm_ios_lab.scripts.onnx_growth``.

Transformers and residual networks of some 500, 1,000, 2,000 and 4,000 nodes are read by
``tvm_ios.from_onnx`` and prepared up to the operator graph. Processor time goes to
``lab/results/onnx_growth.json``. Neither may grow like the square of the number of nodes.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tvm_ios_lab.measurement import Measurement, program_command
from tvm_ios_lab.places import RESULTS

RESULT = RESULTS / "onnx_growth.json"
SIZES = (500, 1000, 2000, 4000)
TARGET = "llvm -mcpu=core-avx2"
WIDTH, HEADS, TOKENS, CHANNELS = 64, 4, 16, 16


class _Graph:
    """Nodes and weights of a model with one input and one output; an opset with axes in nodes."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._shape = shape
        self._nodes: list[onnx.NodeProto] = []
        self._weights: list[onnx.TensorProto] = []
        self._random = np.random.default_rng(0)

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Output of a new node."""
        name = f"v{len(self._nodes)}"
        self._nodes.append(helper.make_node(kind, inputs, [name], **attributes))
        return name

    def const(self, value: Any) -> str:
        """Output of a constant, as exporters write them: a node of its own."""
        return self.op("Constant", value=numpy_helper.from_array(np.asarray(value)))

    def weight(self, *shape: int) -> str:
        """A weight of small random numbers."""
        value = 0.05 * self._random.standard_normal(shape).astype("float32")
        name = f"w{len(self._weights)}"
        self._weights.append(numpy_helper.from_array(value, name))
        return name

    def model(self, output: str) -> onnx.ModelProto:
        """The whole model."""
        given = helper.make_tensor_value_info("x", TensorProto.FLOAT, self._shape)
        made = helper.make_tensor_value_info(output, TensorProto.FLOAT, self._shape)
        graph = helper.make_graph(self._nodes, "grown", [given], [made], self._weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=8)


def transformer(nodes: int) -> onnx.ModelProto:
    """A transformer of about so many nodes, shape arithmetic and norms written out."""
    graph, value, blocks = _Graph((1, TOKENS, WIDTH)), "x", max(1, nodes // 89)
    for _ in range(blocks):
        value = _block(graph, value)
    return graph.model(value)


def residual(nodes: int) -> onnx.ModelProto:
    """Convolutions with a sum around each, about so many nodes."""
    graph, value = _Graph((1, CHANNELS, 8, 8)), "x"
    for _ in range(nodes // 3):
        made = graph.op("Conv", value, graph.weight(CHANNELS, CHANNELS, 3, 3), pads=[1] * 4)
        value = graph.op("Add", graph.op("Relu", made), value)
    return graph.model(value)


def _block(graph: _Graph, value: str) -> str:
    whole = graph.const(np.array([1, TOKENS, WIDTH], "int64"))
    normed = _norm(graph, value)
    query, key, values = (_heads(graph, _linear(graph, normed, WIDTH, WIDTH)) for _ in range(3))
    scores = graph.op("MatMul", query, graph.op("Transpose", key, perm=[0, 1, 3, 2]))
    scores = graph.op("Div", scores, graph.const(np.float32(4)))
    mixed = graph.op("MatMul", graph.op("Softmax", scores, axis=-1), values)
    mixed = graph.op("Reshape", graph.op("Transpose", mixed, perm=[0, 2, 1, 3]), whole)
    value = graph.op("Add", value, _linear(graph, mixed, WIDTH, WIDTH))
    wide = _linear(graph, _norm(graph, value), WIDTH, 2 * WIDTH)
    half = graph.op("Mul", wide, graph.const(np.float32(0.5)))
    error = graph.op("Erf", graph.op("Div", wide, graph.const(np.float32(2**0.5))))
    wide = graph.op("Mul", half, graph.op("Add", error, graph.const(np.float32(1))))
    return graph.op("Add", value, _linear(graph, wide, 2 * WIDTH, WIDTH))


def _linear(graph: _Graph, value: str, inputs: int, outputs: int) -> str:
    product = graph.op("MatMul", value, graph.weight(inputs, outputs))
    return graph.op("Add", product, graph.weight(outputs))


def _norm(graph: _Graph, value: str) -> str:
    apart = graph.op("Sub", value, graph.op("ReduceMean", value, axes=[-1]))
    squares = graph.op("Pow", apart, graph.const(np.float32(2)))
    spread = graph.op("ReduceMean", squares, axes=[-1])
    spread = graph.op("Sqrt", graph.op("Add", spread, graph.const(np.float32(1e-5))))
    scaled = graph.op("Mul", graph.op("Div", apart, spread), graph.weight(WIDTH))
    return graph.op("Add", scaled, graph.weight(WIDTH))


def _heads(graph: _Graph, value: str) -> str:
    """The heads of a product, by the arithmetic of shapes that exporters leave in models."""
    shape = graph.op("Shape", value)
    known = [graph.op("Gather", shape, graph.const(np.int64(place))) for place in (0, 1)]
    apart = [graph.op("Unsqueeze", each, axes=[0]) for each in known]
    rest = [graph.const(np.array([extent], "int64")) for extent in (HEADS, WIDTH // HEADS)]
    wanted = graph.op("Concat", *apart, *rest, axis=0)
    return graph.op("Transpose", graph.op("Reshape", value, wanted), perm=[0, 2, 1, 3])


MODELS: Mapping[str, Callable[[int], onnx.ModelProto]] = MappingProxyType(
    {"transformer": transformer, "residual": residual}
)


def measured(model: onnx.ModelProto) -> dict[str, float]:
    """Nodes of a model, its operators, and seconds of the processor for reading and preparing."""
    import tvm  # noqa: PLC0415 - loaded by who measures

    import tvm_ios  # noqa: PLC0415
    from tvm_ios.relay import extract, prepare  # noqa: PLC0415

    begin = time.process_time()
    mod, params = tvm_ios.from_onnx(model)
    read = time.process_time()
    graph = extract(prepare(mod, params, tvm.target.Target(TARGET)).module).graph
    end = time.process_time()
    return {
        "nodes": len(model.graph.node),
        "operators": len(graph.operators),
        "read_s": round(read - begin, 3),
        "prepare_s": round(end - read, 3),
    }


def main() -> None:
    """Measure all sizes of all models, write and print."""
    measured(transformer(1))  # TVM is loaded, and the first of everything made
    rows = {kind: [measured(make(nodes)) for nodes in SIZES] for kind, make in MODELS.items()}
    origin = Measurement.here(program_command("tvm_ios_lab.scripts.onnx_growth")).origin()
    RESULT.write_text(json.dumps({**origin, "models": rows}, indent=1) + "\n", encoding="utf-8")
    for kind, found in rows.items():
        for row in found:
            print(kind, *(f"{name} {value}" for name, value in row.items()))


if __name__ == "__main__":
    main()
