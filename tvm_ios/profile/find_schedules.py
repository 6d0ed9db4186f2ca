"""Searches of schedules with measured prices, which ``tune``, comparisons and the pass share.

Operators were priced before, and their makers chosen. The search asks for prices of stages.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from tvm_ios.compile.built_model import BuiltModel
from tvm_ios.compile.plan_of import widest_stage
from tvm_ios.core.schedule import InterOpSchedule, Stage
from tvm_ios.cost.measured import MeasureCounters
from tvm_ios.devices.protocol import MeasuringSession
from tvm_ios.errors import OutOfTimeError
from tvm_ios.measure.compare import CompareOptions
from tvm_ios.plan.parts.deadlines import due_operators
from tvm_ios.profile.in_time.time_plan import LISTS_S, set_aside_for_end, unsearched
from tvm_ios.profile.list_choice import LIST_SEEDS, fastest_list
from tvm_ios.profile.measured_kernels import MeasuredKernels
from tvm_ios.profile.measuring_call import MeasuringCall
from tvm_ios.profile.operator_prices import TVM
from tvm_ios.profile.prices import StagePrices
from tvm_ios.profile.race import VARIANT_RACE, race_s
from tvm_ios.profile.stage_kernels import StageKernels
from tvm_ios.profile.way_choice import settled_prices, with_choice
from tvm_ios.report.slow_products import slow_products
from tvm_ios.report.tune_report import Contestant
from tvm_ios.search.baselines import due_first_schedule, greedy_schedule, sequential_schedule
from tvm_ios.search.ceiling import most_gain
from tvm_ios.search.ios import search_ios
from tvm_ios.search.options import SearchOptions
from tvm_ios.search.result import SearchProgress, SearchResult
from tvm_ios.support.progress import PhaseClock
from tvm_ios.support.time_budget import Reserve, TimeBudget

__all__ = ["ScheduledBuild", "find_schedules", "schedule_build", "search_schedule"]

LEAST_GAIN_PERCENT = 1
"""Per cent of gain over sequential order, by prices, below which a schedule gets no race: the best
of thousands of noisy prices promises that much by noise."""
MOST_OWN = 2
"""Ratio of TVM's kernels to the chosen ones, by prices, above which they get no race as a network:
caches cost a network no more than that, and TVM's code for NHWC takes 40 times as long."""
LEAST_SEARCH_S = 0.5
"""Seconds below which no search is begun: its states alone may take as long."""
SETTLED = "sequential order, who computes each operator chosen by measuring, not raced"
"""Words on the second answer of a call."""

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledBuild:
    """A build with its schedules, and the prices that they were found with."""

    built: BuiltModel
    """Build that the schedules are for."""
    prices: StagePrices | None
    """Prices of operators and stages; None where the time budget had no time for them."""
    counters: MeasureCounters
    """Counts of all pricing."""
    schedules: Mapping[str, InterOpSchedule]
    """Schedules by contestant: sequential order, greedy order, one of each search, then lists."""
    searches: Mapping[str, SearchResult]
    """Results of the searches by name."""
    sequential_ns: int
    """Sum of the prices of all operators with idle lanes' help: about the time of a run."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes of all searches, each once, and those on the prices."""
        notes = dict.fromkeys(note for found in self.searches.values() for note in found.notes)
        if self.prices is None:
            return tuple(notes)
        slow = (
            slow_products(self.prices.graph, self.prices.alone_ns)
            if self.prices.kernels.runner.idle_lanes_help
            else ()
        )
        return (*notes, *self.prices.notes, *slow)

    def known_ns(self, schedule: InterOpSchedule) -> tuple[int | None, ...]:
        """Known prices of a schedule's stages in nanoseconds; empty where nothing was priced."""
        return () if self.prices is None else self.prices.known_ns(schedule)

    def without_repetitions(self) -> dict[str, InterOpSchedule]:
        """Schedules by contestant, without those that only repeat sequential order.

        A schedule with home lanes, or with other operator libraries, is no repetition.
        """
        first, *others = self.schedules
        in_order = self.schedules[first]
        return {first: in_order} | {
            name: schedule
            for name in others
            if (schedule := self.schedules[name]).stages != in_order.stages
            or schedule.home_lanes
            or schedule.libraries != in_order.libraries
        }


def schedule_build(
    built: BuiltModel, session: MeasuringSession, call: MeasuringCall, search: SearchOptions
) -> ScheduledBuild:
    """Prices and schedules of a build within a call of ``tune``, with the records in force.

    Where the time budget is over before the operators are priced, there is sequential order alone.
    """
    if call.budget.is_over:
        return _unpriced(built, call)

    def tell(counters: MeasureCounters) -> None:
        call.clock.say(f"operators, {counters.priced} ways of them measured")

    with (
        # First: lanes are bound to the cores that the stage is granted.
        call.stage("search", call.to_profile) as granted,
        session.in_stage(granted.address),
        StageKernels(built, lanes=call.lanes, session=session, database=call.database) as runner,
    ):
        kernels = MeasuredKernels(
            runner, database=call.database, options=call.measure, budget=call.budget
        )
        try:
            predict = call.measure.predict and search.list_only
            prices = settled_prices(kernels, predict=predict, on_batch=tell)
            if call.answers.told and not call.budget.is_over:
                call.answers.tell(with_choice(runner, prices.choice), SETTLED, call.clock)
            first = call.answers.first
            found = find_schedules(
                prices,
                {Contestant.IOS.value: search},
                call.clock,
                call.budget,
                lists={Contestant.IOS_LIST.value: Contestant.IOS.value},
                compare=call.compare,
                made_s=0.0 if first is None else first.made_s,
                due_ns=due_operators(
                    built.kernels.staged.graph, call.answers.parts, search.deadlines_ms
                ),
            )
        except OutOfTimeError:
            found = _unpriced(built, call, kernels.counters)
    told = kernels.counters
    _LOG.info("prices: %d measured, %d known", told.priced, told.from_database)
    return replace(found, counters=told)


def _unpriced(
    built: BuiltModel, call: MeasuringCall, counters: MeasureCounters | None = None
) -> ScheduledBuild:
    """Sequential order of a build without prices, as the first answer of the call has it."""
    call.budget.cut("operators were not priced, and no other order was tried")
    order, first = sequential_schedule(built.graph), call.answers.first
    run_ns = 0 if first is None else first.run_ns
    return ScheduledBuild(
        built=built,
        prices=None,
        counters=counters or MeasureCounters(),
        schedules={Contestant.SEQUENTIAL.value: order},
        searches={Contestant.IOS.value: unsearched(built.graph, run_ns)},
        sequential_ns=run_ns,
    )


def find_schedules(
    prices: StagePrices,
    limits: Mapping[str, SearchOptions],
    clock: PhaseClock | None = None,
    budget: TimeBudget | None = None,
    *,
    lists: Mapping[str, str] = MappingProxyType({}),
    compare: CompareOptions | None = None,
    made_s: float = 0.0,
    due_ns: Mapping[int, int] = MappingProxyType({}),
) -> ScheduledBuild:
    """Search the schedules of a build.

    After Ctrl-C all prices so far are kept, and a note on the exception says how to go on.

    Parameters
    ----------
    limits
        Options of each search, by contestant.
    clock
        Gets the progress of the searches.
    budget
        Time of the whole call. Some is set aside for lists and a race; a search that used up an
        equal part of the rest takes its best schedule so far.
    lists
        For each list, the search whose schedule it is made from; both by contestant.
    compare
        Options of the race that time is set aside for.
    made_s
        Seconds to compile each of its contestants, about.
    due_ns
        Nanoseconds from the start of a run until which operators should be done, where any: lists
        have them first, and are made even where they cannot make a run shorter.

    Raises
    ------
    OutOfTimeError
        If the budget is over before the operators of sequential order are priced.
    """
    results: dict[str, SearchResult] = {}
    budget, compare = budget or TimeBudget(), compare or CompareOptions()
    with prices.kernels.resumable():
        singles = [Stage(((index,),)) for index in range(len(prices.graph))]
        sequential_ns = sum(prices.price(prices.graph, singles))
        at_most = _most_gain(prices)
        hopeless = {name for name, options in limits.items() if not options.is_worth(at_most)}
        pays = len(hopeless) < len(limits)
        if pays:
            set_aside_for_end(budget, sequential_ns, compare, made_s=made_s)
        for name, options in limits.items():
            part = budget.part(len(limits) - len(results))
            if not part.allows(LEAST_SEARCH_S):
                budget.cut("no stages were searched")
                results[name] = unsearched(prices.graph, sequential_ns)
                continue
            wanted = options.without_concurrency() if name in hopeless else options
            found = search_schedule(prices, wanted, clock, budget=part)
            note = f"stages were not searched: by prices they gain at most {at_most:.3f} times"
            notes = (*found.notes, note) if name in hopeless else found.notes
            results[name] = replace(found, notes=notes)
    budget.set_aside(Reserve.LISTS, 0.0)
    in_order = sequential_schedule(prices.graph)
    searches = {
        name: _worth_a_race(result, in_order, sequential_ns) for name, result in results.items()
    }
    schedules = {
        Contestant.SEQUENTIAL.value: in_order,
        # Where prices are predicted one race has to do, of few.
        Contestant.GREEDY.value: greedy_schedule(prices.graph)
        if pays and not prices.is_predicted
        else in_order,
        **{name: found.schedule for name, found in searches.items()},
    }
    if due_ns:
        schedules[Contestant.DUE_FIRST.value] = due_first_schedule(prices.graph, due_ns)
    for name, begun in lists.items():
        if begun in hopeless and not due_ns:
            continue
        if budget.is_over:
            budget.cut("no list was made")
            break
        # Streams share one GPU, and prices of operators do not say how: a list gets as many as a
        # stage of the search has groups, which is known to pay.
        start = results[begun].schedule
        runner = prices.kernels.runner
        helps, lanes = runner.idle_lanes_help, runner.lanes
        lanes = lanes if helps else min(lanes, widest_stage(start))
        seeds_s = LISTS_S * len(LIST_SEEDS) + race_s(sequential_ns, VARIANT_RACE)
        raced = budget.allows(seeds_s) and not prices.is_predicted
        seeds = LIST_SEEDS if raced else range(1)
        with prices.kernels.resumable():
            listed = fastest_list(prices, start, lanes=lanes, seeds=seeds, due_ns=due_ns)
        if listed.num_home_lanes > 1 or due_ns:
            schedules[name] = listed
    annotated = {name: prices.annotate(schedule) for name, schedule in schedules.items()}
    choice = prices.choice
    has_rivals = set(choice.makers) != {TVM} and not prices.is_predicted
    if has_rivals and choice.prices.own_ratio <= MOST_OWN:
        # What a network does to caches may favour the kernels that lost alone.
        annotated[Contestant.OWN_KERNELS.value] = replace(
            annotated[Contestant.SEQUENTIAL.value], libraries=(), unsplit=()
        )
    return ScheduledBuild(
        built=prices.kernels.runner.built,
        prices=prices,
        counters=prices.kernels.counters,
        schedules=annotated,
        searches=searches,
        sequential_ns=sequential_ns,
    )


def _most_gain(prices: StagePrices) -> float:
    """Bound on what concurrent stages and lists gain, as times as fast; infinite on a GPU."""
    runner = prices.kernels.runner
    if not runner.idle_lanes_help:
        return math.inf
    times = prices.operator_times(sequential_schedule(prices.graph))
    return most_gain(prices.graph, times, lanes=runner.lanes)


def search_schedule(
    prices: StagePrices,
    options: SearchOptions,
    clock: PhaseClock | None = None,
    *,
    budget: TimeBudget,
) -> SearchResult:
    """Search with measured prices, whose progress the clock gets after every batch of prices.

    When the budget is spent, the best schedule so far is taken.
    """

    def report(step: SearchProgress) -> None:
        if clock is not None:
            counters = prices.kernels.counters
            clock.say(
                f"block {step.block + 1} of {step.num_blocks}, at least "
                f"{step.bound_ns / 1e6:.3f} ms, {counters.priced} measured, "
                f"{counters.from_database} known",
                done=step.priced,
                share=step.block / step.num_blocks,
                best_ms=step.best_ns / 1e6,
            )

    return search_ios(
        prices.graph,
        prices,
        options.completed(measured=True),
        progress=report,
        should_stop=lambda: not budget.allows(0.0),
        hurried=budget.is_limited,
    )


def _worth_a_race(
    found: SearchResult, in_order: InterOpSchedule, sequential_ns: int
) -> SearchResult:
    """Search result, or sequential order with a note where the schedule is hardly shorter."""
    promising = found.latency_ns * 100 <= sequential_ns * (100 - LEAST_GAIN_PERCENT)
    if promising or found.schedule.stages == in_order.stages:
        return found
    note = (
        f"the best schedule found promises less than {LEAST_GAIN_PERCENT} % over sequential order, "
        "which is taken in its place"
    )
    return replace(
        found,
        schedule=replace(in_order, scheduler=found.schedule.scheduler, latency_ns=sequential_ns),
        latency_ns=sequential_ns,
        notes=(*found.notes, note) if found.latency_ns < sequential_ns else found.notes,
    )
