"""Calls of ``tune`` that take the result of an equal one, or leave theirs for the next.

A call inside a ``PassContext``, or inside a tuner's ``ApplyHistoryBest``, does neither: both may
hold functions, of which no text says what they do.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

import tvm

from tvm_ios.compile.file_kernels import FileKernels
from tvm_ios.compile.model import CompiledModel
from tvm_ios.core.schedule import InterOpSchedule
from tvm_ios.cost.database import ProfileDatabase, default_database_path
from tvm_ios.driver.compile_schedule import compile_schedule
from tvm_ios.driver.given_inputs import digest_of_inputs, given_here
from tvm_ios.driver.kept.asked import Asked
from tvm_ios.driver.kept.store import Kept, KeptResult, KeptResults
from tvm_ios.driver.kept.tune_call import TuneCall
from tvm_ios.report.tune_report import TuneReport
from tvm_ios.runtime.base.entered_context import caller_entered_a_context

__all__ = ["KeptCall"]

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptCall:
    """A call of ``tune`` and the key of its result."""

    call: TuneCall
    asked: Asked | None
    key: str
    """Key of the result; empty where it is not kept."""

    @classmethod
    def of(cls, call: TuneCall, *, beside_stock: bool = False) -> KeptCall:
        """Return the call with the key of its result.

        ``beside_stock`` is true if its report is to know stock TVM as well.
        """
        try:
            asked = _asked(call, beside_stock=beside_stock)
            return cls(call=call, asked=asked, key="" if asked is None else asked.key())
        # Arguments of a kind that nobody expects: whoever reads them next says what is wrong.
        except (AttributeError, KeyError, OSError, TypeError, ValueError):
            return cls(call=call, asked=None, key="")

    def find(self) -> CompiledModel | None:
        """Model that an equal call has left; None where there is none."""
        kept = None if self.asked is None else self.asked.find(self.key)
        if kept is None:
            return None
        _LOG.info("%s", kept.result.as_text())
        return _loaded(kept, self.call, self.key)

    def keep(self, model: CompiledModel, *, certain: bool) -> CompiledModel:
        """Store a model for equal calls, unless files have changed since; return it."""
        if not self.key or self.asked is None or self.asked.key() != self.key:
            return model
        result = KeptResult(
            report=model.report(),
            notes=model.notes,
            certain=certain,
            time_budget=self.call.time_budget.limit_s,
            beside_stock=self.asked.beside_stock,
        )
        kept = KeptResults().keep(self.key, result, model.export_library)
        return replace(model, kept_as=self.key) if kept else model


def _asked(call: TuneCall, *, beside_stock: bool) -> Asked | None:
    """The call with digests of what it holds; None where it depends on more than files tell."""
    dialect = given_here()
    if (
        not isinstance(call.mod, tvm.IRModule)
        or caller_entered_a_context()
        or dialect.contexts_around()
        or KeptResults().is_off
    ):
        return None
    database = call.database
    if isinstance(database, ProfileDatabase):
        database = database.path
    return Asked(
        model=dialect.valued_model_digest(call.mod, call.params),
        target="" if call.target is None else dialect.target_text(call.target),
        lanes=call.lanes,
        tuning=call.tuning,
        tuning_records=call.tuning_records,
        decisions=call.decisions,
        time_budget=call.time_budget.limit_s,
        database=default_database_path() if database is None else Path(database),
        options=call.options,
        inputs=digest_of_inputs(call.inputs),
        beside_stock=beside_stock,
    )


def _loaded(kept: Kept, call: TuneCall, key: str) -> CompiledModel:
    report = kept.result.report
    assert isinstance(report, TuneReport), "several shapes are kept under a key of their results"
    schedule = report.story.schedule
    build = cache(partial(_built_anew, call, schedule))
    kernels = FileKernels(kept.path, kept.footer, lambda: build().kernels.staged)
    return CompiledModel(
        partition=lambda: build().module,
        graph=report.story.graph,
        schedule=schedule,
        plan=kernels.plan,
        kernels=kernels,
        notes=kept.result.notes,
        tune_report=replace(report, notes=(kept.result.as_text(), *report.notes)),
        records=report.records,
        rest=kept.footer.rest,
        kept_as=key,
    )


def _built_anew(call: TuneCall, schedule: InterOpSchedule) -> CompiledModel:
    """Model of a schedule with everything that its file does not hold, such as Relay."""
    return compile_schedule(
        call.mod,
        call.params,
        call.target,
        schedule=schedule,
        lanes=call.lanes,
        options=call.options,
    )
