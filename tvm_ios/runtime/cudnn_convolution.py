"""What a plan says of a convolution that cuDNN computes, as immutable data. No TVM here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["CudnnAlgorithm", "CudnnCall", "CudnnConvolution", "CudnnOffload"]

Shape = tuple[int, int, int, int]
Pair = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class CudnnConvolution:
    """What one call computes: all that its price and its best algorithm depend on."""

    input_shape: Shape
    """NCHW."""
    weight_shape: Shape
    """Output channels, input channels of a group, height, width."""
    strides: Pair
    padding: Pair
    """Zeros above and below, left and right; cuDNN pads both sides alike."""
    dilation: Pair
    groups: int
    bias: bool
    """Whether one value an output channel is added."""
    relu: bool
    dtype: str = "float32"
    """Of all tensors; sums are float32."""
    tf32: bool = False
    """Whether float32 may be rounded to TF32, with 10 bits of mantissa."""

    @property
    def output_shape(self) -> Shape:
        """NCHW."""
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
        """All fields in a line: what an algorithm is kept under, and for messages."""
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
    """``cudnnConvolutionFwdAlgo_t``."""
    device: str
    """The GPU it was found on."""
    version: int
    """The cuDNN it was found with, such as 91002 for 9.10.2."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CudnnCall:
    """How a launch has cuDNN run its convolution."""

    convolution: CudnnConvolution
    data: int
    """Position of the data among the inputs of the launch."""
    weight: int
    bias: int | None = None
    algorithm: CudnnAlgorithm | None = None
    """None, or one of another GPU or cuDNN, is looked for when the plan is put on a GPU."""

    def to_data(self) -> dict[str, Any]:
        """For JSON; :meth:`from_data` reads it back."""
        return asdict(self)

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> CudnnCall:
        """Read what :meth:`to_data` gave.

        Raises
        ------
        KeyError, TypeError
            If a field is missing or unknown.
        """
        fields: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in data["convolution"].items()
        }
        found = data["algorithm"]
        return cls(
            convolution=CudnnConvolution(**fields),
            data=data["data"],
            weight=data["weight"],
            bias=data["bias"],
            algorithm=None if found is None else CudnnAlgorithm(**found),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CudnnOffload:
    """That operators of a model may run as calls of cuDNN."""

    tf32: bool = False
    """Whether they may round float32 to TF32."""


def _by(extents: tuple[int, ...]) -> str:
    return "x".join(map(str, extents))
