from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import te, topi
from tvm.script import ir as I
from tvm.script import tirx as T

from tests.relax.relax.schedules.kernels import computed
from tvm_ios.relax.schedules.joined import joined


@I.ir_module
class Kernels:
    @T.prim_func(s_tir=True)
    def before(
        a: T.Buffer((3, 8), "float32"),
        b: T.Buffer((3, 4), "float32"),
        c: T.Buffer((3, 12), "float32"),
    ):
        joined = T.sblock_alloc_buffer((3, 12))
        for i, j in T.grid(3, 12):
            with T.sblock("joined"):
                vi, vj = T.axis.remap("SS", [i, j])
                joined[vi, vj] = T.if_then_else(T.LE(8, vj), b[vi, vj - 8], a[vi, vj])
        for i, j in T.grid(3, 12):
            with T.sblock("relu"):
                vi, vj = T.axis.remap("SS", [i, j])
                c[vi, vj] = T.max(joined[vi, vj], T.float32(0))

    @T.prim_func(s_tir=True)
    def expected(
        a: T.Buffer((3, 8), "float32"),
        b: T.Buffer((3, 4), "float32"),
        c: T.Buffer((3, 12), "float32"),
    ):
        with T.sblock("root"):
            T.reads()
            T.writes()
            for row in range(3):
                for chunk in range(1):
                    for lane in T.vectorized(8):
                        c[row, chunk * 8 + lane] = T.max(a[row, chunk * 8 + lane], T.float32(0))
                for chunk in range(1):
                    for lane in T.vectorized(4):
                        c[row, chunk * 4 + lane + 8] = T.max(b[row, chunk * 4 + lane], T.float32(0))


def _simplified(kernel):
    module = tvm.IRModule({"main": kernel.with_attr("global_symbol", "main")})
    return tvm.tirx.transform.StmtSimplify()(module)["main"]


def test_each_piece_has_vectors_of_its_own():
    after = joined(Kernels["before"], 8)
    tvm.ir.assert_structural_equal(
        _simplified(after), _simplified(Kernels["expected"]), map_free_vars=True
    )


@pytest.mark.parametrize("widths", [(24, 24, 24), (1, 5, 17), (3, 2), (40, 7, 12)])
def test_joined_rows_are_the_concatenation(widths):
    arrays = [te.placeholder((2, 3, width), name=f"x{width}") for width in widths]
    kernel = te.create_prim_func([*arrays, topi.nn.relu(topi.concatenate(arrays, 2))])
    assert joined(kernel, 16) is not None
    drawn = np.random.default_rng(0)
    values = [drawn.standard_normal((2, 3, width), "float32") for width in widths]
    expected = np.maximum(np.concatenate(values, 2), 0)
    np.testing.assert_array_equal(computed(kernel, *values, like=expected), expected)


@pytest.mark.parametrize("axis", [0, 1])
def test_other_axes_are_others(axis):
    arrays = [te.placeholder((4, 3, 8), name=name) for name in "ab"]
    assert joined(te.create_prim_func([*arrays, topi.concatenate(arrays, axis)]), 8) is None


def test_padding_on_both_sides_is_another_kernel():
    a = te.placeholder((4, 8), name="a")
    assert joined(te.create_prim_func([a, topi.nn.pad(a, (0, 1), (0, 1))]), 8) is None
