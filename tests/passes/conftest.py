"""A small branching network, and stock TVM to run it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relay

from tests.stock import stock_outputs
from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.schedule import Stage, Strategy


@dataclass(frozen=True)
class Case:
    """A network of two convolutions and a pooling of one input."""

    reference_build: Callable[..., Any]
    target: str = "llvm -mcpu=core-avx2 -opt-level=0"

    def network(self) -> tuple[tvm.IRModule, dict[str, np.ndarray]]:
        """A module and its parameters."""
        data = relay.var("data", shape=(1, 16, 8, 8))
        random = np.random.default_rng(0)
        pieces, params = [], {}
        for name, size in (("a", 1), ("b", 3)):
            weight = relay.var(name, shape=(16, 16, size, size))
            params[name] = random.uniform(-0.2, 0.2, (16, 16, size, size)).astype("float32")
            value = relay.nn.conv2d(
                data, weight, padding=(size // 2, size // 2), kernel_size=(size, size), channels=16
            )
            pieces.append(relay.nn.relu(value))
        pieces.append(relay.nn.max_pool2d(data, (3, 3), padding=(1, 1)))
        output = relay.nn.softmax(relay.concatenate(pieces, axis=1), axis=1)
        free = [var for var in relay.analysis.free_vars(output) if var.name_hint != "data"]
        module = tvm.IRModule.from_expr(relay.Function([data, *free], output))
        return relay.transform.InferType()(module), params

    def siblings(self, sizes: Sequence[int]) -> tuple[tvm.IRModule, dict[str, np.ndarray]]:
        """Square convolutions of one input, nothing behind them, and their parameters."""
        data = relay.var("data", shape=(1, 16, 8, 8))
        random = np.random.default_rng(0)
        weights, outputs, params = [], [], {}
        for position, size in enumerate(sizes):
            shape = (16, 16, size, size)
            weights.append(relay.var(f"w{position}", shape=shape))
            params[f"w{position}"] = random.uniform(-0.2, 0.2, shape).astype("float32")
            outputs.append(
                relay.nn.conv2d(
                    data,
                    weights[-1],
                    padding=(size // 2, size // 2),
                    kernel_size=(size, size),
                    channels=16,
                )
            )
        function = relay.Function([data, *weights], relay.Tuple(outputs))
        return relay.transform.InferType()(tvm.IRModule.from_expr(function)), params

    def data(self) -> np.ndarray:
        """Values for the input."""
        return np.random.default_rng(1).uniform(-1, 1, (1, 16, 8, 8)).astype("float32")

    @cache  # noqa: B019 (one object for the whole session)
    def expected(self) -> np.ndarray:
        """What plain TVM makes of them."""
        module, params = self.network()
        return self.run(module, params)

    def run(self, module: tvm.IRModule, params: dict[str, Any] | None = None) -> np.ndarray:
        """The output under plain TVM."""
        return self.outputs(module, params, self.data())[0]

    def outputs(
        self, module: tvm.IRModule, params: dict[str, Any] | None, data: np.ndarray
    ) -> list[np.ndarray]:
        """All outputs of some input under plain TVM."""
        return stock_outputs(self.reference_build(module, params, self.target), data=data)


class OperatorPrices:
    """Prices under which either running side by side pays, or merging does."""

    def __init__(self, pays: Strategy) -> None:
        self.pays = pays
        self.asked: list[Stage] = []

    def price(self, graph: OperatorGraph, stages: Sequence[Stage]) -> Sequence[int]:
        """Prices in nanoseconds."""
        self.asked += stages
        return [self._price(graph, stage) for stage in stages]

    def _price(self, graph: OperatorGraph, stage: Stage) -> int:
        groups = [sum(1000 + graph.operators[i].flops for i in group) for group in stage.groups]
        return max(groups) + 1 if stage.strategy is self.pays else sum(groups) + 1


@pytest.fixture(scope="session")
def case(reference_build: Callable[..., Any]) -> Case:
    """The network."""
    return Case(reference_build)


@pytest.fixture
def prices() -> OperatorPrices:
    """Prices under which running side by side pays and merging does not."""
    return OperatorPrices(Strategy.CONCURRENT)


@pytest.fixture
def merging_prices() -> OperatorPrices:
    """Prices under which merging pays."""
    return OperatorPrices(Strategy.MERGE)
