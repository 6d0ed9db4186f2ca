"""A small network, and what stock TVM makes of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import tvm

import tvm_ios
from tests.little_search import little_list_search
from tests.stock import stock_executor
from tests.tuning.conftest import shared_processes, sharing
from tvm_ios import BuildOptions, TuneOptions

__all__ = ["EXACT", "TARGET", "Net", "little_list_search", "shared_processes", "sharing"]

TARGET = "llvm -opt-level=0"  # LLVM need not optimise what runs a few times
EXACT = TuneOptions(build=BuildOptions(exact=True))
"""Options whose models have the bits of stock TVM."""


@dataclass(frozen=True)
class Net:
    """A model, one input, and what stock TVM makes of it."""

    mod: tvm.IRModule
    params: dict[str, tvm.nd.NDArray]
    image: np.ndarray
    expected: np.ndarray

    def run(self, executor: tvm_ios.MultiStreamGraphModule) -> np.ndarray:
        executor.set_input("data", self.image)
        executor.run()
        return executor.get_output(0).numpy()

    def tune(self, **given: Any) -> tvm_ios.CompiledModel:
        return tvm_ios.tune(self.mod, self.params, TARGET, **given)

    def compile(self, **given: Any) -> tvm_ios.CompiledModel:
        return tvm_ios.compile_schedule(self.mod, self.params, TARGET, **given)

    def assert_close(self, model: tvm_ios.CompiledModel, atol: float = 1e-5) -> None:
        """Run a model, which may add up in another order than stock TVM."""
        with model.executor() as executor:
            np.testing.assert_allclose(self.run(executor), self.expected, rtol=1e-4, atol=atol)

    def assert_equal(self, model: tvm_ios.CompiledModel) -> None:
        """Run a model that is to have the bits of stock TVM."""
        with model.executor() as executor:
            np.testing.assert_array_equal(self.run(executor), self.expected)


@pytest.fixture(scope="session")
def make_net(reference_build: Callable[..., Any]) -> Callable[..., Net]:
    """Makes a :class:`Net` of a module and its parameters."""

    def make(mod: tvm.IRModule, params: dict[str, Any]) -> Net:
        shape = [int(extent) for extent in mod["main"].params[0].type_annotation.shape]
        image = np.random.default_rng(0).standard_normal(shape).astype("float32")
        library = reference_build(mod, params, TARGET)
        stock = stock_executor(library)
        stock.set_input("data", image)
        stock.run()
        return Net(mod, params, image, stock.get_output(0).numpy())

    return make


@pytest.fixture(scope="session")
def net(fork: tuple[tvm.IRModule, dict[str, Any]], make_net: Callable[..., Net]) -> Net:
    return make_net(*fork)


@pytest.fixture(scope="session")
def branching_net(branching: tuple[tvm.IRModule, dict[str, Any]], make_net: Any) -> Net:
    """Two levels of branches, with convolutions that may merge."""
    return make_net(*branching)


@pytest.fixture(scope="session")
def plain(net: Net) -> tvm_ios.CompiledModel:
    """The network in sequential order, not tuned."""
    return net.compile(options=EXACT)
