"""Operators of Relax that work element by element, by their names in notes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from tvm import relax

__all__ = ["ELEMENT_WISE"]


def _clip(data: relax.Expr, *, a_min: float, a_max: float) -> relax.Expr:
    return relax.op.clip(data, a_min, a_max)


ELEMENT_WISE: Mapping[str, Callable[..., relax.Expr]] = MappingProxyType(
    {
        "add": relax.op.add,
        "subtract": relax.op.subtract,
        "multiply": relax.op.multiply,
        "divide": relax.op.divide,
        "maximum": relax.op.maximum,
        "minimum": relax.op.minimum,
        "power": relax.op.power,
        "clip": _clip,
        "sigmoid": relax.op.sigmoid,
        "tanh": relax.op.tanh,
        "erf": relax.op.erf,
        "exp": relax.op.exp,
        "log": relax.op.log,
        "nn.relu": relax.op.nn.relu,
        "nn.leaky_relu": relax.op.nn.leakyrelu,
        "nn.silu": relax.op.nn.silu,
        "nn.gelu": relax.op.nn.gelu,
        "nn.gelu_tanh": relax.op.nn.gelu_tanh,
    }
)
"""Functions that make such calls; members of a merge may have them behind the convolution."""
