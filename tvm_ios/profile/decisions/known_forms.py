"""Builds of a Relay model in the form and precision that a known schedule is of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import tvm

from tvm_ios.compile.built_model import BuiltModel, build_prepared
from tvm_ios.core.image_layouts import ImageForm
from tvm_ios.core.precision.low_precision import LowPrecision
from tvm_ios.core.schedule import InterOpSchedule
from tvm_ios.devices.targets import require_known_target, traits_for_target
from tvm_ios.host import host_target
from tvm_ios.profile.build_candidates import (
    BuildCandidate,
    all_candidates,
    changes_for,
)
from tvm_ios.relay.inputs import resolve_target
from tvm_ios.relay.prepare import PreparedModule, prepare, with_low_precision
from tvm_ios.relay.transforms.bfloat16 import low_values
from tvm_ios.runtime.libraries.known import LIBRARIES

__all__ = ["build_for_schedule", "in_precision", "known_forms"]


def build_for_schedule(
    mod: tvm.IRModule,
    params: Mapping[str, Any] | None,
    target: Any,
    schedule: InterOpSchedule | None,
) -> BuiltModel:
    """Build of a model in the form and precision that a schedule was found for.

    Unchanged without a schedule, and where it is of another model.
    """
    chosen_target = resolve_target(target if target is not None else host_target())
    require_known_target(chosen_target)
    as_it_is = BuildCandidate(mod=mod, params=params)
    plain = prepare(mod, params, chosen_target)
    if schedule is None:
        return build_prepared(plain)
    for candidate in known_forms(as_it_is, chosen_target, schedule.form):
        exact = plain if candidate is as_it_is else prepare(candidate.mod, None, chosen_target)
        prepared = in_precision(exact, schedule.low)
        if prepared is None:
            continue
        if prepared.extraction.graph.fingerprint() == schedule.graph_fingerprint:
            return replace(build_prepared(prepared), form=candidate.form)
    return build_prepared(plain)


def in_precision(prepared: PreparedModule, low: LowPrecision | None) -> PreparedModule | None:
    """Prepared module of float32 with the values in bfloat16 that a schedule says.

    The same without any; None where its operators are others, so that these values cannot be.
    """
    if low is None:
        return prepared
    if not low_values(prepared.extraction).holds(low):
        return None
    return with_low_precision(prepared, low)


def known_forms(
    model: BuildCandidate,
    target: tvm.target.Target,
    form: ImageForm | None,
    *,
    pad_channels: bool = True,
) -> Iterator[BuildCandidate]:
    """Forms of a model that a known schedule may be of, the model as it is first.

    Where a form of images was chosen, it is ``form``.
    """
    libraries = [each for each in LIBRARIES if each.target_kind == target.kind.name]
    traits = traits_for_target(target)
    choose_form = None if form is None else lambda *_: form
    liked = changes_for(
        traits, pad_channels=pad_channels, libraries=libraries, choose_form=choose_form
    )
    tried = set()
    # Other changes are made where libraries may compute, and a schedule does not say which.
    for changes in (liked, changes_for(traits, pad_channels=pad_channels)):
        for candidate in all_candidates(model, changes, target):
            if candidate.changes not in tried:
                tried.add(candidate.changes)
                yield candidate
