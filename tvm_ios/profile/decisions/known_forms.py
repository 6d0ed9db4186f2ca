"""Builds of a Relay model in the form and precision that a known schedule is of."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import tvm

from tvm_ios.compile.built_model import BuiltModel, build_prepared
from tvm_ios.compile.dialects.dialect import in_precision
from tvm_ios.core.image_layouts import ImageForm
from tvm_ios.core.schedule import InterOpSchedule
from tvm_ios.devices.targets import require_known_target, traits_for_target
from tvm_ios.host import cached_libinfo, host_target
from tvm_ios.profile.build_candidates import (
    BuildCandidate,
    all_candidates,
    changes_for,
)
from tvm_ios.relay.inputs import resolve_target
from tvm_ios.relay.prepare import PreparedModule, prepare
from tvm_ios.runtime.libraries.known import LIBRARIES

__all__ = ["build_for_schedule", "known_forms", "prepared_in_form"]


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


def prepared_in_form(
    model: BuildCandidate, target: tvm.target.Target, *, pad_channels: bool
) -> Callable[[ImageForm | None], Iterator[PreparedModule]]:
    """Function that prepares a model in a form, in all ways in which it may have been built so."""

    def prepared(form: ImageForm | None) -> Iterator[PreparedModule]:
        for candidate in known_forms(model, target, form, pad_channels=pad_channels):
            if candidate.form == form:
                with cached_libinfo():
                    made = prepare(candidate.checked, candidate.params, target)
                yield made

    return prepared
