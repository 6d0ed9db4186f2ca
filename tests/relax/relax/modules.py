"""Modules in TVMScript: kernels that stand for whole operators, and code that no lane runs."""

from __future__ import annotations

import tvm
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T

__all__ = ["Branches", "Controlled", "Dynamic", "Opaque", "Unprepared"]


@I.ir_module
class Branches:
    """Two kernels side by side, then their sum."""

    @T.prim_func(private=True, s_tir=True)
    def twice(a: T.Buffer((4, 8), "float32"), b: T.Buffer((4, 8), "float32")):
        for i, j in T.grid(4, 8):
            with T.sblock("twice"):
                vi, vj = T.axis.remap("SS", [i, j])
                b[vi, vj] = a[vi, vj] * T.float32(2)

    @T.prim_func(private=True, s_tir=True)
    def raised(a: T.Buffer((4, 8), "float32"), b: T.Buffer((4, 8), "float32")):
        for i, j in T.grid(4, 8):
            with T.sblock("raised"):
                vi, vj = T.axis.remap("SS", [i, j])
                b[vi, vj] = a[vi, vj] + T.float32(1)

    @T.prim_func(private=True, s_tir=True)
    def added(
        a: T.Buffer((4, 8), "float32"),
        b: T.Buffer((4, 8), "float32"),
        c: T.Buffer((4, 8), "float32"),
    ):
        for i, j in T.grid(4, 8):
            with T.sblock("added"):
                vi, vj = T.axis.remap("SS", [i, j])
                c[vi, vj] = a[vi, vj] + b[vi, vj]

    @R.function
    def main(x: R.Tensor((4, 8), "float32")) -> R.Tensor((4, 8), "float32"):
        cls = Branches
        with R.dataflow():
            left = R.call_tir(cls.twice, (x,), out_ty=R.Tensor((4, 8), "float32"))
            right = R.call_tir(cls.raised, (x,), out_ty=R.Tensor((4, 8), "float32"))
            gv = R.call_tir(cls.added, (left, right), out_ty=R.Tensor((4, 8), "float32"))
            R.output(gv)
        return gv


@I.ir_module
class Unprepared:
    """Operators that are no kernels yet."""

    @R.function
    def main(x: R.Tensor((4, 8), "float32"), w: R.Tensor((4, 8), "float32")) -> R.Tensor(
        (4, 8), "float32"
    ):
        with R.dataflow():
            scaled = R.multiply(x, w)
            gv = R.nn.relu(scaled)
            R.output(gv)
        return gv


@I.ir_module
class Opaque:
    """A packed function between two operators."""

    @R.function
    def main(x: R.Tensor((4, 8), "float32")) -> R.Tensor((4, 8), "float32"):
        with R.dataflow():
            before = R.add(x, x)
            middle = R.call_dps_packed(
                "tests.relax.negative", (before,), out_ty=R.Tensor((4, 8), "float32")
            )
            gv = R.nn.relu(middle)
            R.output(gv)
        return gv


@I.ir_module
class Dynamic:
    """A batch that nobody knows."""

    @R.function
    def main(x: R.Tensor(("n", 8), "float32")) -> R.Tensor(("n", 8), "float32"):
        with R.dataflow():
            gv = R.nn.relu(x)
            R.output(gv)
        return gv


@I.ir_module
class Controlled:
    """One of two operators."""

    @R.function
    def main(x: R.Tensor((4, 8), "float32"), choice: R.Tensor((), "bool")) -> R.Tensor(
        (4, 8), "float32"
    ):
        if choice:  # noqa: SIM108 - what is tested
            y = R.nn.relu(x)
        else:
            y = R.negative(x)
        return y


@tvm.register_global_func("tests.relax.negative", override=True)
def _negative(source: tvm.runtime.Tensor, result: tvm.runtime.Tensor) -> None:
    result.copyfrom(-source.numpy())
