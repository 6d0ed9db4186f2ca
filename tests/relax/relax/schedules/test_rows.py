from __future__ import annotations

import pytest
import tvm
from tvm import s_tir, te, topi
from tvm.script import ir as I
from tvm.script import tirx as T

from tvm_ios.relax.schedules.rows import rows
from tvm_ios.support.exact_bits import exact_bits


@I.ir_module
class Kernels:
    @T.prim_func(s_tir=True)
    def before(a: T.Buffer((48, 8), "float32"), c: T.Buffer((48, 8), "float32")):
        total = T.sblock_alloc_buffer((48,))
        for i, j in T.grid(48, 8):
            with T.sblock("total"):
                vi, vj = T.axis.remap("SR", [i, j])
                with T.init():
                    total[vi] = T.float32(0)
                total[vi] = total[vi] + a[vi, vj]
        for i, j in T.grid(48, 8):
            with T.sblock("shares"):
                vi, vj = T.axis.remap("SS", [i, j])
                c[vi, vj] = a[vi, vj] / total[vi]

    @T.prim_func(s_tir=True)
    def expected(a: T.Buffer((48, 8), "float32"), c: T.Buffer((48, 8), "float32")):
        total = T.sblock_alloc_buffer((48,))
        for eight in range(6):
            for i in range(8):
                with T.sblock("total_init"):
                    vi = T.axis.spatial(48, eight * 8 + i)
                    total[vi] = T.float32(0)
            for j in T.serial(8, annotations={"tvm_ios_gathered": 1}):
                for i in range(8):
                    with T.sblock("total_update"):
                        vi = T.axis.spatial(48, eight * 8 + i)
                        vj = T.axis.reduce(8, j)
                        total[vi] = total[vi] + a[vi, vj]
            for j in T.serial(8, annotations={"tvm_ios_gathered": 1}):
                for i in range(8):
                    with T.sblock("shares"):
                        vi = T.axis.spatial(48, eight * 8 + i)
                        vj = T.axis.spatial(8, j)
                        T.sblock_attr({"tvm_ios_in_place": 1})
                        c[vi, vj] = a[vi, vj] / total[vi]


def _column_sums():
    a, down = te.placeholder((6, 8), "float32", "a"), te.reduce_axis((0, 6), "down")
    return te.create_prim_func([a, te.compute((8,), lambda at: te.sum(a[down, at], down), "c")])


def test_short_rows_are_summed_and_divided_side_by_side():
    schedule = s_tir.Schedule(Kernels["before"])
    assert rows(schedule, 8)
    after = schedule.mod["main"].with_attr("global_symbol", "expected")
    tvm.ir.assert_structural_equal(after, Kernels["expected"])


def test_many_rows_are_parallel():
    large = Kernels["before"].script().replace("(48, 8)", "(512, 64)").replace("(48,)", "(512,)")
    schedule = s_tir.Schedule(tvm.script.from_source(large))
    assert rows(schedule, 8)
    assert "T.parallel(64)" in schedule.mod["main"].script()


def test_columns_are_others():
    assert not rows(s_tir.Schedule(_column_sums()), 8)


def test_groups_that_are_no_rows_of_the_result_are_others():
    x, scale = te.placeholder((1, 64, 8, 5), "float32"), te.placeholder((64,), "float32")
    y = topi.nn.group_norm(x, scale, scale, 8, 1, [2, 3], 1e-5)
    for result, wanted in ((y, True), (topi.transpose(y, [0, 2, 3, 1]), False)):
        assert rows(s_tir.Schedule(te.create_prim_func([x, scale, result])), 8) == wanted


@pytest.mark.parametrize("wanted", [True, False])
def test_sums_keep_their_order_where_stock_bits_are_wanted(wanted):
    with exact_bits(wanted):
        assert rows(s_tir.Schedule(Kernels["before"]), 8) != wanted
