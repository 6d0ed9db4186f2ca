"""Counts of a benchmark network's parts, from its Relay module alone.

The published IOS reports schedule units and a number of operations for each network. Both are
reproduced here, so our networks can be compared with its table.

A *schedule unit* is what the published IOS schedules as one: a convolution with bias and rectifier,
a rectifier with the (separable) convolution behind it, a pooling, or the sums and the
concatenation that join branches. An *operator* of tvm-ios is what Relay's FuseOps makes one kernel
of, and that differs: a separable unit becomes two or three operators (its rectifier joins the
operator before it where that has no other reader, else it stays alone), and a sum can join the
convolution in front of it. With TVM 0.17 for a CPU, 119 units of Inception V3 become 121 operators,
50 of SqueezeNet 44, 36 of the small RandWire 88 and 67 of the small NASNet 112, two layout
transforms at the ends included. Schedules are made of operators; units are only for this
comparison.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import tvm
from tvm import relay

from tvm_ios.errors import ModelError

__all__ = ["ModelTotals", "count"]

_PUBLISHED = frozenset(
    {
        "add",
        "concatenate",
        "nn.avg_pool2d",
        "nn.bias_add",
        "nn.conv2d",
        "nn.global_avg_pool2d",
        "nn.max_pool2d",
        "nn.relu",
    }
)
"""Names of the operators in the published networks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelTotals:
    """Counts of one network: units, operations, parameters."""

    units: int
    """Number of schedule units of the published IOS."""
    macs: int
    """Number of multiply-accumulates of convolutions and products of matrices only."""
    published_operations: int | None
    """Number of operations that the published IOS counts and prints as GMAC; see :func:`count`.
    None for a network with operators that it does not have."""
    parameters: int
    """Number of elements of all weights and biases."""

    def as_text(self) -> str:
        """Line of text in the units of the published table."""
        published = (
            ""
            if self.published_operations is None
            else f" ({self.published_operations / 1e9:.3f} G operations as IOS counts)"
        )
        return (
            f"{self.units} units, {self.macs / 1e9:.3f} GMAC{published}, "
            f"{self.parameters / 1e6:.3f} M parameters"
        )


def count(module: tvm.IRModule, params: Mapping[str, tvm.nd.NDArray]) -> ModelTotals:
    """Counts of a network that a function of :mod:`tvm_ios.models` returned.

    ``published_operations`` follows the published counter: a convolution counts its
    multiply-accumulates and one for the bias, a pooling its *input* times the window, a global
    pooling its input, a rectifier four times its size, and every unit and rectifier once more each
    tensor it reads, so a sum of v tensors counts v times its size.

    Parameters
    ----------
    module
        A type-checked module whose calls the network builder has named.
    params
        Weights of the network, by name.

    Raises
    ------
    ModelError
        If a call has no unit.
    """
    units = _calls_by_unit(module)
    published = [_published_operations(calls) for calls in units.values()]
    return ModelTotals(
        units=len(units),
        macs=sum(_macs(call) for calls in units.values() for call in calls),
        published_operations=None if None in published else sum(filter(None, published)),
        parameters=sum(math.prod(value.shape) for value in params.values()),
    )


def _calls_by_unit(module: tvm.IRModule) -> dict[str, list[relay.Call]]:
    units: dict[str, list[relay.Call]] = {}

    def note(node: relay.Expr) -> None:
        if not isinstance(node, relay.Call):
            return
        if node.span is None:
            raise ModelError(
                f"a call of {node.op} names no unit, so units cannot be counted; count the "
                "module that tvm_ios.models returned, before any pass"
            )
        units.setdefault(node.span.source_name.name, []).append(node)

    relay.analysis.post_order_visit(module["main"], note)
    return units


def _published_operations(calls: list[relay.Call]) -> int | None:
    if any(call.op.name not in _PUBLISHED for call in calls):
        return None
    total = sum(_operations_of_call(call) for call in calls)
    if all(call.op.name == "add" for call in calls):
        # A sum of v tensors is v - 1 additions, but the published counter counts v.
        total += _size(calls[-1])
    return total


def _operations_of_call(call: relay.Call) -> int:
    match call.op.name:
        case "nn.conv2d":
            return _macs(call) + _size(call) + _size(call.args[0])
        case "nn.bias_add":
            return 0
        case "nn.relu":
            return 0 if _activates_convolution(call) else 5 * _size(call)
        case "nn.max_pool2d" | "nn.avg_pool2d":
            window = math.prod(int(extent) for extent in call.attrs.pool_size)
            return (window + 1) * _size(call.args[0])
        case "nn.global_avg_pool2d":
            return 2 * _size(call.args[0])
        case _:  # a sum or a concatenation
            return _size(call)


def _activates_convolution(call: relay.Call) -> bool:
    operand = call.args[0]
    return (
        isinstance(operand, relay.Call)
        and operand.op.name == "nn.bias_add"
        and operand.span.source_name == call.span.source_name
    )


def _macs(call: relay.Call) -> int:
    match call.op.name:
        case "nn.conv2d" | "nn.conv3d" | "nn.dense":
            _, *window = _shape(call.args[1])
            return _size(call) * math.prod(window)
        case "nn.conv2d_transpose":
            # Every input element goes to a window of every output channel.
            _, *window = _shape(call.args[1])
            return _size(call.args[0]) * math.prod(window)
        case "nn.batch_matmul":
            return _size(call) * _shape(call.args[0])[2]
        case _:
            return 0


def _size(expr: relay.Expr) -> int:
    return math.prod(_shape(expr))


def _shape(expr: relay.Expr) -> tuple[int, ...]:
    return tuple(int(extent) for extent in expr.checked_type.shape)
