"""Networks of the zoo, at their full size: concurrent plans give the bits of stock TVM."""

from __future__ import annotations

from functools import partial
from unittest.mock import patch

import numpy as np
import pytest
from tvm import relay

from tests.small_networks import narrow_unet
from tests.whole_networks import ALWAYS, WHOLE_NETWORKS
from tvm_ios.compile.built_model import build_model
from tvm_ios.compile.lower import lower_schedule
from tvm_ios.host import host_target
from tvm_ios.models import (
    Network,
    bert_base,
    by_name,
    dcgan,
    densenet_121,
    googlenet,
    mobilenet,
    mobilenet_v2,
    resnet3d_18,
    resnet_50,
)
from tvm_ios.models.weights import Weights
from tvm_ios.relay import extract, prepare
from tvm_ios.runtime.base.lane_pool import LaneOptions
from tvm_ios.runtime.base.plan_memory import PlanMemory
from tvm_ios.runtime.base.sample_inputs import sample_inputs
from tvm_ios.runtime.cpu.lane_executor import executor_here
from tvm_ios.runtime.cpu.stock_executor import StockExecutor
from tvm_ios.search.baselines import greedy_schedule, sequential_schedule
from tvm_ios.search.ios import search_ios
from tvm_ios_lab.analytical.timeline_model import AnalyticalGpuCost

RUNS = 2
"""The second run finds every buffer full of the first one's poison."""


def _some_of_mobilenet_v3(**given: int) -> Network:
    """Three blocks: a plain one, one with 5x5 windows and gates, one with the hard swish, too."""
    blocks = (mobilenet._LARGE[0], mobilenet._LARGE[3], mobilenet._LARGE[10])
    with patch.object(mobilenet, "_LARGE", blocks):
        return mobilenet.mobilenet_v3_large(image_size=32, **given)


CHAINS = frozenset({"dcgan", "densenet_121", "mobilenet_v2", "mobilenet_v3_large", "unet"})
"""Networks whose operators all follow one another, but for what a layout adds."""
SMALL = {
    "bert_base": partial(bert_base, sequence=12, layers=1),
    "dcgan": partial(dcgan, features=4),
    "densenet_121": partial(densenet_121, image_size=32),
    "googlenet": partial(googlenet, image_size=32),
    "mobilenet_v2": partial(mobilenet_v2, image_size=32),
    "mobilenet_v3_large": _some_of_mobilenet_v3,
    "resnet3d_18": partial(resnet3d_18, frames=2, image_size=33),
    "resnet_50": partial(resnet_50, image_size=32),
    "unet": narrow_unet,
}
"""Networks that are no part of the IOS paper, as small as they get."""
MORE = frozenset({"densenet_121", "googlenet", "mobilenet_v2", "resnet3d_18", "resnet_50"})
"""Those of :data:`SMALL` whose operators the others have as well, for ``make test-all``: blocks as
of MobileNetV3, residual sums, and branches that are joined, as of SqueezeNet and U-Net."""


@pytest.mark.slow
@pytest.mark.parametrize("name", WHOLE_NETWORKS)
def test_concurrent_plans_are_bit_equal_to_stock_tvm(name: str) -> None:
    # LLVM takes longer to optimise the small ones than they run.
    target = _quick_target() if name in ALWAYS else host_target()
    _require_the_bits_of_stock_tvm(name, by_name(name)(), target)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.full) if name in MORE else name for name in SMALL],
)
def test_so_are_those_of_small_versions(name: str) -> None:
    _require_the_bits_of_stock_tvm(name, SMALL[name](batch_size=2), _quick_target())


@pytest.mark.slow(1)
def test_so_are_those_of_convolutions_of_volumes() -> None:
    data = relay.var("data", shape=(1, 4, 3, 6, 6))
    weights = Weights(data, 0)

    def branch(name: str, size: int) -> relay.Expr:
        weight = weights.draw(f"{name}.weight", (8, 4, size, size, size), 0.2)
        padding = (size // 2,) * 3
        made = relay.nn.conv3d(data, weight, padding=padding, channels=8, kernel_size=(size,) * 3)
        return relay.nn.relu(relay.nn.bias_add(made, weights.draw(f"{name}.bias", (8,), 0.2)))

    joined = relay.concatenate([branch("narrow", 1), branch("wide", 3)], axis=1)
    _require_the_bits_of_stock_tvm("volumes", weights.network(joined), _quick_target())


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "bert_base",
        *(pytest.param(name, marks=pytest.mark.full) for name in ("dcgan", "resnet3d_18")),
    ],
)
def test_no_operator_of_small_versions_is_a_barrier(name: str) -> None:
    mod, params = SMALL[name]()
    coverage = extract(prepare(mod, params, host_target()).module).coverage
    assert coverage.barriers == ()
    assert coverage.scheduled_operators == coverage.total_operators > 0


@pytest.mark.slow(1)
def test_query_key_and_value_are_computed_side_by_side() -> None:
    mod, params = bert_base(layers=1)
    graph = extract(prepare(mod, params, host_target()).module).graph
    heads = next(operator for operator in graph.operators if operator.kind == "attention")
    schedule = search_ios(graph, AnalyticalGpuCost("h100")).schedule
    (stage,) = [stage for stage in schedule.stages if len(stage.groups) > 1]
    first = [graph.operators[group[0]] for group in stage.groups]
    assert [operator.kind for operator in first] == ["dense"] * 3
    assert len({operator.predecessors for operator in first}) == 1
    ends = {group[-1] for group in stage.groups}
    assert set(heads.predecessors) == ends


def _quick_target() -> str:
    """LLVM need not optimise what is small."""
    return f"{host_target()} -opt-level=0"


def _require_the_bits_of_stock_tvm(name: str, network: Network, target: str) -> None:
    mod, params = network
    built = build_model(mod, params, target, name=name)
    staged, library = built.kernels.staged, built.kernels.library
    greedy = lower_schedule(built, greedy_schedule(built.graph), lanes=2)
    plain = lower_schedule(built, sequential_schedule(built.graph), lanes=2)
    assert name in CHAINS or any(len(stage.groups) > 1 for stage in greedy.schedule.stages)
    inputs = sample_inputs(plain.plan, staged.params)
    stock = StockExecutor(staged.graph_json, library, staged.params, lanes=1)
    for key, value in inputs.items():
        stock.set_input(key, value)
    expected = [output.numpy() for output in stock.outputs()]
    stock.close()
    assert all(np.isfinite(output).all() and output.any() for output in expected)
    for model in (plain, greedy):
        memory = PlanMemory(model.plan, staged.params)
        for entry in model.plan.inputs:
            if entry.name in inputs:
                memory.array(entry.tensor).copyfrom(inputs[entry.name])
        options = LaneOptions(jitter_seed=7, oversubscribe=True)
        executor = executor_here(model.plan, library, memory, lanes=2, options=options, poison=True)
        for _ in range(RUNS):
            executor.run()
            for index, output in zip(model.plan.outputs, expected, strict=True):
                np.testing.assert_array_equal(memory.array(index).numpy(), output)
        executor.close()
