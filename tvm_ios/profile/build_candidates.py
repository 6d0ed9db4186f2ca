"""Forms of a model in which it may be built and scheduled: unchanged, or changed for its device.

A changed form computes the same and keeps inputs and outputs. Whether it is faster is settled by
:mod:`tvm_ios.profile.build_choice`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import tvm

from tvm_ios.core.conversion import Conversion
from tvm_ios.core.image_layouts import ImageForm
from tvm_ios.devices.traits import DeviceTraits
from tvm_ios.errors import ModelError, OptionError
from tvm_ios.relay.extract import is_prepared
from tvm_ios.relay.inputs import CheckedModule, check_module
from tvm_ios.relay.layouts.image_form import in_form
from tvm_ios.relay.layouts.places import has_images
from tvm_ios.relay.prepare import converted_model
from tvm_ios.relay.transforms.bound_model import bound_model, in_parts
from tvm_ios.relay.transforms.channel_padding import may_pad, pad_channels
from tvm_ios.relay.transforms.conversion import count_other_layouts
from tvm_ios.relay.transforms.products.row_padding import may_pad_rows, pad_rows
from tvm_ios.relay.transforms.transposed_convolution import convolve_transposed, has_transposed
from tvm_ios.runtime.libraries.protocol import OperatorLibrary
from tvm_ios.support.exact_bits import bits_may_change

__all__ = ["FORMS", "BuildCandidate", "Changed", "ModelChange", "all_candidates", "changes_for"]

FORMS = 11
"""Version of the changes: counted up when one of them, or ``prepare`` after them, makes something
else, or they are raced in another way, which outdates old choices."""

_ChooseForm = Callable[[tvm.IRModule, tvm.target.Target], ImageForm | None]
"""Function that chooses the form of a model with bound parameters and batch norms in parts; None
keeps it as it is."""


@dataclass(frozen=True, slots=True)
class Changed:
    """Result of a change of a model."""

    mod: tvm.IRModule
    """Changed module, parameters bound."""
    told: str
    """Line on the change."""
    form: ImageForm | None = None
    """Form of the images, where it was chosen."""


@dataclass(frozen=True, kw_only=True)
class BuildCandidate:
    """A model in one of its forms, before it is built."""

    mod: tvm.IRModule
    params: Mapping[str, Any] | None
    """Parameters of ``mod``; None where they are bound, as in changed forms."""
    changes: tuple[str, ...] = ()
    """Lines for people on what was changed of the model."""
    form: ImageForm | None = None
    """Form of the images, where it was chosen; None where layouts are those of the model."""

    @cached_property
    def checked(self) -> CheckedModule:
        """The module, checked once for all its uses."""
        return CheckedModule(check_module(self.mod))


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelChange:
    """A change of a model that makes some models faster."""

    name: str
    """Name of the changed form, in reports and in the profile database."""
    without: str
    """Name of the form before the change."""
    phase: str
    """Name of the changed form in the phases of a call."""
    raced_with_records: bool = False
    """True races the forms with tuned kernels, whose records fit one layout only. False tunes
    kernels for the form that wins without records."""
    priced: bool = False
    """True if prices say that the changed form is the faster one, so it is raced with records
    only."""
    rewrite: Callable[[BuildCandidate, tvm.target.Target], Changed | None]
    """Makes the change; returns None where it changes nothing."""

    def of(self, candidate: BuildCandidate, target: tvm.target.Target) -> BuildCandidate | None:
        """The candidate, changed; None where there is nothing to change."""
        found = self.rewrite(candidate, target)
        if found is None:
            return None
        return BuildCandidate(
            mod=found.mod,
            params=None,
            changes=(*candidate.changes, found.told),
            form=found.form or candidate.form,
        )


def changes_for(
    traits: DeviceTraits,
    *,
    pad_channels: bool = True,
    race_forms: bool = True,
    libraries: Iterable[OperatorLibrary] = (),
    choose_form: _ChooseForm | None = None,
) -> tuple[ModelChange, ...]:
    """Changes that may help on a device, in the order in which they are tried.

    Without ``pad_channels`` channels and rows stay unchanged; without ``race_forms`` only layouts
    change, which some kernels need to be of any use. Where a library likes a layout, the
    form of images is chosen by prices, and is left out where nobody chooses. There are no changes
    where bits are to be exact, since all take sums in another order.
    """
    if not bits_may_change():
        return ()
    pads = pad_channels and traits.pads_channels
    if any(each.image_layout is not None for each in libraries):
        return () if choose_form is None else (_chosen_change(choose_form, pads=pads),)
    layouts = tuple(_layout_change(each) for each in (traits.kernel_layout,) if each)
    if not race_forms:
        return layouts
    convolved = [CONVOLVED] if traits.convolves_transposed else []
    return (*layouts, *convolved, *((PADDING, ROWS) if pads else ()))


def all_candidates(
    candidate: BuildCandidate, changes: Sequence[ModelChange], target: tvm.target.Target
) -> Iterator[BuildCandidate]:
    """The candidate, then the result of each change that TVM can make, in order."""
    yield candidate
    for position, change in enumerate(changes, start=1):
        changed = None
        with suppress(ModelError, OptionError):
            changed = change.of(candidate, target)
        if changed is not None:
            yield from all_candidates(changed, changes[position:], target)


def _chosen_change(choose_form: _ChooseForm, *, pads: bool) -> ModelChange:
    return ModelChange(
        name="layouts by prices",
        without="layouts as they are",
        phase="layouts",
        raced_with_records=True,
        priced=True,
        rewrite=partial(_chosen, choose_form, pads=pads),
    )


def _chosen(
    choose_form: _ChooseForm, candidate: BuildCandidate, target: tvm.target.Target, *, pads: bool
) -> Changed | None:
    typed = candidate.checked.typed
    if is_prepared(typed) or not has_images(typed):
        return None
    parts = in_parts(bound_model(candidate.checked, candidate.params))
    form = choose_form(parts, target)
    if form is None:
        return None
    mod, told = in_form(CheckedModule(parts), {}, form, target, pads=pads)
    return Changed(mod, told, form)


def _layout_change(layout: str) -> ModelChange:
    return ModelChange(
        name=layout,
        without="layouts as they are",
        phase=layout,
        raced_with_records=True,
        rewrite=partial(_laid_out, layout),
    )


def _laid_out(layout: str, candidate: BuildCandidate, target: tvm.target.Target) -> Changed | None:
    typed = candidate.checked.typed
    if is_prepared(typed):
        return None
    others = count_other_layouts(typed, layout)
    if not others:
        return None
    conversion = Conversion(desired_layout=layout)
    mod, _ = converted_model(candidate.mod, candidate.params, target, conversion)
    changed = others - count_other_layouts(mod, layout)
    told = f"{changed} convolutions were laid out as {layout}; inputs and outputs keep their layout"
    return Changed(mod, told) if changed else None


def _convolved(candidate: BuildCandidate, target: tvm.target.Target) -> Changed | None:
    del target  # the same convolutions on every CPU
    # Nearly every model has none, and binding its parameters to find that out takes a while.
    if not has_transposed(candidate.checked.typed):
        return None
    mod, written = convolve_transposed(candidate.checked, candidate.params)
    told = f"{written} transposed convolutions were written as convolutions"
    return Changed(mod, told) if written else None


def _padded(candidate: BuildCandidate, target: tvm.target.Target) -> Changed | None:
    if not may_pad(candidate.checked.typed, target):
        return None
    mod, padded = pad_channels(candidate.checked, candidate.params, target)
    told = f"the output channels of {padded} operators were padded to whole vectors"
    return Changed(mod, told) if padded else None


def _with_rows(candidate: BuildCandidate, target: tvm.target.Target) -> Changed | None:
    del target  # the same rows on every CPU
    if not may_pad_rows(candidate.checked.typed):
        return None
    mod, padded = pad_rows(candidate.checked, candidate.params)
    told = f"the rows of {padded} dense layers were padded to whole tiles"
    return Changed(mod, told) if padded else None


CONVOLVED = ModelChange(
    name="convolutions for transposed ones",
    without="transposed convolutions as they are",
    phase="convolutions",
    rewrite=_convolved,
)
PADDING = ModelChange(
    name="padded channels",
    without="channels as they are",
    phase="padded",
    rewrite=_padded,
)
ROWS = ModelChange(
    name="padded rows", without="rows as they are", phase="padded rows", rewrite=_with_rows
)
