"""Relax of ONNX: TVM's own importer on the normal form, which is a language that it gets right.

Shapes are known and constants folded there, and what TVM has no converter for is mostly gone. What
is left that TVM lacks, or gets wrong, is refused with the node. What TVM imports as kernels, of
which layouts and operator libraries know nothing, becomes operators here.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import onnx_ir as ir
import tvm
from tvm import relax
from tvm.relax.frontend.onnx import onnx_frontend

from tvm_ios.errors import ModelError
from tvm_ios.onnx.normal_form import REFUSED, STANDARD, described
from tvm_ios.onnx.values import constant, dtype_of, extents, is_static
from tvm_ios.relax.ir import Constant, main_of, static_tensors

__all__ = ["WRONG", "OperatorImporter", "import_onnx", "refusals"]


def _wrong_extreme(node: ir.Node) -> str:
    users = [user for user, _ in node.outputs[0].uses()]
    if not any(each.op_type == "IsInf" or _is_open(each) for each in users):
        return ""
    return "is compared with infinity, but TVM's extremes of infinities alone are finite numbers"


def _is_open(node: ir.Node) -> bool:
    """True if a node compares for equality, and nothing says that it is with a finite number."""
    known = [constant(each) for each in node.inputs]
    finite = any(each is not None and np.isfinite(each).all() for each in known)
    return bool(node.op_type == "Equal" and not finite)


def _wrong_remainder(node: ir.Node) -> str:
    divisor = constant(node.inputs[1])
    if not node.attributes.get_int("fmod", 0) or (
        divisor is not None and np.isfinite(divisor).all()
    ):
        return ""
    return "may divide by infinity, of which TVM makes NaN; make the divisor a finite constant"


WRONG: dict[str, Callable[[ir.Node], str]] = {
    "Mod": _wrong_remainder,
    "ReduceMax": _wrong_extreme,
    "ReduceMin": _wrong_extreme,
}
"""Operators that TVM's importer takes and may get wrong, each with what says why, if it does."""


def _clip(inputs: Sequence[relax.Expr | None]) -> relax.Expr | None:
    value, *bounds = inputs
    numbers = [each.value.numpy() for each in bounds if isinstance(each, Constant)]
    # In whole numbers, a bound of float64 would not be exact.
    if len(numbers) != 2 or numbers[0].dtype.kind != "f" or np.isnan(numbers).any():
        return None
    return relax.op.clip(value, *map(float, numbers))


def _maximum(inputs: Sequence[relax.Expr | None]) -> relax.Expr | None:
    return relax.op.maximum(*inputs) if len(inputs) == 2 else None


def _minimum(inputs: Sequence[relax.Expr | None]) -> relax.Expr | None:
    return relax.op.minimum(*inputs) if len(inputs) == 2 else None


OPERATORS: dict[str, Callable[[Sequence[relax.Expr | None]], relax.Expr | None]] = {
    "Clip": _clip,
    "Max": _maximum,
    "Min": _minimum,
}
"""Operators that TVM's importer makes kernels of, each with what makes an operator of Relax of its
inputs, or None where TVM's converter is right."""


class OperatorImporter(onnx_frontend.ONNXGraphImporter):  # type: ignore[misc]
    """TVM's importer with our converters in front of its own."""

    def _convert_operator(
        self, op_name: str, inputs: Sequence[relax.Expr | None], attrs: dict[str, Any], opset: int
    ) -> relax.Expr:
        made = OPERATORS[op_name](inputs) if op_name in OPERATORS else None
        if made is not None:
            return self.bb.normalize(made)
        return super()._convert_operator(op_name, inputs, attrs, opset)


def import_onnx(name: str, model: ir.Model) -> tvm.IRModule:
    """A module whose constants are the model's weights, and no parameters.

    ``name`` is the file, with which messages begin. The model is in the normal form.

    Raises
    ------
    ModelError
        If TVM's importer lacks an operator or gets it wrong; the message names the node.
    """
    for message in refusals(name, model).values():
        raise ModelError(f"{name}: {message}")
    try:
        with warnings.catch_warnings():
            # It prints what onnx says of nodes that the file had all along.
            warnings.simplefilter("ignore")
            importer = OperatorImporter({}, "float32", sanitize=False)
            module = importer.from_onnx(ir.to_proto(model.graph), model.opset_imports[""])
    # What is wrong in a converter of TVM's ends in any error of Python.
    except Exception as error:
        said = " ".join(str(error).split()) or "no reason"
        raise ModelError(
            f"{name}: TVM's importer of ONNX for Relax says: {type(error).__name__}: {said[:300]}; "
            "save the model without that, or tune it in Relay (--dialect relay)"
        ) from error
    _require_types(name, model, module)
    return module


def refusals(name: str, model: ir.Model) -> dict[ir.Node, str]:
    """Nodes that cannot be imported, and messages that name them, but not the file."""
    del name  # Relay's importer tells it
    reasons = {node: _why_not(node) for node in model.graph}
    return {node: f"{described(node)} {reason}" for node, reason in reasons.items() if reason}


def _why_not(node: ir.Node) -> str:
    """Reason to refuse a node; empty for one that TVM's importer takes, or refuses itself."""
    if REFUSED in node.meta:
        return str(node.meta[REFUSED])
    if node.domain not in STANDARD:
        return (
            f"is of the domain {node.domain!r}, which is not known; save the model with operators "
            "of ONNX alone"
        )
    if not all(is_static(value) for value in node.outputs if value.name):
        return (
            "gives a result whose shape only values tell, and compiled code has static shapes; end "
            "the model before it"
        )
    if node.op_type not in _converters():
        return "is no operator that TVM's importer of ONNX for Relax knows; end the model before it"
    wrong = WRONG[node.op_type](node) if node.op_type in WRONG else ""
    return f"{wrong}; or tune the model in Relay (--dialect relay)" if wrong else ""


@cache
def _converters() -> Mapping[str, object]:
    """Converters of TVM's importer, by operator."""
    converters: Mapping[str, object] = onnx_frontend._get_convert_map()  # noqa: SLF001 - no other
    return converters


def _require_types(name: str, model: ir.Model, module: tvm.IRModule) -> None:
    """Refuse a module whose results are not of the types that onnx gives them."""
    main = main_of(module)
    assert main is not None, "from_onnx makes a main"
    found = static_tensors(main.ret_ty)
    wanted = [(extents(value), str(dtype_of(value))) for value in model.graph.outputs]
    if found is None or [(each.shape, each.dtype) for each in found] != wanted:
        raise ModelError(
            f"{name}: TVM's importer of ONNX for Relax makes results of the types {main.ret_ty}, "
            f"and onnx says {wanted}; tune the model in Relay (--dialect relay)"
        )
