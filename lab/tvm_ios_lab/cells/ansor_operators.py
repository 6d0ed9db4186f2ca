"""Cells of the experiment ansor operators and what is found in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from tvm_ios_lab.harness.cpu_run import CpuRun
from tvm_ios_lab.harness.kernel_source import KernelSource

__all__ = ["MeasuredOperator", "NhwcConvolution", "OperatorCell", "SingleOperator", "SquareProduct"]


class SingleOperator(Protocol):
    """Operator that is computed by itself, in float32."""

    @property
    def flops(self) -> int:
        """Floating-point operations of one run, additions and multiplications apart."""
        ...

    @property
    def shapes(self) -> str:
        """Shapes of what is read, in words."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SquareProduct:
    """Product of two square matrices."""

    size: int

    @property
    def flops(self) -> int:
        """A multiplication and an addition for each row, column and term."""
        return int(2 * self.size**3)

    @property
    def shapes(self) -> str:
        """Shapes of both matrices."""
        return f"{self.size}x{self.size} * {self.size}x{self.size}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NhwcConvolution:
    """Square convolution of one image with bias; NHWC data, HWIO weights."""

    size: int
    """Height and width of the image."""
    channels_in: int
    channels_out: int
    kernel: int
    stride: int
    padding: int

    @property
    def flops(self) -> int:
        """Operations of the sums over the window, and one for each bias."""
        size = 1 + (self.size + 2 * self.padding - self.kernel) // self.stride
        return size**2 * self.channels_out * (2 * self.channels_in * self.kernel**2 + 1)

    @property
    def shapes(self) -> str:
        """Image and weights."""
        k = self.kernel
        return (
            f"1x{self.size}x{self.size}x{self.channels_in} * "
            f"{k}x{k}x{self.channels_in}x{self.channels_out}, stride {self.stride}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorCell:
    """Cell of one operator."""

    operator: str
    run: CpuRun
    source: KernelSource


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredOperator:
    """The best program of an operator."""

    ms: float
    """Median of the samples."""
    gflops: float
    samples_ms: tuple[float, ...]
    candidates: int
    """Records of this operator in the log."""
    log: str
    lowered: str
    """The program as lowered IR."""
    program: str
    """The file with the lowered IR, beside the table."""
    log_digest: str = ""
    """Digest of the committed log; empty with ``--tune``, and in cells that did not keep it."""
