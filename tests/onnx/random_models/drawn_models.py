"""Random models that onnxruntime runs, with inputs and what it makes of them."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from tests.onnx.forms import outputs_of
from tests.onnx.random_models.drawing import FIRST_OPSET, LAST_OPSET, RECIPES, Drawing, Undrawable
from tests.onnx.random_models.nearness import difference
from tests.onnx.random_models.shaking import shaken, shaken_model

__all__ = ["DrawnModel", "drawn_model"]

_MOST_DRAWS = 30
_LARGEST = 1e5
"""Absolute value above which a model is drawn anew: of large numbers, runtimes differ,
and whole ones have no place."""
_INVALID = (onnx.shape_inference.InferenceError, onnx.checker.ValidationError, ValueError)


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnModel:
    """A model with inputs, and the outputs that onnxruntime computes of them."""

    model: onnx.ModelProto
    inputs: Mapping[str, np.ndarray]
    outputs: Sequence[np.ndarray]

    @property
    def opset(self) -> int:
        """Version of ONNX's operators."""
        return int(self.model.opset_import[0].version)

    @property
    def operators(self) -> list[str]:
        """Operators of all nodes, in order."""
        return [node.op_type for node in self.model.graph.node]

    def as_text(self) -> str:
        """The model's nodes, in onnx's language."""
        return str(onnx.printer.to_text(self.model))[:3000]


def drawn_model(chance: random.Random, first: str) -> DrawnModel | None:
    """A model whose first nodes are by a recipe; None where onnxruntime runs none of some."""
    recipe = RECIPES[first]
    low, high = max(recipe.since, FIRST_OPSET), min(recipe.until, LAST_OPSET)
    for _ in range(_MOST_DRAWS):
        graph = Drawing(chance, chance.randint(low, high))
        try:
            graph.draw(first)
            for _ in range(chance.choice([0, 0, 1, 2, 4, 9])):
                _extend(graph)
            made = _judged_by_runtime(graph)
        except (Undrawable, *_INVALID):
            continue
        if made is not None:
            return made
    return None


def _extend(graph: Drawing) -> None:
    """Add nodes of any recipe, where they can be drawn."""
    before, known = len(graph.nodes), dict(graph.known)
    try:
        graph.draw(graph.chance.choice(sorted(RECIPES)))
    except Undrawable:
        del graph.nodes[before:]
        graph.known = known


def _judged_by_runtime(graph: Drawing) -> DrawnModel | None:
    used = {name for node in graph.nodes for name in node.input} | graph.captured
    inputs = {name: value for name, value in graph.inputs.items() if name in used}
    graph.inputs = inputs
    graph.constants = {name: value for name, value in graph.constants.items() if name in used}
    made = [name for node in graph.nodes for name in node.output]
    values = _values_by_runtime(graph.model(made), inputs)
    values = {name: each for name, each in values.items() if name not in graph.hidden}
    if not values or not all(map(_is_moderate, values.values())):
        return None
    moved = _values_by_runtime(
        shaken_model(graph.model(made), values, graph.numbers),
        {name: shaken(value, graph.numbers) for name, value in inputs.items()},
    )
    if any(name not in moved or difference(moved[name], values[name]) for name in values):
        return None
    shown = [name for name in values if name not in used or graph.chance.random() < 0.2]
    if not shown:
        return None
    model = graph.model(shown, values)
    onnx.checker.check_model(model)
    return DrawnModel(model=model, inputs=inputs, outputs=[values[name] for name in shown])


def _values_by_runtime(
    model: onnx.ModelProto, inputs: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Tensors that onnxruntime gives, by name; none where it does not run a model."""
    try:
        outputs = outputs_of(model, inputs, by="runtime")
    except Exception:  # noqa: BLE001 - what onnxruntime does not run is no model for us
        return {}
    named = zip((value.name for value in model.graph.output), outputs, strict=True)
    return {name: value for name, value in named if isinstance(value, np.ndarray)}


def _is_moderate(value: Any) -> bool:
    if not value.size:
        return False
    if value.dtype.kind not in "fiu":
        return True
    return bool((np.abs(value.astype("float64")) < _LARGEST).all())
