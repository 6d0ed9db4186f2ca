from __future__ import annotations

import pytest
import tvm
from tvm import s_tir
from tvm.script import ir as I
from tvm.script import tirx as T

from tvm_ios.relax.schedules.injective import injective


@I.ir_module
class Kernels:
    @T.prim_func(s_tir=True)
    def before(
        a: T.Buffer((4, 6), "float32"),
        b: T.Buffer((6,), "float32"),
        c: T.Buffer((4, 6), "float32"),
    ):
        product = T.sblock_alloc_buffer((4, 6))
        for i, j in T.grid(4, 6):
            with T.sblock("product"):
                vi, vj = T.axis.remap("SS", [i, j])
                product[vi, vj] = a[vi, vj] * b[vj]
        for i, j in T.grid(4, 6):
            with T.sblock("relu"):
                vi, vj = T.axis.remap("SS", [i, j])
                c[vi, vj] = T.max(product[vi, vj], T.float32(0))

    @T.prim_func(s_tir=True)
    def expected(
        a: T.Buffer((4, 6), "float32"),
        b: T.Buffer((6,), "float32"),
        c: T.Buffer((4, 6), "float32"),
    ):
        for i, outer in T.grid(4, 1):
            for inner in T.vectorized(6):
                with T.sblock("relu"):
                    vi = T.axis.spatial(4, i)
                    vj = T.axis.spatial(6, outer * 6 + inner)
                    c[vi, vj] = T.max(a[vi, vj] * b[vj], T.float32(0))

    @T.prim_func(s_tir=True)
    def total(a: T.Buffer((4, 6), "float32"), c: T.Buffer((4,), "float32")):
        for i, j in T.grid(4, 6):
            with T.sblock("total"):
                vi, vj = T.axis.remap("SR", [i, j])
                with T.init():
                    c[vi] = T.float32(0)
                c[vi] = c[vi] + a[vi, vj]


def test_rows_become_vectors():
    schedule = s_tir.Schedule(Kernels["before"])
    assert injective(schedule, 8)
    after = schedule.mod["main"].with_attr("global_symbol", "expected")
    tvm.ir.assert_structural_equal(after, Kernels["expected"])


def test_large_arrays_are_parallel():
    large = Kernels["before"].script().replace("4, 6", "64, 256").replace("(6,)", "(256,)")
    schedule = s_tir.Schedule(tvm.script.from_source(large))
    assert injective(schedule, 8)
    assert "T.parallel(512)" in schedule.mod["main"].script()
    assert "T.vectorized(32)" in schedule.mod["main"].script()


@pytest.mark.parametrize("name", ["total"])
def test_sums_are_others(name):
    assert not injective(s_tir.Schedule(Kernels[name]), 8)
