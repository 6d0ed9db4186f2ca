"""Resized images: one axis after the other, by tables of what each new place is made from.

TVM's own computes coordinates, four places and their weights for each element of the result. Here
they are looked up; rows are made wider in memory of their own, before there are more of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add

from tvm import te, tir
from tvm.topi.image.resize import (
    _cubic_spline_weights,
    can_convert_multiply_to_intdiv,
    get_closest_index,
    get_inx,
)
from tvm.topi.tag import INJECTIVE

from tvm_ios.relay.row_kernels.tensors import constant
from tvm_ios.relay.schedules.element_wise import HELD
from tvm_ios.relay.schedules.flat_axes import extents_of

__all__ = ["resized"]

CROPS = "tf_crop_and_resize"
NEAREST = "nearest_neighbor"
TAPS = {NEAREST: 1, "linear": 2, "cubic": 4}
"""Old elements along one axis that a new one is made from, by method."""
POWERS = (1, 2, 4, 8)
"""Factors whose quotients have no rounding error, so that nearest places are known."""
FLOATS = ("float32", "float16")
"""Types that are interpolated. Sums of others are cut off, so that a last bit may change them by
one."""
LONG_COPY, LONG_SUM = 16, 64
"""Elements of a place, side by side in memory, from which on a copy of wider rows does not pay:
where they are copied themselves, and where they are summed."""

Element = Callable[..., tir.PrimExpr]


def resized(
    data: te.Tensor,
    roi: Sequence[float],  # noqa: ARG001
    size: Sequence[int],
    layout: str = "NCHW",
    method: str = "linear",
    coordinate_transformation_mode: str = "half_pixel",
    rounding_method: str = "",
    bicubic_alpha: float = -0.5,
    bicubic_exclude: int = 0,
    extrapolation_value: float = 0.0,  # noqa: ARG001
    out_dtype: str | None = None,
    output_shape: Sequence[tir.PrimExpr] | None = None,
) -> te.Tensor | None:
    """Image that ``topi.image.resize2d`` makes of the same arguments; None where it has to."""
    extents = extents_of(data.shape)
    if not extents or output_shape is not None or bicubic_exclude:
        return None
    high, wide = layout.index("H"), layout.index("W")
    rule = _Rule(method.lower(), coordinate_transformation_mode, rounding_method, bicubic_alpha)
    together = math.prod(extents[wide + 1 :])
    if not rule.suits(data.dtype, together):
        return None
    if rule.repeats(extents[high], int(size[0])) and rule.repeats(extents[wide], int(size[1])):
        return _repeated(data, {high: int(size[0]), wide: int(size[1])}, out_dtype)
    # Of an image that gets lower, rows would be made wider that nobody reads.
    grows = int(size[0]) >= extents[high]
    if grows and isinstance(data.op, te.ComputeOp):
        data = _tensor(extents, data, held=True)
    wider = _tensor(*rule.along(data, wide, int(size[1])), held=grows and together < LONG_SUM)
    shape, element = rule.along(wider, high, int(size[0]))
    return _tensor(shape, lambda *at: element(*at).astype(out_dtype or data.dtype))


@dataclass(frozen=True, slots=True)
class _Rule:
    """Method by which ``topi.image.resize2d`` makes an axis longer or shorter."""

    method: str
    coordinates: str
    rounding: str
    alpha: float

    def suits(self, dtype: str, together: int) -> bool:
        """True for types and numbers of elements side by side that TVM's own is not better for."""
        suits = together < LONG_COPY if self.method == NEAREST else dtype in FLOATS
        return suits and self.coordinates != CROPS

    def repeats(self, extent: int, target: int) -> bool:
        """True if each element becomes as many as the image grows by, one after another."""
        times, rest = divmod(target, extent)
        is_exact = self.coordinates != "align_corners" and times in POWERS
        if self.method != NEAREST or rest or not is_exact:
            return False
        old, new = tir.IntImm("int32", extent), tir.IntImm("int32", target)
        found = (self._nearest(tir.IntImm("int32", at), old, new) for at in range(target))
        within = (constant(te.max(te.min(place, old - 1), 0)) for place in found)
        return all(place == at // times for at, place in enumerate(within))

    def along(self, data: te.Tensor, axis: int, target: int) -> tuple[list[int], Element]:
        """Shape and elements of a tensor with another extent of one axis."""
        shape = [int(extent) for extent in data.shape]
        places, weights = self._tables(shape[axis], target)
        shape[axis] = target

        def tap(number: int, *at: tir.PrimExpr) -> tir.PrimExpr:
            old = data(*at[:axis], places(number, at[axis]), *at[axis + 1 :])
            return old if weights is None else old.astype("float32") * weights(number, at[axis])

        taps = range(TAPS[self.method])
        return shape, lambda *at: reduce(add, (tap(number, *at) for number in taps))

    def _tables(self, extent: int, target: int) -> tuple[te.Tensor, te.Tensor | None]:
        """Old places and their weights by tap and new place; no weights where there is one tap."""
        # Coordinates are those of TVM's own functions, in its float32: others round elsewhere.
        old, new = tir.IntImm("int32", extent), tir.IntImm("int32", target)
        shape = (TAPS[self.method], target)

        def within(place: tir.PrimExpr) -> tir.PrimExpr:
            return te.max(te.min(place, old - 1), 0)

        if self.method == NEAREST:
            return _tensor(
                shape, lambda _, at: within(self._nearest(at, old, new)), held=True
            ), None

        def split(at: tir.PrimExpr) -> tuple[tir.PrimExpr, tir.PrimExpr]:
            coordinate = get_inx(at, old, new, self.coordinates)
            whole = te.floor(coordinate).astype("int32")
            return whole, coordinate - whole

        first = 1 - shape[0] // 2
        places = _tensor(shape, lambda tap, at: within(split(at)[0] + first + tap), held=True)
        return places, _tensor(shape, lambda tap, at: self._weight(tap, split(at)[1]), held=True)

    def _nearest(self, at: tir.PrimExpr, old: tir.IntImm, new: tir.IntImm) -> tir.PrimExpr:
        divides = self.coordinates == "asymmetric" and can_convert_multiply_to_intdiv(old, new)
        coordinate = get_inx(at, old, new, self.coordinates, use_int_div=divides)
        usual = "round" if self.coordinates == "align_corners" else "floor"
        return get_closest_index(coordinate, self.rounding or usual, None, divides)

    def _weight(self, tap: tir.PrimExpr, part: tir.PrimExpr) -> tir.PrimExpr:
        is_cubic = self.method == "cubic"
        *others, weight = (
            _cubic_spline_weights(part, self.alpha) if is_cubic else (1.0 - part, part)
        )
        for number, other in enumerate(others):
            weight = tir.Select(tap == number, other, weight)
        return weight


def _repeated(data: te.Tensor, targets: dict[int, int], dtype: str | None) -> te.Tensor:
    """Image in which each element is as many as its axes grow by."""
    times = {axis: target // int(data.shape[axis]) for axis, target in targets.items()}
    shape = [targets.get(axis, int(extent)) for axis, extent in enumerate(data.shape)]

    def element(*at: tir.PrimExpr) -> tir.PrimExpr:
        old = (place // times.get(axis, 1) for axis, place in enumerate(at))
        return data(*old).astype(dtype or data.dtype)

    return _tensor(shape, element)


def _tensor(shape: Sequence[int], element: Element, *, held: bool = False) -> te.Tensor:
    return te.compute(shape, element, "resize", INJECTIVE, {HELD: True} if held else None)
