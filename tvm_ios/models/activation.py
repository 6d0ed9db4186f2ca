"""Activations of the benchmark networks, in the operators that TVM has for them."""

from __future__ import annotations

import math
from enum import Enum
from typing import Any

from tvm_ios.models.operators import op
from tvm_ios.models.weights import named

__all__ = ["Activation", "activated"]


class Activation(Enum):
    """Function of each element after a convolution or a product of matrices."""

    NONE = "none"
    RELU = "relu"
    RELU6 = "relu6"
    """Rectifier that ends at 6."""
    HARD_SIGMOID = "hard_sigmoid"
    """``relu6(x + 3) / 6``."""
    HARD_SWISH = "hard_swish"
    """``x * relu6(x + 3) / 6`` (Howard et al., "Searching for MobileNetV3", ICCV 2019)."""
    GELU = "gelu"
    """``x * (1 + erf(x / sqrt(2))) / 2``, exact (Hendrycks and Gimpel, 2016)."""


def activated(unit: str, operand: Any, activation: Activation) -> Any:
    """Activation of a float32 tensor; every call is named after the unit."""
    match activation:
        case Activation.NONE:
            return operand
        case Activation.RELU:
            return named(unit, op.nn.relu(operand))
        case Activation.RELU6:
            return named(unit, op.clip(operand, 0.0, 6.0))
        case Activation.HARD_SIGMOID:
            return _hard_sigmoid(unit, operand)
        case Activation.HARD_SWISH:
            return named(unit, op.multiply(operand, _hard_sigmoid(unit, operand)))
        case Activation.GELU:
            return _gelu(unit, operand)


def _hard_sigmoid(unit: str, operand: Any) -> Any:
    shifted = named(unit, op.add(operand, op.const(3.0)))
    clipped = named(unit, op.clip(shifted, 0.0, 6.0))
    return named(unit, op.multiply(clipped, op.const(1 / 6)))


def _gelu(unit: str, operand: Any) -> Any:
    scaled = named(unit, op.multiply(operand, op.const(1 / math.sqrt(2))))
    gate = named(unit, op.add(named(unit, op.erf(scaled)), op.const(1.0)))
    half = named(unit, op.multiply(operand, op.const(0.5)))
    return named(unit, op.multiply(half, gate))
