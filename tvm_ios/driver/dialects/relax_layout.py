"""Layout of the images of a Relax model: the one that operator libraries like, or the model's own.

Comes before schedules are searched, which work on the winner of a race of whole networks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import tvm

from tvm_ios.compile.built_model import BuiltModel, build_prepared
from tvm_ios.cost.known_choices import BuildChoice
from tvm_ios.errors import ModelError, OutOfTimeError
from tvm_ios.profile.in_time.first_answer import answer_with
from tvm_ios.profile.measuring_call import MeasuringCall
from tvm_ios.profile.race import compiled_for, race
from tvm_ios.profile.way_choice import clearly_fastest
from tvm_ios.relax.ir import call_name, main_of, operator_calls
from tvm_ios.relax.prepare import PreparedModule, prepare
from tvm_ios.runtime.libraries.protocol import OperatorLibrary
from tvm_ios.search.baselines import sequential_schedule

__all__ = ["LaidOut", "ModelLayouts"]

OWN = "layouts as they are"
LIKED = "the layout of operator libraries"
OWN_KERNELS = f"{OWN}, TVM's kernels"
SHARE_OF_BUILDING = 4
"""Seconds of a second build, its race and the search after it, per second of the first build."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaidOut:
    """A model with its kernels, in the layout that was kept."""

    built: BuiltModel
    notes: tuple[str, ...] = ()
    """Lines for people on how fast the other layout is, or why there is none."""


@dataclass(frozen=True, kw_only=True)
class ModelLayouts:
    """A model that may be built in the layout that a library likes, and in its own."""

    mod: tvm.IRModule
    params: Mapping[str, Any] | None
    target: tvm.target.Target
    libraries: tuple[OperatorLibrary, ...]

    @cached_property
    def first(self) -> PreparedModule:
        """The model in the layout that a library likes; in its own where that changes nothing.

        Raises
        ------
        ModelError
            If the model cannot be prepared as it is.
        """
        liked, _ = self._liked
        return self._own() if liked is None else liked

    def fastest(self, call: MeasuringCall, *, race_forms: bool) -> LaidOut:
        """Build in the layout that a library likes, or in the model's own if that is faster.

        Both run in sequential order with all that libraries can compute, the model's own layout
        with TVM's kernels alone as well. A layout that lost before, as the call's database knows,
        is not built again. Without ``race_forms`` it is the layout that a library likes.

        Raises
        ------
        ModelError
            If the model cannot be built.
        """
        (liked, notes), choices = self._liked, call.choices(self.target)
        identities = [each.identity() for each in self.libraries]
        question = " with ".join(
            [f"{LIKED}: {self.first.extraction.graph.fingerprint()}", *identities]
        )
        is_raced = liked is not None and race_forms
        choice = choices.known(question) if is_raced else None
        is_own = choice is not None and choice.kept == OWN
        with call.stage("build", call.to_prepare()):
            built = self.built(self._own() if is_own else self.first)
        answer_with(built, call)
        if not is_raced:
            return LaidOut(built=built, notes=notes)
        if choice is None:
            if not call.budget.allows(SHARE_OF_BUILDING * call.clock.phase_s["build"]):
                call.budget.cut(f"a build with {OWN} was not tried")
                return LaidOut(built=built)
            with call.stage(f"build {OWN}", call.to_prepare()):
                own = self.built(self._own())
            try:
                choice = _raced(built, own, call)
            except OutOfTimeError as error:
                call.budget.cut(f"a build with {OWN} was not raced: {error}")
                return LaidOut(built=built)
            choices.keep(question, choice)
            if choice.kept == OWN:
                built = own
                answer_with(built, call)
        return LaidOut(built=built, notes=choice.notes)

    @cached_property
    def _liked(self) -> tuple[PreparedModule | None, tuple[str, ...]]:
        """The model in the layout that a library likes, if it has one, and notes where not."""
        layout = next((each.image_layout for each in self.libraries if each.image_layout), None)
        if layout is None or not _has_images(self.mod):
            return None, ()
        try:
            return prepare(self.mod, self.params, self.target, image_layout=layout), ()
        # What is wrong in a rule of layouts of TVM's ends in any error of a pass.
        except (ModelError, RuntimeError, ValueError) as error:
            reason = (str(error).splitlines() or ["no reason"])[-1]
            return None, (f"{OWN}, since {layout} cannot be had: {reason}",)

    def _own(self) -> PreparedModule:
        return prepare(self.mod, self.params, self.target)

    def built(self, prepared: PreparedModule) -> BuiltModel:
        """Prepared model with its kernels."""
        return replace(build_prepared(prepared), libraries=self.libraries)


def _has_images(mod: Any) -> bool:
    main = main_of(mod) if isinstance(mod, tvm.IRModule) else None
    calls = [] if main is None else operator_calls(main)
    return any(call_name(each) == "relax.nn.conv2d" for each in calls)


def _raced(liked: BuiltModel, own: BuiltModel, call: MeasuringCall) -> BuildChoice:
    """The layout that a library likes, unless the model's own is clearly faster."""
    with call.stage("check layouts", call.to_profile) as granted:
        here = call.at(granted)
        with here.open() as session:
            in_order = sequential_schedule(own.graph)
            contestants = {
                LIKED: (liked, sequential_schedule(liked.graph)),
                OWN: (own, in_order),
                OWN_KERNELS: (own, replace(in_order, libraries=())),
            }
            models = {
                name: compiled_for(session, built, order, lanes=call.lanes, database=call.database)
                for name, (built, order) in contestants.items()
            }
            comparison = race(
                models,
                options=call.compare,
                until_decided=True,
                budget=call.budget,
                session=session,
            )
    notes = []
    for name in (OWN, OWN_KERNELS):
        found = comparison.speedup(name, over=LIKED)
        notes.append(
            f"{name}: {found.ratio:.3f} ({found.low:.3f} to {found.high:.3f}) times as fast as "
            f"{LIKED}, before a search"
        )
    return BuildChoice(
        kept=LIKED if clearly_fastest(comparison) == LIKED else OWN,
        notes=tuple(notes),
        certain=comparison.is_settled,
    )
