"""Descriptions of calls for oneDNN: the function that makes a descriptor, and its arguments."""

from __future__ import annotations

from collections.abc import Mapping

from tvm_ios.runtime.libraries.onednn.call import OnednnCall, Primitive
from tvm_ios.runtime.libraries.onednn.library import extents_of
from tvm_ios.runtime.libraries.onednn.numbers import (
    ALGORITHMS,
    BIAS,
    FORWARD_INFERENCE,
    SOURCE,
    TARGET,
    WEIGHTS,
)

__all__ = ["description_of"]


def description_of(call: OnednnCall, asked: Mapping[int, int]) -> tuple[str, tuple[object, ...]]:
    """The function that makes a call's descriptor, and its arguments between engine and attributes.

    ``asked`` has memory descriptors by argument.
    """
    window = call.window
    if call.primitive is Primitive.PRODUCT:
        weighted = (asked[SOURCE], asked[WEIGHTS], asked.get(BIAS), asked[TARGET])
        return "dnnl_matmul_primitive_desc_create", weighted
    kind = (FORWARD_INFERENCE, ALGORITHMS[call.primitive])
    if window is None:
        along = (asked[SOURCE], asked[TARGET], len(call.data.extents) - 1)
        return "dnnl_softmax_forward_primitive_desc_create", (*kind, *along)
    strides = extents_of(window.strides)
    dilation = extents_of([each - 1 for each in window.dilation])  # 0 is dense to oneDNN
    padding = (extents_of(window.begins), extents_of(window.ends))
    if window.pooled is not None:
        ends = (asked[SOURCE], asked[TARGET])
        pooled = (strides, extents_of(window.pooled), dilation, *padding)
        return "dnnl_pooling_forward_primitive_desc_create", (*kind, *ends, *pooled)
    weighted = (asked[SOURCE], asked[WEIGHTS], asked.get(BIAS), asked[TARGET])
    noun = "deconvolution" if call.primitive is Primitive.TRANSPOSED else "convolution"
    moves = (strides, dilation, *padding)
    return f"dnnl_{noun}_forward_primitive_desc_create", (*kind, *weighted, *moves)
