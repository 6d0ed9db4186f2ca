"""Verdicts on random models: right, refused with a reason, wrong, or worse."""

from __future__ import annotations

import multiprocessing
import random
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Self

import numpy as np
import onnx
import onnx_ir as ir

from tests.onnx.forms import outputs_of
from tests.onnx.random_models.drawing import RECIPES, Drawing, Undrawable
from tvm_ios.errors import TvmIosError
from tvm_ios.onnx.normal_form import normalised

__all__ = ["Verdict", "compiled_verdicts", "drawn", "normal_verdict"]

Case = tuple[onnx.ModelProto, Mapping[str, np.ndarray], Sequence[np.ndarray]]
"""A model, its inputs, and what onnxruntime makes of them."""

_LARGEST = 1e5
"""Absolute value above which a model is drawn anew: of large numbers, runtimes differ,
and whole ones have no place."""
_QUANTISED = ("DynamicQuantizeLinear", "QLinearConv", "QLinearMatMul", "QuantizeLinear")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Finding about one model."""

    kind: str
    """``right``, ``refused``, ``wrong``, ``raw`` for an error that is none of ours, ``crash``."""
    reason: str = ""
    text: str = ""
    """The model, as text."""

    @classmethod
    def of_outputs(
        cls, found: Sequence[Any], wanted: Sequence[Any], text: str, *, exact: bool
    ) -> Self:
        """Right where all outputs are near what they should be."""
        for one, other in zip(found, wanted, strict=True):
            reason = _difference(np.asarray(one), np.asarray(other), exact=exact)
            if reason:
                return cls(kind="wrong", reason=reason, text=text)
        return cls(kind="right")


def _difference(one: np.ndarray, other: np.ndarray, *, exact: bool) -> str:
    if (one.dtype, one.shape) != (other.dtype, other.shape):
        return f"{one.dtype}{one.shape} in place of {other.dtype}{other.shape}"
    if other.dtype.kind == "f":
        scale = float(np.max(np.abs(other), initial=0.1))
        near = np.allclose(one, other, rtol=2e-3, atol=1e-4 * scale, equal_nan=True)
    elif exact or other.dtype == bool:
        near = np.array_equal(one, other)
    else:
        near = bool((np.abs(one.astype("int64") - other.astype("int64")) <= 1).all())
    return "" if near else f"{one.ravel()[:8]} in place of {other.ravel()[:8]}"


def drawn(chance: random.Random, first: str) -> Case | None:
    """A model whose first node is of an operator; None where onnxruntime runs none of some."""
    for _ in range(20):
        graph = Drawing(chance, chance.randint(7, 23))
        try:
            RECIPES[first](graph)
            for _ in range(chance.choice([0, 0, 1, 2, 4, 9])):
                _extend(graph)
        except (Undrawable, onnx.shape_inference.InferenceError, ValueError):
            continue
        case = _judged_by_runtime(graph)
        if case is not None:
            return case
    return None


def _extend(graph: Drawing) -> None:
    """Add a node of any operator, where it can be drawn."""
    before = len(graph.nodes)
    try:
        RECIPES[graph.chance.choice(sorted(RECIPES))](graph)
    except Undrawable:
        del graph.nodes[before:]


def _judged_by_runtime(graph: Drawing) -> Case | None:
    used = {name for node in graph.nodes for name in node.input}
    graph.inputs = {name: value for name, value in graph.inputs.items() if name in used}
    graph.constants = {name: value for name, value in graph.constants.items() if name in used}
    made = [name for node in graph.nodes for name in node.output]
    whole = onnx.shape_inference.infer_shapes(graph.model(made), data_prop=True)
    try:
        onnx.checker.check_model(whole)
        values = dict(zip(made, outputs_of(whole, graph.inputs, by="runtime"), strict=True))
    except Exception:  # noqa: BLE001 - what onnxruntime does not run is no model for us
        return None
    if not all(_is_moderate(value) for value in values.values()):
        return None
    shown = [name for name in made if name not in used or graph.chance.random() < 0.2]
    model = onnx.shape_inference.infer_shapes(graph.model(shown), data_prop=True)
    return model, graph.inputs, [values[name] for name in shown]


def _is_moderate(value: Any) -> bool:
    if not isinstance(value, np.ndarray) or not value.size:
        return False
    if value.dtype.kind not in "fiu":
        return True
    return bool((np.abs(value.astype("float64")) < _LARGEST).all())


def _is_exact(model: onnx.ModelProto) -> bool:
    return not any(node.op_type in _QUANTISED for node in model.graph.node)


def _text_of(model: onnx.ModelProto) -> str:
    return onnx.printer.to_text(model)[:3000]


def normal_verdict(
    model: onnx.ModelProto, inputs: Mapping[str, np.ndarray], wanted: Sequence[np.ndarray]
) -> Verdict:
    """Whether onnxruntime computes the same of a model's normal form."""
    text = _text_of(model)
    try:
        shapes = {name: value.shape for name, value in inputs.items()}
        made = ir.to_proto(normalised(ir.from_proto(model), shapes))
        onnx.checker.check_model(made, full_check=True)
        found = _computed(made, inputs)
    except TvmIosError as error:
        return Verdict(kind="refused", reason=_reason(error), text=text)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is no refusal of ours
        return Verdict(kind="raw", reason=f"{type(error).__name__}: {_reason(error)}", text=text)
    return Verdict.of_outputs(found, wanted, text, exact=_is_exact(model))


def _computed(model: onnx.ModelProto, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """Outputs by onnxruntime; by onnx's reference where it takes no pads as wide as the window."""
    try:
        return outputs_of(model, inputs, by="runtime")
    except Exception as error:
        if "PoolAttributes" not in str(error):
            raise
        return outputs_of(model, inputs, by="reference")


def _reason(error: Exception) -> str:
    return (str(error).strip().splitlines() or [""])[0][:300]


def compiled_verdicts(cases: Sequence[Case]) -> list[Verdict]:
    """Whether models that are imported and compiled compute the same, in processes of their own."""
    context = multiprocessing.get_context("spawn")
    made: list[Verdict] = []
    while len(made) < len(cases):
        ours, theirs = context.Pipe(duplex=False)
        left = [(case[0].SerializeToString(), *case[1:]) for case in cases[len(made) :]]
        worker = context.Process(target=_work, args=(left, theirs))
        worker.start()
        theirs.close()
        try:
            while True:
                made.append(ours.recv())
        except EOFError:
            worker.join()
        if len(made) < len(cases):
            text = _text_of(cases[len(made)][0])
            made.append(Verdict(kind="crash", reason=f"status {worker.exitcode}", text=text))
    return made


def _work(cases: Sequence[tuple[bytes, Any, Any]], results: Connection) -> None:
    warnings.simplefilter("ignore")
    for content, inputs, wanted in cases:
        results.send(_compiled(onnx.ModelProto.FromString(content), inputs, wanted))


def _compiled(
    model: onnx.ModelProto, inputs: Mapping[str, np.ndarray], wanted: Sequence[np.ndarray]
) -> Verdict:
    import tvm_ios

    text = _text_of(model)
    try:
        shapes = {name: value.shape for name, value in inputs.items()}
        mod, params = tvm_ios.from_onnx(model, shapes)
        compiled = tvm_ios.compile_schedule(mod, params, "llvm -opt-level=0", lanes=1)
        with compiled.executor() as executor:
            taken = {entry.name for entry in executor.plan.inputs}
            executor.run(**{name: value for name, value in inputs.items() if name in taken})
            found = [executor.get_output(place).numpy() for place in range(len(wanted))]
    except TvmIosError as error:
        return Verdict(kind="refused", reason=_reason(error), text=text)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is no refusal of ours
        return Verdict(kind="raw", reason=f"{type(error).__name__}: {_reason(error)}", text=text)
    return Verdict.of_outputs(found, wanted, text, exact=_is_exact(model))
