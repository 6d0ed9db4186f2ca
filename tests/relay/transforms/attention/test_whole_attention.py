"""Attention kept whole: which operators become one function, and that results stay."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relay

import tvm_ios
from tests.relay.attention.attention_cases import attended, by_head, heads_of, joined
from tests.relay_modules import fused_operators
from tests.stock import stock_outputs
from tvm_ios.relay import prepare
from tvm_ios.support.exact_bits import exact_bits

CPU, GPU = "llvm -mcpu=skylake-avx512 -opt-level=0", "cuda -arch=sm_70"
ROWS, HEADS, DEPTH = 12, 2, 8
ALL = HEADS * DEPTH


def dense(x, seed):
    weights = np.random.default_rng(seed).uniform(-1, 1, (ALL, ALL)).astype("float32")
    return relay.nn.dense(x, relay.const(weights))


def attention(x, *, key_axes=(0, 2, 1, 3), scale=lambda scores: scores / relay.const(3.0)):
    """Attention of dense layers as exporters of ONNX write it."""
    q = by_head(dense(x, 0), 1, HEADS)
    k = by_head(dense(x, 1), 1, HEADS, key_axes)
    v = by_head(dense(x, 2), 1, HEADS)
    turned = key_axes == (0, 2, 1, 3)
    scores = relay.nn.batch_matmul(q, k, transpose_b=turned)
    split = scale(relay.reshape(scores, (1, HEADS, ROWS, ROWS)))
    shares = relay.reshape(relay.nn.softmax(split), (HEADS, ROWS, ROWS))
    return joined(relay.nn.batch_matmul(shares, v, transpose_b=False), 1, HEADS)


def rows():
    return relay.var("x", shape=(ROWS, ALL))


def is_whole(result, target=CPU):
    return any({"einsum", "nn.softmax"} <= {*found} for found in fused_operators(result, target))


@pytest.mark.parametrize("key_axes", [(0, 2, 1, 3), (0, 2, 3, 1)], ids=["flag", "transposed"])
def test_attention_is_one_kernel_with_its_transposes_between_products(key_axes):
    x = rows()
    found = fused_operators(dense(attention(x, key_axes=key_axes), 3), CPU)
    assert len(found) == 5
    (whole,) = (each for each in found if "nn.softmax" in each)
    assert whole.count("transpose") >= 4
    assert whole.count("einsum") == 2


def test_scores_that_others_read_stay_tensors():
    x = rows()
    q = by_head(dense(x, 0), 1, HEADS)
    scores = relay.nn.batch_matmul(q, q)
    read = relay.nn.batch_matmul(relay.nn.softmax(scores), q, transpose_b=False)
    assert is_whole(read)
    assert not is_whole(relay.Tuple([read, scores]))


def test_nothing_changes_under_exact_bits_or_on_a_gpu():
    with exact_bits(True):
        assert not is_whole(attention(rows()))
    assert not is_whole(attention(rows()), GPU)


@pytest.mark.slow
@pytest.mark.parametrize("square", [False, True], ids=["heads apart", "as large as the scores"])
def test_the_prepared_module_runs_with_plain_relay_build(square):
    """The latter is a case of its own in TVM's schedule of softmax."""
    x = relay.var("x", shape=(HEADS, DEPTH, DEPTH)) if square else rows()
    result = (
        attention(x)
        if not square
        else relay.nn.batch_matmul(
            relay.nn.softmax(relay.nn.batch_matmul(x, x)), x, transpose_b=False
        )
    )
    assert is_whole(result)
    module = tvm.IRModule.from_expr(relay.Function([x], result))
    shape = [int(extent) for extent in x.type_annotation.shape]
    values = np.random.default_rng(0).standard_normal(shape).astype("float32")
    if square:
        wide = values[None].astype("float64")
        expected = attended(wide, wide, wide).reshape(DEPTH, HEADS, DEPTH).transpose(1, 0, 2)
    else:
        weights = [
            np.random.default_rng(n).uniform(-1, 1, (ALL, ALL)).astype("float32") for n in range(3)
        ]
        expected = attended(*(heads_of(values @ each.T, 1, HEADS) for each in weights), 1 / 3)
    (found,) = stock_outputs(relay.build(prepare(module, None, CPU).module, CPU), x=values)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    with tvm_ios.compile_schedule(module, None, CPU).executor() as executor:
        executor.run(x=values)
        np.testing.assert_allclose(executor.get_output(0).numpy(), expected, rtol=1e-4, atol=1e-5)
