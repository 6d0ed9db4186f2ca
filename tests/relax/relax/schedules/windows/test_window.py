from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import s_tir, te
from tvm.script import ir as I
from tvm.script import tirx as T

from tests.relax.relax.schedules.kernels import computed
from tvm_ios.relax.schedules.windows.window import window


@I.ir_module
class Kernels:
    @T.prim_func(s_tir=True)
    def before(
        a: T.Buffer((1, 3, 6, 8), "float32"),
        w: T.Buffer((4, 3, 3, 3), "float32"),
        c: T.Buffer((1, 4, 4, 6), "float32"),
    ):
        total = T.sblock_alloc_buffer((1, 4, 4, 6))
        for n, o, y, x, i, dy, dx in T.grid(1, 4, 4, 6, 3, 3, 3):
            with T.sblock("total"):
                vn, vo, vy, vx = T.axis.remap("SSSS", [n, o, y, x])
                vi, vdy, vdx = T.axis.remap("RRR", [i, dy, dx])
                with T.init():
                    total[vn, vo, vy, vx] = T.float32(0)
                total[vn, vo, vy, vx] = (
                    total[vn, vo, vy, vx] + a[vn, vi, vy + vdy, vx + vdx] * w[vo, vi, vdy, vdx]
                )
        for n, o, y, x in T.grid(1, 4, 4, 6):
            with T.sblock("relu"):
                vn, vo, vy, vx = T.axis.remap("SSSS", [n, o, y, x])
                c[vn, vo, vy, vx] = T.max(total[vn, vo, vy, vx], T.float32(0))

    @T.prim_func(s_tir=True)
    def expected(
        a: T.Buffer((1, 3, 6, 8), "float32"),
        w: T.Buffer((4, 3, 3, 3), "float32"),
        c: T.Buffer((1, 4, 4, 6), "float32"),
    ):
        total = T.sblock_alloc_buffer((1, 4, 4, 6))
        for o, y, x in T.grid(2, 4, 1):
            for row in T.unroll(2):
                for piece in T.vectorized(6):
                    with T.sblock("total_init"):
                        vo = T.axis.spatial(4, o * 2 + row)
                        vy = T.axis.spatial(4, y)
                        vx = T.axis.spatial(6, x * 6 + piece)
                        total[0, vo, vy, vx] = T.float32(0)
            for i, dy, dx in T.grid(3, 3, 3):
                for row in T.unroll(2):
                    for piece in T.vectorized(6):
                        with T.sblock("total_update"):
                            vo = T.axis.spatial(4, o * 2 + row)
                            vy = T.axis.spatial(4, y)
                            vx = T.axis.spatial(6, x * 6 + piece)
                            vi, vdy, vdx = T.axis.remap("RRR", [i, dy, dx])
                            total[0, vo, vy, vx] = (
                                total[0, vo, vy, vx]
                                + a[0, vi, vy + vdy, vx + vdx] * w[vo, vi, vdy, vdx]
                            )
            for row in T.unroll(2):
                for piece in T.vectorized(6):
                    with T.sblock("relu"):
                        vo = T.axis.spatial(4, o * 2 + row)
                        vy = T.axis.spatial(4, y)
                        vx = T.axis.spatial(6, piece)
                        c[0, vo, vy, vx] = T.max(total[0, vo, vy, vx], T.float32(0))

    @T.prim_func(s_tir=True)
    def mean(a: T.Buffer((4, 6), "float32"), c: T.Buffer((4,), "float32")):
        for i, j in T.grid(4, 6):
            with T.sblock("mean"):
                vi, vj = T.axis.remap("SR", [i, j])
                with T.init():
                    c[vi] = T.float32(0)
                c[vi] = c[vi] + a[vi, vj]


def test_a_tile_stays_in_registers():
    schedule = s_tir.Schedule(Kernels["before"])
    assert window(schedule, 4)
    after = schedule.mod["main"].with_attr("global_symbol", "expected")
    tvm.ir.assert_structural_equal(after, Kernels["expected"])


def test_long_registers_have_more_rows():
    schedule = s_tir.Schedule(Kernels["before"])
    assert window(schedule, 16)
    assert "T.unroll(4)" in schedule.mod["main"].script()


def test_sums_along_a_row_are_others():
    assert not window(s_tir.Schedule(Kernels["mean"]), 8)


@pytest.mark.parametrize(("rows", "columns"), [(11, 17), (1, 17), (11, 32), (16, 17), (8, 16)])
def test_products_are_right_whatever_divides_their_rows(rows, columns):
    a, b = te.placeholder((rows, 5), name="a"), te.placeholder((5, columns), name="b")
    k = te.reduce_axis((0, 5), "k")
    total = te.compute((rows, columns), lambda y, x: te.sum(a[y, k] * b[k, x], axis=k), "total")
    made = te.compute((rows, columns), lambda y, x: total[y, x] + 1, "made")
    x, y = (np.random.default_rng(0).random(each, "float32") for each in ((rows, 5), (5, columns)))
    found = computed(te.create_prim_func([a, b, made]), x, y, like=x @ y)
    np.testing.assert_allclose(found, x @ y + 1, rtol=1e-5)
