"""Relay operator for products of rows by a matrix that lies packed, in blocks with scales.

It takes the place of a dense layer whose constant weights are whole numbers of steps, and whose
data are any numbers of float32: the weights stay bytes, and become numbers in registers.
"""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relay, te
from tvm.relay.op import op as operators

from tvm_ios.kernels.packed_products import Packing

__all__ = ["PACKED_DENSE", "packed_dense", "packing_of"]

PACKED_DENSE = "tvm_ios.packed_dense"
"""Product of rows by packed weights less zero points, times scales."""


def packed_dense(
    data: relay.Expr,
    weight: relay.Expr,
    scales: relay.Expr,
    zeros: relay.Expr | None = None,
    *,
    packing: Packing,
) -> relay.Call:
    """Product of float32 of rows by weights.

    Parameters
    ----------
    data
        Rows, ``(..., inputs)``.
    weight
        Steps from zero points, ``(panels, inputs, panel)``.
    scales
        Numbers that a step stands for, ``(blocks, panels * panel)``.
    zeros
        Zero points, in steps, of the shape of the scales; None where all are 0.
    """
    attrs = tvm.ir.make_node(
        "DictAttrs", **{name: tvm.tir.IntImm("int32", getattr(packing, name)) for name in _FIELDS}
    )
    given = [data, weight, scales] if zeros is None else [data, weight, scales, zeros]
    return relay.Call(relay.op.get(PACKED_DENSE), given, attrs)


_FIELDS = ("outputs", "panel", "block")


def packing_of(attrs: tvm.ir.Attrs) -> Packing:
    """Packing that the attributes of a call tell."""
    return Packing(**{name: int(attrs[name]) for name in _FIELDS})


def _relation(types: Any, attrs: Any) -> tvm.ir.Type | None:
    data = types[0]
    if not isinstance(data, relay.TensorType):
        return None
    return relay.TensorType([*data.shape[:-1], packing_of(attrs).outputs], "float32")


def _compute(attrs: Any, inputs: Any, type_: Any) -> list[te.Tensor]:
    """Loops that TVM may schedule where no kernel of ours does: correct, and slow."""
    packing = packing_of(attrs)
    data, weight, scales, *zeros = inputs
    term = te.reduce_axis((0, data.shape[-1]), "term")

    def element(*place: Any) -> Any:
        *row, column = place
        step = weight[column // packing.panel, term, column % packing.panel]
        if zeros:
            step = step - zeros[0][term // packing.block, column]
        return te.sum(data[(*row, term)] * step * scales[term // packing.block, column], [term])

    return [te.compute(type_.shape, element, "T_packed_dense")]


def _register() -> None:
    operators.register(PACKED_DENSE, "Product of rows by packed weights, in blocks with scales.")
    made = operators.get(PACKED_DENSE)
    made.set_num_inputs(-1)
    for name in ("data", "weight", "scales"):
        made.add_argument(name, "Tensor", "Numbers of float32.")
    made.set_attrs_type_key("DictAttrs")
    made.add_type_rel(f"{PACKED_DENSE}_type", _relation)
    operators.register_pattern(PACKED_DENSE, operators.OpPattern.OUT_ELEMWISE_FUSABLE)
    operators.register_compute(PACKED_DENSE, _compute)
    operators.register_injective_schedule(PACKED_DENSE)


_register()
