"""Searches with measured prices: what ``tune``, the comparisons and the pass share.

Operators are priced first, then whole networks decide which of them idle lanes help with, then the
search asks for the prices of stages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import MappingProxyType

from tvm_ios.compile.model import hand_over_of, lower_schedule, widest_stage
from tvm_ios.core.schedule import InterOpSchedule
from tvm_ios.cost.known_choices import BuildChoice
from tvm_ios.cost.profile_key import digest_of
from tvm_ios.measure.compare import CompareOptions
from tvm_ios.measure.machine_mode import ModeOptions
from tvm_ios.profile.prices import SLOWEST_HOP_NS, KernelPrices
from tvm_ios.profile.race import race, race_s
from tvm_ios.report.tune_report import Contestant
from tvm_ios.search.baselines import greedy_schedule, sequential_schedule
from tvm_ios.search.ios import search_ios
from tvm_ios.search.list_schedule import list_schedule
from tvm_ios.search.list_search import ListOptions
from tvm_ios.search.options import SearchOptions
from tvm_ios.search.result import SearchProgress, SearchResult
from tvm_ios.support.progress import PhaseClock
from tvm_ios.support.time_budget import TimeBudget

__all__ = [
    "FoundSchedules",
    "fastest_list",
    "find_schedules",
    "list_from",
    "resumable",
    "search_schedule",
    "settle_splits",
]

SPLIT_RACE = CompareOptions(rounds=9, min_repeat_ms=2.0, mode=ModeOptions(patience_s=5.0))
LIST_SEEDS = range(4)
CLEARLY_FASTER = 1.02
BUSY = "while the machine was in its slow mode"


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundSchedules:
    """Schedules of one build, found with measured prices."""

    schedules: Mapping[str, InterOpSchedule]
    """Schedules by contestant: sequential and greedy order, one of each search, then lists."""
    searches: Mapping[str, SearchResult]
    """Results of the searches, by name."""
    sequential_ns: int
    """Sum of the prices of all operators, in nanoseconds: about what a run takes."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader ought to know of the searches."""
        return tuple(
            dict.fromkeys(note for found in self.searches.values() for note in found.notes)
        )

    def without_repetitions(self) -> dict[str, InterOpSchedule]:
        """By contestant; one with the stages of sequential order need not race against it.

        Unless it has home lanes, or other libraries compute.
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


def find_schedules(
    prices: KernelPrices,
    limits: Mapping[str, SearchOptions],
    clock: PhaseClock | None = None,
    *,
    lists: Mapping[str, str] = MappingProxyType({}),
    time_budget: float | None = None,
    budget: TimeBudget | None = None,
) -> FoundSchedules:
    """Price a build's operators, settle which of them are split, and search its schedules.

    After Ctrl-C all prices so far are kept, and a note on the exception says how to go on.

    Parameters
    ----------
    prices
        Prices of the build's stages.
    limits
        A search for each entry, by contestant.
    clock
        Told how far the searches are.
    lists
        A list for each entry, by contestant: made from the schedule of the search named there.
    time_budget
        Seconds for each of the searches, after which the best schedule so far is taken.
    budget
        Of the whole call, in place of ``time_budget``; time for a race is set aside.
    """
    searches: dict[str, SearchResult] = {}
    with resumable(prices):
        settle_splits(prices)
        reserve_s = 0.0 if budget is None else race_s(sum(prices.operator_ns))
        for name, options in limits.items():
            left = TimeBudget(time_budget) if budget is None else budget
            searches[name] = search_schedule(
                prices, options, clock, budget=left, reserve_s=reserve_s
            )
    schedules = {
        Contestant.SEQUENTIAL.value: sequential_schedule(prices.graph),
        Contestant.GREEDY.value: greedy_schedule(prices.graph),
        **{name: found.schedule for name, found in searches.items()},
    }
    for name, begun in lists.items():
        # Streams share one GPU, and prices of operators do not say how: a list gets as many as a
        # stage of the search has groups, which is known to pay.
        helps, lanes = prices.runner.idle_lanes_help, prices.runner.lanes
        lanes = lanes if helps else min(lanes, widest_stage(schedules[begun]))
        hurry = budget is not None and not budget.allows(reserve_s)
        seeds = range(1) if hurry else LIST_SEEDS
        with resumable(prices):
            listed = fastest_list(prices, schedules[begun], lanes=lanes, seeds=seeds)
        if listed.num_home_lanes > 1:
            schedules[name] = listed
    annotated = {name: prices.annotate(schedule) for name, schedule in schedules.items()}
    if prices.fastest_library:
        # What a network does to caches may favour the kernels that lost alone.
        annotated[Contestant.OWN_KERNELS.value] = replace(
            annotated[Contestant.SEQUENTIAL.value], libraries=(), unsplit=()
        )
    return FoundSchedules(
        schedules=annotated,
        searches=searches,
        sequential_ns=sum(prices.operator_ns),
    )


def settle_splits(prices: KernelPrices) -> None:
    """Price the operators, then let whole networks decide which of them idle lanes help with.

    Sequential order is timed three times: with the operators that gain by themselves split, with
    all of them, and with none. The first is kept unless another is clearly faster. What was chosen
    on a quiet machine is kept, and with it the keys of all prices that follow.
    """
    prices.price_operators()
    built, lanes = prices.runner.built, prices.runner.lanes
    if lanes == 1 or not prices.runner.idle_lanes_help:
        return
    question = f"operators on one lane in {prices.identity}"
    # A choice of busy times holds while times are busy: with another one, prices would have other
    # keys, and all would be measured anew.
    busy = prices.runner.ping_pong_ns() > SLOWEST_HOP_NS
    known = prices.choices.known(question)
    if known is None and busy:
        known = prices.choices.known(f"{question}, {BUSY}")
    if known is not None and set(known.operators) <= set(range(len(prices.graph))):
        prices.keep_whole(known.operators)
        return
    choices = {
        "by price": prices.unsplit,
        "all split": (),
        "none split": tuple(range(len(prices.graph))),
    }
    in_order = prices.annotate(sequential_schedule(prices.graph))
    models = {
        name: lower_schedule(built, replace(in_order, unsplit=unsplit), lanes=lanes)
        for name, unsplit in choices.items()
    }
    comparison = race(models, options=SPLIT_RACE, session=prices.runner.session)
    first, *others = choices
    best = min(others, key=comparison.median_ns)
    kept = best if comparison.speedup(best, over=first).low > CLEARLY_FASTER else first
    prices.keep_whole(choices[kept])
    prices.choices.keep(
        question if comparison.is_quiet else f"{question}, {BUSY}",
        BuildChoice(kept=kept, notes=(), certain=True, operators=prices.unsplit),
    )


def fastest_list(
    prices: KernelPrices, start: InterOpSchedule, *, lanes: int, seeds: Sequence[int]
) -> InterOpSchedule:
    """The fastest of a few lists made from a schedule, which differ in their seeds only.

    They are about as long as simulated, but on lanes some are 4 % faster than others. Where merges
    would have to be compiled for each, and on a GPU, the shortest is believed. Which seed it was is
    kept like a price, as :func:`settle_splits` keeps its choice.
    """
    digest = digest_of(prices.annotate(start).to_json())
    question = f"seed of a list for {lanes} lanes from {digest} with {prices.identity}"
    known = prices.choices.known(question)
    numbers = [seed for seed in seeds if known is None or known.kept == str(seed)] or seeds
    lists = {
        seed: prices.annotate(list_from(prices, start, lanes=lanes, seed=seed)) for seed in numbers
    }
    distinct = {(each.stages, each.home_lanes): seed for seed, each in reversed(lists.items())}
    merged = any(stage.is_merge for stage in start.stages)
    if len(distinct) == 1 or merged or not prices.runner.idle_lanes_help:
        kept, certain = min(lists, key=lambda seed: lists[seed].latency_ns or 0), True
    else:
        models = {
            str(seed): lower_schedule(prices.runner.built, lists[seed], lanes=prices.runner.lanes)
            for seed in sorted(distinct.values())
        }
        comparison = race(models, options=SPLIT_RACE, session=prices.runner.session)
        kept, certain = int(min(models, key=comparison.median_ns)), comparison.is_quiet
    if len(numbers) > 1:
        prices.choices.keep(question, BuildChoice(kept=str(kept), notes=(), certain=certain))
    return lists[kept]


def list_from(
    prices: KernelPrices, start: InterOpSchedule, *, lanes: int, seed: int = 0
) -> InterOpSchedule:
    """A list made from a schedule, with prices of single operators and of its merges.

    The operators must have been priced, as :func:`settle_splits` does.
    """
    return list_schedule(
        prices.graph,
        prices.operator_times(start),
        lanes=lanes,
        hand_over=hand_over_of(prices.runner.built.prepared.target),
        start=start,
        options=ListOptions(seed=seed),
    )


@contextmanager
def resumable(prices: KernelPrices) -> Iterator[None]:
    """Save prices on the way out; after Ctrl-C a note on the exception says how to go on."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        prices.save()
        counters = prices.counters
        interrupt.add_note(
            f"{counters.priced - counters.unsaved} measured prices are kept in "
            f"{prices.database_path}; do the same again to go on from there"
        )
        raise
    prices.save()


def search_schedule(
    prices: KernelPrices,
    options: SearchOptions,
    clock: PhaseClock | None = None,
    *,
    budget: TimeBudget,
    reserve_s: float = 0.0,
) -> SearchResult:
    """Search with measured prices, telling the clock how far it is.

    Parameters
    ----------
    clock
        Told after every batch of prices.
    budget
        When it is spent, the best schedule found so far is taken.
    reserve_s
        Seconds of it to leave for what comes after.
    """

    def report(step: SearchProgress) -> None:
        if clock is not None:
            clock.say(
                f"block {step.block + 1} of {step.num_blocks}, at least "
                f"{step.bound_ns / 1e6:.3f} ms, {prices.counters.priced} measured, "
                f"{prices.counters.from_database} known",
                done=step.priced,
            )

    return search_ios(
        prices.graph,
        prices,
        options.completed(measured=True),
        progress=report,
        should_stop=lambda: not budget.allows(reserve_s),
    )
