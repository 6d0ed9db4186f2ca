"""Elements that each element of a resized axis is made of, and their weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Resizing", "Taps"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Taps:
    """Places by element, and their weights; what lies beyond the axis is ``outside``."""

    places: np.ndarray
    """Taps by elements, int64."""
    weights: np.ndarray
    """Taps by elements, float32."""
    outside: np.ndarray
    """True for each element that is extrapolated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resizing:
    """How one axis is resized, in the words of ONNX's ``Resize``."""

    extent: int
    made: int
    scale: float
    """Elements that are made of one, which need not be ``made / extent``."""
    mode: str
    coordinates: str
    rounding: str
    cubic: float
    """The coefficient of cubic interpolation."""
    exclude_outside: bool
    antialias: bool
    part: tuple[float, float] = (0.0, 1.0)
    """Begin and end of the part that ``tf_crop_and_resize`` takes, of 1."""

    @property
    def is_exact(self) -> bool:
        """True if extents alone tell the scale."""
        return bool(np.isclose(self.scale, self.made / self.extent, rtol=1e-6))

    def taps(self) -> Taps:
        """What each element is made of; in float32, as onnxruntime computes it."""
        at = self._at()
        outside = np.zeros(self.made, bool)
        if self.coordinates == "tf_crop_and_resize":
            outside = (at < 0) | (at > self.extent - 1)
        if self.mode == "nearest":
            return self._within(self._rounded(at)[None], np.ones((1, self.made)), outside)
        if self.antialias and self.scale < 1:
            places, weights = self._wide(at)
        elif self.mode == "linear":
            places, weights = self._linear(at)
        else:
            places, weights = self._cubic(at)
        return self._within(places, weights, outside)

    def _at(self) -> np.ndarray:
        """Place of each element in the axis before."""
        x, scale, half = np.arange(self.made, dtype="float32"), np.float32(self.scale), 0.5
        last = np.float32(self.extent - 1)
        match self.coordinates:
            case "asymmetric":
                return x / scale
            case "align_corners":
                return x * 0 if self.made == 1 else x * last / np.float32(self.made - 1)
            case "tf_half_pixel_for_nn":
                return (x + np.float32(half)) / scale
            case "tf_crop_and_resize":
                begin, end = map(np.float32, self.part)
                if self.made == 1:
                    return x * 0 + np.float32(half) * (begin + end) * last
                return begin * last + x * (end - begin) * last / np.float32(self.made - 1)
            case "pytorch_half_pixel" if self.made == 1:
                return x * 0
        middle = (x + np.float32(half)) / scale - np.float32(half)
        if self.coordinates == "half_pixel_symmetric":
            rest = np.float32(self.made) / (scale * np.float32(self.extent))
            middle = np.float32(self.extent / 2) * (1 - rest) + middle
        return middle

    def _rounded(self, at: Any) -> Any:
        match self.rounding:
            case "floor":
                return np.floor(at)
            case "ceil":
                return np.ceil(at)
            case "round_prefer_ceil":
                return np.floor(at + 0.5)
        return np.ceil(at - 0.5)

    def _linear(self, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        at = np.clip(at, 0, self.extent - 1)
        first = np.floor(at)
        rest = at - first
        return np.stack([first, first + 1]), np.stack([1 - rest, rest])

    def _cubic(self, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        first = np.floor(at)
        steps = np.arange(-1, 3)[:, None]
        return first + steps, self._bump(at - first - steps)

    def _bump(self, away: Any) -> Any:
        """Weight of an element so far away."""
        away = np.abs(away)
        if self.mode == "linear":
            return np.clip(1 - away, 0, 1)
        a = self.cubic
        near = ((a + 2) * away - (a + 3)) * away * away + 1
        far = (((away - 5) * away + 8) * away - 4) * a
        return np.where(away <= 1, near, np.where(away < 2, far, 0.0))

    def _wide(self, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """A filter that widens as the axis becomes smaller."""
        reach = int(np.ceil((1 if self.mode == "linear" else 2) / self.scale))
        places = np.floor(at) + np.arange(-reach, reach + 2)[:, None]
        weights = self._bump((places - at) * self.scale)
        return places, weights / weights.sum(0)

    def _within(self, places: np.ndarray, weights: np.ndarray, outside: np.ndarray) -> Taps:
        if self.exclude_outside and self.mode != "nearest":
            weights = np.where((places >= 0) & (places < self.extent), weights, 0)
            weights = weights / weights.sum(0)
        places = np.clip(places, 0, self.extent - 1).astype("int64")
        return Taps(places=places, weights=weights.astype("float32"), outside=outside)
