"""Lowered kernels of a small network."""

from __future__ import annotations

import pytest
import tvm
from tvm import relay

from tvm_ios.relay.context import tvm_pipeline
from tvm_ios.relay.extract import extract
from tvm_ios.relay.inputs import resolve_target
from tvm_ios.relay.kernels import lower_kernels
from tvm_ios.relay.prepare import prepare

TARGET = "llvm -mcpu=core-avx2 -opt-level=0"


def sums(count):
    """A network of so many different kernels, none of them fused with another."""
    data = relay.var("data", shape=(4, 8))
    values = [
        relay.sum(data * relay.const(float(index + 2)), axis=index % 2) for index in range(count)
    ]
    return tvm.IRModule.from_expr(relay.Function([data], relay.Tuple(values)))


@pytest.fixture
def target():
    return resolve_target(TARGET)


@pytest.fixture
def lowered(target):
    """Lowers a module; gives its kernels."""

    def lower(module, params=None):
        extraction = extract(prepare(module, params, target).module)
        with tvm_pipeline():
            return [kernel for _, kernel in lower_kernels(extraction.calls, target)]

    return lower


@pytest.fixture
def kernels(lowered):
    return lowered(sums(3))
