from __future__ import annotations

import numpy as np
import pytest
from tvm import te

from tests.relax.networks import TARGET
from tests.relax.relax.schedules.kernels import computed
from tvm_ios.relax.schedules.in_force import scheduled
from tvm_ios.relax.target import resolve_target

SUMS = {"sum": (te.sum, np.sum), "max": (te.max, np.max), "min": (te.min, np.min)}


def _kernel(combine, rows, length):
    x = te.placeholder((rows, length), "float32", "x")
    along = te.reduce_axis((0, length), "along")
    y = te.compute((rows,), lambda at: combine(x[at, along], along), "y")
    return te.create_prim_func([x, y])


@pytest.mark.parametrize("name", SUMS)
@pytest.mark.parametrize("length", [97, 101, 129])
def test_rows_that_no_vector_divides_are_summed_in_vectors(name, length):
    combine, expected = SUMS[name]
    kernel = _kernel(combine, 5, length)
    assert "parts" in scheduled(kernel, resolve_target(TARGET)).script()
    x = np.random.default_rng(0).integers(-50, 50, (5, length)).astype("float32")
    result = expected(x, axis=1)
    np.testing.assert_array_equal(computed(kernel, x, like=result), result)


@pytest.mark.parametrize("name", SUMS)
def test_short_rows_are_summed_one_by_one(name):
    kernel = _kernel(SUMS[name][0], 5, 13)
    assert "parts" not in scheduled(kernel, resolve_target(TARGET)).script()
