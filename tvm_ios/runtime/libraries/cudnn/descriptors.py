"""Descriptions of convolutions for cuDNN: tensors, weights, padding, and the arithmetic allowed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

from tvm_ios.runtime.libraries.cudnn.convolution import CudnnConvolution
from tvm_ios.runtime.libraries.cudnn.library import Cudnn

__all__ = ["Activation", "DataType", "Descriptors", "Math", "describe", "math_of"]

NCHW = 0
CROSS_CORRELATION = 1
"""cuDNN's name of the operation that networks call a convolution."""
DROP_NAN = 0


class DataType(IntEnum):
    """Data types by TVM's names, with the numbers of ``cudnnDataType_t``."""

    float32 = 0
    float16 = 2


class Math(IntEnum):
    """``cudnnMathType_t``: arithmetic allowed on the operands of a product."""

    DEFAULT = 0
    """Rounding of float32 to TF32 is allowed."""
    FMA = 3
    """Operands are multiplied as they are."""


class Activation(IntEnum):
    """Activations, with the numbers of ``cudnnActivationMode_t``."""

    RELU = 1
    IDENTITY = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Descriptors:
    """Handles of the descriptors of one convolution."""

    x: int
    w: int
    y: int
    bias: int
    convolution: int
    activation: int


def math_of(convolution: CudnnConvolution) -> Math:
    """Arithmetic allowed for a convolution: TF32 only where it was asked for."""
    exact = convolution.dtype == "float32" and not convolution.tf32
    return Math.FMA if exact else Math.DEFAULT


def describe(
    library: Cudnn, convolution: CudnnConvolution, later: Callable[..., object]
) -> Descriptors:
    """Make the descriptors of a convolution.

    ``later`` takes the functions, with their arguments, that destroy the descriptors at the end.
    """
    where = convolution.as_text()
    dtype = DataType[convolution.dtype]

    def make(kind: str) -> int:
        handle = library.make(f"cudnnCreate{kind}Descriptor", where=where)
        later(library.call, f"cudnnDestroy{kind}Descriptor", handle)
        return handle

    def tensor(shape: tuple[int, ...]) -> int:
        handle = make("Tensor")
        library.call("cudnnSetTensor4dDescriptor", handle, NCHW, dtype, *shape, where=where)
        return handle

    weight, window, activation = make("Filter"), make("Convolution"), make("Activation")
    library.call(
        "cudnnSetFilter4dDescriptor", weight, dtype, NCHW, *convolution.weight_shape, where=where
    )
    library.call(
        "cudnnSetConvolution2dDescriptor",
        window,
        *convolution.padding,
        *convolution.strides,
        *convolution.dilation,
        CROSS_CORRELATION,
        DataType.float32,
        where=where,
    )
    library.call("cudnnSetConvolutionGroupCount", window, convolution.groups, where=where)
    library.call("cudnnSetConvolutionMathType", window, math_of(convolution), where=where)
    mode = Activation.RELU if convolution.relu else Activation.IDENTITY
    library.call("cudnnSetActivationDescriptor", activation, mode, DROP_NAN, 0.0, where=where)
    return Descriptors(
        x=tensor(convolution.input_shape),
        w=weight,
        y=tensor(convolution.output_shape),
        bias=tensor((1, convolution.weight_shape[0], 1, 1)),
        convolution=window,
        activation=activation,
    )
