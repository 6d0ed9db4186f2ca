"""Activations of recurrent layers, which name them, as nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import onnx_ir as ir

from tvm_ios.errors import ModelError
from tvm_ios.onnx.builder import Builder
from tvm_ios.onnx.values import dtype_of, required

__all__ = ["Activation", "activations"]

Activation: TypeAlias = Callable[[ir.Value], ir.Value]
"""Output of the nodes that compute an activation of a value."""

_PLAIN = ("Relu", "Sigmoid", "Softplus", "Softsign", "Tanh")
_DEFAULTS: dict[str, tuple[float | None, ...]] = {
    "affine": (None, None),
    "elu": (1.0,),
    "hardsigmoid": (0.2, 0.5),
    "leakyrelu": (0.01,),
    "scaledtanh": (None, None),
    "thresholdedrelu": (None,),
    **{name.lower(): () for name in _PLAIN},
}
"""Alpha, and beta, of activations that take them, where the node gives none.

None where it has to: onnxruntime has 0 for ``ThresholdedRelu``, where the standard has 1.
"""
_WITH_ALPHA = {"elu": "Elu", "leakyrelu": "LeakyRelu", "thresholdedrelu": "ThresholdedRelu"}


def activations(
    node: ir.Node, op: Builder, usual: Sequence[str], count: int
) -> list[list[Activation]]:
    """Activations of each of ``count`` directions of a recurrent layer, ``usual`` where unsaid.

    Lists of alphas and betas hold numbers for those activations that take one, in their order.
    """
    names = list(node.attributes.get_strings("activations", ()) or [*usual] * count)
    given = [
        list(node.attributes.get_floats(f"activation_{which}", ())) for which in ("alpha", "beta")
    ]
    made = []
    for name in names[: len(usual) * count]:
        defaults = _DEFAULTS.get(name.lower())
        if defaults is None:
            raise ModelError(f"has the activation {name!r}, which ONNX does not know")
        told = [
            left.pop(0) if left else usually for left, usually in zip(given, defaults, strict=False)
        ]
        if None in told:
            raise ModelError(
                f"has the activation {name!r}, which has no default numbers; give "
                "activation_alpha and activation_beta"
            )
        made.append(_activation(op, node, name.lower(), *told))
    return [made[first : first + len(usual)] for first in range(0, len(made), len(usual))]


def _activation(
    op: Builder, node: ir.Node, name: str, alpha: float | None = None, beta: float | None = None
) -> Activation:
    def number(value: float | None) -> ir.Value:
        return op.const(value, dtype_of(required(node)))

    def affine(value: ir.Value) -> ir.Value:
        return op.op("Add", op.op("Mul", value, number(alpha)), number(beta))

    def scaled(value: ir.Value) -> ir.Value:
        return op.op("Mul", op.op("Tanh", op.op("Mul", value, number(beta))), number(alpha))

    if name == "affine":
        return affine
    if name == "scaledtanh":
        return scaled
    if name == "hardsigmoid":
        return lambda value: op.op("HardSigmoid", value, alpha=alpha, beta=beta)
    if name in _WITH_ALPHA:
        return lambda value: op.op(_WITH_ALPHA[name], value, alpha=alpha)
    plain = next(each for each in _PLAIN if each.lower() == name)
    return lambda value: op.op(plain, value)
