"""Tuning for a report: after the race of schedules, a race with stock TVM where there is time."""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from typing import Any

from tvm_ios.compile.model import CompiledModel
from tvm_ios.driver.kept.kept_call import KeptCall
from tvm_ios.driver.kept.tune_call import budget_of_call
from tvm_ios.driver.races.stock_contestants import race_with_stock, stock_kernels
from tvm_ios.driver.tune import TuneCall, TuneRace, tune_race
from tvm_ios.errors import TvmIosError
from tvm_ios.measure.comparison import Comparison
from tvm_ios.profile.race import race_s
from tvm_ios.report.tune_report import Contestant
from tvm_ios.runtime.base.device import is_gpu_target
from tvm_ios.support.progress import Progress

__all__ = ["tune_beside_stock"]

_LOG = logging.getLogger(__name__)


def tune_beside_stock(
    mod: Any, params: Any = None, target: Any = None, *, time_budget: Any = None, **given: Any
) -> CompiledModel:
    """Result of :func:`tvm_ios.tune`, whose report knows stock TVM as well, where that was raced.

    Arguments and errors are those of ``tune``. Stock TVM runs on the CPU of this machine, and is
    built and raced only if the time budget has room for as long as the first build took.
    """
    budget = budget_of_call(time_budget)
    call = TuneCall(mod=mod, params=params, target=target, time_budget=budget, **given)
    kept = KeptCall.of(call, beside_stock=True)
    if (known := kept.find()) is not None:
        return known
    model, certain = _raced_beside_stock(call)
    return kept.keep(model, certain=certain)


def _raced_beside_stock(call: TuneCall) -> tuple[CompiledModel, bool]:
    """Kept model of a call with stock TVM in its report, and whether the races were certain."""
    began_s = time.monotonic()
    race = tune_race(call)
    return _beside_stock(call, race, time.monotonic() - began_s), race.certain


def _beside_stock(call: TuneCall, race: TuneRace, spent_s: float) -> CompiledModel:
    """Kept model of a call that took some seconds, with stock TVM in its report if it was raced."""
    report = race.kept.report()
    needed_s = report.phase_s.get("build", 0.0) + race_s(
        report.comparison.median_ns(Contestant.SEQUENTIAL.value), call.options.compare
    )
    if call.options.device.is_remote or is_gpu_target(race.kept.kernels.target):
        return race.kept
    if not call.time_budget.allows(needed_s):
        _LOG.info("stock TVM was not raced: its %.0f s are not left of the time budget", needed_s)
        return race.kept
    if call.progress is not None:
        call.progress(Progress(phase="stock TVM", elapsed_s=spent_s))
    try:
        stock = _stock_race(call, race)
    except TvmIosError as error:  # a report without this row is a report
        _LOG.warning("stock TVM was not raced: %s", error)
        return race.kept
    evidence = replace(report.evidence, stock=stock)
    told = replace(report, story=replace(report.story, evidence=evidence))
    return replace(race.kept, tune_report=told)


def _stock_race(call: TuneCall, race: TuneRace) -> Comparison:
    """Race of stock TVM with sequential order and the kept contestant."""
    names = {Contestant.SEQUENTIAL, race.kept.report().kept}
    models = {who.value: race.racers[who].compiled() for who in Contestant if who in names}
    plain = stock_kernels(call.mod, call.params, call.target)
    return race_with_stock(plain, models, lanes=race.kept.plan.lanes, options=call.options.compare)
