"""Segments: cut where conditions change, and right wherever rows are padded, joined or rolled."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from tvm import relay, tir

from tests.relay.schedules.kernel import is_vectorised, lower, run
from tvm_ios.relay.schedules.segments import cuts_of, segments_of

LOOP = tir.Var("i", "int32")
COMPARISONS = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
}


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype("float32")


@pytest.mark.parametrize("name", COMPARISONS)
def test_every_change_of_a_comparison_is_a_cut(name: str) -> None:
    holds = COMPARISONS[name]
    made = tir.EQ if name == "==" else tir.NE if name == "!=" else holds
    for step, base in itertools.product((-3, -2, -1, 1, 2, 3), range(-7, 8)):
        cuts = cuts_of(made(LOOP * step + base, tir.IntImm("int32", 0)), LOOP)
        answers = [holds(step * place + base, 0) for place in range(-9, 10)]
        changes = {place - 9 for place in range(1, 19) if answers[place] != answers[place - 1]}
        assert cuts is not None
        assert changes <= cuts
        assert len(cuts) <= 2


def test_what_other_loops_say_cuts_nothing() -> None:
    other = tir.Var("other", "int32")
    assert cuts_of(other < 3, LOOP) == set()
    assert cuts_of(tir.all(other < 3, LOOP < 5), LOOP) == {5}
    assert cuts_of(other > LOOP, LOOP) is None
    assert cuts_of(LOOP % 5 < 3, LOOP) is None


def test_many_segments_are_one() -> None:
    value = tir.const(0.0, "float32")
    for place in range(40):
        value = tir.if_then_else(place + 1 > LOOP, value, tir.const(float(place), "float32"))
    store = tir.BufferStore(tir.decl_buffer((64,), "float32"), value, [LOOP])
    assert segments_of(store, LOOP, 64) == [(0, 64)]


@pytest.mark.parametrize(
    ("shape", "widths"),
    [
        ((1, 3, 28, 28), ((0, 0), (0, 0), (1, 1), (1, 1))),
        ((2, 5, 7, 7), ((0, 0), (0, 0), (1, 1), (1, 1))),
        ((2, 7, 7, 24), ((0, 0), (3, 3), (3, 2), (0, 0))),
        ((1, 2, 5, 1, 4), ((0, 0), (0, 0), (1, 1), (1, 1), (0, 0))),
        ((1, 44, 5, 5), ((0, 0), (0, 4), (0, 0), (0, 0))),
        ((3, 9), ((1, 0), (0, 40))),
        ((1, 1), ((0, 3), (2, 0))),
    ],
)
def test_padded_tensors_are_right(
    shape: tuple[int, ...], widths: tuple[tuple[int, int], ...]
) -> None:
    data = random(*shape)
    padded = relay.nn.pad(relay.nn.relu(relay.var("x", shape=shape)), widths, pad_value=2.0)
    kernel = lower(padded + relay.const(1.0))
    expected = np.pad(np.maximum(data, 0), widths, constant_values=2.0) + 1
    np.testing.assert_array_equal(run(kernel, [data]), expected)
    assert is_vectorised(kernel) or shape[-1] == 1


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("shape", [(5, 14, 33), (2, 7, 7)])
def test_rolled_tensors_are_right(shape: tuple[int, ...], axis: int) -> None:
    data = random(*shape)
    first, second = relay.split(relay.var("x", shape=shape), [1], axis)
    kernel = lower(relay.concatenate([second, first], axis))
    np.testing.assert_array_equal(run(kernel, [data]), np.roll(data, -1, axis))


@pytest.mark.parametrize("channels", [8, 19, 96])
def test_patches_are_merged_by_one_kernel(channels: int) -> None:
    data = random(2, 6, 4, channels)
    value = relay.var("x", shape=data.shape)
    places = [(0, 0), (1, 0), (0, 1), (1, 1)]
    slices = [relay.strided_slice(value, at, (99, 99), (2, 2), (1, 2)) for at in places]
    kernel = lower(relay.nn.relu(relay.concatenate(slices, 3)))
    expected = np.concatenate([data[:, high::2, wide::2] for high, wide in places], 3)
    np.testing.assert_array_equal(run(kernel, [data]), np.maximum(expected, 0))
    assert is_vectorised(kernel)
