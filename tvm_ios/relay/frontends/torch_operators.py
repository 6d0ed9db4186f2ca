"""Operators of PyTorch as TVM's importer converts them: which it knows, and what it overlooks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from math import pi
from typing import Any

import tvm
from tvm import relay
from tvm.relay.frontend.pytorch import PyTorchOpConverter, get_all_op_names
from tvm.relay.prelude import Prelude

__all__ = ["converters", "missing_operators"]

# TVM draws these from a seed that is a constant of what is compiled: the same in every run.
_RANDOM = frozenset({"aten::multinomial", "aten::randn"})
_AS_GIVEN = "the data type of the input"
_OVERLOOKED: dict[str, dict[str, tuple[Any, ...]]] = {
    "aten::argsort": {"stable": ()},
    "aten::avg_pool2d": {"divisor_override": (None,)},
    "aten::avg_pool3d": {"divisor_override": (None,)},
    "aten::cross_entropy_loss": {"label_smoothing": (0,)},
    "aten::elu": {"scale": (1,), "input_scale": (1,)},
    "aten::linalg_vector_norm": {"dtype": (None, _AS_GIVEN)},
    "aten::log_softmax": {"dtype": (None, _AS_GIVEN)},
    "aten::mean": {"dtype": (None,)},
    "aten::norm": {"dtype": (None, _AS_GIVEN)},
    "aten::prod": {"dtype": (None, _AS_GIVEN)},
    "aten::round": {"decimals": (0,)},
    "aten::softmax": {"dtype": (None, _AS_GIVEN)},
    "aten::sort": {"stable": ()},
    "aten::std": {"correction": (0, 1)},
    "aten::sum": {"dtype": (None, _AS_GIVEN)},
    "aten::var": {"correction": (0, 1)},
    "aten::var_mean": {"correction": (0, 1)},
}
"""Arguments that TVM's converters ignore or take for others, and the values with which that is
right; of ``stable`` none, since it stands where the axis does otherwise."""


def missing_operators(trace: Any) -> tuple[str, ...]:
    """Operators of a trace that TVM's importer does not know, or not as they are used; sorted."""
    names = set(get_all_op_names(trace.graph)) - _known_operators()
    missing = {name for name in names if not name.startswith("prim::")}
    for kind, arguments in _OVERLOOKED.items():
        for node in trace.graph.findAllNodes(kind):
            missing.update(_overlooked(node, arguments))
    return tuple(sorted(missing))


def converters() -> dict[str, Callable[[list[Any], Sequence[str]], relay.Expr]]:
    """Converters that take the place of TVM's, which overlook an argument."""
    return {"aten::add": _add, "aten::div": _div, "aten::gelu": _gelu}


def _overlooked(node: Any, arguments: dict[str, tuple[Any, ...]]) -> list[str]:
    """The operator with each argument that TVM overlooks, and that is not as TVM has it."""
    if node.schema() == "(no schema)":
        return []
    names = [each.name for each in _schema(node.schema()).arguments]
    found = []
    for name, value in zip(names, node.inputs(), strict=False):
        allowed = arguments.get(name)
        if allowed is None or value.toIValue() in allowed:
            continue
        if _AS_GIVEN in allowed and _dtype(next(node.inputs())) == _dtype(node.output()):
            continue
        found.append(f"{node.kind()} with {name}={value.toIValue()}")
    return found


@cache
def _schema(text: str) -> Any:
    import torch  # noqa: PLC0415 - who has a trace has torch

    return torch._C.parse_schema(text)  # noqa: SLF001 - torch gives no other way


def _dtype(value: Any) -> Any:
    return getattr(value.type(), "dtype", lambda: None)()


def _add(inputs: list[Any], input_types: Sequence[str]) -> relay.Expr:
    """A sum, the second term ``alpha`` times."""
    if len(inputs) < 3 or (not isinstance(inputs[2], relay.Expr) and inputs[2] == 1):
        return _converter().add(inputs, input_types)
    first, second, alpha = _converter().pytorch_promote_types(inputs, input_types)
    return relay.add(first, alpha * second)


def _div(inputs: list[Any], input_types: Sequence[str]) -> relay.Expr:
    """A quotient, rounded as torch is asked for; that of whole numbers stays whole if it is."""
    if len(inputs) < 3 or inputs[2] is None:
        return _converter().convert_map["aten::div"](inputs, input_types)
    first, second = _converter().pytorch_promote_types(inputs[:2], input_types[:2])
    if inputs[2] == "floor":
        return relay.floor_divide(first, second)
    whole = all("int" in each for each in input_types[:2])
    return relay.divide(first, second) if whole else relay.trunc(relay.divide(first, second))


def _gelu(inputs: list[Any], input_types: Sequence[str]) -> relay.Expr:
    """GELU, by ``tanh`` where torch is asked for that."""
    if len(inputs) < 2 or inputs[1] == "none":
        return _converter().gelu(inputs, input_types)
    x = inputs[0]
    half, one, slope, cubic = (
        relay.const(number, input_types[0]) for number in (0.5, 1.0, (2 / pi) ** 0.5, 0.044715)
    )
    return half * x * (one + relay.tanh(slope * (x + cubic * x * x * x)))


@cache
def _known_operators() -> frozenset[str]:
    return frozenset(_converter().convert_map) - _RANDOM


@cache
def _converter() -> PyTorchOpConverter:
    return PyTorchOpConverter(Prelude(tvm.IRModule()), "float32")
