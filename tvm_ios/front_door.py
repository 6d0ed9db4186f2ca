"""The front door: ``tune`` takes a model all the way to a measured schedule that runs.

Prepare and build, search with measured prices, then time the winner against sequential order.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import tvm

from tvm_ios.compiled import CompiledModel, build_model, lower_partitioned, lower_schedule
from tvm_ios.core.endings import EndingRule
from tvm_ios.core.schedule import InterOpSchedule, Strategy
from tvm_ios.core.verify import verify_schedule
from tvm_ios.cost.compare import CompareOptions, compare
from tvm_ios.cost.comparison import Comparison, Verdict
from tvm_ios.cost.database import ProfileDatabase
from tvm_ios.cost.measured import MeasureOptions
from tvm_ios.errors import OptionError
from tvm_ios.host import default_lanes
from tvm_ios.pricing import KernelPrices, RelayStageRunner, open_database
from tvm_ios.progress import Progress, ProgressListener
from tvm_ios.relay import is_partitioned
from tvm_ios.runtime.sample_inputs import sample_inputs
from tvm_ios.search.baselines import sequential_schedule
from tvm_ios.search.ios import search_ios
from tvm_ios.search.options import SearchOptions
from tvm_ios.search.result import SearchProgress, SearchResult
from tvm_ios.tune_report import TuneReport, stage_counts

__all__ = ["PhaseClock", "compile_schedule", "parse_strategies", "search_schedule", "tune"]

BOUND_MARGIN_PERCENT = 3
"""Measured prices scatter by about this much, so the search trusts its bounds that much less."""


def tune(
    mod: tvm.IRModule,
    params: Mapping[str, Any] | None = None,
    target: Any = None,
    *,
    max_group_size: int = 3,
    max_num_groups: int = 8,
    strategies: Iterable[Strategy | str] = tuple(Strategy),
    endings: EndingRule | str = EndingRule.COMPLETE,
    lanes: int | None = None,
    time_budget_s: float | None = None,
    database: ProfileDatabase | str | Path | None = None,
    measure: MeasureOptions | None = None,
    compare_options: CompareOptions | None = None,
    progress: ProgressListener | None = None,
) -> CompiledModel:
    """Find and compile the fastest inter-operator schedule of a model on this machine.

    AutoTVM and auto_scheduler ``ApplyHistoryBest`` contexts around the call are honoured, and so is
    a ``PassContext``.

    Parameters
    ----------
    mod
        A Relay module with a ``main`` of static shapes.
    params
        Parameters by name.
    target
        A CPU target, such as ``"llvm -mcpu=skylake-avx512"``; the best for this processor where
        omitted.
    max_group_size
        Most operators in a group of a concurrent stage, the paper's r; 0 means no limit.
    max_num_groups
        Most groups in a concurrent stage, the paper's s; 0 means no limit.
    strategies
        Kinds of stages to try: ``"concurrent"``, ``"merge"``, or both.
    endings
        Which concurrent stages exist: ``"complete"``, the definition, or ``"published"``.
    lanes
        Threads that run the model, the caller's included; the usable cores where omitted.
    time_budget_s
        Seconds of search after which the best schedule found so far is taken.
    database
        A profile database or its file; where omitted, ``profiles.sqlite`` in the cache folder.
    measure
        How stages are timed.
    compare_options
        How the winner is timed against sequential order.
    progress
        Called with a :class:`~tvm_ios.progress.Progress` now and then.

    Raises
    ------
    ModelError
        If the model cannot be prepared or compiled, or nothing of it can be scheduled.
    OptionError
        If an option has a value nobody can honour.
    DatabaseError
        If the profile database cannot be read.
    KeyboardInterrupt
        On Ctrl-C; prices taken so far lie in the database, so the same call goes on from there.

    Examples
    --------
    >>> import tvm_ios
    >>> from tvm_ios.models import squeezenet
    >>> mod, params = squeezenet(image_size=64)
    >>> compiled = tvm_ios.tune(mod, params)  # doctest: +SKIP
    >>> print(compiled.report().as_text())  # doctest: +SKIP
    """
    options = SearchOptions(
        strategies=parse_strategies(strategies),
        max_group_size=max_group_size,
        max_num_groups=max_num_groups,
        endings=_ending_rule(endings),
        bound_margin_percent=BOUND_MARGIN_PERCENT,
    )
    _require_budget(time_budget_s)
    chosen_lanes = _require_lanes(lanes)
    opened = open_database(database)
    clock = PhaseClock(progress)
    with clock.phase("build"):
        built = build_model(mod, params, target)
    with RelayStageRunner(built, lanes=chosen_lanes) as runner:
        prices = KernelPrices(runner, database=opened, options=measure)
        with clock.phase("search"):
            prices.price_operators()
            found = search_schedule(prices, options, clock, time_budget_s=time_budget_s)
    with clock.phase("compare"):
        ios = lower_schedule(built, found.schedule, lanes=chosen_lanes)
        in_order = prices.annotate(sequential_schedule(built.graph))
        plain = lower_schedule(built, in_order, lanes=chosen_lanes)
        comparison = _compare(ios, plain, compare_options)
    return _keep(ios, plain, _Evidence(prices, found, comparison, clock))


def compile_schedule(
    mod: tvm.IRModule,
    params: Mapping[str, Any] | None = None,
    target: Any = None,
    *,
    schedule: InterOpSchedule | None = None,
    lanes: int | None = None,
) -> CompiledModel:
    """Compile a model with a schedule that is known: no search, no measuring.

    Parameters
    ----------
    mod
        A Relay module; or one that ``ScheduleOperators`` has partitioned, with no ``schedule``.
    params
        Parameters by name.
    target
        A CPU target; the best for this processor where omitted.
    schedule
        What an earlier ``tune`` of the same model found; sequential order where omitted.
    lanes
        Threads that run the model, the caller's included; the usable cores where omitted.

    Raises
    ------
    ScheduleError
        If the schedule is for another graph or breaks a rule.
    ModelError, OptionError
        As :func:`tune`.
    """
    chosen_lanes = _require_lanes(lanes)
    if is_partitioned(mod):
        if schedule is not None:
            raise OptionError(
                "the module is partitioned already, so it has a schedule; "
                "pass either the original module or no schedule"
            )
        return lower_partitioned(mod, params, target, lanes=chosen_lanes)
    built = build_model(mod, params, target)
    chosen = schedule if schedule is not None else sequential_schedule(built.graph)
    chosen.require_graph(built.graph)
    verify_schedule(chosen, built.graph)
    return lower_schedule(built, chosen, lanes=chosen_lanes)


def search_schedule(
    prices: KernelPrices,
    options: SearchOptions,
    clock: PhaseClock,
    *,
    time_budget_s: float | None = None,
) -> SearchResult:
    """Search with measured prices, telling the clock how far it is.

    Parameters
    ----------
    prices
        Prices of the model's stages.
    options
        Limits and rules.
    clock
        Told after every batch of prices.
    time_budget_s
        Seconds after which the best schedule found so far is taken.
    """
    deadline = math.inf if time_budget_s is None else time.monotonic() + time_budget_s

    def report(step: SearchProgress) -> None:
        clock.say(
            f"block {step.block + 1} of {step.num_blocks}, at least {step.bound_ns / 1e6:.3f} ms, "
            f"{prices.counters.priced} measured, {prices.counters.from_database} known",
            done=step.priced,
        )

    found = search_ios(
        prices.graph,
        prices,
        options,
        progress=report,
        should_stop=lambda: time.monotonic() > deadline,
    )
    return replace(found, schedule=prices.annotate(found.schedule))


class PhaseClock:
    """Seconds of each phase of a long call, and word to whoever listens.

    Parameters
    ----------
    listener
        Told at the start of a phase and whenever :meth:`say` is called; None for silence.
    """

    def __init__(self, listener: ProgressListener | None = None) -> None:
        self._listener = listener
        self._begin = time.monotonic()
        self._phase = ""
        self.phase_s: dict[str, float] = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count the time inside to this phase."""
        self._phase = name
        begin = time.monotonic()
        self.say("")
        try:
            yield
        finally:
            self.phase_s[name] = self.phase_s.get(name, 0.0) + time.monotonic() - begin

    def say(self, detail: str, *, done: int | None = None, total: int | None = None) -> None:
        """Tell the listener where the current phase is."""
        if self._listener is not None:
            elapsed_s = time.monotonic() - self._begin
            self._listener(
                Progress(
                    phase=self._phase, detail=detail, done=done, total=total, elapsed_s=elapsed_s
                )
            )


def parse_strategies(strategies: Iterable[Strategy | str]) -> frozenset[Strategy]:
    """Strategies from themselves or their names.

    Raises
    ------
    OptionError
        If one is unknown or there is none.
    """
    names = ", ".join(repr(strategy.value) for strategy in Strategy)
    given = [strategies] if isinstance(strategies, str) else list(strategies)
    if not given:
        raise OptionError(f"strategies is empty; give at least one of {names}")
    try:
        return frozenset(Strategy(strategy) for strategy in given)
    except ValueError as error:
        raise OptionError(f"strategies is {given!r}; choose from {names}") from error


def _keep(ios: CompiledModel, plain: CompiledModel, evidence: _Evidence) -> CompiledModel:
    """The winner with its report: IOS only if it beats sequential order beyond the noise."""
    speedup = evidence.comparison.speedup("ios", over="sequential")
    by = f"{speedup.ratio:.3f} times as fast ({speedup.low:.3f} to {speedup.high:.3f})"
    if ios.schedule.stages == plain.schedule.stages:
        kept, name, reason = plain, "sequential", "the search found nothing faster"
    elif speedup.verdict is Verdict.WINS:
        kept, name, reason = ios, "ios", f"{by} as sequential order"
    else:
        kept, name = plain, "sequential"
        reason = f"IOS does not beat the noise: {by} as sequential order"
    return replace(kept, tune_report=evidence.report(kept, name, reason))


@dataclass(frozen=True, slots=True)
class _Evidence:
    """What one tuning gathered."""

    prices: KernelPrices
    found: SearchResult
    comparison: Comparison
    clock: PhaseClock

    def report(self, kept: CompiledModel, name: str, reason: str) -> TuneReport:
        counters = self.prices.counters
        concurrent, merged = stage_counts(kept.schedule)
        extraction = self.prices.runner.built.extraction
        return TuneReport(
            kept=name,
            reason=reason,
            coverage=extraction.coverage.as_text(),
            operators=len(kept.graph),
            stages=len(kept.schedule.stages),
            concurrent_stages=concurrent,
            merged_stages=merged,
            blocks=len(self.found.blocks),
            states=self.found.states,
            transitions=self.found.transitions,
            stages_possible=self.found.distinct_stages,
            stages_priced=self.found.priced,
            measured=counters.priced,
            from_database=counters.from_database,
            predicted_ns=self.found.latency_ns,
            predicted_sequential_ns=self.found.sequential_ns,
            speedup=self.comparison.speedup("ios", over="sequential"),
            comparison=self.comparison,
            arena_bytes=kept.plan.arena_bytes,
            phase_s=dict(self.clock.phase_s),
            notes=(
                *kept.notes,
                *self.found.notes,
                *self.prices.notes,
                *self.comparison.notes,
            ),
        )


def _compare(
    ios: CompiledModel, plain: CompiledModel, options: CompareOptions | None
) -> Comparison:
    inputs = sample_inputs(plain.plan, plain.kernels.staged.params)
    with plain.executor() as sequential, ios.executor() as winner:
        for name, value in inputs.items():
            sequential.set_input(name, value)
            winner.set_input(name, value)
        return compare(
            {"sequential": sequential.time_ns, "ios": winner.time_ns},
            options=options,
            ping_pong_ns=winner.ping_pong_ns,
        )


def _ending_rule(endings: EndingRule | str) -> EndingRule:
    try:
        return EndingRule(endings)
    except ValueError as error:
        names = " or ".join(repr(rule.value) for rule in EndingRule)
        raise OptionError(f"endings is {endings!r}; give {names}") from error


def _require_lanes(lanes: int | None) -> int:
    cores = default_lanes()
    if lanes is None:
        return cores
    if not isinstance(lanes, int) or isinstance(lanes, bool) or not 1 <= lanes <= cores:
        raise OptionError(
            f"lanes is {lanes!r}, but this process may use {cores} cores; give 1 to {cores}"
        )
    return lanes


def _require_budget(time_budget_s: float | None) -> None:
    if time_budget_s is not None and not (
        isinstance(time_budget_s, int | float) and time_budget_s > 0
    ):
        raise OptionError(
            f"time_budget_s is {time_budget_s!r}; give seconds above 0, or None for no limit"
        )
