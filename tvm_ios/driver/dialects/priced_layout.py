"""Prices of a Relax model in one layout of its images, and the form that follows from two."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import mean
from typing import Self

from tvm_ios.core.fused_function import FusedFunction
from tvm_ios.core.image_layouts import (
    BLOCKS,
    CHANNELS_LAST,
    ConvolutionSizes,
    ImageForm,
    cheapest_layouts,
)
from tvm_ios.cost.efficiencies import Efficiencies
from tvm_ios.cost.layout_costs import layout_costs, moved_ns
from tvm_ios.profile.measuring_call import MeasuringCall
from tvm_ios.profile.operator_prices import TVM
from tvm_ios.profile.predicted_prices import PricePredictor
from tvm_ios.relax.extract import functions_of
from tvm_ios.relax.prepare import PreparedModule
from tvm_ios.relax.transforms.image_places import sizes_of
from tvm_ios.runtime.base.tvm_names import DIALECT
from tvm_ios.runtime.libraries.protocol import OperatorLibrary

__all__ = ["PricedLayout", "cheapest_form"]

LEAST_GAIN = 0.005
"""Share of the cost in one layout that both have to gain: a third form takes a second or two."""


@dataclass(frozen=True, kw_only=True)
class PricedLayout:
    """A model fused in a layout, and what its operators take."""

    prepared: PreparedModule
    functions: Sequence[FusedFunction | None]
    """Function of each operator; None of what no library could compute."""
    times_ns: Sequence[int]
    """Nanoseconds of each operator; what no library computes is predicted, and views take none."""
    library_ns: Sequence[int | None]
    """Nanoseconds of each operator by the fastest library; None where no library computes it."""

    @classmethod
    def of(
        cls, prepared: PreparedModule, libraries: Sequence[OperatorLibrary], call: MeasuringCall
    ) -> Self:
        """Prepared model with what its operators take on the call's device."""
        functions = functions_of(prepared.extraction)
        library_ns = call.library_ns(functions, libraries)
        predictor = PricePredictor(
            speeds=call.device.speeds,
            lanes=call.device.require_lanes(None),
            efficiencies=Efficiencies.shipped(DIALECT),
        )
        times_ns = [
            0
            if operator.view
            else predictor.price(operator, TVM).helped_ns
            if time_ns is None
            else time_ns
            for operator, time_ns in zip(
                prepared.extraction.graph.operators, library_ns, strict=True
            )
        ]
        return cls(prepared=prepared, functions=functions, times_ns=times_ns, library_ns=library_ns)

    @property
    def price_ns(self) -> int:
        """Nanoseconds of all operators in order."""
        return sum(self.times_ns)

    @cached_property
    def convolutions_ns(self) -> Mapping[ConvolutionSizes | None, float]:
        """Nanoseconds of a convolution with what is fused to it, by its sizes."""
        found: dict[ConvolutionSizes | None, list[int]] = defaultdict(list)
        for function, time_ns in zip(self.functions, self.times_ns, strict=True):
            sizes = None if function is None else sizes_of(function)
            if sizes is not None:
                found[sizes].append(time_ns)
        return {sizes: mean(times_ns) for sizes, times_ns in found.items()}


def cheapest_form(priced: Sequence[PricedLayout], call: MeasuringCall) -> ImageForm | None:
    """Form of least cost by prices with channels last and in blocks; None if one layout will do.

    Also None where the model could not be had in one of them.
    """
    if len(priced) != len((CHANNELS_LAST, BLOCKS)):
        return None
    last, blocks = (each.prepared.images for each in priced)
    if last is None or blocks is None:
        return None
    last_ns, blocks_ns = (
        [each.convolutions_ns.get(sizes, 0.0) for sizes in last.places.convolutions]
        for each in priced
    )
    able_ns = [
        math.inf if layout == CHANNELS_LAST else time_ns
        for time_ns, layout in zip(blocks_ns, blocks.form.layouts, strict=True)
    ]
    moved = moved_ns(call.device.speeds, call.device.require_lanes(None))
    costs = layout_costs(last.places, able_ns, last_ns, moved)
    form = ImageForm(layouts=cheapest_layouts(costs))
    least_ns, *plain_ns = (costs.total_ns(each.layouts) for each in (form, last.form, blocks.form))
    return form if least_ns < (1 - LEAST_GAIN) * min(plain_ns) else None
