"""Layouts of the images of a Relax model, chosen by prices before anything is built.

Comes before schedules are searched. Operator libraries are asked what their calls take in each
layout, and what they compute surely faster than TVM's kernels is not compiled. From the prices in
one layout and in another follows which convolutions had better have the one, and which the other.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import tvm

from tvm_ios.compile.built_model import BuiltModel, build_prepared
from tvm_ios.compile.dialects.dialect import dialect_here
from tvm_ios.core.image_layouts import BLOCKS, CHANNELS_LAST, ImageForm
from tvm_ios.driver.dialects.priced_layout import PricedLayout, cheapest_form
from tvm_ios.errors import ModelError
from tvm_ios.profile.absent_kernels import absent_kernels
from tvm_ios.profile.in_time.first_answer import answer_with
from tvm_ios.profile.measuring_call import MeasuringCall
from tvm_ios.relax.ir import call_name, main_of, operator_calls
from tvm_ios.relax.prepare import PreparedModule, fuse
from tvm_ios.relax.transforms.image_layouts import blocks_of
from tvm_ios.relax.transforms.image_places import CONVOLUTION
from tvm_ios.relax.tuned_loops import database_in_force
from tvm_ios.runtime.libraries.protocol import OperatorLibrary

__all__ = ["LaidOut", "ModelLayouts"]

OWN = "images as they are in the model"
BOTH = "both"
NO_LAYOUT = (ModelError, RuntimeError, ValueError)
"""Errors of layouts that cannot be had: what is wrong in a rule of TVM's ends in any of a pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaidOut:
    """A model with its kernels, in the layout that was kept."""

    built: BuiltModel
    notes: tuple[str, ...] = ()
    """Lines for people on what each layout costs, or why it cannot be had."""


@dataclass(frozen=True, kw_only=True)
class ModelLayouts:
    """A model that may be built in layouts that a library likes, or in its own."""

    mod: tvm.IRModule
    params: Mapping[str, Any] | None
    target: tvm.target.Target
    libraries: tuple[OperatorLibrary, ...]
    all_kernels: bool = False
    """True compiles kernels, too, that cannot beat a library's call."""

    @property
    def first(self) -> PreparedModule:
        """The model in the layout that a library likes; in its own where that changes nothing.

        Kernels have no loops before :meth:`built`.

        Raises
        ------
        ModelError
            If the model cannot be prepared as it is.
        """
        prepared, _ = self._prepared
        return next(iter(prepared.values()))

    def fastest(self, call: MeasuringCall) -> LaidOut:
        """Build in the layout whose operators take least.

        Raises
        ------
        ModelError
            If the model cannot be built.
        """
        prepared, notes = self._prepared
        if not self.libraries:
            with call.stage("build", call.to_prepare()):
                built = self.built(self.first)
            answer_with(built, call)
            return LaidOut(built=built, notes=notes)
        with call.stage("price layouts", call.to_profile) as granted:
            here = call.at(granted)
            price = partial(PricedLayout.of, libraries=self.libraries, call=here)
            priced = {layout: price(each) for layout, each in prepared.items()}
            if (form := cheapest_form([*priced.values()], here)) is not None:
                # TVM could make both layouts, but may not be able to join them.
                with suppress(*NO_LAYOUT):
                    priced[BOTH] = price(self._laid_out(form))
        prices_ns = {layout: each.price_ns for layout, each in priced.items()}
        kept = min(prices_ns, key=lambda layout: prices_ns[layout])
        if len(prices_ns) > 1:
            told = ", ".join(f"{layout} {ns / 1e6:.3g} ms" for layout, ns in prices_ns.items())
            which = _told(list(prices_ns), priced[kept].prepared.form) if kept == BOTH else kept
            notes = (*notes, f"images are in {which}, by prices of all operators: {told}")
        best = priced[kept]
        with call.stage("build", call.to_prepare()):
            built = self.built(best.prepared, self._absent(best, call))
        answer_with(built, call)
        return LaidOut(built=built, notes=notes)

    @cached_property
    def _prepared(self) -> tuple[dict[str, PreparedModule], tuple[str, ...]]:
        """The model by layout, the one that a library likes first, and notes on others."""
        liked = next((each.image_layout for each in self.libraries if each.image_layout), None)
        found: dict[str, PreparedModule] = {}
        notes = []
        for layout in _layouts(liked, self.target) if liked and _has_images(self.mod) else ():
            try:
                found[layout] = self._laid_out(layout)
            except NO_LAYOUT as error:
                reason = (str(error).splitlines() or ["no reason"])[-1]
                notes.append(f"{layout} cannot be had: {reason}")
        return found or {OWN: fuse(self.mod, self.params, self.target)}, tuple(notes)

    def _laid_out(self, layout: str | ImageForm | None) -> PreparedModule:
        """The model in a layout, for all of whose operators TVM has kernels."""
        made = fuse(self.mod, self.params, self.target, image_layout=layout)
        if barriers := made.extraction.coverage.barriers:
            raise ModelError(f"{barriers[0].where} is {barriers[0].reason}")
        return made

    def in_form(self, form: ImageForm | None) -> list[PreparedModule]:
        """The model in a form, with loops; nothing where it cannot be had.

        Without a form it has its own layouts.
        """
        try:
            return [self._laid_out(form).with_loops()]
        except NO_LAYOUT:
            return []

    def built(self, prepared: PreparedModule, absent: Collection[str] = ()) -> BuiltModel:
        """Prepared model with its kernels, but for absent ones."""
        built = build_prepared(prepared.with_loops(), absent=absent)
        return replace(built, libraries=self.libraries, form=prepared.form)

    def _absent(self, priced: PricedLayout, call: MeasuringCall) -> frozenset[str]:
        """Kernels, by name, that cannot beat a library's call; none where a tuned one may."""
        if self.all_kernels or database_in_force() is not None:
            return frozenset()
        extraction = priced.prepared.extraction
        kernels, operators = dialect_here().absentees(extraction), extraction.graph.operators
        return absent_kernels(kernels, priced.functions, operators, priced.library_ns, call)


def _told(layouts: Sequence[str], form: ImageForm | None) -> str:
    """Words on a form in two layouts, the first of which has channels last, the second blocks."""
    last, blocks, *_ = layouts
    kept = () if form is None else form.layouts
    return (
        f"{last} at {kept.count(CHANNELS_LAST)} convolutions and {blocks} at {kept.count(BLOCKS)}"
    )


def _layouts(liked: str, target: tvm.target.Target) -> tuple[str, ...]:
    """Layouts to ask about: the one that a library likes, and blocks that fill a vector."""
    return liked, blocks_of(target)


def _has_images(mod: Any) -> bool:
    main = main_of(mod) if isinstance(mod, tvm.IRModule) else None
    calls = [] if main is None else operator_calls(main)
    return any(call_name(each) == CONVOLUTION for each in calls)
