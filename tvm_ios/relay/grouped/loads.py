"""Loads of vectors of data for a depthwise or grouped convolution."""

from __future__ import annotations

from tvm import tir

from tvm_ios.kernels.elements import Elements
from tvm_ios.relay.grouped.geometry import Geometry

__all__ = ["value_of_groups"]


def value_of_groups(
    shape: Geometry, data: Elements, place: int, number: tir.PrimExpr | int
) -> tir.PrimExpr:
    """Input channel of some number in its group, for each element of a vector of results."""
    lanes = shape.vector
    if shape.is_depthwise:
        return data.vector(place, lanes)
    if shape.fills_vectors:
        return tir.Broadcast(data.element(place + number), lanes)
    span = lanes // shape.group_outputs * shape.group_inputs
    chosen = [
        tir.const(lane // shape.group_outputs * shape.group_inputs + int(number), "int32")
        for lane in range(lanes)
    ]
    # TVM shuffles no vector into a longer one.
    return tir.Shuffle([data.vector(place, span)] * -(-lanes // span), chosen)
