"""Verdicts on random models, in their normal form and compiled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from tests.onnx.forms import outputs_of
from tests.onnx.random_models.drawn_models import DrawnModel
from tests.onnx.random_models.nearness import difference
from tvm_ios.errors import TvmIosError
from tvm_ios.onnx.normal_form import normalised

__all__ = ["BAD", "Verdict", "verdict_of"]

BAD = ("wrong", "raw", "crash")
"""Kinds of verdicts that are mistakes of ours."""
_QUANTISED = ("DynamicQuantizeLinear", "QLinearConv", "QLinearMatMul", "QuantizeLinear")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Finding about one model."""

    kind: str
    """``right``, ``refused``, ``wrong``, ``raw`` for an error that is none of ours, ``crash``;
    ``undrawn`` where onnxruntime ran none of the models."""
    reason: str = ""
    operators: Sequence[str] = ()
    text: str = ""
    """The model, as text."""


def verdict_of(drawn: DrawnModel) -> Verdict:
    """Whether the normal form of a model, and the compiled model, compute the same."""
    shapes = {name: value.shape for name, value in drawn.inputs.items()}
    try:
        made = _by_normal_form(drawn, shapes)
        reason = _difference(drawn, made) if made else ""
        where = "normal form: "
        if not reason:
            reason, where = _difference(drawn, _compiled(drawn, shapes)), "compiled: "
        kind = "wrong" if reason else "right"
    except TvmIosError as error:
        kind, where, reason = "refused", "", _line_of(error)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is no refusal of ours
        kind, where, reason = "raw", f"{type(error).__name__}: ", _line_of(error)
    return Verdict(kind=kind, reason=where + reason if reason else "", operators=drawn.operators)


def _difference(drawn: DrawnModel, found: Sequence[Any]) -> str:
    steps = int(any(operator in _QUANTISED for operator in drawn.operators))
    for one, other in zip(found, drawn.outputs, strict=True):
        reason = difference(np.asarray(one), np.asarray(other), steps=steps)
        if reason:
            return reason
    return ""


def _by_normal_form(drawn: DrawnModel, shapes: Mapping[str, Sequence[int]]) -> list[np.ndarray]:
    """Outputs by onnxruntime; by onnx's reference where it lacks a type, or wide pads.

    Nothing where neither has them: the reference fails at groups of transposed convolutions.
    """
    made = ir.to_proto(normalised(ir.from_proto(drawn.model), shapes))
    onnx.checker.check_model(made, full_check=True)
    try:
        return outputs_of(made, drawn.inputs, by="runtime")
    except Exception as error:
        if "PoolAttributes" not in str(error) and "NOT_IMPLEMENTED" not in str(error):
            raise
        try:
            return outputs_of(made, drawn.inputs, by="reference")
        except ValueError:
            if "ConvTranspose" not in {node.op_type for node in made.graph.node}:
                raise
            return []


def _compiled(drawn: DrawnModel, shapes: Mapping[str, Sequence[int]]) -> list[np.ndarray]:
    import tvm_ios

    mod, params = tvm_ios.from_onnx(drawn.model, shapes)
    compiled = tvm_ios.compile_schedule(mod, params, "llvm -opt-level=0", lanes=1)
    with compiled.executor() as executor:
        taken = {entry.name for entry in executor.plan.inputs}
        executor.run(**{name: value for name, value in drawn.inputs.items() if name in taken})
        return [executor.get_output(place).numpy() for place in range(len(drawn.outputs))]


def _line_of(error: Exception) -> str:
    return (str(error).strip().splitlines() or [""])[0][:300]
