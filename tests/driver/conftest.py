"""A small network, and what stock TVM makes of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import tvm

import tvm_ios
from tests.stock import stock_executor
from tvm_ios import BuildOptions, TuneOptions

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
def net(branching: tuple[tvm.IRModule, dict[str, Any]], make_net: Callable[..., Net]) -> Net:
    return make_net(*branching)


@pytest.fixture(scope="session")
def plain(net: Net) -> tvm_ios.CompiledModel:
    """The network in sequential order, not tuned."""
    return tvm_ios.compile_schedule(net.mod, net.params, TARGET, options=EXACT)
