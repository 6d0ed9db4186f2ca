"""Choice of a model's form by prices of its convolutions, before anything is compiled.

Comes before the first build. An operator library is asked about each convolution by what it means,
in either layout, and times it on the device; the cheapest layouts follow, with moves between them
priced by their bytes. TVM's kernels compute what the library does not, and have a guessed price:
they are compiled, and raced against the library's, in the chosen form only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import tvm
from tvm import relay

from tvm_ios.core.fused_function import FusedFunction
from tvm_ios.core.image_layouts import (
    ImageForm,
    ImagePlaces,
    LayoutCosts,
    cheapest_layouts,
)
from tvm_ios.core.precision.low_precision import Precision
from tvm_ios.core.precision.stored_type import IN_BFLOAT16
from tvm_ios.cost.layout_costs import LEAST_MOVE_NS, layout_costs, moved_ns
from tvm_ios.host.lane_speeds import LaneSpeeds
from tvm_ios.profile.measuring_call import MeasuringCall
from tvm_ios.relay.dataflow import is_call_of, kernel_calls
from tvm_ios.relay.functions.primitive import type_bytes
from tvm_ios.relay.grouped.geometry import vector_of
from tvm_ios.relay.layouts.functions import PlacedConvolution, placed_convolution
from tvm_ios.relay.layouts.image_form import with_written
from tvm_ios.relay.layouts.places import has_images, image_places
from tvm_ios.relay.transforms.channel_padding import float32_lanes
from tvm_ios.relay.transforms.transposed_convolution import TRANSPOSED, written_as_convolution
from tvm_ios.runtime.libraries.protocol import OpenLibrary, OperatorLibrary
from tvm_ios.support.time_budget import TimeBudget

__all__ = ["cheapest_form", "form_by_prices"]

TVM_CHANNELS_LAST = 10
"""Factor by which TVM's kernels for x86 are slower with channels last than in blocks, about."""
SHARE_OF_PEAK = 0.19
"""Share of a lane's peak that TVM's kernels reach in blocks, about."""
GROUPED = 2.5
"""Times as fast as TVM's that loops of ours compute a convolution in groups of several channels."""
TIMED_AT_ONCE = 8
"""Calls of a library that are timed before the time budget is looked at."""
Priced = Callable[[Iterable[FusedFunction | None]], list[int | None]]
"""Function that prices fused functions by a library in nanoseconds; None for what it lacks."""


def form_by_prices(
    call: MeasuringCall,
    libraries: Iterable[OperatorLibrary],
    *,
    pads: bool = True,
    precision: Precision | None = None,
) -> Callable[[tvm.IRModule, tvm.target.Target], ImageForm | None]:
    """Function that chooses the cheapest form, by the models that :func:`cheapest_form` takes.

    The first of the libraries that likes a layout says the prices.
    """
    liked = [each for each in libraries if each.image_layout is not None]

    def chosen(parts: tvm.IRModule, target: tvm.target.Target) -> ImageForm | None:
        return cheapest_form(parts, target, liked[0], call, pads=pads, precision=precision)

    return chosen


def cheapest_form(
    parts: tvm.IRModule,
    target: tvm.target.Target,
    library: OperatorLibrary,
    call: MeasuringCall,
    *,
    pads: bool = True,
    precision: Precision | None = None,
) -> ImageForm | None:
    """Cheapest form of a model whose batch norms are in parts; None without convolutions.

    Parameters are bound. Without ``pads`` no channels are padded. Prices are of float32, but those
    of convolutions in groups are of the ``precision``: in bfloat16 their layouts differ by more.

    Raises
    ------
    OutOfTimeError
        If half of the call's time budget is over before all are timed; times so far are stored.
    """
    if not has_images(parts):
        return None
    budget = call.budget.part(2)
    with call.open() as session:
        opened = session.libraries(call.database).open(library)
        costs = _Costs(
            priced=lambda functions: _priced(functions, library, opened, budget),
            speeds=call.device.speeds,
            lanes=call.lanes,
            block=float32_lanes(target),
            pads=pads,
            groups_low=precision is not None and precision.is_low,
        )
        written = costs.written(parts)
        places = image_places(with_written(parts, written), costs.block)
        return ImageForm(written=written, layouts=cheapest_layouts(costs.of(places)))


def _priced(
    functions: Iterable[FusedFunction | None],
    library: OperatorLibrary,
    opened: OpenLibrary[Any],
    budget: TimeBudget,
) -> list[int | None]:
    calls = [None if each is None else library.match(each) for each in functions]
    able = [each for each in calls if each is not None]
    complete: dict[Any, Any] = {}
    for first in range(0, len(able), TIMED_AT_ONCE):
        budget.require_spare("time layouts")
        complete |= opened.complete(able[first : first + TIMED_AT_ONCE])
    made = [None if each is None else complete[each] for each in calls]
    return [None if each is None else opened.found_ns(each) for each in made]


class _Costs:
    """Costs of forms on one device."""

    def __init__(
        self,
        *,
        priced: Priced,
        speeds: LaneSpeeds,
        lanes: int,
        block: int,
        pads: bool,
        groups_low: bool,
    ) -> None:
        self._priced = priced
        self._flops_per_ns = SHARE_OF_PEAK * speeds.flops_per_ns * lanes
        self._moved_ns = moved_ns(speeds, lanes)
        self.block = block
        self._pads = pads
        self._groups_low = groups_low

    def of(self, places: ImagePlaces[relay.Call]) -> LayoutCosts:
        """Costs of all places of a model."""
        placed = [placed_convolution(each) for each in places.convolutions]
        # Both layouts of a convolution one after the other, so that noise hits them alike.
        functions = [function for each in placed for function in self._functions(each)]
        prices_ns = self._priced(functions)
        blocks_ns, last_ns = (
            [
                self._cheapest_ns(each, ns, last=last)
                for each, ns in zip(placed, prices_ns[last::2], strict=True)
            ]
            for last in (False, True)
        )
        in_blocks_ns = [
            ns + self._plain_ns(each)
            for ns, each in zip(blocks_ns, places.convolutions, strict=True)
        ]
        return layout_costs(places, in_blocks_ns, last_ns, self._moved_ns)

    def written(self, parts: tvm.IRModule) -> tuple[int, ...]:
        """Numbers of transposed convolutions that cost less as convolutions."""
        calls = [each for each in kernel_calls(parts["main"].body) if is_call_of(each, TRANSPOSED)]
        return tuple(number for number, each in enumerate(calls) if self._is_written(each))

    def _is_written(self, call: relay.Call) -> bool:
        convolution = written_as_convolution(call)
        if convolution is None:
            return False
        (_, written), (_, whole) = (
            self._functions(placed_convolution(each)) for each in (convolution, call)
        )
        written_ns, whole_ns = self._priced([written, whole])
        if written_ns is None or whole_ns is None:
            return whole_ns is None
        return written_ns + self._moved_ns(type_bytes(convolution.checked_type)) < whole_ns

    def _functions(
        self, placed: PlacedConvolution | None
    ) -> tuple[FusedFunction | None, FusedFunction | None]:
        if placed is None:
            return None, None
        in_blocks, last = placed.in_blocks(self.block, pads=self._pads), placed.channels_last()
        if in_blocks is not None and placed.grouped and self._groups_low and not placed.whole:
            low = (IN_BFLOAT16,) * 2
            return in_blocks.stored_as(*low), last.stored_as(*low)
        return in_blocks, last

    def _cheapest_ns(
        self, placed: PlacedConvolution | None, library_ns: int | None, *, last: bool
    ) -> int:
        """Price by a library, or the guess for kernels that are compiled; ``last`` for NHWC."""
        guess_ns = self._guess_ns(placed)
        if placed is not None and _has_own_loops(placed, last=last):
            own_ns = guess_ns if placed.depthwise else round(guess_ns / GROUPED)
            return own_ns if library_ns is None else min(own_ns, library_ns)
        if library_ns is not None:
            return library_ns
        return guess_ns * (TVM_CHANNELS_LAST if last else 1)

    def _guess_ns(self, placed: PlacedConvolution | None) -> int:
        """Nanoseconds by TVM's kernels in blocks, about."""
        flops = 0 if placed is None else placed.flops
        return 1 + round(flops / self._flops_per_ns)

    def _plain_ns(self, convolution: relay.Call) -> int:
        """Nanoseconds to take data out of blocks for a convolution in groups, and results back."""
        placed = placed_convolution(convolution)
        if placed is None or not placed.grouped:
            return 0
        images = (convolution.args[0].checked_type, convolution.checked_type)
        return sum(LEAST_MOVE_NS + self._moved_ns(type_bytes(image)) for image in images)


def _has_own_loops(placed: PlacedConvolution, *, last: bool) -> bool:
    """True if a convolution's compiled kernel has loops of ours, as fast as a library's."""
    inputs, outputs = (channels // placed.groups for channels in placed.channels)
    suits = placed.groups > 1 and vector_of(placed.channels[1], inputs, outputs) is not None
    # TVM puts no others into blocks.
    in_blocks = placed.depthwise and ("dilation", (1, 1)) in placed.window
    return suits and placed.dtype == "float32" and (last or in_blocks)
