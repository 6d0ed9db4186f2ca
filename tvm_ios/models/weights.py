"""Seeded parameters of a network under construction, and the names of its calls."""

from __future__ import annotations

import numpy as np
import tvm
from tvm import relay

__all__ = ["Network", "Weights", "named"]

Network = tuple[tvm.IRModule, dict[str, tvm.nd.NDArray]]
"""A module whose ``main`` takes the input and the weights, and the weights by name."""


class Weights:
    """Source of a network's float32 parameters; equal seeds and equal calls give equal ones."""

    def __init__(self, data: relay.Var, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self._variables = [data]
        self._params: dict[str, tvm.nd.NDArray] = {}

    def draw(
        self, name: str, shape: tuple[int, ...], bound: float, *, around: float = 0.0
    ) -> relay.Var:
        """New parameter, uniform and at most ``bound`` away from ``around``."""
        values = self._random.random(shape, dtype=np.float32)
        self._params[name] = tvm.nd.array((values * 2 - 1) * np.float32(bound) + np.float32(around))
        self._variables.append(relay.var(name, shape=shape))
        return self._variables[-1]

    def network(self, output: relay.Expr) -> Network:
        """Module that computes ``output``, type-checked, and its parameters."""
        module = tvm.IRModule.from_expr(relay.Function(self._variables, output))
        return relay.transform.InferType()(module), self._params


def named(unit: str, call: relay.Call) -> relay.Call:
    """Call whose span is the name of its schedule unit."""
    span = relay.Span(relay.SourceName(unit), 0, 0, 0, 0)
    return relay.Call(call.op, call.args, call.attrs, call.type_args, span)
