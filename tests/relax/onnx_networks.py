"""Networks in ONNX for tests of Relax."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="onnx is not installed")

__all__ = ["branches", "model_of", "value_of"]


def branches(units: int = 5, name: str = "x") -> Any:
    """Two convolutions and a pool of an input, joined, then a product with some units."""
    drawn = np.random.default_rng(0)
    make = onnx.helper

    def constant(name_, *shape):
        return onnx.numpy_helper.from_array(drawn.standard_normal(shape).astype("float32"), name_)

    variance = onnx.numpy_helper.from_array(np.full(4, 2, "float32"), "variance")
    weights = [constant("w1", 6, 8, 3, 3), constant("b1", 6), constant("w2", 4, 8, 1, 1)]
    norm = [constant("scale", 4), constant("shift", 4), constant("mean", 4), variance]
    last = [constant("w3", units, 18), constant("b3", units)]
    norm_names = [each.name for each in norm]
    nodes = [
        make.make_node("Conv", [name, "w1", "b1"], ["left"], pads=[1, 1, 1, 1]),
        make.make_node("Relu", ["left"], ["positive"]),
        make.make_node("Conv", [name, "w2"], ["right"]),
        make.make_node("BatchNormalization", ["right", *norm_names], ["normed"]),
        make.make_node("MaxPool", [name], ["pooled"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        make.make_node("Concat", ["positive", "normed", "pooled"], ["joined"], axis=1),
        make.make_node("GlobalAveragePool", ["joined"], ["averaged"]),
        make.make_node("Flatten", ["averaged"], ["flat"]),
        make.make_node("Gemm", ["flat", "w3", "b3"], ["y"], transB=1),
    ]
    return model_of(
        nodes, value_of(name, 1, 8, 10, 10), value_of("y", 1, units), [*weights, *norm, *last]
    )


def value_of(name: str, *shape: int) -> Any:
    """Type of a float32 value."""
    return onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)


def model_of(
    nodes: Sequence[Any], given: Any, result: Any, weights: Sequence[Any] = (), domain: str = ""
) -> Any:
    """Model of one input and one result, which may know another domain."""
    make = onnx.helper
    graph = make.make_graph(nodes, "net", [given], [result], weights)
    domains = {"": 17, **({domain: 1} if domain else {})}
    return make.make_model(
        graph, opset_imports=[make.make_opsetid(*each) for each in domains.items()]
    )
