"""Typed modules of Relay expressions, and what TVM's interpreter and ``prepare`` make of them."""

from __future__ import annotations

import numpy as np
import tvm
from tvm import relay

from tests.whole_weights import steps_of_weights
from tvm_ios.core.precision.stored_type import StoredType
from tvm_ios.host import cached_libinfo
from tvm_ios.relay import prepare
from tvm_ios.relay.dataflow import all_calls, kernel_calls
from tvm_ios.relay.functions.quantised import fake_quantize

__all__ = [
    "evaluated",
    "fused_operators",
    "quantised_images",
    "random_arrays",
    "steps_of_weights",
    "typed",
    "weights_of_bytes",
]


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
    with cached_libinfo():
        run = relay.create_executor("debug", mod=module, target="llvm -opt-level=0").evaluate()
        return run(*random_arrays(module["main"])).numpy()


def fused_operators(result: relay.Expr, target: str) -> list[list[str]]:
    """Names of the operators of each fused function, once an expression is prepared."""
    module = prepare(tvm.IRModule.from_expr(result), None, target).module
    return [
        [call.op.name for call in all_calls(kernel.op.body) if isinstance(call.op, tvm.ir.Op)]
        for kernel in kernel_calls(module["main"].body)
    ]


def quantised_images() -> tvm.IRModule:
    """A quantised network for ``data`` of (1, 16, 12, 12), as importers give one."""
    random = np.random.default_rng(0)

    def weights(*shape: int) -> relay.Constant:
        steps = random.integers(-127, 128, shape)
        steps.reshape(len(steps), -1)[:, 0] = 127
        scales = random.uniform(5e-4, 2e-3, (len(steps), *[1] * (len(shape) - 1)))
        return relay.const((steps * scales).astype("float32"))

    def rounded(value: relay.Expr, scale: float = 0.03, zero_point: int = 0) -> relay.Call:
        stored = StoredType(dtype="uint8", scale=scale, zero_point=zero_point)
        return fake_quantize(value, stored)

    def convolved(value: relay.Expr, inputs: int, kernel: int, groups: int = 1) -> relay.Call:
        return relay.nn.conv2d(
            value,
            weights(32, inputs // groups, kernel, kernel),
            padding=(kernel // 2,) * 2,
            kernel_size=(kernel, kernel),
            channels=32,
            groups=groups,
        )

    data = relay.var("data", shape=(1, 16, 12, 12))
    wide = rounded(relay.nn.relu(convolved(rounded(data, 0.05, 128), 16, 3)))
    deep = rounded(relay.nn.relu(convolved(wide, 32, 3, groups=32)))
    joined = rounded(relay.nn.relu(rounded(convolved(deep, 32, 1), 0.05, 128) + wide))
    last = relay.nn.relu(convolved(joined, 32, 3) + joined)
    pooled = relay.nn.global_avg_pool2d(relay.nn.max_pool2d(last, (2, 2), strides=(2, 2)))
    flat = rounded(relay.nn.batch_flatten(pooled), 0.01)
    return typed(relay.Function([data], relay.nn.dense(flat, weights(24, 32))))


def weights_of_bytes() -> tvm.IRModule:
    """A network for ``data`` of (1, 16, 12, 12) whose weights alone are quantised."""

    def layer(value: relay.Expr, *shape: int, **how: int) -> relay.Call:
        return relay.nn.dense(value, relay.const(steps_of_weights(*shape, **how)))

    data = relay.var("data", shape=(1, 16, 12, 12))
    rows = relay.nn.relu(layer(relay.reshape(data, (16, 144)), 512, 144))
    gate, up = (layer(rows, 640, 512, block=32, least=at, seed=-at) for at in (-128, -100))
    hidden = relay.sigmoid(gate) * up
    both = relay.concatenate([layer(hidden, 200, 640, least=-8), gate], axis=1)
    return tvm.IRModule.from_expr(relay.Function([data], both))
