"""Operators of graphs without a model, and one small convolution."""

from __future__ import annotations

from typing import Any

from tvm_ios.core.graph import Convolution, Operator

__all__ = ["CONV", "op"]

CONV = Convolution(
    operand="x",
    plain_operand=True,
    input_shape=(4, 8, 8),
    out_channels=4,
    kernel=(1, 1),
    strides=(1, 1),
    padding=(0, 0, 0, 0),
    epilogue="relu",
)


def op(name: str, *predecessors: int, **fields: Any) -> Operator:
    """Operator that reads the outputs of others; by itself its workload is its name."""
    return Operator(
        name=name, predecessors=predecessors, **{"kind": "k", "workload": name} | fields
    )
