"""Samples of one axis that make another extent of it: places in it, and how much each counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tvm_ios.errors import ModelError

__all__ = ["Coordinates", "Samples", "nearest", "samples"]

_Array = np.ndarray[Any, np.dtype[Any]]
_HALF = 0.5 + 1e-6
"""Distance to a place from which on the next one is nearer; onnxruntime counts as a tie as much."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Coordinates:
    """Places of the resized axis within the original one, which may lie between two places."""

    extent: int
    """Places of the original axis."""
    resized: int
    """Places of the resized axis."""
    scale: np.float32
    """The factor that is told; ``resized / extent`` is another one where that was rounded."""
    mode: str
    """Name of the way to find places: ONNX's ``coordinate_transformation_mode``."""
    begin: float = 0.0
    end: float = 1.0
    """The part of the axis that is cropped, in ``tf_crop_and_resize``."""

    def places(self) -> _Array:
        """A place for each of the resized axis, in float32, as runtimes compute them."""
        each = np.arange(self.resized, dtype="float32")
        half = np.float32(0.5)
        last, steps = np.float32(self.extent - 1), np.float32(self.resized - 1)
        centre = (each + half) / self.scale - half
        match self.mode:
            case "half_pixel":
                return centre
            case "pytorch_half_pixel":
                return centre if self.resized > 1 else np.zeros_like(each)
            case "half_pixel_symmetric":
                share = np.float32(self.resized) / (self.scale * np.float32(self.extent))
                offset = np.float32(self.extent) / 2 * (1 - share)
                exact = (each.astype("float64") + 0.5) / float(self.scale) - 0.5
                return (float(offset) + exact).astype("float32")
            case "asymmetric":
                return each / self.scale
            case "tf_half_pixel_for_nn":
                return (each + half) / self.scale
            case "align_corners":
                return each * last / steps if self.resized > 1 else np.zeros_like(each)
            case "tf_crop_and_resize":
                begin, end = np.float32(self.begin), np.float32(self.end)
                if self.resized == 1:
                    return half * (begin + end) * last + 0 * each
                return begin * last + each * (end - begin) * last / steps
        raise ModelError(f"has coordinate_transformation_mode={self.mode!r}; give one of ONNX's")

    def outside(self) -> _Array:
        """Whether a place lies outside of the axis, and a crop has another number there."""
        places = self.places()
        crops = self.mode == "tf_crop_and_resize"
        return crops & ((places < 0) | (places > self.extent - 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """Places of an axis, and the weight of each, in a row for each place of the resized one."""

    places: _Array
    weights: _Array

    def matrix(self, extent: int) -> _Array:
        """Weights of all places of the axis, in a row for each of the resized one."""
        made = np.zeros((len(self.places), extent))
        rows = np.arange(len(self.places))[:, None]
        np.add.at(made, (np.broadcast_to(rows, self.places.shape), self.places), self.weights)
        return made


def nearest(coordinates: Coordinates, mode: str) -> _Array:
    """Places that are the nearest ones, by ONNX's ``nearest_mode``.

    ``simple`` is that of opset 10 and before, which rounds up where an axis becomes shorter.
    """
    exact = coordinates.places().astype("float64")
    match mode:
        case "floor":
            whole = np.floor(exact)
        case "ceil":
            whole = np.ceil(exact)
        case "round_prefer_floor":
            whole = np.ceil(exact - _HALF)
        case "round_prefer_ceil":
            whole = np.floor(exact + _HALF)
        case "simple":
            whole = np.ceil(exact) if coordinates.scale < 1 else np.trunc(exact)
        case _:
            raise ModelError(f"has nearest_mode={mode!r}; give one of ONNX's")
    places: _Array = np.clip(whole.astype("int64"), 0, coordinates.extent - 1)
    return places


def samples(
    coordinates: Coordinates, *, cubic: float | None, antialias: bool, exclude_outside: bool
) -> Samples:
    """Samples of linear interpolation, or of cubic one with this coefficient.

    With ``antialias`` an axis that becomes shorter is sampled by as much more places. Places
    outside count as the first or last one, or not at all.
    """
    exact = coordinates.places().astype("float64")
    squeeze = min(float(coordinates.scale), 1.0) if antialias else 1.0
    reach = (1 if cubic is None else 2) / squeeze
    first = np.floor(exact - reach).astype("int64") + 1
    places = first[:, None] + np.arange(int(np.ceil(2 * reach)) + 1)
    distances = np.abs(places - exact[:, None]) * squeeze
    weights = _linear(distances) if cubic is None else _cubic(distances, cubic)
    if exclude_outside:
        weights = np.where((places < 0) | (places >= coordinates.extent), 0, weights)
    weights = weights / weights.sum(-1, keepdims=True)
    used = (weights != 0).any(0)
    places = np.clip(places, 0, coordinates.extent - 1)
    return Samples(places=places[:, used], weights=weights[:, used])


def _linear(distances: _Array) -> _Array:
    weights: _Array = np.maximum(1 - distances, 0)
    return weights


def _cubic(distances: _Array, a: float) -> _Array:
    """Keys's kernel: 1981, "Cubic convolution interpolation for digital image processing"."""
    near = ((a + 2) * distances - (a + 3)) * distances**2 + 1
    far = ((distances - 5) * distances + 8) * distances * a - 4 * a
    return np.where(distances <= 1, near, np.where(distances < 2, far, 0))
