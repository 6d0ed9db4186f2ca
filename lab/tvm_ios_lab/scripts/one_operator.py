"""Networks of one operator, which are tuned as anybody would tune them."""

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

    def model(self, *, lanes: int, exact: bool = False) -> Any:
        """The network, tuned."""
        inputs = [relay.var(f"x{place}", shape=shape) for place, shape in enumerate(self.shapes)]
        body = self.compute(*inputs)
        module = tvm.IRModule.from_expr(relay.Function(inputs, body))
        options = TuneOptions(build=BuildOptions(exact=exact))
        return tvm_ios.tune(module, {}, lanes=lanes, options=options)

    def executor(self, *, lanes: int, exact: bool = False) -> Any:
        """Executor of the tuned network, with inputs set."""
        return self.executor_of(self.model(lanes=lanes, exact=exact), lanes=lanes)

    def executor_of(self, model: Any, *, lanes: int) -> Any:
        """Executor of the network by a model of it, with inputs set."""
        executor = model.executor(lanes=lanes)
        random = np.random.default_rng(0)
        for place, shape in enumerate(self.shapes):
            executor.set_input(f"x{place}", random.standard_normal(shape, "float32"))
        return executor
