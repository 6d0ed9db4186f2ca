from __future__ import annotations

import subprocess
import sys

import pytest
from tvm import relay

from tvm_ios.relay.functions.primitive import analyse_primitive, type_bytes


def convolution(nets, *, names=("data", "weight"), channels=8, groups=1):
    data = relay.var(names[0], shape=(2, 4, 6, 6))
    weight = relay.var(names[1], shape=(channels, 4 // groups, 3, 3))
    body = relay.nn.conv2d(
        data, weight, padding=(1, 1), kernel_size=(3, 3), channels=channels, groups=groups
    )
    return nets.fused(body, data, weight)


def test_a_convolution(nets):
    facts = analyse_primitive(convolution(nets))
    assert facts.kind == "conv2d"
    assert facts.flops == 2 * (2 * 8 * 6 * 6) * (4 * 3 * 3)
    assert facts.memory_bytes == 4 * (2 * 4 * 36 + 8 * 4 * 9 + 2 * 8 * 36)


def test_a_depthwise_convolution(nets):
    facts = analyse_primitive(convolution(nets, channels=4, groups=4))
    assert facts.kind == "depthwise_conv2d"
    assert facts.flops == 2 * (2 * 4 * 6 * 6) * 9


def test_a_grouped_convolution_is_no_depthwise_one(nets):
    facts = analyse_primitive(convolution(nets, groups=2))
    assert facts.kind == "conv2d"
    assert facts.flops == 2 * (2 * 8 * 6 * 6) * (2 * 3 * 3)


def test_a_convolution_of_volumes(nets):
    data = relay.var("data", shape=(1, 4, 3, 6, 6))
    weight = relay.var("weight", shape=(8, 4, 3, 3, 3))
    body = relay.nn.relu(
        relay.nn.conv3d(data, weight, padding=(1, 1, 1), kernel_size=(3, 3, 3), channels=8)
    )
    facts = analyse_primitive(nets.fused(body, data, weight))
    outputs = 8 * 3 * 6 * 6
    assert facts.kind == "conv3d"
    assert facts.flops == 2 * outputs * (4 * 27) + outputs


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_a_transposed_convolution_counts_what_it_reads(nets, layout):
    sizes = {"N": 2, "C": 4, "H": 5, "W": 5}
    data = relay.var("data", shape=[sizes[letter] for letter in layout])
    weight = relay.var("weight", shape=(4, 3, 4, 4) if layout == "NCHW" else (4, 4, 3, 4))
    body = relay.nn.conv2d_transpose(
        data,
        weight,
        strides=(2, 2),
        padding=(1, 1),
        channels=3,
        kernel_size=(4, 4),
        data_layout=layout,
        kernel_layout="IOHW" if layout == "NCHW" else "HWOI",
    )
    facts = analyse_primitive(nets.fused(body, data, weight))
    assert facts.kind == "conv2d_transpose"
    assert facts.flops == 2 * (2 * 4 * 5 * 5) * (4 * 4) * 3


def test_a_blocked_convolution_counts_like_a_plain_one(nets):
    data = relay.var("data", shape=(2, 1, 6, 6, 4))
    weight = relay.var("weight", shape=(2, 1, 3, 3, 4, 4))
    body = relay.nn.contrib_conv2d_nchwc(
        data,
        weight,
        padding=(1, 1),
        kernel_size=(3, 3),
        channels=8,
        data_layout="NCHW4c",
        kernel_layout="OIHW4i4o",
        out_layout="NCHW4c",
    )
    facts = analyse_primitive(nets.fused(body, data, weight))
    assert facts.kind == "conv2d"
    assert facts.flops == analyse_primitive(convolution(nets)).flops


def test_a_blocked_depthwise_convolution(nets):
    data = relay.var("data", shape=(1, 2, 6, 6, 4))
    weight = relay.var("weight", shape=(2, 1, 3, 3, 1, 4))
    body = relay.nn.contrib_depthwise_conv2d_nchwc(
        data,
        weight,
        padding=(1, 1),
        kernel_size=(3, 3),
        channels=8,
        groups=8,
        data_layout="NCHW4c",
        kernel_layout="OIHW1i4o",
        out_layout="NCHW4c",
    )
    facts = analyse_primitive(nets.fused(body, data, weight))
    assert facts.kind == "depthwise_conv2d"
    assert facts.flops == 2 * (8 * 36) * 9


def test_matrix_products(nets):
    data, weight = relay.var("data", shape=(3, 5)), relay.var("weight", shape=(7, 5))
    dense = analyse_primitive(nets.fused(relay.nn.dense(data, weight), data, weight))
    assert (dense.kind, dense.flops) == ("dense", 2 * 3 * 7 * 5)
    left, right = relay.var("left", shape=(2, 3, 5)), relay.var("right", shape=(2, 7, 5))
    batch = analyse_primitive(nets.fused(relay.nn.batch_matmul(left, right), left, right))
    assert (batch.kind, batch.flops) == ("matmul", 2 * 2 * 3 * 7 * 5)


def test_poolings(nets):
    data = relay.var("data", shape=(1, 4, 6, 6))
    pool = relay.nn.max_pool2d(data, (3, 3), padding=(1, 1))
    assert analyse_primitive(nets.fused(pool, data)).flops == 4 * 36 * 9
    whole = analyse_primitive(nets.fused(relay.nn.global_avg_pool2d(data), data))
    assert (whole.kind, whole.flops) == ("global_avg_pool2d", 4 * 36)


def test_moving_data_counts_as_no_operation(nets):
    data = relay.var("data", shape=(1, 4, 6, 6))
    body = relay.layout_transform(relay.transpose(data, (0, 1, 3, 2)), "NCHW", "NCHW4c")
    facts = analyse_primitive(nets.fused(body, data))
    assert (facts.kind, facts.flops) == ("layout_transform", 0)


def test_pointwise_operators_count_one_an_element(nets):
    data = relay.var("data", shape=(1, 4, 6, 6))
    facts = analyse_primitive(nets.fused(relay.tanh(data + data), data))
    assert (facts.kind, facts.flops) == ("tanh", 2 * 144)


def test_bytes_of_several_tensors_and_odd_types():
    pair = relay.TupleType([relay.TensorType((3,), "float16"), relay.TensorType((5,), "bool")])
    assert type_bytes(pair) == 3 * 2 + 5


def test_a_workload_ignores_names_and_the_hash(nets):
    plain = analyse_primitive(convolution(nets)).workload
    named = convolution(nets, names=("x", "y")).with_attr("hash", "0123")
    assert analyse_primitive(named).workload == plain


@pytest.mark.parametrize(("channels", "groups"), [(16, 1), (8, 2)])
def test_a_workload_holds_shapes_and_attributes(nets, channels, groups):
    other = analyse_primitive(convolution(nets, channels=channels, groups=groups)).workload
    assert other != analyse_primitive(convolution(nets)).workload


def test_a_workload_holds_scalar_constants(nets):
    data = relay.var("data", shape=(4,))
    workloads = {
        analyse_primitive(nets.fused(data * relay.const(value), data)).workload
        for value in (2.0, 2.0, 3.0)
    }
    assert len(workloads) == 2


@pytest.mark.slow
def test_a_workload_is_the_same_in_another_process():
    code = (
        "from tvm import relay; import tvm;"
        "from tvm_ios.relay.functions.primitive import analyse_primitive;"
        "x = relay.var('x', shape=(4,));"
        "m = tvm.IRModule.from_expr(relay.Function([x], relay.tanh(x)));"
        "print(analyse_primitive(relay.transform.InferType()(m)['main']).workload)"
    )
    runs = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        for _ in range(2)
    ]
    assert runs[0].stdout.startswith("tanh-")
    assert runs[0].stdout == runs[1].stdout
