"""Seeded parameters of a network under construction, and the names of its calls."""

from __future__ import annotations

from typing import Any

import numpy as np
import tvm

from tvm_ios.models.operators import IS_RELAX, op

__all__ = ["Network", "Weights", "named"]

Network = tuple[tvm.IRModule, dict[str, Any]]
"""A module whose ``main`` takes the input and the weights, and the weights by name."""


class Weights:
    """Source of a network's float32 parameters; equal seeds and equal calls give equal ones."""

    def __init__(self, data: Any, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self._variables = [data]
        self._params: dict[str, Any] = {}

    def draw(self, name: str, shape: tuple[int, ...], bound: float, *, around: float = 0.0) -> Any:
        """New parameter, uniform and at most ``bound`` away from ``around``."""
        values = self._random.random(shape, dtype=np.float32)
        drawn = (values * 2 - 1) * np.float32(bound) + np.float32(around)
        self._params[name] = tvm.runtime.tensor(drawn) if IS_RELAX else tvm.nd.array(drawn)
        self._variables.append(op.var(name, shape=shape))
        return self._variables[-1]

    def network(self, output: Any) -> Network:
        """Module that computes ``output``, type-checked, and its parameters."""
        if IS_RELAX:
            return op.module_of(self._variables, output), self._params
        module = tvm.IRModule.from_expr(op.Function(self._variables, output))
        return op.transform.InferType()(module), self._params


def named(unit: str, call: Any) -> Any:
    """Call whose span is the name of its schedule unit, in Relay; Relax keeps no spans."""
    if IS_RELAX:
        return call
    span = op.Span(op.SourceName(unit), 0, 0, 0, 0)
    return op.Call(call.op, call.args, call.attrs, call.type_args, span)
