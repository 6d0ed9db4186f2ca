"""Numbers of oneDNN's C interface, as all releases 3.x have them. No TVM here.

Numbers of formats stand in :mod:`~tvm_ios.runtime.libraries.onednn.tensors`.
"""

from __future__ import annotations

from types import MappingProxyType

from tvm_ios.runtime.libraries.onednn.call import Primitive, StepKind

__all__ = [
    "ALGORITHMS",
    "BIAS",
    "BINARY",
    "ELEMENTWISE",
    "FLOAT32",
    "FORWARD_INFERENCE",
    "IN_ORDER",
    "POST_OP",
    "QUERIES",
    "QUERY_NAME",
    "QUERY_SCRATCHPAD",
    "SCRATCHPAD",
    "SECOND_SOURCE",
    "SOURCE",
    "STRICT",
    "TARGET",
    "USER_SCRATCHPAD",
    "WEIGHTS",
    "operand_of",
]

FLOAT32 = 3
FORWARD_INFERENCE = 96
ALGORITHMS = MappingProxyType(
    {
        Primitive.CONVOLUTION: 1,
        Primitive.TRANSPOSED: 10,
        Primitive.MAX_POOLING: 511,
        Primitive.AVERAGE_POOLING: 767,
        Primitive.AVERAGE_INSIDE: 1023,
        Primitive.SOFTMAX: 0x30000,
    }
)
"""Numbers of algorithms (``dnnl_alg_kind_t``); sums are taken as written, never by Winograd's
way."""
ELEMENTWISE = MappingProxyType(
    {
        StepKind.RELU: 32,
        StepKind.TANH: 33,
        StepKind.LINEAR: 38,
        StepKind.GELU_TANH: 43,
        StepKind.SIGMOID: 41,
        StepKind.SWISH: 44,
        StepKind.CLIP: 46,
        StepKind.GELU: 49,
        StepKind.MISH: 51,
        StepKind.HARD_SWISH: 52,
    }
)
BINARY = MappingProxyType(
    {
        StepKind.ADD: 131056,
        StepKind.MULTIPLY: 131057,
        StepKind.MAXIMUM: 131058,
        StepKind.MINIMUM: 131059,
        StepKind.SUBTRACT: 131061,
    }
)
USER_SCRATCHPAD = 1
STRICT = 0
IN_ORDER = 1
QUERY_NAME = 8
QUERY_SCRATCHPAD = 136
SOURCE, SECOND_SOURCE, TARGET, WEIGHTS, BIAS, SCRATCHPAD = 1, 2, 17, 33, 41, 80
POST_OP = 32768
"""Base of the arguments of a step, to be multiplied by its position plus one."""
QUERIES = MappingProxyType({SOURCE: 129, WEIGHTS: 131, TARGET: 133})


def operand_of(step: int, kind: StepKind) -> int:
    """Number of the argument that is a step's second operand, by the step's position and kind."""
    return POST_OP * (step + 1) | (WEIGHTS if kind is StepKind.PRELU else SECOND_SOURCE)
