"""Models of one operator of onnxruntime's own domain, and what it computes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper

from tests.onnx.forms import normal_of, outputs_of

__all__ = ["model_of_runtime", "require_as_runtime"]


def model_of_runtime(
    op_type: str,
    values: Sequence[Any],
    *,
    domain: str = "com.microsoft",
    outputs: int = 1,
    constants: Sequence[int] = (),
    **attributes: Any,
) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """A model and its inputs; None is left out, and those at the places ``constants`` are told."""
    named = {f"x{place}": np.asarray(each) for place, each in enumerate(values) if each is not None}
    names = [f"x{place}" if each is not None else "" for place, each in enumerate(values)]
    made = [f"y{place}" for place in range(outputs)]
    node = helper.make_node(op_type, names, made, domain=domain, **attributes)
    weights = {f"x{place}": named.pop(f"x{place}") for place in constants}
    given = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape
        )
        for name, value in named.items()
    ]
    tensors = [onnx.numpy_helper.from_array(value, name) for name, value in weights.items()]
    results = [onnx.ValueInfoProto(name=name) for name in made]
    sets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph([node], "graph", given, results, tensors)
    return helper.make_model(graph, opset_imports=sets, ir_version=8), named


def require_as_runtime(
    model: onnx.ModelProto, inputs: dict[str, np.ndarray], *, rtol: float = 1e-3, atol: float = 1e-4
) -> onnx.ModelProto:
    """The normal form, which has operators of ONNX alone and computes what onnxruntime does."""
    made = normal_of(model, inputs)
    assert not any(each.domain for each in made.graph.node)
    wanted, found = (outputs_of(each, inputs, by="runtime") for each in (model, made))
    for one, other in zip(found, wanted, strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        np.testing.assert_allclose(one, other, rtol=rtol, atol=atol)
    return made
