"""Random branching networks of Relax: any schedule has the bits of TVM's virtual machine.

More by hand: ``TVM_IOS_RANDOM_NETWORKS=200 TVM_IOS_TVM=path pytest`` and the path of this file.
"""

from __future__ import annotations

import os
import random

import numpy as np
import pytest
import tvm
from tvm import relax

from tests.relax.networks import TARGET, answers, random_network
from tvm_ios.compile.built_model import build_model
from tvm_ios.compile.lower import lower_schedule
from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.schedule import InterOpSchedule, Stage
from tvm_ios.relax.stage_ir import read_schedule
from tvm_ios.runtime.base.lane_pool import LaneOptions
from tvm_ios.runtime.base.plan_memory import PlanMemory
from tvm_ios.runtime.cpu.lane_executor import executor_here
from tvm_ios.search.baselines import greedy_schedule, sequential_schedule
from tvm_ios.search.ios import search_ios
from tvm_ios.search.options import SearchOptions

LANES = 2
COUNT = int(os.environ.get("TVM_IOS_RANDOM_NETWORKS", "20"))
SCRIPTS, USUAL = 1, (0, 2, 3, 4, 7)
"""Networks that are read from a script as well, and those that are not only for nightly runs."""
SEEDS = [pytest.param(n, marks=[] if n in USUAL else pytest.mark.full) for n in range(COUNT)]


class RandomPrices:
    """Prices of stages that follow from a seed: more groups at once often pay."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def price(self, graph: OperatorGraph, stages: list[Stage]) -> list[int]:
        """Of each stage: its longest group, and something for each group; merges cost little."""
        chooser = random.Random(self.seed)
        alone_ns = [chooser.randrange(1, 1000) for _ in range(len(graph))]
        return [
            50
            if stage.is_merge
            else max(sum(alone_ns[i] for i in group) for group in stage.groups)
            + 50 * len(stage.groups)
            for stage in stages
        ]


def schedule_of(graph: OperatorGraph, seed: int) -> InterOpSchedule:
    """Mostly one of IOS."""
    if seed % 4 == 0:
        return greedy_schedule(graph)
    if seed % 7 == 0:
        return sequential_schedule(graph)
    options = SearchOptions(max_block_states=500, max_block_transitions=20_000)
    return search_ios(graph, RandomPrices(seed), options).schedule


def read_again(module: tvm.IRModule, *, as_script: bool) -> tvm.IRModule:
    """The module from its script, or from its JSON, which is read in a tenth of the time."""
    if as_script:
        return tvm.script.from_source(module.script(show_meta=True))
    return tvm.ir.load_json(tvm.ir.save_json(module))


@pytest.mark.slow(2)
@pytest.mark.parametrize("seed", SEEDS)
def test_every_schedule_has_the_bits_of_the_virtual_machine(seed):
    mod, value = random_network(seed)
    model = build_model(mod, None, TARGET)
    schedule = schedule_of(model.graph, seed)
    compiled = lower_schedule(model, schedule, lanes=LANES)
    partitioned = compiled.module
    relax.analysis.check_well_formed(partitioned)
    assert read_schedule(read_again(partitioned, as_script=seed < SCRIPTS)) == schedule
    wanted = answers(partitioned, value)
    memory = PlanMemory(compiled.plan, compiled.kernels.params)
    for entry in compiled.plan.inputs:
        if entry.name == "x":
            memory.array(entry.tensor).copyfrom(value)
    options = LaneOptions(oversubscribe=True, jitter_seed=seed + 1)
    executor = executor_here(
        compiled.plan, compiled.kernels.library, memory, options=options, poison=True
    )
    try:
        for _ in range(2):
            executor.run()
            for tensor, bits in zip(compiled.plan.outputs, wanted, strict=True):
                np.testing.assert_array_equal(memory.array(tensor).numpy(), bits)
    finally:
        executor.close()
