from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import s_tir, te

from tests.relax.relax.schedules.kernels import computed
from tvm_ios.relax.schedules.turned import in_tiles, turned

AXES = {
    "matrix": ((16, 24), (1, 0)),
    "keys": ((2, 8, 3, 16), (0, 2, 3, 1)),
    "images": ((1, 12, 4, 4), (0, 2, 3, 1)),
    "tiles of 4": ((4, 4), (1, 0)),
    "outer axis": ((3, 5, 8, 8), (3, 1, 0, 2)),
}
OTHERS = {
    "no tile fits": ((7, 9), (1, 0)),
    "rows stay": ((2, 3, 8), (1, 0, 2)),
}


def _kernel(shape, axes, dtype="float32"):
    x = te.placeholder(shape, dtype, "x")
    made = [shape[axis] for axis in axes]
    y = te.compute(made, lambda *at: x(*[at[axes.index(axis)] for axis in range(len(shape))]), "y")
    return te.create_prim_func([x, y])


@pytest.mark.parametrize("name", AXES)
def test_tiles_are_shuffled(name):
    shape, axes = AXES[name]
    kernel = _kernel(shape, axes)
    schedule = s_tir.Schedule(kernel)
    assert turned(schedule, 8)
    assert "T.Shuffle" in in_tiles(schedule.mod["main"]).script()
    x = np.arange(np.prod(shape), dtype="float32").reshape(shape)
    expected = np.ascontiguousarray(x.transpose(axes))
    np.testing.assert_array_equal(computed(kernel, x, like=expected), expected)


@pytest.mark.parametrize("name", OTHERS)
def test_others_are_left(name):
    assert not turned(s_tir.Schedule(_kernel(*OTHERS[name])), 8)


def test_whole_numbers_are_left():
    assert not turned(s_tir.Schedule(_kernel((8, 8), (1, 0), "int32")), 8)


def test_loops_of_a_tile_are_innermost():
    schedule = s_tir.Schedule(_kernel((16, 24), (1, 0)))
    assert turned(schedule, 8)
    (block,) = (schedule.get_sblock("y"),)
    extents = [int(schedule.get(loop).extent) for loop in schedule.get_loops(block)]
    assert extents == [2, 3, 8, 8]
    assert isinstance(schedule.mod, tvm.IRModule)
