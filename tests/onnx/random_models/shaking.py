"""Models whose real numbers are moved a little, which tell whether a result hangs on rounding."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
from onnx import helper, numpy_helper

__all__ = ["shaken", "shaken_model"]

_PARTS = {"float16": 1e-3}
_USUAL = 1e-6
"""Part of the largest number by which each is moved, about that by which runtimes differ."""


def shaken(value: np.ndarray, numbers: np.random.Generator) -> np.ndarray:
    """An array whose real numbers are moved."""
    if value.dtype.kind != "f":
        return value
    moves = numbers.uniform(-1, 1, value.shape) * _PARTS.get(value.dtype.name, _USUAL)
    return (value * (1 + moves)).astype(value.dtype)


def shaken_model(
    model: onnx.ModelProto, values: Mapping[str, np.ndarray], numbers: np.random.Generator
) -> onnx.ModelProto:
    """A model that adds something to each of these values, in an ``Add`` behind its node."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    del made.graph.node[:]
    for node in model.graph.node:
        moved = made.graph.node.add()
        moved.CopyFrom(node)
        for place, name in enumerate(node.output):
            value = values.get(name)
            if value is None or value.dtype.kind != "f":
                continue
            moved.output[place] = f"{name}_exact"
            size = _PARTS.get(value.dtype.name, _USUAL) * np.max(np.abs(value), initial=0.01)
            noise = np.asarray(numbers.uniform(-size, size, value.shape)).astype(value.dtype)
            noise = np.where((value != 0) & (np.abs(value) < size), -value, noise)
            made.graph.initializer.append(numpy_helper.from_array(noise, f"{name}_noise"))
            made.graph.node.append(
                helper.make_node("Add", [f"{name}_exact", f"{name}_noise"], [name])
            )
    return made
