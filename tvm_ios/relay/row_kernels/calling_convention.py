"""Statements as kernels in TVM's calling convention, and rows of elements that they work on."""

from __future__ import annotations

import math
from collections.abc import Sequence

import tvm
from tvm import tir

from tvm_ios.kernels.vector_math import preparing_lowering

__all__ = ["as_row", "lowered_kernel"]


def lowered_kernel(
    name: str, buffers: Sequence[tir.Buffer], statement: tir.Stmt, target: tvm.target.Target
) -> tir.PrimFunc:
    """Lowered function of a statement over the buffers of its arguments, none of which overlap.

    Uses the PassContext in force. What it calls is left for
    :func:`~tvm_ios.kernels.vector_math.with_arithmetic`.
    """
    parameters = [tir.Var(buffer.name, "handle") for buffer in buffers]
    kernel = tir.PrimFunc(
        parameters, statement, buffer_map=dict(zip(parameters, buffers, strict=True))
    ).with_attr("tir.noalias", True)
    with target, preparing_lowering():
        return tvm.lower(kernel, name=name)[name]


def as_row(buffer: tir.Buffer) -> tir.Buffer:
    """Elements of a buffer, one behind the other."""
    length = math.prod(int(extent) for extent in buffer.shape)
    return tir.decl_buffer((length,), buffer.dtype, buffer.name, data=buffer.data)
