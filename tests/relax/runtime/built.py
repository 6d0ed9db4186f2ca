"""Kernels of TIR that TVM 0.27 compiles, and a plan of them by hand: two groups, then one.

``data`` goes through ``scaled``, whose rows are tasks of a parallel region, and ``shifted``; both
go through ``joined``. ``positive`` says where that is above 0.
"""

from __future__ import annotations

import numpy as np
import tvm
from tvm.script import ir as I
from tvm.script import tirx as T

from tvm_ios.plan.kernel_graph import GraphOperator, GraphTensor, KernelGraph
from tvm_ios.plan.lower import lower_plan
from tvm_ios.plan.placement import Placement
from tvm_ios.plan.plan import ExecutionPlan

ROWS, COLUMNS = 32, 64
SHAPE = (ROWS, COLUMNS)
TARGET = tvm.target.Target({"kind": "llvm", "mcpu": "x86-64-v2"})


@I.ir_module
class Kernels:
    @T.prim_func
    def scaled(
        data: T.Buffer((32, 64), "float32"),
        weight: T.Buffer((64,), "float32"),
        out: T.Buffer((32, 64), "float32"),
    ):
        for i in T.parallel(32):
            for j in T.serial(64):
                out[i, j] = data[i, j] * weight[j]

    @T.prim_func
    def shifted(data: T.Buffer((32, 64), "float32"), out: T.Buffer((32, 64), "float32")):
        for i, j in T.grid(32, 64):
            out[i, j] = data[i, j] + T.float32(1)

    @T.prim_func
    def joined(
        left: T.Buffer((32, 64), "float32"),
        right: T.Buffer((32, 64), "float32"),
        out: T.Buffer((32, 64), "float32"),
    ):
        for i in T.parallel(32):
            for j in T.serial(64):
                out[i, j] = left[i, j] - right[i, j]

    @T.prim_func
    def positive(data: T.Buffer((32, 64), "float32"), out: T.Buffer((32, 64), "bool")):
        for i, j in T.grid(32, 64):
            out[i, j] = data[i, j] > T.float32(0)


def kernel_graph(shape: tuple[int, int] = SHAPE) -> KernelGraph:
    """The graph of the kernels, whose tensors are of a shape."""

    def operator(name: str, inputs: tuple[int, ...], output: int) -> GraphOperator:
        return GraphOperator(
            name=name, kernel=name, inputs=inputs, outputs=(output,), flatten=False
        )

    image = GraphTensor(shape, "float32")
    return KernelGraph(
        tensors=(
            image,
            GraphTensor(shape[1:], "float32"),
            *(image, image, image),
            GraphTensor(shape, "bool"),
        ),
        operators=(
            operator("scaled", (0, 1), 2),
            operator("shifted", (0,), 3),
            operator("joined", (2, 3), 4),
            operator("positive", (4,), 5),
        ),
        inputs=(("data", 0), ("weight", 1)),
        outputs=(4, 5),
    )


def plan(lanes: int, shape: tuple[int, int] = SHAPE) -> ExecutionPlan:
    """The plan of the graph: ``scaled`` beside ``shifted``, then the others."""
    places = ((0, 0), (0, 1), (1, 0), (1, 0))
    return lower_plan(
        kernel_graph(shape),
        [Placement(stage=stage, group=group) for stage, group in places],
        lanes=lanes,
    )


def values() -> tuple[np.ndarray, np.ndarray]:
    """Data and weights."""
    random = np.random.default_rng(0)
    return tuple(random.standard_normal(shape).astype("float32") for shape in (SHAPE, (COLUMNS,)))


def expected(data: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What the plan computes."""
    out = data * weight - (data + np.float32(1))
    return out, out > 0
