"""Models of ONNX by TVM's own importer."""

from __future__ import annotations

import numpy as np
import pytest
import tvm

import tvm_ios
from tests.relax.networks import TARGET
from tvm_ios.passes import ScheduleOperators

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")


def branches():
    """Two convolutions and a pool, joined, then a product."""
    drawn = np.random.default_rng(0)
    make = onnx.helper

    def constant(name, *shape):
        return onnx.numpy_helper.from_array(drawn.standard_normal(shape).astype("float32"), name)

    def value(name, *shape):
        return make.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)

    variance = onnx.numpy_helper.from_array(np.full(4, 2, "float32"), "variance")
    weights = [constant("w1", 6, 8, 3, 3), constant("b1", 6), constant("w2", 4, 8, 1, 1)]
    norm = [constant("scale", 4), constant("shift", 4), constant("mean", 4), variance]
    last = [constant("w3", 5, 18), constant("b3", 5)]
    names = [each.name for each in norm]
    nodes = [
        make.make_node("Conv", ["x", "w1", "b1"], ["left"], pads=[1, 1, 1, 1]),
        make.make_node("Relu", ["left"], ["positive"]),
        make.make_node("Conv", ["x", "w2"], ["right"]),
        make.make_node("BatchNormalization", ["right", *names], ["normed"]),
        make.make_node("MaxPool", ["x"], ["pooled"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        make.make_node("Concat", ["positive", "normed", "pooled"], ["joined"], axis=1),
        make.make_node("GlobalAveragePool", ["joined"], ["averaged"]),
        make.make_node("Flatten", ["averaged"], ["flat"]),
        make.make_node("Gemm", ["flat", "w3", "b3"], ["y"], transB=1),
    ]
    graph = make.make_graph(
        nodes, "net", [value("x", 1, 8, 10, 10)], [value("y", 1, 5)], [*weights, *norm, *last]
    )
    return make.make_model(graph, opset_imports=[make.make_opsetid("", 17)])


def test_a_model_of_onnx():
    model = branches()
    value = np.random.default_rng(1).standard_normal((1, 8, 10, 10)).astype("float32")
    from tvm.relax.frontend.onnx import from_onnx

    mod = from_onnx(model, keep_params_in_input=False)
    with tvm.transform.PassContext(opt_level=3):
        staged = ScheduleOperators(target=TARGET, scheduler="greedy")(mod)
    with tvm_ios.compile_schedule(staged, target=TARGET).executor() as executor:
        executor.run(x=value)
        found = executor.get_output(0).numpy()
    session = onnxruntime.InferenceSession(model.SerializeToString())
    np.testing.assert_allclose(found, session.run(None, {"x": value})[0], rtol=1e-4, atol=1e-5)
