"""Fitting of given decisions to the model of a call: its operators are found, its form is built.

Comes after the first build and before the search: a file costs a build at most.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tvm_ios.compile.built_model import BuiltModel, build_prepared
from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.schedule import InterOpSchedule
from tvm_ios.core.verify import verify_schedule
from tvm_ios.errors import ModelError, OptionError, ScheduleError
from tvm_ios.host import cached_libinfo
from tvm_ios.profile.build_candidates import BuildCandidate
from tvm_ios.profile.build_choice import known_forms
from tvm_ios.profile.given_decisions import GivenDecisions, GivenSchedule
from tvm_ios.profile.measuring_call import MeasuringCall
from tvm_ios.relay.prepare import prepare
from tvm_ios.report.contestants import GIVEN
from tvm_ios.runtime.artifact.decisions import Decisions
from tvm_ios.runtime.libraries.known import find_library
from tvm_ios.support.exact_bits import bits_may_change

__all__ = ["DecisionFitting"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionFitting:
    """Model of a call and what is allowed in it, to fit decisions to."""

    built: BuiltModel
    """Build in the form that was chosen here; its operator libraries may compute."""
    model: BuildCandidate | None
    """The model before a form was chosen; None where no other one is allowed."""
    call: MeasuringCall
    pad_channels: bool
    pad_merged_kernels: bool

    def of(self, files: Mapping[str, Decisions]) -> GivenDecisions:
        """Schedules of all files that fit, with the records in force, and reasons of the others."""
        schedules, unfit = {}, []
        for who, (file, decisions) in zip(GIVEN, files.items(), strict=False):
            try:
                schedules[who] = self._fitted(file, decisions)
            except (ScheduleError, ModelError, OptionError) as error:
                unfit.append(f"{file}: does not race: {error}")
        return GivenDecisions(schedules=schedules, unfit=tuple(unfit))

    def _fitted(self, file: str, decisions: Decisions) -> GivenSchedule:
        if not bits_may_change() and any(each.is_merge for each in decisions.schedule.stages):
            raise ScheduleError("it merges convolutions, which exact=True leaves out")
        built, schedule = self._placed(decisions)
        here = self._libraries
        rows = tuple(row for row in schedule.libraries or () if row.library in here)
        schedule = replace(schedule, libraries=rows if here else None)
        verify_schedule(schedule, built.graph, pad_merged_kernels=self.pad_merged_kernels)
        told = [decisions.origin.as_text()] if decisions.origin else ["a schedule alone"]
        if schedule.graph_fingerprint != decisions.schedule.graph_fingerprint:
            told.append("operators were matched by structure: workloads or their order differ")
        told += [
            f"{title} computes {count} operators there and none here, TVM's kernels do"
            for title, count in self._missing(decisions).items()
        ]
        return GivenSchedule(file=file, built=built, schedule=schedule, told="; ".join(told))

    def _placed(self, decisions: Decisions) -> tuple[BuiltModel, InterOpSchedule]:
        """Build to race in, of the form that was decided on where it can be had, and schedule."""
        here = decisions.on(self.built.graph)
        if here is None or decisions.schedule.form != self.built.form:
            elsewhere = self._in_their_form(decisions)
            if elsewhere is not None:
                return elsewhere
        if here is None:
            raise ScheduleError(
                f"its model has another structure ({len(decisions.schedule.operator_names)} "
                f"operators there, {len(self.built.graph)} here); give decisions of this model"
            )
        return self.built, here

    def _in_their_form(self, decisions: Decisions) -> tuple[BuiltModel, InterOpSchedule] | None:
        """Build in the form of decisions, and schedule; None where it may not be, or does not fit.

        TVM's kernels are far slower in a layout that a library likes, so a form is not built for a
        library that does not compute here.
        """
        if self.model is None or self._missing(decisions):
            return None
        if not self.call.budget.allows(self.call.clock.phase_s.get("build", 0.0)):
            self.call.budget.cut("given decisions were not built in their form")
            return None
        target, form = self.built.prepared.target, decisions.schedule.form
        forms = known_forms(self.model, target, form, pad_channels=self.pad_channels)
        need = self.call.to_prepare()
        with self.call.stage("build given decisions", need), cached_libinfo():
            for candidate in (each for each in forms if each.form == form):
                prepared = prepare(candidate.checked, candidate.params, target)
                graph = OperatorGraph(self.built.name, prepared.extraction.graph.operators)
                schedule = decisions.on(graph)
                if schedule is not None:
                    built = build_prepared(prepared, name=graph.name, like=self.built)
                    return replace(built, libraries=self.built.libraries, form=form), schedule
        return None

    @property
    def _libraries(self) -> set[str]:
        return {library.name.key for library in self.built.libraries}

    def _missing(self, decisions: Decisions) -> dict[str, int]:
        """Numbers of operators of each library that does not compute here, by its title."""
        rows = decisions.schedule.libraries or ()
        left = {row.library: len(row.operators) for row in rows if row.operators}
        known = {key: find_library(key) for key in left if key not in self._libraries}
        return {(each.name.title if each else key): left[key] for key, each in known.items()}
