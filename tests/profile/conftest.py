"""Models that may be built in several forms, and races that take no time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import tvm
from tvm import relay

from tests.pricing import LANES, MEASURE, stage_runner
from tvm_ios.compile.built_model import BuiltModel, build_model
from tvm_ios.measure.comparison import CompareRound, Comparison
from tvm_ios.profile import build_choice
from tvm_ios.profile.measured_kernels import MeasuredKernels
from tvm_ios.profile.stage_kernels import StageKernels


@pytest.fixture(scope="session")
def branching_built(branching) -> BuiltModel:
    return build_model(*branching, "llvm -opt-level=0", name="branching")


@pytest.fixture(scope="module")
def runner(branching_built: BuiltModel) -> Iterator[StageKernels]:
    with stage_runner(branching_built, lanes=LANES) as runner:
        yield runner


@pytest.fixture
def kernels(runner: StageKernels) -> MeasuredKernels:
    return MeasuredKernels(runner, options=MEASURE)


@pytest.fixture(scope="session")
def in_nhwc():
    """Two NHWC convolutions of 12 channels, which fill no vectors of 8, and one that reads both."""
    random = np.random.default_rng(0)
    data = relay.var("data", shape=(1, 12, 12, 16))
    shapes = {"a": (3, 3, 16, 12), "b": (1, 1, 16, 12), "c": (1, 1, 24, 16)}
    weights = {name: relay.var(name, shape=shape) for name, shape in shapes.items()}

    def conv(value, name):
        *kernel_size, _, channels = shapes[name]
        return relay.nn.conv2d(
            value,
            weights[name],
            padding=tuple(size // 2 for size in kernel_size),
            kernel_size=kernel_size,
            channels=channels,
            data_layout="NHWC",
            kernel_layout="HWIO",
        )

    both = relay.concatenate([conv(data, "a"), conv(data, "b")], axis=3)
    output = conv(relay.nn.relu(both), "c")
    params = {
        name: tvm.nd.array(random.uniform(-1, 1, shape).astype("float32"))
        for name, shape in shapes.items()
    }
    function = relay.Function([data, *weights.values()], output)
    return relay.transform.InferType()(tvm.IRModule.from_expr(function)), params


@pytest.fixture(scope="session")
def narrow():
    """Two convolutions of 12 channels, which fill no vectors of 8, and one that reads both."""
    data = relay.var("data", shape=(1, 16, 12, 12))
    weights = {
        "a": (12, 16, 3, 3),
        "b": (12, 16, 1, 1),
        "c": (16, 24, 1, 1),
    }
    variables = {name: relay.var(name, shape=shape) for name, shape in weights.items()}
    left = relay.nn.conv2d(data, variables["a"], padding=(1, 1), channels=12, kernel_size=(3, 3))
    right = relay.nn.conv2d(data, variables["b"], channels=12, kernel_size=(1, 1))
    both = relay.nn.relu(relay.concatenate([left, right], axis=1))
    output = relay.nn.conv2d(both, variables["c"], channels=16, kernel_size=(1, 1))
    random = np.random.default_rng(0)
    params = {
        name: tvm.nd.array(random.uniform(-1, 1, shape).astype("float32"))
        for name, shape in weights.items()
    }
    function = relay.Function([data, *variables.values()], output)
    return relay.transform.InferType()(tvm.IRModule.from_expr(function)), params


@pytest.fixture
def clocked(monkeypatch):
    """Says how long the runs of a build take, by its name; nothing is timed."""

    def set_times(ns_of):
        def race(models, **_options):
            times = tuple(
                float(next(ns for name, ns in ns_of.items() if text.startswith(name)))
                for text in models
            )
            row = CompareRound(run_ns=times, ping_pong_ns=0.0, slow=False)
            return Comparison(names=tuple(models), rounds=(row,) * 9, confidence=0.95, notes=())

        monkeypatch.setattr(build_choice, "race", race)

    return set_times
