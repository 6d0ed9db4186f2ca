"""Gates stay out of the weights of convolutions; batch norms go into them as before."""

from __future__ import annotations

import pytest
from tvm import relay

from tvm_ios.relay.dataflow import graph_order, kernel_calls
from tvm_ios.relay.inputs import check_module, resolve_target
from tvm_ios.relay.prepare import prepare
from tvm_ios.relay.transforms.scales import free_scales, hold_scales

CHANNELS = 16


def gated(nets, data, size):
    """A squeeze-and-excite block behind a depthwise convolution."""
    wide = nets.conv(data, "wide", CHANNELS, (3, 3), (1, 1), in_channels=CHANNELS, groups=CHANNELS)
    squeezed = relay.nn.global_avg_pool2d(wide)
    gate = relay.sigmoid(nets.conv(squeezed, "gate", CHANNELS, (1, 1), (0, 0)))
    return nets.conv(relay.multiply(wide, gate), "narrow", CHANNELS, (1, 1), (0, 0))


def names(module):
    """The operators of each fused function, by the order they run in."""
    return [
        [each.op.name for each in graph_order(call.op.body) if isinstance(each, relay.Call)]
        for call in kernel_calls(module["main"].body)
    ]


def scaled_weights(module):
    """Fused functions that lay out what is computed from an OIHW parameter."""
    return [
        function
        for function in (call.op for call in kernel_calls(module["main"].body))
        for each in graph_order(function.body)
        if isinstance(each, relay.Call)
        and each.op.name == "layout_transform"
        and each.attrs.src_layout == "OIHW"
    ]


@pytest.mark.slow
@pytest.mark.parametrize(("size", "folded"), [(3, 0), (9, 1)])
def test_a_gate_goes_into_weights_only_where_these_are_smaller(nets, size, folded):
    data = relay.var("data", shape=(1, CHANNELS, size, size))
    module, params = nets.finish(gated(nets, data, size), data)
    prepared = prepare(module, params, resolve_target(nets.target))
    assert len(scaled_weights(prepared.module)) == folded
    assert all("annotation.checkpoint" not in each for each in names(prepared.module))
    nets.assert_same((module, params), (prepared.module, prepared.params), rtol=1e-4)


@pytest.mark.slow
def test_a_result_that_is_gated_leaves_the_weights_as_they_are(nets):
    data = relay.var("data", shape=(1, CHANNELS, 9, 9))
    other = relay.sigmoid(relay.nn.global_avg_pool2d(data))
    module, params = nets.finish(
        relay.multiply(nets.conv(data, "a", CHANNELS, (3, 3), (1, 1)), other), data
    )
    prepared = prepare(module, params, resolve_target(nets.target))
    assert not scaled_weights(prepared.module)


@pytest.mark.slow
def test_a_hard_swish_stays_out_of_the_weights_of_a_product(nets):
    data = relay.var("data", shape=(1, 24))
    gate = relay.clip(data + relay.const(3.0), 0.0, 6.0) * relay.const(1 / 6)
    product = relay.nn.dense(relay.multiply(data, gate), relay.var("w", shape=(40, 24)))
    module, params = nets.finish(product, data)
    prepared = prepare(module, params, resolve_target(nets.target))
    swish, dense = names(prepared.module)
    # Its sixth, one number, may be in them.
    assert swish == ["add", "clip", "multiply"]
    assert dense[0] in ("nn.dense", "nn.contrib_dense_pack")
    nets.assert_same((module, params), (prepared.module, prepared.params), rtol=1e-4)


def test_markers_come_and_go(nets):
    data = relay.var("data", shape=(1, CHANNELS, 3, 3))
    module, params = nets.finish(gated(nets, data, 3), data)
    typed = check_module(module)
    held, count = hold_scales(typed, params)
    assert count == 1
    marked = [call.op.name for call in kernel_calls(held["main"].body)]
    assert marked.count("annotation.checkpoint") == 2
    freed = free_scales(held)
    assert [call.op.name for call in kernel_calls(freed["main"].body)] == [
        call.op.name for call in kernel_calls(typed["main"].body)
    ]


def test_scales_that_are_parameters_are_not_held(nets):
    data = relay.var("data", shape=(1, CHANNELS, 3, 3))
    scale = relay.var("scale", shape=(CHANNELS, 1, 1))
    scaled = relay.multiply(data, relay.exp(scale))
    module, params = nets.finish(nets.conv(scaled, "a", CHANNELS, (3, 3), (1, 1)), data)
    assert hold_scales(check_module(module), params)[1] == 0
