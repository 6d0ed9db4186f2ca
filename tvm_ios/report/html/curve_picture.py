"""Picture of the curve of kernel tuning: time of the kernels by candidates measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from tvm_ios.report.html.axis import Axis, Tick
from tvm_ios.runtime.artifact.evidence import CurvePoint

__all__ = ["CurvePicture"]

_WIDTH, _HEIGHT = 900, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 76, 880, 14, 216


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePicture:
    """A stepped line with its axes, in pixels."""

    width: int
    height: int
    left: int
    right: int
    top: int
    bottom: int
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
        across = Axis(low=0, high=max(1, curve[-1].candidates), begin=_LEFT, end=_RIGHT)
        up = Axis(low=0, high=1.05 * max(times) or 1.0, begin=_BOTTOM, end=_TOP)
        path = f"M{across.at(curve[0].candidates):g} {up.at(times[0]):g}"
        for point, ms in zip(curve[1:], times[1:], strict=True):
            path += f"H{across.at(point.candidates):g}V{up.at(ms):g}"
        return cls(
            width=_WIDTH,
            height=_HEIGHT,
            left=_LEFT,
            right=_RIGHT,
            top=_TOP,
            bottom=_BOTTOM,
            path=path,
            x_ticks=across.ticks(8),
            y_ticks=up.ticks(4),
            candidates=curve[-1].candidates,
            first_ms=times[0],
            best_ms=times[-1],
        )
