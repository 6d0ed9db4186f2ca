"""Picture of the curve of kernel tuning: time of the kernels by candidates measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

from tvm_ios.report.html.axis import Axis, Tick
from tvm_ios.runtime.artifact.evidence import CurvePoint

__all__ = ["CurvePicture"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePicture:
    """A stepped line with its axes, in pixels."""

    width: ClassVar[int] = 900
    height: ClassVar[int] = 260
    left: ClassVar[int] = 76
    right: ClassVar[int] = 880
    top: ClassVar[int] = 14
    bottom: ClassVar[int] = 216
    path: str
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    candidates: int
    first_ms: float
    best_ms: float

    @classmethod
    def of(cls, curve: Sequence[CurvePoint]) -> Self:
        """Layout of a curve of at least one point."""
        times = [point.total_ns / 1e6 for point in curve]
        across = Axis(low=0, high=max(1, curve[-1].candidates), begin=cls.left, end=cls.right)
        up = Axis(low=0, high=1.05 * max(times) or 1.0, begin=cls.bottom, end=cls.top)
        path = f"M{across.at(curve[0].candidates):g} {up.at(times[0]):g}"
        for point, ms in zip(curve[1:], times[1:], strict=True):
            path += f"H{across.at(point.candidates):g}V{up.at(ms):g}"
        return cls(
            path=path,
            x_ticks=across.ticks(8),
            y_ticks=up.ticks(4),
            candidates=curve[-1].candidates,
            first_ms=times[0],
            best_ms=times[-1],
        )
