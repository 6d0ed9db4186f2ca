"""Random graphs of a few operators, quantised by onnxruntime in the forms that people have."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnxruntime.quantization import QuantFormat, QuantType, quantize_dynamic, quantize_static
from onnxruntime.quantization.calibrate import CalibrationDataReader

__all__ = ["QuantisedGraph", "quantised_graph"]

OPSET = 17
FORMS = ("qdq", "qdq", "qoperator", "qoperator", "dynamic")


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantisedGraph:
    """A quantised model, with inputs."""

    model: onnx.ModelProto
    inputs: Mapping[str, np.ndarray]
    form: str
    """One of :data:`FORMS`."""
    operators: Sequence[str]
    """Operators of the model in float32, in order."""
    how: Mapping[str, Any]
    """Arguments of the function that quantised it."""


class _Graph:
    """A graph of float32 while it is drawn: one value after the other, all of images at first."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.numbers = np.random.default_rng(chance.getrandbits(32))
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.value = "x"
        self.ends = False
        """True if nothing may follow."""
        images, channels = chance.choice([1, 1, 2]), chance.choice([3, 8, 16, 20])
        self.shapes["x"] = (images, channels, chance.randint(7, 16), chance.randint(7, 16))

    @property
    def shape(self) -> tuple[int, ...]:
        return self.shapes[self.value]

    def const(self, array: Any, dtype: str = "float32") -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array, dtype), name))
        return name

    def weights(self, *shape: int, inputs: int) -> str:
        drawn = self.numbers.standard_normal(shape) / np.sqrt(inputs)
        if self.chance.random() < 0.5:  # whose zero point is not in the middle
            drawn = np.where(drawn > 0, drawn * self.chance.choice([0.5, 2]), drawn)
        return self.const(drawn)

    def add(self, op_type: str, *inputs: str, outputs: int = 1, **attributes: Any) -> None:
        made = [f"y{len(self.nodes)}_{place}" for place in range(outputs)]
        name = f"n{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, inputs, made, name=name, **attributes))
        model = onnx.shape_inference.infer_shapes(self.model(made), data_prop=True)
        for each in model.graph.output:
            kind = each.type.tensor_type
            self.shapes[each.name] = tuple(dim.dim_value for dim in kind.shape.dim)
        self.value = self.chance.choice(made)

    def other(self) -> str:
        """Another value of the same shape, or a constant that broadcasts."""
        alike = [name for name, shape in self.shapes.items() if shape == self.shape]
        if len(alike) > 1 and self.chance.random() < 0.8:
            return self.chance.choice([name for name in alike if name != self.value])
        shape = [1] * len(self.shape)
        shape[1] = self.shape[1]
        return self.const(self.numbers.standard_normal(shape))

    def model(self, outputs: Sequence[str]) -> onnx.ModelProto:
        given = [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, self.shapes["x"])]
        made = [
            helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, self.shapes.get(name))
            for name in outputs
        ]
        graph = helper.make_graph(self.nodes, "drawn", given, made, self.constants)
        return helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8
        )


def _conv(graph: _Graph) -> None:
    channels, chance = graph.shape[1], graph.chance
    groups = chance.choice([1, 1, 1, 1, channels, 4 if channels % 4 == 0 else 1])
    made = channels if groups == channels else chance.choice([8, 16, 24, 40])
    kernel = chance.choice([1, 1, 3, 3, 5])
    dilation = chance.choice([1, 1, 1, 2]) if 2 * kernel < min(graph.shape[2:]) else 1
    inputs = channels // groups
    pads = [chance.randint(0, kernel // 2) for _ in range(4)]
    if min(graph.shape[2:]) <= dilation * kernel:
        kernel, pads = 1, [0] * 4
    weights = graph.weights(made, inputs, kernel, kernel, inputs=inputs * kernel * kernel)
    bias = [graph.const(graph.numbers.standard_normal(made) * 0.3)] if chance.random() < 0.7 else []
    how = {"pads": pads, "dilations": [dilation] * 2, "strides": [chance.choice([1, 1, 2])] * 2}
    graph.add("Conv", graph.value, weights, *bias, group=groups, kernel_shape=[kernel] * 2, **how)


def _pool(graph: _Graph) -> None:
    kernel = graph.chance.choice([2, 3])
    if min(graph.shape[2:]) < 2 * kernel:
        return
    pads = [graph.chance.randint(0, 1)] * 4
    kind = graph.chance.choice(["MaxPool", "AveragePool"])
    given = {"kernel_shape": [kernel] * 2, "strides": [graph.chance.choice([1, 2])] * 2}
    if kind == "AveragePool":
        given["count_include_pad"] = graph.chance.choice([0, 1])
    graph.add(kind, graph.value, pads=pads, **given)


def _activation(graph: _Graph) -> None:
    kind = graph.chance.choice(["Relu", "Relu", "Clip", "Sigmoid", "HardSwish", "LeakyRelu"])
    limits = [graph.const(0), graph.const(6)] if kind == "Clip" else []
    graph.add(kind, graph.value, *limits, **({"alpha": 0.1} if kind == "LeakyRelu" else {}))


def _of_two(graph: _Graph) -> None:
    graph.add(graph.chance.choice(["Add", "Add", "Mul"]), graph.value, graph.other())


def _concat(graph: _Graph) -> None:
    alike = [
        name
        for name, shape in graph.shapes.items()
        if len(shape) > 1 and (shape[0], *shape[2:]) == (graph.shape[0], *graph.shape[2:])
    ]
    if sum(graph.shapes[name][1] for name in alike) < 80:
        graph.add("Concat", *alike, axis=1)


def _resize(graph: _Graph) -> None:
    if np.prod(graph.shape) > 4000:
        return
    how = graph.chance.choice(
        [
            {"mode": "nearest", "coordinate_transformation_mode": "asymmetric"},
            {"mode": "linear", "coordinate_transformation_mode": "half_pixel"},
        ]
    )
    graph.add("Resize", graph.value, "", graph.const([1, 1, 2, 2]), **how)
    # Many means of whole numbers lie in the middle of two: what follows would spread that.
    graph.ends = how["mode"] == "linear"


def _moved(graph: _Graph) -> None:
    rank, count = len(graph.shape), graph.shape[1]
    match graph.chance.choice(["Transpose", "Slice", "Pad", "Split", "Reshape"]):
        case "Transpose" if rank == 4:
            graph.add("Transpose", graph.value, perm=[0, 1, 3, 2])
        case "Slice" if count > 2:
            ends = [graph.const([place], "int64") for place in (1, count, 1)]
            graph.add("Slice", graph.value, *ends)
        case "Pad" if rank == 4:
            graph.add("Pad", graph.value, graph.const([0, 0, 1, 0, 0, 0, 0, 2], "int64"))
        case "Split" if count % 2 == 0:
            graph.add("Split", graph.value, outputs=2, axis=1)
        case "Reshape" if count % 2 == 0 and rank == 4:
            shape = graph.const([0, count // 2, -1, graph.shape[3]], "int64")
            graph.add("Reshape", graph.value, shape)


def _norm(graph: _Graph) -> None:
    if graph.chance.random() < 0.5:
        graph.add("Softmax", graph.value, axis=-1)
    else:
        count = graph.shape[-1]
        scale = graph.const(graph.numbers.uniform(0.5, 1.5, count))
        shift = graph.const(graph.numbers.standard_normal(count))
        graph.add("LayerNormalization", graph.value, scale, shift, axis=-1)


def _product(graph: _Graph) -> None:
    inputs, made = graph.shape[-1], graph.chance.choice([8, 24, 33, 64])
    if len(graph.shape) == 2 and graph.chance.random() < 0.6:
        transposed = graph.chance.choice([0, 1])
        shape = (made, inputs) if transposed else (inputs, made)
        bias = graph.const(graph.numbers.standard_normal(made) * 0.3)
        given = [graph.weights(*shape, inputs=inputs), bias]
        graph.add("Gemm", graph.value, *given, transB=transposed)
    else:
        graph.add("MatMul", graph.value, graph.weights(inputs, made, inputs=inputs))


def _product_of_two(graph: _Graph) -> None:
    value = graph.value
    axes = [*range(len(graph.shape) - 2), len(graph.shape) - 1, len(graph.shape) - 2]
    if np.prod(graph.shape[:-2]) * graph.shape[-2] ** 2 < 6000:
        graph.add("Transpose", value, perm=axes)
        graph.add("MatMul", value, graph.value)


def _flattened(graph: _Graph) -> None:
    if len(graph.shape) != 4:
        return
    if graph.chance.random() < 0.5:
        graph.add("GlobalAveragePool", graph.value)
    if np.prod(graph.shape[1:]) <= 2000:
        graph.add("Flatten", graph.value)
    else:
        graph.add("Reshape", graph.value, graph.const([0, 0, -1], "int64"))


IMAGES: Sequence[Callable[[_Graph], None]] = (
    *[_conv] * 6,
    *[_activation] * 3,
    *[_of_two] * 3,
    *(_pool, _concat, _resize, _moved, _moved, _norm, _flattened, _product_of_two),
)
ROWS: Sequence[Callable[[_Graph], None]] = (
    *[_product] * 4,
    *(_activation, _of_two, _concat, _norm, _moved),
)


class _Samples(CalibrationDataReader):  # type: ignore[misc]
    def __init__(self, given: Sequence[Mapping[str, np.ndarray]]) -> None:
        self._rest = iter(given)

    def get_next(self) -> Any:
        """Inputs by name; None after the last ones."""
        return next(self._rest, None)


def quantised_graph(seed: int, number: int) -> QuantisedGraph:
    """A quantised graph that the seed and a number tell."""
    chance = random.Random(f"{seed} {number}")
    graph = _Graph(chance)
    first = chance.choice([_conv, _conv, _conv, _flattened, _activation])
    first(graph)
    for _ in range(chance.randint(1, 5)):
        if not graph.ends:
            chance.choice(IMAGES if len(graph.shape) == 4 else ROWS)(graph)
    if not graph.nodes or graph.nodes[-1].op_type in ("Split", "Slice", "Transpose"):
        graph.add("Relu", graph.value)
    plain = graph.model([graph.value])
    inputs = [
        {"x": graph.numbers.normal(0.3, 1, graph.shapes["x"]).astype("float32")} for _ in range(4)
    ]
    form = chance.choice(FORMS)
    given: dict[str, Any] = {"per_channel": chance.random() < 0.5}
    signed = chance.random() < 0.4
    weight = QuantType.QInt8 if signed or chance.random() < 0.5 else QuantType.QUInt8
    given["weight_type"] = weight
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "quantised.onnx"
        if form == "dynamic":
            quantize_dynamic(plain, path, **given)
        else:
            given["activation_type"] = QuantType.QInt8 if signed else QuantType.QUInt8
            given["quant_format"] = QuantFormat.QDQ if form == "qdq" else QuantFormat.QOperator
            given["extra_options"] = {
                "ActivationSymmetric": chance.random() < 0.3,
                "WeightSymmetric": weight == QuantType.QInt8 and chance.random() < 0.7,
            }
            quantize_static(plain, path, _Samples(inputs[:3]), **given)
        model = onnx.load(path)
    operators = [node.op_type for node in plain.graph.node]
    return QuantisedGraph(model=model, inputs=inputs[3], form=form, operators=operators, how=given)
