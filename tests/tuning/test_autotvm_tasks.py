"""Which kernels are tuned, and which candidates keep the layouts of the network."""

from __future__ import annotations

import pytest
import tvm
from tvm import autotvm

from tvm_ios.compiled import build_model
from tvm_ios.models import nasnet_small, squeezenet
from tvm_ios.tuning.autotvm_tasks import extract_tasks, layout_candidates
from tvm_ios.tuning.session import merged_modules

TARGET = tvm.target.Target("llvm -mcpu=core-avx2")


@pytest.fixture(scope="module")
def tasks():
    mod, _ = squeezenet(image_size=64)
    return extract_tasks([mod], TARGET)


def test_the_tasks_are_those_stock_tvm_finds(tasks):
    mod, params = squeezenet(image_size=64)
    stock = autotvm.task.extract_from_program(mod["main"], params, TARGET)
    assert {one.task.workload for one in tasks} == {task.workload for task in stock}


def test_uses_add_up_to_the_convolutions_of_the_network(tasks):
    mod, _ = squeezenet(image_size=64)
    assert sum(one.weight for one in tasks) == mod["main"].astext(False).count("nn.conv2d(")


def test_a_network_that_a_pass_of_tvm_blows_up_has_its_few_tasks():
    mod, _ = nasnet_small(size=8, num_cells=2)
    tasks = extract_tasks([mod], TARGET)
    assert len(tasks) == 5
    assert sum(one.weight for one in tasks) == mod["main"].astext(False).count("nn.conv2d(")


def test_candidates_keep_the_blocks_of_the_default_schedule(tasks):
    for one in tasks:
        space = one.task.config_space
        candidates = layout_candidates(one.task)
        assert len(candidates) == len(set(candidates))
        assert 1 <= len(candidates) < len(space)
        blocks = {
            tuple(space.get(index)[name].size[-1] for name in ("tile_ic", "tile_oc"))
            for index in candidates
        }
        assert len(blocks) == 1
        outside = set(range(len(space))) - set(candidates)
        assert not any(
            tuple(space.get(index)[name].size[-1] for name in ("tile_ic", "tile_oc")) in blocks
            for index in outside
        )


def test_merged_convolutions_have_tasks_of_their_own():
    mod, params = squeezenet(image_size=64)
    built = build_model(mod, params, TARGET)
    modules = merged_modules(built)
    assert modules
    alone = {one.task.workload for one in extract_tasks([mod], TARGET)}
    merged = {one.task.workload for one in extract_tasks(list(modules), TARGET)}
    assert merged
    assert not merged & alone
