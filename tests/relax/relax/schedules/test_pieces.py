from __future__ import annotations

import numpy as np
import pytest
from tvm import te, topi

from tests.relax.relax.schedules.kernels import computed

JOINED = {
    "two pieces": ([(5, 24), (5, 72)], 1),
    "three pieces": ([(2, 3, 16), (2, 3, 32), (2, 3, 48)], 2),
    "outer axis": ([(2, 3, 16), (4, 3, 16)], 0),
    "middle axis": ([(2, 3, 16), (2, 5, 16)], 1),
    "any ends": ([(5, 13), (5, 19)], 1),
    "short vectors": ([(5, 4), (5, 12)], 1),
    "last axes together": ([(1, 3, 4, 8), (1, 5, 4, 8)], 1),
}


def _kernel(shapes, axis):
    pieces = [te.placeholder(shape, "float32") for shape in shapes]
    joined = topi.concatenate(pieces, axis)
    return te.create_prim_func([*pieces, te.compute(joined.shape, lambda *at: joined(*at) + 1.0)])


@pytest.mark.parametrize("name", JOINED)
def test_pieces_are_joined(name):
    shapes, axis = JOINED[name]
    random = np.random.default_rng(0)
    pieces = [random.standard_normal(shape).astype("float32") for shape in shapes]
    expected = np.concatenate(pieces, axis) + np.float32(1)
    found = computed(_kernel(shapes, axis), *pieces, like=expected)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("values", [1, 8])
def test_padding_is_zero(values):
    x = te.placeholder((3, 16), "float32", "x")
    kernel = te.create_prim_func([x, topi.nn.pad(x, (1, values), (0, values))])
    given = np.random.default_rng(0).standard_normal((3, 16)).astype("float32")
    expected = np.pad(given, ((1, 0), (values, values)))
    np.testing.assert_array_equal(computed(kernel, given, like=expected), expected)
