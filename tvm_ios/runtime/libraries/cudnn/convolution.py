"""Convolutions that cuDNN computes, and calls of them as a plan stores them. No TVM here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tvm_ios.core.fused_function import TensorType
from tvm_ios.support.json_nouns import noun_from
from tvm_ios.support.stored_value import StoredValue

__all__ = ["CudnnAlgorithm", "CudnnCall", "CudnnConvolution"]

Shape = tuple[int, int, int, int]
Pair = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class CudnnConvolution:
    """A convolution with everything that its price and its best algorithm depend on."""

    input_shape: Shape
    """Batch, channels, height, width (NCHW)."""
    weight_shape: Shape
    """Output channels, input channels of a group, height, width."""
    strides: Pair
    padding: Pair
    """Zeros above and below, and left and right; cuDNN pads both sides alike."""
    dilation: Pair
    groups: int
    bias: bool
    """True adds one value an output channel."""
    relu: bool
    dtype: str = "float32"
    """Data type of all tensors; sums are float32."""
    tf32: bool = False
    """True allows float32 to be rounded to TF32, with 10 bits of mantissa."""

    @property
    def output_shape(self) -> Shape:
        """Shape of the result, NCHW."""
        height, width = (
            (extent + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
            for extent, kernel, stride, padding, dilation in zip(
                self.input_shape[2:],
                self.weight_shape[2:],
                self.strides,
                self.padding,
                self.dilation,
                strict=True,
            )
        )
        return self.input_shape[0], self.weight_shape[0], height, width

    def as_text(self) -> str:
        """Text of all fields in a line: key of the stored algorithm, and name in messages."""
        steps = f"{'+bias' if self.bias else ''}{'+relu' if self.relu else ''}"
        return (
            f"conv{steps} {self.dtype}{' tf32' if self.tf32 else ''} x={_by(self.input_shape)} "
            f"w={_by(self.weight_shape)} strides={_by(self.strides)} padding={_by(self.padding)} "
            f"dilation={_by(self.dilation)} groups={self.groups}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CudnnAlgorithm:
    """The fastest algorithm of a convolution, as it was found on one GPU."""

    number: int
    """Number of the algorithm in ``cudnnConvolutionFwdAlgo_t``."""
    device: str
    """Name of the GPU on which it was fastest."""
    version: int
    """Version of the cuDNN it was found with, such as 91002 for 9.10.2."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CudnnCall:
    """A launch's call of cuDNN: its convolution, and the roles of its inputs."""

    convolution: CudnnConvolution
    data: int
    """Position of the data among the inputs of the launch."""
    weight: int
    bias: int | None = None
    algorithm: CudnnAlgorithm | None = None
    """Algorithm to use; looked for on the GPU if None, or of another GPU or cuDNN."""

    def fits(self, inputs: Sequence[TensorType], outputs: Sequence[TensorType]) -> bool:
        """True if the tensors of a launch are those of the convolution, and all are used."""
        convolution = self.convolution
        shapes: dict[int, tuple[int, ...]] = {
            self.data: convolution.input_shape,
            self.weight: convolution.weight_shape,
        }
        if self.bias is not None:
            shapes[self.bias] = (convolution.weight_shape[0],)
        return (
            convolution.bias == (self.bias is not None)
            and sorted(shapes) == list(range(len(inputs)))
            and len(outputs) == 1
            and all(
                inputs[position].fits(TensorType(shape, convolution.dtype))
                for position, shape in shapes.items()
            )
            and outputs[0].fits(TensorType(convolution.output_shape, convolution.dtype))
        )

    def as_text(self) -> str:
        """The convolution in a line."""
        return self.convolution.as_text()

    def to_data(self) -> dict[str, Any]:
        """The fields as data for JSON; :meth:`from_data` reads them back."""
        return asdict(self)

    @classmethod
    def from_data(cls, data: StoredValue) -> CudnnCall:
        """Call in the data of :meth:`to_data`."""
        return noun_from(cls, data, whole=True)


def _by(extents: tuple[int, ...]) -> str:
    return "x".join(map(str, extents))
