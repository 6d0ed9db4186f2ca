from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relax

from tests.relax.networks import TARGET, Network, inception_block, squeezenet
from tests.relax.relax.modules import Branches, Controlled, Dynamic, Opaque, Unprepared
from tvm_ios.compile.built_model import build_model
from tvm_ios.compile.lower import lower_schedule
from tvm_ios.core.graph import Obstacle
from tvm_ios.errors import ModelError
from tvm_ios.plan.placement import ConcatView, SliceView
from tvm_ios.relax.extract import extract, is_prepared
from tvm_ios.relax.prepare import prepare
from tvm_ios.relax.rewrite import rewrite
from tvm_ios.search.baselines import greedy_schedule, sequential_schedule


def test_operators_are_kernel_calls_in_order():
    graph = extract(Branches).graph
    assert [each.name for each in graph.operators] == ["twice_0", "raised_0", "added_0"]
    assert [each.predecessors for each in graph.operators] == [(), (), (0, 1)]
    assert [each.flops for each in graph.operators] == [32, 32, 32]
    assert [each.memory_bytes for each in graph.operators] == [256, 256, 384]


def test_an_inception_block():
    module, _ = inception_block()
    extraction = prepare(module, None, TARGET).extraction
    kinds = [each.kind for each in extraction.graph.operators]
    assert sorted(kinds) == ["concatenate", *["conv2d_add_relu"] * 7, "max_pool2d"]
    (joined,) = [view for view in extraction.views if view is not None]
    assert joined == ConcatView((0, 4 * 576, 12 * 576, 18 * 576))
    assert not extraction.coverage.barriers


def test_a_reshape_needs_no_kernel():
    module, params, _ = squeezenet()
    extraction = prepare(module, params, TARGET).extraction
    views = [each.kind for each in extraction.graph.operators if each.view]
    assert views == ["concatenate"] * 3 + ["reshape"]
    (reshape,) = extraction.reshapes
    assert extraction.graph.operators[reshape].kind == "reshape"


@pytest.mark.parametrize("axis", [1, 2])
def test_only_whole_pieces_are_a_view(axis):
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((1, 4, 6), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            first = builder.emit(relax.op.nn.softmax(x))
            second = builder.emit(relax.op.nn.softmax(x, axis=1))
            whole = builder.emit_output(relax.op.concat([first, second], axis=axis))
        builder.emit_func_output(whole)
    *_, view = prepare(builder.get(), None, TARGET).extraction.views
    assert view == (ConcatView((0, 96)) if axis == 1 else None)


def test_opaque_calls_are_barriers():
    extraction = prepare(Opaque, None, TARGET).extraction
    assert [each.schedulable for each in extraction.graph.operators] == [True, False, True]
    assert extraction.graph.operators[2].predecessors == (1,)
    reason = "relax.call_dps_packed, which is no kernel of this module"
    assert extraction.coverage.barriers == (Obstacle("call_dps_packed_0", reason),)
    assert extraction.coverage.as_text().startswith("2 of 3 operators scheduled")


@pytest.mark.parametrize(
    ("module", "obstacle"),
    [
        (
            Dynamic,
            Obstacle("main", "parameter 'x' has the type R.Tensor((n, 8), dtype=\"float32\")"),
        ),
        (Controlled, Obstacle("y", "control flow (If)")),
    ],
)
def test_obstacles_keep_the_whole_module_out(module, obstacle):
    extraction = prepare(module, None, TARGET).extraction
    assert not len(extraction.graph)
    assert extraction.coverage.barriers == (obstacle,)


def test_a_partitioned_module_is_read_with_its_stages():
    schedule = greedy_schedule(extract(Branches).graph)
    assert extract(rewrite(Branches, schedule)).graph.fingerprint() == schedule.graph_fingerprint


def test_prepared_modules_call_kernels_only():
    assert is_prepared(Branches)
    assert is_prepared(prepare(Unprepared, None, TARGET).module)
    assert not is_prepared(Unprepared)


def test_a_module_needs_a_main():
    with pytest.raises(ModelError, match="no function 'main' in Relax"):
        extract(tvm.IRModule())


@pytest.mark.parametrize(
    ("axis", "begin", "end", "view"),
    [(1, 0, 2, SliceView(0)), (1, 1, 4, SliceView(144)), (2, 0, 2, None), (2, 1, 5, None)],
)
def test_a_slice_is_a_view_of_one_piece_of_memory(axis, begin, end, view):
    network = Network(1, 4, 6, 6)
    mod = network.build(
        lambda net: net.emit(relax.op.strided_slice(net.x, axes=[axis], begin=[begin], end=[end]))
    )
    prepared = prepare(mod, None, TARGET)
    extraction = prepared.extraction
    assert (extraction.views, extraction.reshapes) == ((view,), frozenset())
    model = build_model(mod, None, TARGET)
    schedule = sequential_schedule(model.graph)
    with lower_schedule(model, schedule, lanes=1).executor() as executor:
        executor.run(x=network.value())
        found = executor.get_output(0).numpy()
    index = [slice(None)] * axis + [slice(begin, end)]
    np.testing.assert_array_equal(found, network.value()[tuple(index)])
