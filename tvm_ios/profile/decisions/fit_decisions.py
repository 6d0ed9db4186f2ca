"""Fitting of given decisions to the model of a call: its operators are found in the graph.

Comes after the first build and before the search. Where decisions are of another form of the model,
it is built in that form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np

from tvm_ios.compile.built_model import BuiltModel, build_prepared
from tvm_ios.compile.dialects.dialect import Prepared, in_precision
from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.image_layouts import ImageForm
from tvm_ios.core.precision.low_precision import Precision
from tvm_ios.core.precision.precision_outcome import PrecisionOutcome
from tvm_ios.core.schedule import InterOpSchedule
from tvm_ios.core.verify import verify_schedule
from tvm_ios.errors import ModelError, OptionError, ScheduleError
from tvm_ios.profile.decisions.given_decisions import GivenDecisions, GivenSchedule
from tvm_ios.profile.measuring_call import MeasuringCall
from tvm_ios.profile.precision.low_build import outcome_of, outputs_of
from tvm_ios.report.contestants import GIVEN
from tvm_ios.runtime.artifact.decisions import Decisions
from tvm_ios.runtime.libraries.known import find_library
from tvm_ios.support.exact_bits import bits_may_change

__all__ = ["DecisionFitting", "Placed"]

Placed: TypeAlias = "tuple[BuiltModel, InterOpSchedule, PrecisionOutcome | None]"
"""Build, schedule of it, and its errors if it is in bfloat16 in another way than the call's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionFitting:
    """Model of a call and what is allowed in it, to fit decisions to."""

    built: BuiltModel
    """Build in the form that was chosen here; its operator libraries may compute."""
    call: MeasuringCall
    pad_merged_kernels: bool
    precision: Precision = field(default_factory=Precision)
    """Arithmetic that the call allows, and how far off results may be."""
    prepared_in: Callable[[ImageForm | None], Iterable[Prepared]] | None = None
    """Function that prepares the model in a form, in each way that may be meant, with loops of its
    kernels; None where no other form is allowed."""
    inputs: Mapping[str, np.ndarray] | None = None
    """Inputs that the error of bfloat16 is checked on; None for made-up ones."""

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
        if decisions.schedule.low is not None and not self.precision.is_low:
            raise ScheduleError(
                "its values are bfloat16, and this call's are float32, which is more exact; give "
                "precision='bfloat16' (--precision bfloat16) to have it race"
            )
        built, schedule, outcome = self._placed(decisions)
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
        return GivenSchedule(
            file=file, built=built, schedule=schedule, told="; ".join(told), precision=outcome
        )

    def _placed(self, decisions: Decisions) -> Placed:
        """Build to race in, of the form that was decided on where it can be had, and schedule.

        In the form of here, what is bfloat16 is so as it was chosen and checked here.
        """
        here = decisions.on(self.built.graph)
        elsewhere = self._elsewhere(decisions, here)
        if elsewhere is not None:
            return elsewhere
        if here is None:
            raise ScheduleError(
                f"its model has another structure ({len(decisions.schedule.operator_names)} "
                f"operators there, {len(self.built.graph)} here); give decisions of this model"
            )
        return self.built, here, None

    def _elsewhere(self, decisions: Decisions, here: InterOpSchedule | None) -> Placed | None:
        """Build in the form of decisions, and schedule; None where it may not be, or does not fit.

        TVM's kernels are far slower in a layout that a library likes, so a form is not built for a
        library that does not compute here.
        """
        if here is not None and decisions.schedule.form == self.built.form:
            return None
        if self.prepared_in is None or self._missing(decisions):
            return None
        if not self.call.budget.allows(self.call.clock.phase_s.get("build", 0.0)):
            self.call.budget.cut("given decisions were not built in their form")
            return None
        form = decisions.schedule.form
        with self.call.stage("build given decisions", self.call.to_prepare()):
            for exact in self.prepared_in(form):
                schedule = decisions.on(self._graph(exact))
                made = None if schedule is None else in_precision(exact, schedule.low)
                schedule = None if made is None else decisions.on(self._graph(made))
                if made is not None and schedule is not None:
                    built = self._built(made, form)
                    plain = built if made is exact else self._built(exact, form)
                    break
            else:
                return None
        return built, schedule, None if plain is built else self._checked(plain, built)

    def _graph(self, prepared: Prepared) -> OperatorGraph:
        return OperatorGraph(self.built.name, prepared.extraction.graph.operators)

    def _built(self, prepared: Prepared, form: ImageForm | None) -> BuiltModel:
        built = build_prepared(prepared, name=self.built.name, like=self.built)
        return replace(built, libraries=self.built.libraries, form=form)

    def _checked(self, exact: BuiltModel, built: BuiltModel) -> PrecisionOutcome:
        """Errors of a build in bfloat16, which must be within the bound."""
        found = outcome_of(outputs_of(exact, self.call, self.inputs), built, self.call, self.inputs)
        if not found.is_within(self.precision.max_relative_error):
            raise ScheduleError(
                "in their form its error is above the bound of "
                f"{self.precision.max_relative_error:g}: {found.details()[0]}"
            )
        return found

    @property
    def _libraries(self) -> set[str]:
        return {library.name.key for library in self.built.libraries}

    def _missing(self, decisions: Decisions) -> dict[str, int]:
        """Numbers of operators of each library that does not compute here, by its title."""
        rows = decisions.schedule.libraries or ()
        left = {row.library: len(row.operators) for row in rows if row.operators}
        known = {key: find_library(key) for key in left if key not in self._libraries}
        return {(each.name.title if each else key): left[key] for key, each in known.items()}
