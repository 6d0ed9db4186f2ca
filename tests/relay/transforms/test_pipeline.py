from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relay
from tvm.ir.instrument import PassTimingInstrument
from tvm.ir.transform import PassContext

from tests.relay.test_prepare import shared_twice
from tests.relay.transforms.test_fold import constants
from tvm_ios.models.nasnet import nasnet_small
from tvm_ios.models.randwire import randwire_small
from tvm_ios.models.squeezenet import squeezenet
from tvm_ios.relay.context import tvm_pipeline
from tvm_ios.relay.transforms.layout_text import without_layout_text
from tvm_ios.relay.transforms.pipeline import optimize


def check_same(module, params, target, *, disabled=(), level=3, left_out=()):
    """Our pipeline gives what TVM's gives: the same code, the same bits in the constants.

    ``left_out`` are passes that ours is to leave out by itself.
    """
    target = tvm.target.Target.canon_multi_target_and_host(target)[0]
    ours = optimize(module, params, target, opt_level=level, disabled=disabled)
    with without_layout_text(), tvm_pipeline(opt_level=level, disabled=[*disabled, *left_out]):
        expected, rest = relay.optimize(module, target=target, params=dict(params))
    tvm.ir.assert_structural_equal(ours.module, expected, map_free_vars=True)
    assert dict(ours.params) == dict(rest)
    left, right = constants(ours.module), constants(expected)
    assert len(left) == len(right)
    for actual, wanted in zip(left, right, strict=True):
        assert actual.dtype == wanted.dtype
        assert actual.shape == wanted.shape
        assert actual.tobytes() == wanted.tobytes()
    return ours


def batch_norms(nets, *groups):
    """Convolutions with batch norm, in these numbers of groups, and a dense layer."""
    data = relay.var("data", shape=(1, 16, 8, 8))
    value = data
    for name, number in zip("ab", groups, strict=False):
        value = nets.conv(value, name, 16, (3, 3), (1, 1), groups=number, activation=None)
        statistics = [relay.var(f"{name}_{kind}", shape=(16,)) for kind in "gbmv"]
        value = relay.nn.relu(relay.nn.batch_norm(value, *statistics)[0])
    flat = relay.nn.batch_flatten(relay.nn.global_avg_pool2d(value))
    dense = relay.nn.dense(flat, relay.var("dense_weight", shape=(10, 16)))
    module, params = nets.finish(relay.nn.softmax(dense), data)
    return module, {
        name: tvm.nd.array(np.abs(value.numpy()) + 0.1) if name.endswith("_v") else value
        for name, value in params.items()
    }


def one_cell(_nets):
    """A cell of NASNet."""
    return nasnet_small(num_cells=1)


@pytest.mark.slow(1)
def test_branches_come_out_as_from_tvm(nets):
    check_same(*nets.branching(3), nets.target)


@pytest.mark.slow
def test_batch_norms_come_out_as_from_tvm(nets):
    check_same(*batch_norms(nets, 1, 16), nets.target)


@pytest.mark.parametrize("level", [1, 2, pytest.param(4, marks=pytest.mark.slow)])
def test_other_levels_come_out_as_from_tvm(nets, level):
    check_same(*nets.branching(), nets.target, level=level)


@pytest.mark.slow
@pytest.mark.parametrize(
    "target", ["llvm", pytest.param("llvm -mcpu=skylake-avx512", marks=pytest.mark.full)]
)
def test_batch_norms_come_out_as_from_tvm_for_other_targets(nets, target):
    check_same(*batch_norms(nets, 1), target)


@pytest.mark.slow
@pytest.mark.parametrize(
    "disabled",
    [
        "AlterOpLayout",
        "FoldScaleAxis",
        # Another test disables folding, another one simplifying.
        *(
            pytest.param(name, marks=pytest.mark.full)
            for name in ("FoldConstant", "SimplifyExpr", "CanonicalizeOps")
        ),
    ],
)
def test_without_a_pass_modules_come_out_as_from_tvm(nets, disabled):
    check_same(*batch_norms(nets, 1), nets.target, disabled=[disabled])


def test_nothing_is_folded_where_the_caller_disables_folding(nets):
    module, params = nets.branching()
    with PassContext(opt_level=3, disabled_pass=["FoldConstant"]):
        ours = check_same(module, params, nets.target)
    kept = sorted(constants(ours.module), key=lambda value: value.tobytes())
    given = sorted((value.numpy() for value in params.values()), key=lambda v: v.tobytes())
    assert [value.tobytes() for value in kept] == [value.tobytes() for value in given]


@pytest.mark.parametrize(
    "context", [{"opt_level": 3, "disabled_pass": ["AlterOpLayout"]}, {"opt_level": 2}]
)
def test_no_marker_of_a_gate_stays_where_the_caller_has_no_choice_of_layouts(nets, context):
    data, gate = (relay.var(name, shape=(1, 16, 3, 3)) for name in ("data", "gate"))
    product = relay.multiply(relay.nn.relu(data), relay.sigmoid(gate))
    module, params = nets.finish(nets.conv(product, "a", 16, (1, 1), (0, 0)), data, gate)
    with PassContext(**context):
        check_same(module, params, nets.target)


@pytest.mark.slow
def test_passes_that_the_caller_requires_run_once_and_in_order(nets):
    with PassContext(opt_level=1, required_pass=["FoldConstant", "AlterOpLayout", "FuseOps"]):
        check_same(*batch_norms(nets, 1), nets.target)


@pytest.mark.slow(1)
def test_instruments_of_the_caller_see_the_whole_pipeline(nets):
    timing = PassTimingInstrument()
    module, params = nets.branching()
    with PassContext(opt_level=3, instruments=[timing]):
        optimize(module, params, tvm.target.Target(nets.target), opt_level=3)
        profile = timing.render()
    assert all(name in profile for name in ("SimplifyExpr", "AlterOpLayout", "FuseOps"))


@pytest.mark.slow(1)
def test_weights_that_are_inputs_are_not_folded(nets):
    module, _ = batch_norms(nets, 1, 16)
    check_same(module, {}, nets.target)


@pytest.mark.slow
def test_a_gpu_gets_the_same_as_from_tvm(nets):
    if not tvm.runtime.enabled("cuda"):
        pytest.skip("this TVM has no CUDA code generator")
    check_same(*batch_norms(nets, 16), "cuda -arch=sm_80")


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.parametrize("network", [squeezenet, randwire_small])
def test_networks_come_out_as_from_tvm(nets, network):
    check_same(*network(), nets.target)


@pytest.mark.slow(1)
@pytest.mark.parametrize("network", [shared_twice, pytest.param(one_cell, marks=pytest.mark.full)])
def test_networks_that_would_grow_come_out_as_without_the_pass(nets, network):
    module, params = network(nets)
    assert check_same(module, params, nets.target, left_out=["SimplifyExpr"]).unshares
