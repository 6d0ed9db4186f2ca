from __future__ import annotations

import pytest
import tvm
from tvm import s_tir, te
from tvm.script import ir as I
from tvm.script import tirx as T

from tvm_ios.relax.schedules.rows import rows
from tvm_ios.support.exact_bits import exact_bits


@I.ir_module
class Kernels:
    @T.prim_func(s_tir=True)
    def before(a: T.Buffer((6, 8), "float32"), c: T.Buffer((6, 8), "float32")):
        total = T.sblock_alloc_buffer((6,))
        for i, j in T.grid(6, 8):
            with T.sblock("total"):
                vi, vj = T.axis.remap("SR", [i, j])
                with T.init():
                    total[vi] = T.float32(0)
                total[vi] = total[vi] + a[vi, vj]
        for i, j in T.grid(6, 8):
            with T.sblock("shares"):
                vi, vj = T.axis.remap("SS", [i, j])
                c[vi, vj] = a[vi, vj] / total[vi]

    @T.prim_func(s_tir=True)
    def expected(a: T.Buffer((6, 8), "float32"), c: T.Buffer((6, 8), "float32")):
        total = T.sblock_alloc_buffer((6,))
        parts = T.sblock_alloc_buffer((6, 4))
        for i in range(6):
            for lane in T.vectorized(4):
                with T.sblock("parts_init"):
                    vlane, vi = T.axis.remap("SS", [lane, i])
                    parts[vi, vlane] = T.float32(0)
            for chunk in T.unroll(2):
                for lane in T.vectorized(4):
                    with T.sblock("parts_update"):
                        vlane, vi, vchunk = T.axis.remap("SSR", [lane, i, chunk])
                        parts[vi, vlane] = parts[vi, vlane] + a[vi, vchunk * 4 + vlane]
            for lane in T.unroll(4):
                with T.sblock("total"):
                    vlane, vi = T.axis.remap("RS", [lane, i])
                    with T.init():
                        total[vi] = T.float32(0)
                    total[vi] = total[vi] + parts[vi, vlane]
            for outer in range(1):
                for inner in T.vectorized(8):
                    with T.sblock("shares"):
                        vi = T.axis.spatial(6, i)
                        vj = T.axis.spatial(8, outer * 8 + inner)
                        c[vi, vj] = a[vi, vj] / total[vi]


def _column_sums():
    a, down = te.placeholder((6, 8), "float32", "a"), te.reduce_axis((0, 6), "down")
    return te.create_prim_func([a, te.compute((8,), lambda at: te.sum(a[down, at], down), "c")])


def test_a_row_is_summed_and_divided_while_it_is_near():
    schedule = s_tir.Schedule(Kernels["before"])
    assert rows(schedule, 8)
    after = schedule.mod["main"].with_attr("global_symbol", "expected")
    tvm.ir.assert_structural_equal(after, Kernels["expected"])


def test_many_rows_are_parallel():
    large = Kernels["before"].script().replace("(6, 8)", "(512, 64)").replace("(6,)", "(512,)")
    schedule = s_tir.Schedule(tvm.script.from_source(large))
    assert rows(schedule, 8)
    assert "T.parallel(512)" in schedule.mod["main"].script()


def test_columns_are_others():
    assert not rows(s_tir.Schedule(_column_sums()), 8)


@pytest.mark.parametrize("wanted", [True, False])
def test_sums_keep_their_order_where_stock_bits_are_wanted(wanted):
    with exact_bits(wanted):
        assert rows(s_tir.Schedule(Kernels["before"]), 8) != wanted
