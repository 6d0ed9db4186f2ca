"""Typed modules of Relay expressions, and what TVM's interpreter and ``prepare`` make of them."""

from __future__ import annotations

import numpy as np
import tvm
from tvm import relay

from tvm_ios.relay import prepare
from tvm_ios.relay.dataflow import all_calls, kernel_calls

__all__ = ["evaluated", "fused_operators", "random_arrays", "typed"]


def typed(expression: relay.Expr) -> tvm.IRModule:
    """Typed module of a function, or of an expression and its free variables."""
    return relay.transform.InferType()(tvm.IRModule.from_expr(expression))


def random_arrays(function: relay.Function, seed: int = 0) -> list[np.ndarray]:
    """Normal numbers of float32 for each parameter of a typed function."""
    random = np.random.default_rng(seed)
    shapes = [tuple(map(int, each.checked_type.shape)) for each in function.params]
    return [random.standard_normal(shape, "float32") for shape in shapes]


def evaluated(module: tvm.IRModule) -> np.ndarray:
    """Result of a module on random arrays, by TVM's interpreter."""
    run = relay.create_executor("debug", mod=module).evaluate()
    return run(*random_arrays(module["main"])).numpy()


def fused_operators(result: relay.Expr, target: str) -> list[list[str]]:
    """Names of the operators of each fused function, once an expression is prepared."""
    module = prepare(tvm.IRModule.from_expr(result), None, target).module
    return [
        [call.op.name for call in all_calls(kernel.op.body) if isinstance(call.op, tvm.ir.Op)]
        for kernel in kernel_calls(module["main"].body)
    ]
