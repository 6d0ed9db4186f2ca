"""Orders of elements against NumPy: chains of moves, the fewest that do the same, and slices."""

from __future__ import annotations

import random
from math import prod

import numpy as np
import pytest

from tvm_ios.relay.transforms.spellings.element_order import ElementOrder, Moves

EXTENTS = (1, 1, 2, 3, 4, 6)


def applied(moves, array):
    if moves.before is not None:
        array = array.reshape(moves.before)
    if moves.axes is not None:
        array = array.transpose(moves.axes)
    return array if moves.after is None else array.reshape(moves.after)


def other_shape(rng, shape):
    """A shape of as many elements."""
    left, found = prod(shape), []
    while left > 1:
        extent = rng.choice([each for each in range(2, left + 1) if left % each == 0])
        found.append(extent)
        left //= extent
    for _ in range(rng.randrange(2)):
        found.insert(rng.randrange(len(found) + 1), 1)
    return tuple(found)


def chain(rng):
    """An array, what random moves make of it, its order, and the cost of the moves."""
    shape = tuple(rng.choice(EXTENTS) for _ in range(rng.randrange(1, 5)))
    array = np.arange(prod(shape)).reshape(shape)
    order, made, cost = ElementOrder.of(shape), array, 0
    for _ in range(rng.randrange(1, 5)):
        if rng.random() < 0.5:
            made = made.reshape(other_shape(rng, made.shape))
            order, cost = order.reshaped(made.shape), cost + 1
            continue
        axes = rng.sample(range(made.ndim), made.ndim)
        found = order.transposed(axes)
        if found is None:
            break
        made, order, cost = made.transpose(axes), found, cost + 2
    return array, made, order, cost


def test_the_fewest_moves_do_what_a_chain_does():
    rng = random.Random(7)
    for _ in range(500):
        array, made, order, cost = chain(rng)
        moves = order.moves()
        assert np.array_equal(applied(moves, array), made), (array.shape, order)
        assert moves.cost <= max(cost, 4)
        assert order.is_reshape == np.array_equal(made.ravel(), array.ravel())


def test_a_slice_of_what_was_moved_is_what_is_moved_of_a_slice():
    rng, found = random.Random(8), 0
    for _ in range(800):
        array, made, order, _ = chain(rng)
        axis = rng.randrange(max(1, made.ndim))
        if made.ndim == 0 or made.shape[axis] == 1:
            continue
        begin = rng.randrange(made.shape[axis])
        end = rng.randrange(begin + 1, made.shape[axis] + 1)
        if (cut := order.sliced(axis, begin, end)) is None:
            continue
        part, after = cut
        data = array[(*[slice(None)] * part.axis, slice(part.begin, part.end))]
        wanted = made[(*[slice(None)] * axis, slice(begin, end))]
        assert np.array_equal(applied(after.moves(), data), wanted), (array.shape, order, axis)
        found += 1
    assert found > 100


@pytest.mark.parametrize(
    ("shape", "moves", "wanted"),
    [
        ((1, 8, 12), [(1, 8, 3, 4), [0, 2, 1, 3], (3, 8, 4)], Moves((8, 3, 4), (1, 0, 2))),
        ((1, 6, 1, 1), [[0, 2, 3, 1], (6,)], Moves(after=(6,))),
        ((2, 6, 4, 5), [(2, 6, 20), [0, 2, 1]], Moves(axes=(0, 2, 3, 1), after=(2, 20, 6))),
        ((2, 3, 4), [[0, 2, 1], (2, 4, 3), [0, 2, 1]], Moves()),
        ((1, 3, 4), [(3, 4), (1, 3, 4)], Moves()),
        ((2, 1, 3), [[2, 1, 0]], Moves(axes=(2, 1, 0))),
    ],
    ids=["heads", "ones", "pixels", "back", "reshapes", "one"],
)
def test_chains_that_importers_write(shape, moves, wanted):
    order = ElementOrder.of(shape)
    for move in moves:
        order = order.reshaped(move) if isinstance(move, tuple) else order.transposed(move)
    assert order.moves() == wanted


def test_axes_that_runs_do_not_divide_cannot_be_transposed():
    order = ElementOrder.of((6, 10)).transposed([1, 0])
    assert order.reshaped((4, 15)).transposed([1, 0]) is None
