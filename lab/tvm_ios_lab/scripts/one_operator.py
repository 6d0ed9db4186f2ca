"""Networks of one operator, for tables of what each takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm import relay

import tvm_ios
from tvm_ios import BuildOptions, TuneOptions

__all__ = ["Compute", "OneOperator"]

Compute = Callable[..., relay.Expr]


@dataclass(frozen=True, slots=True)
class OneOperator:
    """Network that consists of one operator of float32."""

    compute: Compute
    """Function from the inputs to the result."""
    shapes: Sequence[tuple[int, ...]]
    """Shape of each input."""

    @property
    def module(self) -> tvm.IRModule:
        """The network in Relay, with inputs ``x0``, ``x1`` and so on."""
        inputs = [relay.var(f"x{place}", shape=shape) for place, shape in enumerate(self.shapes)]
        return tvm.IRModule.from_expr(relay.Function(inputs, self.compute(*inputs)))

    def executor(self, *, lanes: int, exact: bool = False) -> Any:
        """Executor of the tuned network, with inputs set."""
        options = TuneOptions(build=BuildOptions(exact=exact, libraries=()))
        model = tvm_ios.tune(self.module, {}, lanes=lanes, options=options)
        return self.executor_of(model, lanes=lanes)

    def executor_of(self, model: Any, *, lanes: int) -> Any:
        """Executor of the network by a model of it, with inputs set."""
        executor = model.executor(lanes=lanes)
        random = np.random.default_rng(0)
        for place, shape in enumerate(self.shapes):
            executor.set_input(f"x{place}", random.standard_normal(shape, "float32"))
        return executor
