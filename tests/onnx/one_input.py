"""Models of a few nodes on one input. No TVM."""

from __future__ import annotations

from onnx import TensorProto, helper, numpy_helper

__all__ = ["SHAPE", "model"]

SHAPE = (2, 3, 4, 4)


def model(*nodes, weights=None, opset=17, outputs=("y",), shape=SHAPE, functions=(), domains=()):
    """A model of some nodes on the input ``x``."""
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, ()) for name in outputs],
        [numpy_helper.from_array(value, name) for name, value in (weights or {}).items()],
    )
    sets = [helper.make_opsetid("", opset), *(helper.make_opsetid(name, 1) for name in domains)]
    return helper.make_model(graph, opset_imports=sets, ir_version=8, functions=functions)
