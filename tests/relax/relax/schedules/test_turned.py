from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import te, topi

from tests.relax.relax.schedules.kernels import ran
from tvm_ios.relax.schedules.turned import turned

AXES = {
    "matrix": ((16, 24), (1, 0)),
    "keys": ((2, 8, 3, 16), (0, 2, 3, 1)),
    "images": ((2, 12, 4, 4), (0, 2, 3, 1)),
    "images back": ((2, 6, 7, 20), (0, 3, 1, 2)),
    "tile of 4": ((4, 4), (1, 0)),
    "tiles that overlap": ((19, 37), (1, 0)),
    "shorter than a line": ((5, 100), (1, 0)),
    "outer axis": ((3, 5, 8, 8), (3, 1, 0, 2)),
    "all axes": ((17, 3, 33), (2, 1, 0)),
    "powers of 2": ((64, 256), (1, 0)),
    "colours": ((2, 3, 9, 11), (0, 2, 3, 1)),
    "colours back": ((2, 9, 11, 3), (0, 3, 1, 2)),
    "pairs": ((2, 37), (1, 0)),
    "few colours": ((4, 3), (1, 0)),
}
OTHERS = {
    "no tile fits": ((3, 3), (1, 0)),
    "colours lie apart": ((9, 8, 3), (2, 1, 0)),
    "rows stay": ((2, 3, 8), (1, 0, 2)),
    "nothing moves": ((1, 8, 8), (1, 0, 2)),
}


def _kernel(shape, axes, dtype="float32"):
    x = te.placeholder(shape, dtype, "x")
    return te.create_prim_func([x, topi.transpose(x, axes)])


def _drawn(*shape):
    return np.random.default_rng(0).standard_normal(shape, "float32")


@pytest.mark.parametrize("lanes", [4, 8, 16])
@pytest.mark.parametrize("name", AXES)
def test_tiles_are_shuffled(name, lanes):
    shape, axes = AXES[name]
    made = turned(_kernel(shape, axes), lanes)
    assert "T.Shuffle" in made.script()
    x = _drawn(*shape)
    expected = np.ascontiguousarray(x.transpose(axes))
    np.testing.assert_array_equal(ran(made, x, like=expected), expected)


@pytest.mark.parametrize("name", OTHERS)
def test_others_are_left(name):
    assert turned(_kernel(*OTHERS[name]), 8) is None


def test_whole_numbers_are_left():
    assert turned(_kernel((8, 8), (1, 0), "int32"), 8) is None


def test_what_follows_is_computed_in_vectors():
    x, bias, added = (
        te.placeholder(shape, name=name)
        for name, shape in (("x", (1, 12, 5, 8)), ("bias", (12,)), ("added", (1, 5, 8, 12)))
    )
    made = topi.nn.relu(topi.add(topi.add(topi.transpose(x, (0, 2, 3, 1)), bias), added))
    kernel = turned(te.create_prim_func([x, bias, added, made]), 8)
    values = [_drawn(1, 12, 5, 8), _drawn(12), _drawn(1, 5, 8, 12)]
    expected = np.maximum(values[0].transpose(0, 2, 3, 1) + values[1] + values[2], 0)
    np.testing.assert_array_equal(ran(kernel, *values, like=expected), expected)


def test_colours_that_are_computed_with_are_left():
    x = te.placeholder((1, 3, 8, 8), name="x")
    made = topi.nn.relu(topi.transpose(x, (0, 2, 3, 1)))
    assert turned(te.create_prim_func([x, made]), 8) is None


def test_reshaped_heads_are_turned():
    x = te.placeholder((1, 20, 24), name="x")
    made = topi.transpose(topi.reshape(x, (1, 20, 3, 8)), (0, 2, 3, 1))
    kernel = turned(te.create_prim_func([x, made]), 8)
    value = _drawn(1, 20, 24)
    expected = np.ascontiguousarray(value.reshape(1, 20, 3, 8).transpose(0, 2, 3, 1))
    np.testing.assert_array_equal(ran(kernel, value, like=expected), expected)


def test_loaded_indices_are_left():
    x, at = te.placeholder((8, 8), name="x"), te.placeholder((8,), "int32", "at")
    made = te.compute((8, 8), lambda i, j: x[at[j], i], "y")
    assert turned(te.create_prim_func([x, at, made]), 8) is None


def test_values_that_depend_on_their_place_are_left():
    x = te.placeholder((8, 8), name="x")
    made = te.compute((8, 8), lambda i, j: tvm.tirx.if_then_else(i < j, x[j, i], 0.0), "y")
    assert turned(te.create_prim_func([x, made]), 8) is None


@pytest.mark.parametrize(
    ("shape", "outer"), [((32, 64), 2), ((64, 32), 2), ((64, 40), 4), ((40, 64), 4)]
)
def test_jumps_are_to_near_lines_and_first_to_whole_ones(shape, outer):
    loop = turned(_kernel(shape, (1, 0)), 8).body.block.body
    assert int(loop.extent) == outer
