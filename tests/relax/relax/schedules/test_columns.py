from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import s_tir, te, topi
from tvm.script import ir as I
from tvm.script import tirx as T

from tests.relax.relax.schedules.kernels import computed, ran
from tvm_ios.relax.schedules.columns import columns, with_columns_in_vectors


@I.ir_module
class Kernels:
    @T.prim_func(s_tir=True)
    def before(a: T.Buffer((9, 4, 5), "float32"), c: T.Buffer((4, 5), "float32")):
        total = T.sblock_alloc_buffer((4, 5))
        for i, j, k in T.grid(4, 5, 9):
            with T.sblock("total"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    total[vi, vj] = T.float32(0)
                total[vi, vj] = total[vi, vj] + a[vk, vi, vj]
        for i, j in T.grid(4, 5):
            with T.sblock("mean"):
                vi, vj = T.axis.remap("SS", [i, j])
                c[vi, vj] = total[vi, vj] / T.float32(9)

    @T.prim_func(s_tir=True)
    def expected(a: T.Buffer((9, 4, 5), "float32"), c: T.Buffer((4, 5), "float32")):
        total = T.sblock_alloc_buffer((4, 5))
        for ij in T.serial(20, annotations={"tvm_ios_columns": 0}):
            for k in range(9):
                with T.sblock("total"):
                    vi = T.axis.spatial(4, ij // 5)
                    vj = T.axis.spatial(5, ij % 5)
                    vk = T.axis.reduce(9, k)
                    with T.init():
                        total[vi, vj] = T.float32(0)
                    total[vi, vj] = total[vi, vj] + a[vk, vi, vj]
        for outer in range(1):
            for inner in T.vectorized(20):
                with T.sblock("mean"):
                    T.sblock_attr({"tvm_ios_in_place": 1})
                    vi = T.axis.spatial(4, (outer * 20 + inner) // 5)
                    vj = T.axis.spatial(5, (outer * 20 + inner) % 5)
                    c[vi, vj] = total[vi, vj] / T.float32(9)


def test_last_axes_are_columns():
    schedule = s_tir.Schedule(Kernels["before"])
    assert columns(schedule, 8)
    after = schedule.mod["main"].with_attr("global_symbol", "expected")
    tvm.ir.assert_structural_equal(after, Kernels["expected"])


def _in_order(combine, x, axes):
    """Results of float32, one row after another."""
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    rows = x.transpose(*axes, *kept).reshape(-1, *(x.shape[axis] for axis in kept))
    result = np.zeros_like(rows[0]) if combine is np.add else rows[0]
    for row in rows:
        result = combine(result, row)
    return result


REDUCED = {"sum": (topi.sum, np.add), "max": (topi.max, np.maximum), "min": (topi.min, np.minimum)}


@pytest.mark.parametrize("name", REDUCED)
@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((5, 2), (0,)),
        ((1, 13), (0,)),
        ((7, 97), (0,)),
        ((3, 259), (0,)),
        ((2, 7, 7, 40), (1, 2)),
        ((2, 19, 5, 6), (1,)),
        ((3, 4, 5, 6), (0, 2)),
        ((1, 64, 200), (1,)),
    ],
)
def test_columns_are_summed_in_the_order_of_their_rows(name, shape, axes):
    reduced, combine = REDUCED[name]
    x = te.placeholder(shape, "float32", "x")
    kernel = te.create_prim_func([x, reduced(topi.nn.relu(x), axes)])
    values = np.random.default_rng(0).standard_normal(shape, "float32")
    expected = _in_order(combine, np.maximum(values, 0), axes)
    np.testing.assert_array_equal(computed(kernel, values, like=expected), expected)


@pytest.mark.parametrize("lanes", [8, 16])
def test_vectors_are_those_of_a_processor(lanes):
    x = te.placeholder((6, 300), "float32", "x")
    schedule = s_tir.Schedule(te.create_prim_func([x, topi.sum(x, 0)]))
    assert columns(schedule, lanes)
    made = with_columns_in_vectors(schedule.mod["main"], lanes)
    assert f"T.vectorized({8 * lanes})" in made.script()
    values = np.random.default_rng(0).standard_normal((6, 300), "float32")
    expected = _in_order(np.add, values, (0,))
    np.testing.assert_array_equal(ran(made, values, like=expected), expected)


@pytest.mark.parametrize(
    ("terms", "width"),
    [(5, 17), (64, 1000), (200, 259), (67, 1000), (163, 1603), (4099, 16), (96, 1024)],
)
def test_products_of_one_row_are_columns(terms, width):
    x, weights = te.placeholder((1, terms), name="x"), te.placeholder((terms, width), name="w")
    kernel = te.create_prim_func([x, weights, topi.nn.relu(topi.matmul(x, weights))])
    assert columns(s_tir.Schedule(kernel), 8)
    random = np.random.default_rng(0)
    row, matrix = random.random((1, terms), "float32"), random.random((terms, width), "float32")
    expected = np.maximum(row.astype("float64") @ matrix, 0).astype("float32")
    found = computed(kernel, row, matrix, like=expected)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_what_lies_far_away_is_read_row_by_row():
    x, weights = te.placeholder((1, 300), name="x"), te.placeholder((300, 700), name="w")
    schedule = s_tir.Schedule(te.create_prim_func([x, weights, topi.matmul(x, weights)]))
    assert columns(schedule, 16)
    made = with_columns_in_vectors(schedule.mod["main"], 16).script()
    assert "for band in range(37)" in made  # of eight rows, and four are left
    assert made.count("T.parallel(2)") == 1


@pytest.mark.parametrize("shape", [(2, 19, 5, 6), (1, 3, 1, 97), (1, 8, 40, 40)])
def test_shares_of_channels_are_those_of_numpy(shape):
    x = te.placeholder(shape, "float32", "x")
    kernel = te.create_prim_func([x, topi.nn.softmax(x, 1)])
    assert columns(s_tir.Schedule(kernel), 8)
    values = np.random.default_rng(0).standard_normal(shape, "float32") * 4
    exponentials = np.exp((values - values.max(1, keepdims=True)).astype("float64"))
    expected = (exponentials / exponentials.sum(1, keepdims=True)).astype("float32")
    result = computed(kernel, values, like=expected)
    np.testing.assert_allclose(result, expected, rtol=1e-6)


def _others():
    x, y = te.placeholder((8, 8), "float32"), te.placeholder((8, 8), "float32")
    image = te.placeholder((1, 8, 8, 4), "float32")
    pool = topi.nn.pool2d(image, (2, 2), (2, 2), (1, 1), (0, 0, 0, 0), "max", layout="NHWC")
    return {
        "rows": [x, topi.sum(x, 1)],
        "products": [x, y, topi.matmul(x, y)],
        "windows": [image, pool],
        "places": [x, topi.argmax(x, 0)],
        "rows of a softmax": [x, topi.nn.softmax(x, 1)],
        "no sum": [x, topi.exp(x)],
    }


@pytest.mark.parametrize("name", _others())
def test_others_are_left(name):
    assert not columns(s_tir.Schedule(te.create_prim_func(_others()[name])), 8)
