"""Kernels of attention beside NumPy in double precision, and which functions have one."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import relay

from tests.relay.attention.attention_cases import (
    TARGETS,
    attended,
    by_head,
    heads_of,
    joined,
    matrices,
    product,
    run,
    typed,
)
from tests.relay_modules import random_arrays
from tvm_ios.relay.attention.kernel import has_attention_kernel

SHAPES = [
    (1, 2, 8, 16, 16, 16),
    (2, 3, 5, 7, 3, 20),
    (1, 1, 4, 33, 16, 48),
    (3, 2, 49, 49, 32, 32),
    (1, 4, 13, 100, 26, 26),
    (1, 2, 17, 4, 1, 1),
    (1, 2, 100, 50, 24, 65),
]
"""Sequences, heads, queries, keys, columns of keys and of values."""


def close(function, expected, arrays=None, target=TARGETS[0]):
    arrays = random_arrays(function) if arrays is None else arrays
    np.testing.assert_allclose(run(function, arrays, target), expected(*arrays), rtol=0, atol=1e-5)


def plain(shape, steps=lambda scores: scores, name="z"):
    """Attention whose scores go through steps."""
    sequences, heads, queries, keys, depth, width = shape
    q = by_head(matrices(sequences * queries, heads * depth, "q"), sequences, heads)
    k = by_head(matrices(sequences * keys, heads * depth, "k"), sequences, heads)
    v = by_head(matrices(sequences * keys, heads * width, "v"), sequences, heads, (0, 2, 3, 1))
    shares = relay.nn.softmax(steps(product(q, k)))
    return typed(joined(product(shares, v), sequences, heads))


def parts(shape, q, k, v):
    sequences, heads = shape[:2]
    return (heads_of(each, sequences, heads) for each in (q, k, v))


@pytest.mark.parametrize(
    ("shape", "target"),
    [
        # Each shape for one of the two; `make test-all` has both.
        pytest.param(
            shape,
            target,
            id=f"{shape}-{name}",
            marks=pytest.mark.full if (place + number) % 2 else (),
        )
        for place, shape in enumerate(SHAPES)
        for number, (name, target) in enumerate(zip(("AVX-512", "AVX2"), TARGETS, strict=True))
    ],
)
def test_heads_of_any_shape(shape, target):
    function = plain(shape, lambda scores: scores / relay.const(1.5))
    close(
        function,
        lambda q, k, v: attended(*parts(shape, q, k, v), scale=1 / 1.5),
        target=target,
    )


def test_a_bias_of_each_head_and_a_mask_of_each_window():
    shape = windows, heads, rows, _, _, _ = (3, 2, 9, 9, 8, 8)
    bias, mask = (
        relay.var(name, shape=each)
        for name, each in (("bias", (1, heads, rows, rows)), ("mask", (windows, 1, rows, rows)))
    )

    def steps(scores):
        split = relay.reshape(scores, (windows, heads, rows, rows)) * relay.const(0.3)
        return relay.reshape(mask + (split + bias), (-1, rows, rows))

    function = plain(shape, steps)
    arrays = random_arrays(function)
    named = dict(zip([each.name_hint for each in function.params], arrays, strict=True))
    both = named["bias"].astype("float64") + named["mask"]
    expected = attended(*parts(shape, named["q"], named["k"], named["v"]), 0.3, both)
    close(function, lambda *_: expected, arrays)


@pytest.mark.parametrize("least", [-np.inf, np.finfo("float32").min], ids=str)
def test_keys_that_are_masked_have_no_share(least):
    shape = (1, 1, 6, 20, 8, 8)
    mask = relay.var("mask", shape=(6, 20))
    function = plain(shape, lambda scores: scores + mask)
    arrays = random_arrays(function)
    place = [each.name_hint for each in function.params].index("mask")
    arrays[place] = np.where(np.tri(6, 20) > 0, 0.0, least).astype("float32")
    if np.isfinite(least):
        arrays[place][3] = least
    named = dict(zip([each.name_hint for each in function.params], arrays, strict=True))
    expected = attended(
        *parts(shape, named["q"], named["k"], named["v"]), bias=named["mask"].astype("float64")
    )
    close(function, lambda *_: expected, arrays)


ROWS, HEADS, DEPTH = 21, 3, 8


def split(x, part):
    return relay.squeeze(relay.split(x, 3, axis=2)[part], [2])


def taken(x, part):
    return relay.take(x, relay.const(part, "int64"), axis=2)


def sliced(x, part):
    return relay.squeeze(relay.strided_slice(x, [part], [part + 1], [1], [2]), [2])


@pytest.mark.parametrize("part_of", [split, taken, sliced])
def test_parts_of_one_product_scaled_before(part_of):
    together = relay.var("x", shape=(ROWS, 3 * HEADS * DEPTH))
    x = relay.reshape(together, (1, ROWS, 3, HEADS, DEPTH))
    q, k, v = (
        relay.reshape(relay.transpose(part_of(x, part), axes), (HEADS, *shape))
        for part, axes, shape in (
            (0, (0, 2, 1, 3), (ROWS, DEPTH)),
            (1, (0, 2, 1, 3), (ROWS, DEPTH)),
            (2, (0, 2, 3, 1), (DEPTH, ROWS)),
        )
    )
    half = relay.const(0.5)
    scores = product(q * half, half * k)
    function = typed(joined(product(relay.nn.softmax(scores), v), 1, HEADS))

    def expected(x):
        by_part = x.reshape(ROWS, 3, HEADS * DEPTH)
        return attended(*(heads_of(by_part[:, n], 1, HEADS) for n in range(3)), scale=0.25)

    close(function, expected)


def test_heads_that_share_keys_and_values():
    rows, groups, heads, depth = 12, 2, 6, 16
    names = ("q", heads), ("k", groups), ("v", groups)
    q, k, v = (relay.var(name, shape=(rows, count * depth)) for name, count in names)

    def repeated(matrix, axes):
        each = relay.transpose(relay.reshape(matrix, (rows, groups, depth)), axes)
        shape = [int(extent) for extent in typed(each).ret_type.shape]
        wide = relay.broadcast_to(relay.expand_dims(each, 1), (groups, heads // groups, *shape[1:]))
        return relay.reshape(wide, (heads, *shape[1:]))

    scores = product(by_head(q, 1, heads), repeated(k, (1, 0, 2)))
    result = product(relay.nn.softmax(scores), repeated(v, (1, 2, 0)))
    function = typed(joined(result, 1, heads))

    def expected(q, k, v):
        shared = (np.repeat(heads_of(each, 1, groups), heads // groups, 1) for each in (k, v))
        return attended(heads_of(q, 1, heads), *shared)

    close(function, expected)


def test_other_functions_have_none():
    x, y = relay.var("x", shape=(2, 8, 8)), relay.var("y", shape=(2, 8, 8))
    scores = product(x, y)
    assert not has_attention_kernel(typed(scores))
    assert not has_attention_kernel(typed(relay.nn.softmax(scores)))
    assert not has_attention_kernel(typed(product(relay.nn.softmax(scores, 1), y)))
    assert not has_attention_kernel(typed(product(relay.nn.softmax(relay.exp(scores)), y)))
    assert not has_attention_kernel(plain((1, 1, 3, 8, 8, 8)))
    assert has_attention_kernel(typed(product(relay.nn.softmax(scores), y)))
    # Keys and values outgrow the cache of a core.
    assert not has_attention_kernel(plain((1, 1, 8, 2048, 64, 64)))
