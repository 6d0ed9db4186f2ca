"""Random graphs, whole way through: prepared, searched, lowered, and run on two lanes.

The answers have the bits of TVM's own executor on the same kernels, and are near those that NumPy
computes. In bfloat16 they have the bits of the same graphs in float32 whose values are rounded by
operators. Graphs are the same in each run, some 25 by default and 2,200 with those marked
``full``; a failure prints the smallest that Hypothesis finds.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
import tvm
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tvm.contrib import graph_executor

from tests.relay_graphs.builder import DrawnGraph
from tests.relay_graphs.graphs import (
    any_graph,
    averaged_graph,
    deep_graph,
    drawn,
    wide_graph,
)
from tests.relay_graphs.rounded import rounded_in_float32
from tvm_ios.compile.built_model import BuiltModel
from tvm_ios.compile.lower import lower_schedule
from tvm_ios.compile.model import CompiledModel
from tvm_ios.compile.model_kernels import ModelKernels
from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.schedule import InterOpSchedule, Stage
from tvm_ios.host import host_target
from tvm_ios.plan.lanes import CORES
from tvm_ios.relay import build, prepare
from tvm_ios.relay.prepare import PreparedModule, with_low_precision
from tvm_ios.relay.transforms.bfloat16 import low_values
from tvm_ios.runtime.base.lane_pool import LaneOptions
from tvm_ios.runtime.base.plan_memory import PlanMemory
from tvm_ios.runtime.cpu.lane_executor import executor_here
from tvm_ios.search.baselines import greedy_schedule
from tvm_ios.search.ios import search_ios
from tvm_ios.search.list_schedule import OperatorTimes, list_schedule
from tvm_ios.search.list_search import ListOptions
from tvm_ios.search.options import SearchOptions

LANES = 2
SEEDS = st.integers(0, 10**6)
PATIENT = settings(suppress_health_check=list(HealthCheck))
SPECIAL = np.array([np.inf, -np.inf, np.nan, 1e-40, 3.39e38, 3.4e38, -3.4028235e38], "float32")
"""Infinities, NaN, a subnormal, and numbers that bfloat16 has as large ones and as infinities."""


def parts(usual: int, nightly: int, *, quick: int = 4) -> pytest.MarkDecorator:
    """Four parts of the usual graphs, of which some are ``full``, and four of nightly ones."""
    cases = [
        pytest.param(count, id=f"{name}-{part}", marks=() if part < few else pytest.mark.full)
        for name, count, few in (("usual", usual, quick), ("nightly", nightly, 0))
        for part in range(4)
    ]
    return pytest.mark.parametrize("count", cases)


@dataclass(frozen=True)
class RandomPrices:
    """Prices that follow from a seed: operators cost anything, and merging them often pays."""

    seed: int

    def alone_ns(self, graph: OperatorGraph) -> list[int]:
        """Of each operator."""
        chooser = random.Random(self.seed)
        return [chooser.randrange(1, 1000) for _ in range(len(graph))]

    def price(self, graph: OperatorGraph, stages: Sequence[Stage]) -> list[int]:
        """Of each stage: its longest group, and something for each group."""
        alone_ns = self.alone_ns(graph)
        groups = [[sum(alone_ns[i] for i in group) for group in stage.groups] for stage in stages]
        return [
            (max(sizes) // (2 if stage.is_merge else 1)) + 50 * len(sizes)
            for stage, sizes in zip(stages, groups, strict=True)
        ]


@dataclass
class Pipeline:
    """Compiles graphs; kernels of one are known to the next."""

    known: dict[int, dict[str, Any]] = field(default_factory=dict)
    """Lowered kernels by optimization level."""

    def prepared(self, graph: DrawnGraph, opt_level: int) -> PreparedModule:
        """The graph, fused."""
        with tvm.transform.PassContext(opt_level=opt_level):
            return prepare(graph.module, graph.params, f"{host_target()} -opt-level=0")

    def built(
        self, prepared: PreparedModule, opt_level: int, module: tvm.IRModule | None = None
    ) -> BuiltModel:
        """The graph and its kernels; ``module`` goes in place of the prepared one."""
        known = self.known.setdefault(opt_level, {})
        with tvm.transform.PassContext(opt_level=opt_level):
            fused = prepared.module if module is None else module
            staged = build(fused, prepared.target, prepared.params, known=known)
        known.update(staged.lowered)
        return BuiltModel(prepared, ModelKernels(staged))

    def compiled(
        self, prepared: PreparedModule, opt_level: int, chooser: random.Random
    ) -> CompiledModel:
        """The graph with a schedule of any scheduler."""
        built = self.built(prepared, opt_level)
        schedule = self.schedule(built.graph, chooser)
        with tvm.transform.PassContext(opt_level=opt_level):
            return lower_schedule(built, schedule, lanes=LANES)

    def schedule(self, graph: OperatorGraph, chooser: random.Random) -> InterOpSchedule:
        """Mostly IOS's."""
        prices = RandomPrices(chooser.randrange(1000))
        kind = chooser.choice(("ios", "ios", "list", "greedy"))
        if kind == "ios":
            options = SearchOptions(max_block_states=500, max_block_transitions=20_000)
            return search_ios(graph, prices, options).schedule
        schedule = greedy_schedule(graph)
        if kind == "greedy":
            return schedule
        alone_ns = prices.alone_ns(graph)
        times = OperatorTimes(alone_ns=alone_ns, helped_ns=alone_ns)
        options = ListOptions(draws=200, moves=2400)  # any list will do
        return list_schedule(
            graph, times, lanes=LANES, hand_over=CORES, start=schedule, options=options
        )


def check(pipeline: Pipeline, graph: DrawnGraph, seed: int) -> None:
    """Compile and run a graph, and compare its answers."""
    chooser = random.Random(seed)
    opt_level = chooser.choice((2, 3))
    prepared = pipeline.prepared(graph, opt_level)
    model = pipeline.compiled(prepared, opt_level, chooser)
    graph.assert_answers(answers_of(model, graph.inputs, seed))


def check_in_bfloat16(pipeline: Pipeline, graph: DrawnGraph, seed: int) -> None:
    """Compile and run a graph in bfloat16, and compare it with one that rounds in float32.

    Every other graph reads special numbers.
    """
    chooser = random.Random(seed)
    opt_level = chooser.choice((2, 3))
    exact = pipeline.prepared(graph, opt_level)
    low = with_low_precision(exact, low_values(exact.extraction).most())
    # An instruction that rounds would make zeros of subnormal numbers.
    low = replace(low, target=exact.target)
    inputs = {
        name: with_special(array, chooser) if seed % 2 and array.dtype == "float32" else array
        for name, array in graph.inputs.items()
    }
    answers = answers_of(pipeline.compiled(low, opt_level, chooser), inputs, seed)
    rounded = rounded_in_float32(exact.extraction, low.extraction)
    kernels = pipeline.built(exact, opt_level, rounded).kernels
    for answer, wanted in zip(answers, stock_answers(kernels, inputs), strict=True):
        np.testing.assert_array_equal(answer, wanted)


def with_special(array: np.ndarray, chooser: random.Random) -> np.ndarray:
    """A copy of an array with some special numbers."""
    special = array.copy()
    for _ in range(1 + array.size // 50):
        special.reshape(-1)[chooser.randrange(array.size)] = chooser.choice(SPECIAL)
    return special


def stock_answers(kernels: ModelKernels, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    """What TVM's own executor makes of kernels."""
    stock = graph_executor.create(kernels.staged.graph_json, kernels.library.module, tvm.cpu())
    stock.run(**kernels.staged.params, **inputs)
    return [stock.get_output(number).numpy() for number in range(stock.get_num_outputs())]


def answers_of(model: CompiledModel, inputs: dict[str, np.ndarray], seed: int) -> list[np.ndarray]:
    """What our executor makes of a model, twice with the bits of TVM's own."""
    memory = PlanMemory(model.plan, model.kernels.staged.params)
    for entry in model.plan.inputs:
        if entry.name in inputs:
            memory.array(entry.tensor).copyfrom(inputs[entry.name])
    options = LaneOptions(oversubscribe=True, jitter_seed=seed % 1000 + 1)
    library = model.kernels.library
    executor = executor_here(model.plan, library, memory, options=options, poison=True)
    stock = stock_answers(model.kernels, inputs)
    try:
        for _ in range(2):
            executor.run()
            answers = [memory.array(tensor).numpy() for tensor in model.plan.outputs]
            for answer, wanted in zip(answers, stock, strict=True):
                np.testing.assert_array_equal(
                    answer.reshape(-1).view("uint8"), wanted.reshape(-1).view("uint8")
                )
    finally:
        executor.close()
    return answers


def check_many(
    pipeline: Pipeline,
    graphs: st.SearchStrategy[DrawnGraph],
    count: int,
    salt: str,
    checked: Callable[[Pipeline, DrawnGraph, int], None] = check,
) -> None:
    """Check so many graphs of a strategy."""

    @settings(PATIENT, max_examples=count)
    @given(graph=graphs, seed=SEEDS)
    def one(graph: DrawnGraph, seed: int) -> None:
        checked(pipeline, graph, seed)

    one.hypothesis.inner_test._hypothesis_internal_add_digest = salt.encode()
    one()


@pytest.fixture(scope="session")
def pipeline() -> Pipeline:
    """Compiles all graphs of a worker."""
    return Pipeline()


@pytest.mark.slow(10)
@parts(usual=20, nightly=440, quick=1)
def test_any_graph(pipeline, count, request):
    check_many(pipeline, drawn(any_graph), count, request.node.name)


@pytest.mark.slow(5)
@parts(usual=4, nightly=79, quick=1)
def test_any_graph_in_bfloat16(pipeline, count, request):
    name = request.node.name
    check_many(pipeline, drawn(averaged_graph), count, name, check_in_bfloat16)


@pytest.mark.full
@pytest.mark.slow(120)
def test_graph_500_deep(pipeline):
    # One takes from four seconds of a core to minutes: element-wise operators become huge kernels.
    check(pipeline, deep_graph(random.Random(0)), 0)


@pytest.mark.slow(4)
@parts(usual=1, nightly=18, quick=1)
def test_graph_60_wide(pipeline, count, request):
    check_many(pipeline, drawn(wide_graph), count, request.node.name)
