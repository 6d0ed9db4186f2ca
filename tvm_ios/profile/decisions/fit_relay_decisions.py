"""Fitting of given decisions to a Relay model, which is built in the form that was decided on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from tvm_ios.compile.built_model import BuiltModel, build_prepared
from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.image_layouts import ImageForm
from tvm_ios.core.precision.precision_outcome import PrecisionOutcome
from tvm_ios.core.schedule import InterOpSchedule
from tvm_ios.errors import ScheduleError
from tvm_ios.host import cached_libinfo
from tvm_ios.profile.build_candidates import BuildCandidate
from tvm_ios.profile.decisions.fit_decisions import DecisionFitting, Placed
from tvm_ios.profile.decisions.known_forms import in_precision, known_forms
from tvm_ios.profile.precision.low_build import outcome_of, outputs_of
from tvm_ios.relay.prepare import PreparedModule, prepare
from tvm_ios.runtime.artifact.decisions import Decisions

__all__ = ["RelayDecisionFitting"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayDecisionFitting(DecisionFitting):
    """Relay model of a call and what is allowed in it, to fit decisions to: a build a file."""

    built: BuiltModel
    """Build in the form that was chosen here; its operator libraries may compute."""
    model: BuildCandidate | None
    """The model before a form was chosen; None where no other one is allowed."""
    pad_channels: bool
    inputs: Mapping[str, np.ndarray] | None = None
    """Inputs that the error of bfloat16 is checked on; None for made-up ones."""

    def _elsewhere(self, decisions: Decisions, here: InterOpSchedule | None) -> Placed | None:
        """Build in the form of decisions, and schedule; None where it may not be, or does not fit.

        TVM's kernels are far slower in a layout that a library likes, so a form is not built for a
        library that does not compute here.
        """
        if here is not None and decisions.schedule.form == self.built.form:
            return None
        if self.model is None or self._missing(decisions):
            return None
        if not self.call.budget.allows(self.call.clock.phase_s.get("build", 0.0)):
            self.call.budget.cut("given decisions were not built in their form")
            return None
        target, form = self.built.prepared.target, decisions.schedule.form
        forms = known_forms(self.model, target, form, pad_channels=self.pad_channels)
        with self.call.stage("build given decisions", self.call.to_prepare()), cached_libinfo():
            for candidate in (each for each in forms if each.form == form):
                exact = prepare(candidate.checked, candidate.params, target)
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

    def _graph(self, prepared: PreparedModule) -> OperatorGraph:
        return OperatorGraph(self.built.name, prepared.extraction.graph.operators)

    def _built(self, prepared: PreparedModule, form: ImageForm | None) -> BuiltModel:
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
