"""Small models in ONNX for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["two_ways", "write_two_ways"]


def two_ways(*, batch: str | int = "batch") -> Any:
    """Two convolutions of ``x``, with slopes below zero, joined; the batch is open."""
    from onnx import TensorProto, helper, numpy_helper

    random = np.random.default_rng(0)

    def weights(name: str, *shape: int) -> Any:
        return numpy_helper.from_array(random.standard_normal(shape).astype("float32"), name)

    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "left"], ["a"], name="left"),
            helper.make_node("Conv", ["x", "right"], ["b"], name="right", pads=[1, 1, 1, 1]),
            helper.make_node("PRelu", ["b", "slope"], ["c"], name="bend"),
            helper.make_node("Concat", ["a", "c"], ["y"], name="join", axis=1),
        ],
        "two_ways",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (batch, 8, 6, 6))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (batch, 24, 6, 6))],
        [weights("left", 8, 8, 1, 1), weights("right", 16, 8, 3, 3), weights("slope", 16, 1, 1)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def write_two_ways(folder: Path, *, batch: str | int = "batch") -> Path:
    """The file of :func:`two_ways`."""
    path = folder / "two.ways.onnx"
    path.write_bytes(two_ways(batch=batch).SerializeToString())
    return path
