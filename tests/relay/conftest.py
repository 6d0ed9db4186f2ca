"""Small networks in Relay, and stock TVM to run them."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relay

from tests.stock import stock_executor
from tvm_ios.relay.extract import Extraction, extract
from tvm_ios.relay.prepare import PreparedModule, prepare
from tvm_ios.relay.transforms.layout_text import without_layout_text

TARGET = "llvm -mcpu=core-avx2 -opt-level=0"
"""LLVM need not optimise what runs once."""

os.environ.setdefault("TOPHUB_LOCATION", "NONE")


@dataclass(frozen=True)
class Nets:
    """Builds small networks."""

    reference_build: Callable[..., Any]
    target: str = TARGET

    def finish(
        self, output: relay.Expr, *inputs: relay.Var, seed: int = 0
    ) -> tuple[tvm.IRModule, dict[str, tvm.nd.NDArray]]:
        """A module of an expression, and random values for all but its inputs."""
        weights = [var for var in relay.analysis.free_vars(output) if var not in set(inputs)]
        function = relay.Function([*inputs, *weights], output)
        module = relay.transform.InferType()(tvm.IRModule.from_expr(function))
        random = np.random.default_rng(seed)
        params = {}
        for var in module["main"].params[len(inputs) :]:
            shape = [int(extent) for extent in var.checked_type.shape]
            values = random.uniform(-0.5, 0.5, shape).astype("float32")
            params[var.name_hint] = tvm.nd.array(values)
        return module, params

    def conv(
        self,
        data: relay.Expr,
        name: str,
        out_channels: int,
        kernel: tuple[int, int],
        padding: tuple[int, ...],
        *,
        in_channels: int = 16,
        strides: tuple[int, int] = (1, 1),
        dilation: tuple[int, int] = (1, 1),
        groups: int = 1,
        bias: bool = True,
        activation: Callable[[relay.Expr], relay.Expr] | None = relay.nn.relu,
    ) -> relay.Expr:
        """A convolution with bias and activation."""
        shape = (out_channels, in_channels // groups, *kernel)
        value = relay.nn.conv2d(
            data,
            relay.var(f"{name}_weight", shape=shape),
            strides=strides,
            padding=padding,
            dilation=dilation,
            groups=groups,
            channels=out_channels,
            kernel_size=kernel,
        )
        if bias:
            value = relay.nn.bias_add(value, relay.var(f"{name}_bias", shape=(out_channels,)))
        return value if activation is None else activation(value)

    def branching(
        self, batch: int = 1, *, seed: int = 0
    ) -> tuple[tvm.IRModule, dict[str, tvm.nd.NDArray]]:
        """Three convolutions and a pooling of one input, concatenated, then two more operators."""
        data = relay.var("data", shape=(batch, 16, 8, 8))
        pieces = [
            self.conv(data, "a", 16, (1, 1), (0, 0)),
            self.conv(data, "b", 32, (3, 3), (1, 1)),
            self.conv(data, "c", 16, (1, 1), (0, 0)),
            relay.nn.max_pool2d(data, (3, 3), padding=(1, 1)),
        ]
        joined = relay.concatenate(pieces, axis=1)
        pooled = relay.nn.batch_flatten(relay.nn.global_avg_pool2d(joined))
        dense = relay.nn.dense(pooled, relay.var("dense_weight", shape=(10, 80)))
        return self.finish(dense, data, seed=seed)

    @cache  # noqa: B019 (one object for the whole session)
    def prepared(self, batch: int = 1) -> PreparedModule:
        """The branching network, prepared once."""
        return prepare(*self.branching(batch), self.target)

    @cache  # noqa: B019
    def extraction(self, batch: int = 1) -> Extraction:
        """Its operator graph."""
        return extract(self.prepared(batch).module)

    @cache  # noqa: B019
    def expected(self, batch: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """An input of the branching network, and what plain TVM makes of it."""
        module, params = self.branching(batch)
        data = self.random_input(module)
        return data, self.reference(module, params, data)[0]

    def random_input(self, module: tvm.IRModule, seed: int = 1) -> np.ndarray:
        """Values for the first input."""
        shape = [int(extent) for extent in module["main"].params[0].checked_type.shape]
        return np.random.default_rng(seed).uniform(-1, 1, shape).astype("float32")

    def reference(
        self, module: tvm.IRModule, params: dict[str, Any] | None, *inputs: np.ndarray
    ) -> list[np.ndarray]:
        """What TVM answers, from a build that only serves to ask."""
        return self.run(self.reference_build(module, params, self.target), *inputs)

    def stock(
        self, module: tvm.IRModule, params: dict[str, Any] | None, *inputs: np.ndarray
    ) -> list[np.ndarray]:
        """Outputs of plain TVM, built as users build."""
        with without_layout_text(), tvm.transform.PassContext(opt_level=3):
            factory = relay.build(module, target=self.target, params=params)
        return self.run(factory, *inputs)

    def assert_same(
        self,
        before: tuple[tvm.IRModule, dict[str, Any] | None],
        after: tuple[tvm.IRModule, dict[str, Any] | None],
        *,
        rtol: float = 1e-5,
        atol: float = 1e-5,
    ) -> None:
        """Both models give the same outputs for a random input."""
        data = self.random_input(before[0])
        outputs = (self.reference(*model, data) for model in (after, before))
        for found, expected in zip(*outputs, strict=True):
            np.testing.assert_allclose(found, expected, rtol=rtol, atol=atol)

    def fused(self, body: relay.Expr, *parameters: relay.Var, **attributes: Any) -> relay.Function:
        """A typed function marked as one kernel."""
        function = relay.Function(list(parameters), body)
        typed = relay.transform.InferType()(tvm.IRModule.from_expr(function))["main"]
        for name, value in {"Primitive": 1, **attributes}.items():
            stored = tvm.tir.IntImm("int32", value) if isinstance(value, int) else value
            typed = typed.with_attr(name, stored)
        return typed

    def run(self, factory: Any, *inputs: np.ndarray) -> list[np.ndarray]:
        """Outputs of a compiled module on TVM's own executor."""
        executor = stock_executor(factory)
        for position, value in enumerate(inputs):
            executor.set_input(position, value)
        executor.run()
        return [executor.get_output(i).numpy() for i in range(executor.get_num_outputs())]


@pytest.fixture(scope="session")
def nets(reference_build: Callable[..., Any]) -> Nets:
    """Builds small networks and runs them on stock TVM."""
    return Nets(reference_build)
