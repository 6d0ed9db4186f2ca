from __future__ import annotations

import pytest
import tvm
from tvm import relax

from tests.relax.networks import TARGET, inception_block, squeezenet
from tests.relax.relax.modules import Branches, Controlled, Dynamic, Opaque, Unprepared
from tvm_ios.core.graph import Obstacle
from tvm_ios.errors import ModelError
from tvm_ios.plan.placement import ConcatView
from tvm_ios.relax.extract import extract, is_prepared
from tvm_ios.relax.prepare import prepare
from tvm_ios.relax.rewrite import rewrite
from tvm_ios.search.baselines import greedy_schedule


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
