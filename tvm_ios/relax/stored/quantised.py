"""Quantised models before fusing: models of float32 in which some numbers are rounded.

What a kernel rounds, it says in its attribute ``tvm_ios_rounds``, and in its note as the operator
``tvm_ios.fake_quantize``. After fusing, :mod:`tvm_ios.relax.stored.whole_numbers` keeps such
numbers in memory as the whole numbers that stand for them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from tvm_ios.core.precision.stored_type import LIMITS, StoredType
from tvm_ios.core.precision.whole_steps import steps_of_weights
from tvm_ios.relax.ir import Constant, call_name, main_of, operator_calls, static_tensors

__all__ = ["in_numbers", "is_quantised", "stored_type_of"]

QUANTIZE, DEQUANTIZE = "relax.quantize", "relax.dequantize"
MOVES = frozenset(
    f"relax.{name}"
    for name in ("expand_dims", "flatten", "nn.max_pool2d", "permute_dims", "reshape", "squeeze")
)
"""Operators of one tensor whose results are some of its elements."""
CHANNELS = {"relax.nn.conv2d": 0, "relax.matmul": 1}
"""Axis of output channels in the weights of products, which have two of matrices."""


def is_quantised(module: tvm.IRModule) -> bool:
    """True if there are numbers that whole ones stand for."""
    main = main_of(module)
    return main is not None and any(
        call_name(call) in (QUANTIZE, DEQUANTIZE) for call in operator_calls(main)
    )


def in_numbers(*, products: bool) -> tvm.transform.Pass:
    """Pass in which whole numbers that are only moved are the numbers that they stand for.

    With ``products``, weights that are whole numbers of steps are these numbers, and the products
    by them are multiplied by the steps of each output channel.
    """

    def run(module: tvm.IRModule, _context: tvm.transform.PassContext) -> tvm.IRModule:
        for variable, function in module.functions_items():
            if isinstance(function, relax.Function):
                changed = _Numbers(module, products=products).visit_expr(function)
                module.update_func(variable, changed)
        return module

    return tvm.transform.module_pass(run, opt_level=0, name="InNumbers")


def stored_type_of(call: relax.Call) -> StoredType | None:
    """Whole numbers of one constant scale that a call makes or reads; None of others."""
    scale, zero = (
        each.value.numpy() if isinstance(each, Constant) else None for each in call.args[1:3]
    )
    if scale is None or zero is None or (scale.size, zero.size) != (1, 1):
        return None
    makes = call_name(call) == QUANTIZE
    whole, real = (call, call.args[0]) if makes else (call.args[0], call)
    found, numbers = static_tensors(whole.ty), static_tensors(real.ty)
    if not found or not numbers or found[0].dtype not in LIMITS or numbers[0].dtype != "float32":
        return None
    step = float(scale.item())
    if not step or not math.isfinite(1 / step):
        return None
    return StoredType(dtype=found[0].dtype, scale=step, zero_point=int(zero.item()))


@mutator
class _Numbers(PyExprMutator):  # type: ignore[misc]
    def __init__(self, module: tvm.IRModule, *, products: bool) -> None:
        super().__init__(module)
        self._products = products

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = self.visit_expr_post_order(call)
        name = call_name(call)
        if name == DEQUANTIZE and (stored := stored_type_of(call)) is not None:
            made = self._number(call.args[0], stored, list(call.args[1:]), call.attrs)
            return call if made is None else made
        if self._products and name in CHANNELS:
            made = self._multiplied(call)
            return call if made is None else made
        return call

    def _bound(self, value: relax.Expr) -> relax.Call | None:
        found = value
        while isinstance(found, relax.Var):
            found = self.builder_.lookup_binding(found)
        return found if isinstance(found, relax.Call) else None

    def _number(
        self, whole: relax.Expr, stored: StoredType, given: list[relax.Expr], attributes: Any
    ) -> relax.Expr | None:
        """Numbers that whole numbers stand for, made where these were; None of other ones."""
        made = self._bound(whole)
        if made is None:
            return None
        if call_name(made) == QUANTIZE and stored_type_of(made) == stored:
            if self._stored_of(made.args[0]) == stored:
                return made.args[0]  # rounded before, and only moved since
            return relax.Call(tvm.ir.Op.get(DEQUANTIZE), [whole, *given], attributes)
        if call_name(made) not in MOVES:
            return None
        source = self._number(made.args[0], stored, given, attributes)
        if source is None:
            return None
        return relax.Call(made.op, [self.builder_.emit(source), *made.args[1:]], made.attrs)

    def _multiplied(self, call: relax.Call) -> relax.Expr | None:
        """Product by whole numbers of steps; None where weights are none, or data is no byte's."""
        data, weight = call.args[:2]
        if not isinstance(weight, Constant) or self._stored_of(data) is None:
            return None
        values = weight.value.numpy()
        is_matrix = call_name(call) == "relax.matmul"
        if (is_matrix and values.ndim != 2) or str(values.dtype) != "float32":
            return None
        if not is_matrix and (call.attrs.kernel_layout, call.attrs.data_layout) != ("OIHW", "NCHW"):
            return None
        found = steps_of_weights(values, (CHANNELS[call_name(call)],))
        if found is None or found[0].min() < -128 or found[0].max() > 127:
            return None
        steps, scales = found
        given = [data, relax.const(steps.astype("float32")), *call.args[2:]]
        product = self.builder_.emit(relax.Call(call.op, given, call.attrs))
        shape = (-1,) if is_matrix else (1, -1, 1, 1)
        factors = relax.const(np.ascontiguousarray(scales.reshape(shape)))
        return relax.op.multiply(product, factors)

    def _stored_of(self, value: relax.Expr) -> StoredType | None:
        """Whole numbers that stand for numbers, as far as few operators tell; None of others."""
        made = self._bound(value)
        while made is not None and call_name(made) in MOVES:
            made = self._bound(made.args[0])
        is_number = made is not None and call_name(made) == DEQUANTIZE
        return stored_type_of(made) if is_number else None
