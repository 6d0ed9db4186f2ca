"""Which kernels are tuned, and which candidates keep the layouts of the network."""

from __future__ import annotations

import pytest
import tvm
from tvm import autotvm, relay
from tvm.autotvm.task.dispatcher import FallbackContext

from tvm_ios.compile.built_model import build_model
from tvm_ios.models import bert_base, nasnet_small, squeezenet
from tvm_ios.relay.gpu_defaults import default_tiles
from tvm_ios.tuning.autotvm.tasks import (
    Layout,
    blocks_of,
    config_blocks,
    default_candidate,
    extract_tasks,
    layout_candidates,
)
from tvm_ios.tuning.tuned_kernels import merged_modules

TARGET = tvm.target.Target("llvm -mcpu=core-avx2 -opt-level=0")
GPU = tvm.target.Target("cuda -arch=sm_80")


@pytest.fixture(scope="module")
def tasks():
    mod, _ = squeezenet(image_size=64)
    return extract_tasks([mod], TARGET)


@pytest.mark.slow
def test_the_tasks_are_those_stock_tvm_finds(branching):
    mod, params = branching
    stock = autotvm.task.extract_from_program(mod["main"], params, TARGET)
    ours = extract_tasks([mod], TARGET)
    assert {one.task.workload for one in ours} == {task.workload for task in stock}


@pytest.mark.slow
def test_uses_add_up_to_the_convolutions_of_the_network(tasks):
    mod, _ = squeezenet(image_size=64)
    assert sum(one.weight for one in tasks) == mod["main"].astext(False).count("nn.conv2d(")


@pytest.mark.slow
def test_a_network_that_a_pass_of_tvm_blows_up_has_its_few_tasks():
    mod, _ = nasnet_small(size=8, num_cells=2)
    tasks = extract_tasks([mod], TARGET)
    assert len(tasks) == 5
    assert sum(one.weight for one in tasks) == mod["main"].astext(False).count("nn.conv2d(")


@pytest.mark.slow
@pytest.mark.parametrize("dimensions", [1, 3])
def test_convolutions_of_other_dimensions_have_their_uses(dimensions):
    convolution = getattr(relay.nn, f"conv{dimensions}d")
    body = relay.var("data", shape=(1, 8, *(6,) * dimensions))
    weight = relay.var("weight", shape=(8, 8, *(3,) * dimensions))
    for _ in range(2):
        sizes = {"kernel_size": (3,) * dimensions, "padding": (1,) * dimensions}
        body = convolution(body, weight, channels=8, **sizes)
    assert {one.weight for one in extract_tasks([module_of(body)], GPU)} == {2}


@pytest.mark.slow
def test_a_deformable_convolution_is_a_task():
    shapes = {"data": (1, 8, 6, 6), "offset": (1, 18, 6, 6), "weight": (8, 8, 3, 3)}
    arguments = [relay.var(name, shape=shape) for name, shape in shapes.items()]
    body = relay.nn.deformable_conv2d(*arguments, channels=8, kernel_size=(3, 3), padding=(1, 1))
    (one,) = extract_tasks([module_of(body)], GPU)
    assert (one.task.name, one.weight) == ("deformable_conv2d_nchw.cuda", 1)


@pytest.mark.slow
def test_the_default_of_a_gpu_is_the_candidate_that_an_untuned_model_has():
    data, weight = relay.var("data", shape=(1, 32, 56, 56)), relay.var("w", shape=(64, 32, 3, 3))
    body = relay.nn.conv2d(data, weight, channels=64, kernel_size=(3, 3), padding=(1, 1))
    tasks = {one.task.name: one.task for one in extract_tasks([module_of(body)], GPU)}
    space = tasks["conv2d_nchw.cuda"].config_space
    config = space.get(default_candidate(tasks["conv2d_nchw.cuda"]))
    tiles = [config[name].size[-2:] for name in ("tile_f", "tile_y", "tile_x")]
    assert [tuple(tile) for tile in tiles] == list(default_tiles(64, 56, 56, sums=True))


def module_of(body):
    return tvm.IRModule.from_expr(body)


@pytest.mark.slow
def test_products_of_an_encoder_are_tasks_with_their_uses():
    mod, _ = bert_base(sequence=8, layers=1)
    uses = {one.name: one.weight for one in extract_tasks([mod], TARGET)}
    # Query, key, value and the mix of heads; then the two wide ones; scores and what is read.
    assert {name: weight for name, weight in uses.items() if "dense_nopack" in name} == {
        "dense_nopack 8x768 * 768x768": 4,
        "dense_nopack 8x768 * 3072x768": 1,
        "dense_nopack 8x3072 * 768x3072": 1,
    }
    assert {name: weight for name, weight in uses.items() if "batch_matmul" in name} == {
        "batch_matmul 12x8x64 * 12x8x64": 1,
        "batch_matmul 12x8x8 * 12x64x8": 1,
    }


@pytest.mark.slow
@pytest.mark.parametrize("layout", Layout)
def test_candidates_have_the_blocks_of_their_layout(tasks, layout):
    for one in tasks:
        space = one.task.config_space
        candidates = layout_candidates(one.task, layout)
        assert len(candidates) == len(set(candidates))
        assert 1 <= len(candidates) < len(space)
        wanted = blocks_of(one.task, layout)
        assert all(config_blocks(space.get(index)) == wanted for index in candidates)


@pytest.mark.slow
def test_the_default_schedule_is_the_first_candidate_where_the_space_has_it(tasks):
    firsts = 0
    for one in tasks:
        index = layout_candidates(one.task, Layout.DEFAULT)[0]
        context = FallbackContext()
        with context, TARGET:
            one.task.func(*one.task.args)
        (default,) = context.memory.values()
        config = one.task.config_space.get(index)
        tiles = [name for name in ("tile_ic", "tile_oc", "tile_ow") if name in config]
        same = all(config[name].size[-1] == default[name].size[-1] for name in tiles)
        knobs = [name for name in ("tile_oh", "unroll_kw") if name in config]
        firsts += same and all(config[name].val == default[name].val for name in knobs)
    assert firsts > len(tasks) / 2


@pytest.mark.slow
def test_a_layout_gives_every_number_of_channels_one_block(tasks):
    """Then what one operator writes is laid out as the next one reads it."""
    blocks = {}
    for one in tasks:
        space = one.task.config_space
        for name, block in blocks_of(one.task, Layout.WIDE).items():
            channels = space.space_map[name].product
            if channels % 8 == 0:
                blocks.setdefault(channels, set()).add(block)
    assert blocks
    assert all(len(found) == 1 for found in blocks.values())


@pytest.mark.slow
def test_merged_convolutions_have_tasks_of_their_own(branching):
    mod, params = branching
    built = build_model(mod, params, TARGET)
    modules = merged_modules(built.extraction)
    assert modules
    alone = {one.task.workload for one in extract_tasks([mod], TARGET)}
    merged = {one.task.workload for one in extract_tasks(list(modules), TARGET)}
    assert merged
    assert not merged & alone


@pytest.mark.slow(1)
def test_merges_that_the_search_may_not_choose_have_no_tasks(branching):
    """Left and right are 1x1 and middle is 3x3; of the second level no two kernels are equal."""
    built = build_model(*branching, TARGET)

    def workloads(**options):
        modules = merged_modules(built.extraction, **options)
        return [one.task.workload for one in extract_tasks(list(modules), TARGET)]

    kernels = sorted(workload[2][1][2:4] for workload in workloads())
    assert kernels == [(3, 3), (3, 3)]
    ((_, _, (_, shape, _), *_),) = workloads(pad_kernels=False)
    assert shape[2:4] == (1, 1)
