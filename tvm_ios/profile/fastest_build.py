"""Search of the fastest form of a model: builds it, changes it, and races both forms.

Comes before kernel tuning and the search of schedules, which work on the winner.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import tvm

from tvm_ios.compile.built_model import BuiltModel, build_prepared
from tvm_ios.core.precision.low_precision import Precision
from tvm_ios.core.precision.precision_outcome import PrecisionOutcome
from tvm_ios.cost.known_choices import BuildChoice
from tvm_ios.devices.targets import require_known_target
from tvm_ios.errors import ModelError, OptionError, OutOfTimeError
from tvm_ios.host import cached_libinfo, host_target
from tvm_ios.kernels.workers import start_shared_workers
from tvm_ios.profile.absent_kernels import absent_kernels
from tvm_ios.profile.build_candidates import FORMS, BuildCandidate, ModelChange
from tvm_ios.profile.build_choice import choose_build, with_libraries
from tvm_ios.profile.in_time.first_answer import answer_with
from tvm_ios.profile.measuring_call import MeasuringCall
from tvm_ios.profile.precision.low_build import LowBuild, in_low_precision
from tvm_ios.relay.context import model_digest
from tvm_ios.relay.functions.fused_function import describe_calls
from tvm_ios.relay.inputs import resolve_target
from tvm_ios.relay.kernels import digest_of_call
from tvm_ios.relay.prepare import PreparedModule, heavy_operators, prepare
from tvm_ios.relay.record_listeners import may_have_records
from tvm_ios.runtime.libraries.protocol import OperatorLibrary

__all__ = ["ChosenBuild", "absent_functions", "build_fastest"]

SHARE_OF_BUILDING = 4
"""Seconds of a second build, its race and the search after it, per second of the first build."""
Records = Callable[[], AbstractContextManager[None]]
"""Function that returns a context in which tuning records are in force."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenBuild:
    """A model in its chosen form, with the build of it."""

    candidate: BuildCandidate
    built: BuiltModel
    notes: tuple[str, ...] = ()
    precision: PrecisionOutcome | None = None
    """Outcome of the choice between float32 and bfloat16; None where nobody asked for that."""


def build_fastest(
    mod: tvm.IRModule,
    params: Mapping[str, Any] | None,
    target: Any,
    call: MeasuringCall,
    *,
    changes: Sequence[ModelChange],
    name: str = "main",
    libraries: tuple[OperatorLibrary, ...] = (),
    records: Records | None = None,
    all_kernels: bool = True,
    precision: Precision | None = None,
    inputs: Mapping[str, np.ndarray] | None = None,
) -> ChosenBuild:
    """Build of a model, in its changed form where a race shows that to be faster.

    Parameters
    ----------
    call
        Its clock gets the phases ``build``, and ``build`` and ``check`` of each change. Its budget
        has to allow each change as much time as building took, and more. A build that lost before,
        as its database knows, is not made again.
    changes
        Changes to try, such as those of :func:`~tvm_ios.profile.build_candidates.changes_for`, each
        on the form kept before it. A change that TVM cannot make is left out, with a note.
    libraries
        Operator libraries for every build; they compute in races, too, where that is faster.
    records
        Records of later builds. Changes of layout are raced with them, since records may be for one
        layout only; the returned build has none of them.
    all_kernels
        False leaves out kernels that cannot beat a library's call.
    precision
        Arithmetic that may be used after all changes; float32 where omitted.
    inputs
        Inputs that the error of bfloat16 is checked on; made-up ones where omitted.
    """
    resolved = resolve_target(target if target is not None else host_target())
    subject = f"{model_digest(mod, params)}.{FORMS}" if changes else ""
    candidate = BuildCandidate(mod=mod, params=params)
    choices, kernels = call.choices(resolved), with_libraries(f"kernels of {subject}", libraries)
    best = _BestSoFar(
        call=call,
        target=resolved,
        name=name,
        libraries=libraries,
        candidate=candidate,
        subject=subject,
        all_kernels=all_kernels,
        is_new=bool(subject) and not choices.is_noted(kernels),
    )
    for change in changes:
        best.try_change(change, records if change.raced_with_records else None)
    built = best.built or best.first_build()
    outcome = None
    if precision is not None and precision.is_low:
        found = best.in_low_precision(built, precision, inputs)
        built, outcome = found.built, found.outcome
        best.notes += found.notes
    if subject:
        choices.note(kernels)
    return ChosenBuild(
        candidate=best.candidate,
        built=built,
        notes=(*best.notes, *best.candidate.changes),
        precision=outcome,
    )


@dataclass(slots=True, kw_only=True)
class _BestSoFar:
    """The form that is kept so far within one call, which a faster one replaces."""

    call: MeasuringCall
    target: tvm.target.Target
    name: str
    libraries: tuple[OperatorLibrary, ...]
    candidate: BuildCandidate
    subject: str
    """Name of the form in questions to the database."""
    all_kernels: bool
    """False leaves out kernels that cannot beat a library's call."""
    is_new: bool
    """True if nobody has compiled the model's kernels before."""
    built: BuiltModel | None = None
    """Build without further records; None until it is needed."""
    notes: list[str] = field(default_factory=list)

    def try_change(self, change: ModelChange, records: Records | None) -> None:
        """Take the form's change in its place if that is faster."""
        question = f"{change.name} of {self.subject}"
        known = None if records else self._known(question)
        if known is not None and known.kept != change.name:
            self.notes += known.notes
            return
        try:
            changed = self._changed(change)
        except (ModelError, OptionError) as error:
            self.notes.append(_left_out(change, error))
            return
        except OutOfTimeError as error:
            self.call.budget.cut(f"{change.without}: {error}")
            return
        if changed is None:
            return
        if records is None and change.priced:
            self.candidate, self.built, self.subject = changed, None, question
            return
        if records is None:
            self._take_faster(change, changed, question, known)
            return
        before, built = self.candidate, self.built
        self.built = None  # it was made without the records
        with records():  # read only where there is something to race under them
            self._take_faster(change, changed, question, self._known(question))
        self.built = built if self.candidate is before else None

    def _changed(self, change: ModelChange) -> BuildCandidate | None:
        if change.priced:
            with self.call.stage(f"price {change.phase}", self.call.to_profile):
                return change.of(self.candidate, self.target)
        with self.call.gate.stage(self.call.to_prepare(change.name)):
            return change.of(self.candidate, self.target)

    def first_build(self) -> BuiltModel:
        """Build of the form so far, which is an answer of the call."""
        if self.is_new:
            # Not before: starting would disturb the times that layouts are chosen by. Workers that
            # compile kernels are up when the model is prepared.
            start_shared_workers(heavy_operators(self.candidate.checked.typed))
        built = self.build("build", self.candidate)
        if self.call.answers.first is None:
            answer_with(built, self.call)
        return built

    def build(
        self, phase: str, candidate: BuildCandidate, like: BuiltModel | None = None
    ) -> BuiltModel:
        """Build of a form, with the records in force."""
        call = self.call
        with call.stage(phase, call.to_prepare()), cached_libinfo():
            prepared = prepare(candidate.checked, candidate.params, self.target)
            require_known_target(prepared.target)
        return self._with_kernels(phase, prepared, candidate, like)

    def in_low_precision(
        self, built: BuiltModel, precision: Precision, inputs: Mapping[str, np.ndarray] | None
    ) -> LowBuild[BuiltModel]:
        """Faster of a build and the same in bfloat16; the one given if there is no time."""
        call = self.call

        def make(prepared: PreparedModule) -> BuiltModel:
            return self._with_kernels("build bfloat16", prepared, self.candidate, built)

        return in_low_precision(built, precision, call, make, inputs)

    def _with_kernels(
        self,
        phase: str,
        prepared: PreparedModule,
        candidate: BuildCandidate,
        like: BuiltModel | None,
    ) -> BuiltModel:
        call = self.call
        if self.all_kernels or not self.libraries:
            with call.stage(phase, call.to_prepare()):
                return self._built(prepared, candidate, like)
        with call.stage("price calls", call.to_profile) as granted:
            absent = absent_functions(prepared, self.libraries, call.at(granted))
        with call.stage(phase, call.to_prepare()):
            return self._built(prepared, candidate, like, absent)

    def _built(
        self,
        prepared: PreparedModule,
        candidate: BuildCandidate,
        like: BuiltModel | None,
        absent: Collection[str] = (),
    ) -> BuiltModel:
        built = build_prepared(prepared, name=self.name, like=like, absent=absent)
        return replace(built, libraries=self.libraries, form=candidate.form)

    def _take_faster(
        self,
        change: ModelChange,
        changed: BuildCandidate,
        question: str,
        choice: BuildChoice | None,
    ) -> None:
        """Take the faster form, by an earlier choice or a race with the records in force."""
        changed_built = None
        if choice is None:
            self.built = self.built or self.first_build()
            if not self.call.budget.allows(SHARE_OF_BUILDING * self.call.clock.phase_s["build"]):
                self.call.budget.cut(f"a build with {change.name} was not tried")
                return
            try:
                changed_built = self.build(f"build {change.phase}", changed, like=self.built)
            except (ModelError, OptionError) as error:
                self.notes.append(_left_out(change, error))
                return
            builds = {change.without: self.built, change.name: changed_built}
            with self.call.stage(f"check {change.phase}", self.call.to_profile) as granted:
                try:
                    choice = choose_build(builds, self.call.at(granted), prices_count=True)
                except OutOfTimeError as error:
                    self.call.budget.cut(f"a build with {change.name} was not raced: {error}")
                    return
                known = self.call.choices(self.target)
                known.keep(with_libraries(question, self.libraries), choice)
        self.notes += choice.notes
        if choice.kept == change.name:
            self.candidate, self.built, self.subject = changed, changed_built, question
            if changed_built is not None:
                answer_with(changed_built, self.call)

    def _known(self, question: str) -> BuildChoice | None:
        """Earlier choice with the records in force; None without one."""
        question = with_libraries(question, self.libraries)
        return self.call.choices(self.target).known(question)


def absent_functions(
    prepared: PreparedModule, libraries: Sequence[OperatorLibrary], call: MeasuringCall
) -> frozenset[str]:
    """Functions, by digest, whose kernels cannot beat an operator library's call.

    There are none where tuning records are in force, since a tuned kernel may win.
    """
    if may_have_records():
        return frozenset()
    extraction = prepared.extraction
    functions = describe_calls(extraction.calls)
    times_ns = call.library_ns(functions, libraries)
    digests = list(map(digest_of_call, extraction.calls))
    return absent_kernels(digests, functions, extraction.graph.operators, times_ns, call)


def _left_out(change: ModelChange, error: Exception) -> str:
    """Note in place of an error: the model is fine without the change."""
    return f"{change.without}, since {change.name} cannot be had: {error}"
