"""Relay operators between numbers and the whole numbers that stand for them.

A quantised model computes in float32 on numbers that a few whole numbers can stand for. One
operator, ``tvm_ios.fake_quantize``, makes such numbers and hides nothing else from TVM: it is as
element-wise as a ReLU in every layout. Later ``quantize`` and ``dequantize`` stand at the edges of
fused functions that have whole numbers in memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tvm
from tvm import relay, te, topi
from tvm.relay.op import op as operators
from tvm.relay.transform.infer_layout_utils import InferCorrectLayoutOutput

from tvm_ios.core.precision.stored_type import FAKE_QUANTIZE, StoredType
from tvm_ios.kernels.whole_numbers import number_of, steps_of
from tvm_ios.relay.dataflow import is_call_of

__all__ = [
    "DEQUANTIZE",
    "FAKE_QUANTIZE",
    "QUANTIZE",
    "dequantize",
    "fake_quantize",
    "is_fake_quantize",
    "is_whole_weight",
    "quantize",
    "stored_type_of",
]

QUANTIZE = "tvm_ios.quantize"
"""Whole number nearest to a number."""
DEQUANTIZE = "tvm_ios.dequantize"
"""Number that a whole number stands for."""


def fake_quantize(value: relay.Expr, stored: StoredType) -> relay.Call:
    """Numbers of float32 nearest to those given that whole numbers stand for."""
    return _call(FAKE_QUANTIZE, value, stored)


def quantize(value: relay.Expr, stored: StoredType) -> relay.Call:
    """Whole numbers for numbers of float32; what is no number is the least one."""
    return _call(QUANTIZE, value, stored)


def dequantize(value: relay.Expr, stored: StoredType) -> relay.Call:
    """Numbers of float32 that whole numbers stand for."""
    return _call(DEQUANTIZE, value, stored)


def is_fake_quantize(expression: relay.Expr) -> bool:
    """True for a call of :data:`FAKE_QUANTIZE`."""
    return is_call_of(expression, FAKE_QUANTIZE)


def is_whole_weight(expression: relay.Expr) -> bool:
    """True for numbers that signed bytes stand for in memory: only weights of products are such."""
    return is_call_of(expression, DEQUANTIZE) and stored_type_of(expression).dtype == "int8"


def stored_type_of(call: relay.Call | tvm.ir.Attrs) -> StoredType:
    """Whole numbers that a call of one of the three operators, or its attributes, tell of."""
    attrs = call.attrs if isinstance(call, relay.Call) else call
    return StoredType(
        dtype=str(attrs["dtype"]), scale=float(attrs["scale"]), zero_point=int(attrs["zero_point"])
    )


def _call(name: str, value: relay.Expr, stored: StoredType) -> relay.Call:
    attrs = tvm.ir.make_node(
        "DictAttrs",
        dtype=stored.dtype,
        scale=tvm.tir.FloatImm("float32", float(np.float32(stored.scale))),
        zero_point=tvm.tir.IntImm("int32", stored.zero_point),
    )
    return relay.Call(relay.op.get(name), [value], attrs)


def _compute(name: str) -> Any:
    def element(value: Any, stored: StoredType) -> Any:
        if name == DEQUANTIZE:
            return number_of(value, stored)
        steps = steps_of(value, stored)
        if name == FAKE_QUANTIZE:
            return steps.astype("float32") * tvm.tir.const(stored.scale, "float32")
        return (steps + tvm.tir.const(stored.zero_point, "int32")).astype(stored.dtype)

    def compute(attrs: Any, inputs: Any, _type: Any) -> list[te.Tensor]:
        (data,), stored = inputs, stored_type_of(attrs)
        return [
            te.compute(
                data.shape,
                lambda *place: element(data(*place), stored),
                "T_steps",
                topi.tag.ELEMWISE,
            )
        ]

    return compute


def _relation(name: str) -> Any:
    def relation(types: Any, attrs: Any) -> tvm.ir.Type | None:
        (data,) = types
        if not isinstance(data, relay.TensorType):
            return None
        dtype = stored_type_of(attrs).dtype if name == QUANTIZE else "float32"
        return relay.TensorType(data.shape, dtype)

    return relation


def _layout(attrs: Any, new: Any, old: Any, _types: Any) -> InferCorrectLayoutOutput:
    layout = (new or old)[0]
    return InferCorrectLayoutOutput([layout], [layout], attrs)


def _register(name: str, description: str) -> None:
    operators.register(name, description)
    made = operators.get(name)
    made.set_num_inputs(1)
    made.add_argument("data", "Tensor", "Numbers, of any shape.")
    made.set_attrs_type_key("DictAttrs")
    made.add_type_rel(f"{name}_type", _relation(name))
    operators.register_pattern(name, operators.OpPattern.ELEMWISE)
    operators.register_compute(name, _compute(name))
    operators.register_injective_schedule(name)
    operators.register_infer_correct_layout(name, _layout)


for _name, _description in (
    (FAKE_QUANTIZE, "Numbers of float32 nearest to those given that whole numbers stand for."),
    (QUANTIZE, "Whole numbers nearest to numbers of float32."),
    (DEQUANTIZE, "Numbers of float32 that whole numbers stand for."),
):
    _register(_name, _description)
