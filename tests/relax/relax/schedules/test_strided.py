from __future__ import annotations

import numpy as np
import pytest
from tvm import s_tir, te

from tests.relax.relax.schedules.kernels import computed
from tvm_ios.relax.schedules.strided import with_strided_vectors


def _every(stride, count):
    x = te.placeholder((stride * (count - 1) + 1,), "float32", "x")
    return te.create_prim_func([x, te.compute((count,), lambda at: x[at * stride], "y")])


def _vectorised(kernel):
    schedule = s_tir.Schedule(kernel)
    (loop,) = schedule.get_loops(schedule.get_sblock("y"))
    schedule.vectorize(loop)
    return schedule.mod["main"]


@pytest.mark.parametrize("count", [4, 7, 14, 16])
def test_every_second_element_comes_from_two_vectors(count):
    kernel = _every(2, count)
    assert "T.Shuffle" in with_strided_vectors(_vectorised(kernel)).script()
    x = np.arange(2 * count - 1, dtype="float32")
    np.testing.assert_array_equal(computed(kernel, x, like=x[::2].copy()), x[::2])


@pytest.mark.parametrize("stride", [1, 3])
def test_other_distances_stay(stride):
    kernel = _vectorised(_every(stride, 8))
    assert with_strided_vectors(kernel).same_as(kernel)


def test_the_last_vector_ends_with_the_last_element():
    script = with_strided_vectors(_vectorised(_every(2, 4))).script()
    assert "T.Ramp(T.Mul(0, 2) + 3, 1, 4)" in script  # elements 3 to 6 of 7


def test_few_elements_stay():
    kernel = _vectorised(_every(2, 3))
    assert with_strided_vectors(kernel).same_as(kernel)
