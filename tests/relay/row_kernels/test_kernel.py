"""Row kernels beside NumPy in double precision, and which functions have one."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relay

from tests.relay.row_kernels.norm_cases import TARGET, inputs, normed, run, softmax, typed
from tvm_ios.core.precision.stored_type import StoredType
from tvm_ios.relay.functions.quantised import fake_quantize
from tvm_ios.relay.own_kernels import own_kernel
from tvm_ios.relay.row_kernels.kernel import row_kernel

ROWS = [
    (197, 192),
    (3, 1),
    (4, 7),
    (5, 16),
    (5, 17),
    (7, 33),
    (2, 3, 80),
    (1, 1000),
    (130, 260),
    (9,),
]
IMAGES = [(1, 32, 14, 14), (2, 6, 7, 5), (2, 32, 1, 3), (1, 3, 31, 17), (1, 2, 1, 1)]
BLOCKED = (1, 3, 5, 6, 16)


def variable(shape, name="x"):
    return relay.var(name, shape=shape)


def per_channel(values):
    return values.reshape(-1, 1, 1)


def close(function, reference, tolerance=1e-5):
    arrays = inputs(function)
    expected = reference(*(array.astype("float64") for array in arrays))
    scale = max(1.0, np.abs(expected).max())
    np.testing.assert_allclose(run(function, arrays), expected, rtol=0, atol=tolerance * scale)


@pytest.mark.parametrize("shape", ROWS, ids=str)
def test_layer_norms_of_rows_of_any_length(shape):
    x, scale, bias = variable(shape), variable(shape[-1:], "scale"), variable(shape[-1:], "bias")
    function = typed(relay.nn.layer_norm(x, scale, bias))
    close(function, lambda x, scale, bias: normed(x, -1) * scale + bias)


@pytest.mark.parametrize(("rows", "turns"), [(784, 8), (197, 1), (130, 2), (64, 1)])
def test_rows_one_after_the_other_share_their_buffers(rows, turns):
    tasks = row_kernel(typed(relay.nn.softmax(variable((rows, 1000)))), TARGET).body
    assert (tasks.kind, tasks.extent) == (tvm.tir.ForKind.PARALLEL, rows // turns)
    body = tasks.body
    while isinstance(body, tvm.tir.Allocate):
        body = body.body
    assert (turns == 1) != (isinstance(body, tvm.tir.For) and body.extent == turns)


@pytest.mark.parametrize("shape", ROWS, ids=str)
def test_softmax_of_rows_of_any_length(shape):
    close(typed(relay.nn.softmax(variable(shape))), softmax)
    close(typed(relay.nn.log_softmax(variable(shape))), lambda x: np.log(softmax(x)))


@pytest.mark.slow
@pytest.mark.parametrize("shape", IMAGES, ids=str)
def test_norms_of_images(shape):
    channels = shape[1]
    x, scale, bias = (
        variable(s, n) for s, n in ((shape, "x"), ((channels,), "scale"), ((channels,), "bias"))
    )
    across = typed(relay.nn.layer_norm(x, scale, bias, axis=1))
    close(across, lambda x, s, b: normed(x, 1) * per_channel(s) + per_channel(b), 2e-5)
    each = typed(relay.nn.instance_norm(x, scale, bias))
    close(each, lambda x, s, b: normed(x, (2, 3)) * per_channel(s) + per_channel(b))
    close(typed(relay.nn.softmax(x, axis=1)), lambda x: softmax(x, 1))
    length = typed(relay.nn.l2_normalize(x, 1e-12, [1]))
    close(length, lambda x: x / np.sqrt((x * x).sum(1, keepdims=True)))


@pytest.mark.parametrize("shape", IMAGES, ids=str)
def test_group_norms_through_reshapes(shape):
    channels = shape[1]
    groups = channels // 2 if channels % 2 == 0 else channels
    x, scale = variable(shape), variable((channels, 1, 1), "scale")
    flat = relay.reshape(x, (0, groups, -1))
    off = flat - relay.mean(flat, 2, keepdims=True)
    variance = relay.mean(off * off, 2, keepdims=True)
    norm = relay.reshape(off / relay.sqrt(variance + relay.const(1e-5)), shape) * scale

    def expected(x, scale):
        y = normed(x.reshape(shape[0], groups, -1), 2).reshape(shape) * scale
        return y / (1 + np.exp(-y))

    close(typed(norm * relay.sigmoid(norm)), expected)


def test_blocked_channels_behind_a_change_of_layout_and_transposes():
    x, scale = variable(BLOCKED), variable((48,), "scale")
    plain = relay.transpose(relay.layout_transform(x, "NCHW16c", "NCHW"), (0, 2, 3, 1))
    norm = relay.transpose(
        plain / relay.sqrt(relay.mean(plain * plain, -1, keepdims=True)) * scale, (0, 3, 1, 2)
    )
    function = typed(relay.layout_transform(norm, "NCHW", "NCHW16c"))

    def expected(x, scale):
        length = np.sqrt((x * x).mean((1, 4), keepdims=True))
        return x / length * scale.reshape(3, 1, 1, 16)

    close(function, expected)


def test_a_residual_before_and_an_activation_behind():
    x, y, mask = variable((6, 40)), variable((6, 40), "y"), variable((40,), "mask")
    total = relay.nn.relu(x) + y
    root = relay.sqrt(relay.mean(total * total, -1, keepdims=True))
    function = typed(relay.tanh(total / root) * mask)

    def expected(x, y, mask):
        total = np.maximum(x, 0) + y
        return np.tanh(total / np.sqrt((total * total).mean(-1, keepdims=True))) * mask

    close(function, expected)


@pytest.mark.slow
def test_a_row_of_a_million():
    x = variable((2, 1000003))
    close(typed(x - relay.mean(x, -1, keepdims=True)), lambda x: x - x.mean(-1, keepdims=True))
    close(typed(relay.nn.softmax(x)), softmax, 2e-5)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_rows_with_infinities_and_nan_are_lost_alone(bad):
    x = variable((3, 21))
    arrays = inputs(typed(relay.nn.softmax(x)))
    arrays[0][1, 20] = bad
    with np.errstate(invalid="ignore"):
        for expression, reference in (
            (relay.nn.softmax(x), softmax),
            (
                x / relay.sqrt(relay.mean(x * x, -1, keepdims=True)),
                lambda x: x / np.sqrt((x * x).mean(-1, keepdims=True)),
            ),
        ):
            expected = reference(arrays[0].astype("float64"))
            np.testing.assert_allclose(run(typed(expression), arrays), expected, rtol=1e-5)


def test_a_row_of_negative_infinities_is_nan_as_in_stock_tvm():
    arrays = [np.full((2, 19), -np.inf, "float32")]
    assert np.isnan(run(typed(relay.nn.softmax(variable((2, 19)))), arrays)).all()


def test_two_means_along_different_axes_have_no_row_kernel():
    x = variable((4, 8, 8))
    rows = x - relay.mean(x, 2, keepdims=True)
    target = tvm.target.Target("llvm")
    assert row_kernel(typed(rows - relay.mean(rows, 1, keepdims=True)), target) is None


def test_rows_that_end_in_whole_numbers():
    stored = StoredType(dtype="uint8", scale=0.004, zero_point=3)
    function = typed(fake_quantize(relay.nn.softmax(variable((5, 40))), stored))
    close(function, lambda x: np.rint(softmax(x, -1) / 0.004) * 0.004)


def test_products_have_no_row_kernel():
    x, y = variable((4, 4)), variable((4, 4), "y")
    target = tvm.target.Target("llvm")
    assert row_kernel(typed(relay.nn.dense(x, y)), target) is None
    for equation in ("ab,bc->ac", "ab,cb->ac", "ab,ba->ab"):
        assert own_kernel(typed(relay.einsum((x, y), equation)), target) is None


def test_rows_of_one_number_each_are_written_whole():
    x = relay.broadcast_to(variable((5, 1)), (5, 33))
    function = typed(relay.nn.relu(x * relay.tanh(relay.mean(x, 1, keepdims=True))))
    wide = np.ones((1, 33))
    close(function, lambda x: np.maximum(x * np.tanh(x), 0) * wide)


@pytest.mark.parametrize("function", [relay.isnan, relay.acos])
def test_what_tvm_computes_lane_by_lane_has_no_row_kernel(function):
    value = relay.cast(function(variable((4, 20))), "float32")
    off = value - relay.mean(value, 1, keepdims=True)
    assert row_kernel(typed(off * off), tvm.target.Target("llvm")) is None


def test_bfloat16_has_no_row_kernel():
    x = relay.var("x", shape=(4, 20), dtype="bfloat16")
    for value in (x, relay.cast(x, "float32"), relay.cast(variable((4, 20)), "bfloat16")):
        assert own_kernel(typed(relay.nn.softmax(value)), tvm.target.Target("llvm")) is None


def test_results_smaller_than_what_is_read_stay_with_tvm():
    assert own_kernel(typed(relay.mean(variable((4, 8)), 1)), tvm.target.Target("llvm")) is None


def test_other_processors_compile_it():
    target = tvm.target.Target("llvm -mtriple=aarch64-linux-gnu")
    kernel = row_kernel(typed(relay.nn.softmax(variable((3, 37)))), target)
    assert kernel is not None
    module = tvm.IRModule({"kernel": kernel.with_attr("global_symbol", "kernel")})
    assert "aarch64" in tvm.build(module, target=tvm.target.Target(target, host=target)).get_source(
        "ll"
    )
