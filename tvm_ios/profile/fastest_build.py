"""The fastest form of a model, found by building it, changing it, and racing both.

Goes before tuning of kernels and the search: both work on the build that is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

import tvm

from tvm_ios.compile.model import BuiltModel, build_model
from tvm_ios.cost.database import ProfileDatabase
from tvm_ios.cost.known_choices import BuildChoice
from tvm_ios.devices.protocol import MeasuringDevice
from tvm_ios.errors import ModelError, OptionError
from tvm_ios.host import host_target
from tvm_ios.measure.compare import CompareOptions
from tvm_ios.profile.build_candidates import BuildCandidate, ModelChange
from tvm_ios.profile.build_choice import choose_build, known_choices
from tvm_ios.relay.context import model_digest
from tvm_ios.relay.inputs import resolve_target
from tvm_ios.support.progress import PhaseClock
from tvm_ios.support.stage_gate import StageNeed
from tvm_ios.support.time_budget import TimeBudget

__all__ = ["ChosenBuild", "build_fastest"]

SHARE_OF_BUILDING = 4
"""A second build, a race and the search after it take so many times as long as the first build."""
Records = Callable[[], AbstractContextManager[None]]
"""What puts tuning records in force."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenBuild:
    """A model in the form that was chosen, and its build."""

    candidate: BuildCandidate
    built: BuiltModel
    notes: tuple[str, ...] = ()


def build_fastest(
    mod: tvm.IRModule,
    params: Mapping[str, Any] | None,
    target: Any,
    clock: PhaseClock,
    *,
    changes: Sequence[ModelChange],
    name: str = "main",
    lanes: int,
    device: MeasuringDevice,
    records: Records | None = None,
    compare_options: CompareOptions | None = None,
    budget: TimeBudget | None = None,
    database: ProfileDatabase | None = None,
) -> ChosenBuild:
    """Build a model; where a change of it may help, also with that, and keep the faster one.

    Parameters
    ----------
    clock
        Told of the phases ``build``, and ``build`` and ``check`` of each change that is tried.
    changes
        What is tried, such as :func:`~tvm_ios.profile.build_candidates.changes_for` says: each one
        on what was kept before it. One that TVM cannot make is left out, with a note.
    records
        Records that later builds will have. Changes of layout are raced under them, since they may
        be for one layout only; the build that is returned has none of them.
    budget
        Of the whole call; what is left of it has to allow as much again as building took, and more.
    database
        Where it is kept which build was faster; a build that lost before is not made again.
    """
    builder = _Builder(
        clock=clock,
        target=resolve_target(target if target is not None else host_target()),
        name=name,
        lanes=lanes,
        device=device,
        compare_options=compare_options,
        budget=budget or TimeBudget(),
        database=database,
    )
    best = _Best(
        candidate=BuildCandidate(mod=mod, params=params),
        subject=model_digest(mod, params) if changes else "",
    )
    for change in changes:
        best = builder.try_change(change, best, records if change.raced_with_records else None)
    return ChosenBuild(
        candidate=best.candidate,
        built=best.built or builder.build("build", best.candidate),
        notes=(*best.notes, *best.candidate.changes),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Best:
    """What is kept so far."""

    candidate: BuildCandidate
    subject: str
    """What a question about it names in the database."""
    built: BuiltModel | None = None
    """Its build without further records; None until somebody needs it."""
    notes: tuple[str, ...] = ()

    def with_notes(self, *notes: str) -> _Best:
        return replace(self, notes=(*self.notes, *notes))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Builder:
    """How candidates are built and raced within one call."""

    clock: PhaseClock
    target: tvm.target.Target
    name: str
    lanes: int
    device: MeasuringDevice
    compare_options: CompareOptions | None
    budget: TimeBudget
    database: ProfileDatabase | None

    def try_change(self, change: ModelChange, best: _Best, records: Records | None) -> _Best:
        """The faster one of the best so far and what a change makes of it."""
        question = f"{change.name} of {best.subject}"
        known = None if records else self._known(question)
        if known is not None and known.kept != change.name:
            return best.with_notes(*known.notes)
        try:
            with self.clock.gate.stage(self._to_prepare(change.name)):
                changed = change.of(best.candidate, self.target)
        except (ModelError, OptionError) as error:
            return best.with_notes(_left_out(change, error))
        if changed is None:
            return best
        if records is None:
            return self._faster(change, best, changed, question, known)
        with records():  # read only where there is something to race under them
            plain = replace(best, built=None)
            faster = self._faster(change, plain, changed, question, self._known(question))
        return replace(faster, built=None)

    def build(
        self, phase: str, candidate: BuildCandidate, like: BuiltModel | None = None
    ) -> BuiltModel:
        with self.clock.phase(phase, self._to_prepare()):
            return build_model(
                candidate.mod, candidate.params, self.target, name=self.name, like=like
            )

    def _faster(
        self,
        change: ModelChange,
        best: _Best,
        changed: BuildCandidate,
        question: str,
        choice: BuildChoice | None,
    ) -> _Best:
        """The faster one, as was known or is raced under the records in force."""
        changed_built = None
        if choice is None:
            built = best.built or self.build("build", best.candidate)
            best = replace(best, built=built)
            if not self.budget.allows(SHARE_OF_BUILDING * self.clock.phase_s["build"]):
                self.budget.cut(f"a build with {change.name} was not tried")
                return best
            try:
                changed_built = self.build(f"build {change.phase}", changed, like=built)
            except (ModelError, OptionError) as error:
                return best.with_notes(_left_out(change, error))
            to_profile = StageNeed.to_profile(self.device.cores_for(self.lanes))
            with self.clock.phase(f"check {change.phase}", to_profile):
                choice = choose_build(
                    {change.without: built, change.name: changed_built},
                    lanes=self.lanes,
                    options=self.compare_options,
                    device=self.device,
                )
                known_choices(self.database, self.target, self.lanes, self.device).keep(
                    question, choice
                )
        best = best.with_notes(*choice.notes)
        if choice.kept != change.name:
            return best
        return replace(best, candidate=changed, built=changed_built, subject=question)

    def _to_prepare(self, task: str = "") -> StageNeed:
        return StageNeed.to_prepare(self.clock.gate.most_cores, task)

    def _known(self, question: str) -> BuildChoice | None:
        """The choice that was made under the records in force."""
        return known_choices(self.database, self.target, self.lanes, self.device).known(question)


def _left_out(change: ModelChange, error: Exception) -> str:
    """A note instead of an error: the model is fine without the change."""
    return f"{change.without}, since {change.name} cannot be had: {error}"
