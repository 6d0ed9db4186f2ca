"""Interleaved races between contestants, with verdicts that say what beats the noise.

Races settle whether a schedule wins over the sequential one, and make every number of the
benchmarks. Only ratios within a round count: a disturbance that is longer than a round slows all
contestants alike.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from tvm_ios.errors import CostError, OptionError, OutOfTimeError
from tvm_ios.measure.comparison import (
    LEAST_ROUNDS,
    CompareRound,
    Comparison,
    Speedup,
    Verdict,
    least_rounds,
    used_rounds,
)
from tvm_ios.measure.machine_mode import MOST_WAITED, ModeOptions, ModeWatch, Patience
from tvm_ios.measure.robust import median_interval
from tvm_ios.measure.sampling import Cell, TimedRuns, explained, timed_sample
from tvm_ios.support.time_budget import TimeBudget
from tvm_ios.support.whole_number import require_flags, require_whole_fields

__all__ = [
    "LONG_RUN_NS",
    "CompareOptions",
    "CompareRound",
    "Comparison",
    "RaceTooLongError",
    "Speedup",
    "Verdict",
    "compare",
]

_LOG = logging.getLogger(__name__)

EARLY_LOOKS = (10, 15, 20)
"""Numbers of rounds after which a race may end."""
EARLY_CONFIDENCE = 0.995
"""Confidence of the intervals at those rounds. Several looks are fooled more often than one: three
looks at 99.5 % and one at 95 % are wrong in at most 6.5 % of races between equals."""
LOST = 1.15
"""Ratio to the fastest from which on a contestant is not timed any more, if it has it in each of
the first rounds, as many as an interval needs at least."""
FAR_OFF = 4
"""Ratio to the fastest from which on no contestant is timed any more, if it has it in each of the
first rounds; where all others have it, a race that may end early is over."""

TRIES = 3
"""Most samples of a contestant in a round, while each of them is disturbed. After that the round is
dropped: ratios are of samples that were taken soon after each other."""
SHORTEST_NS = 1_000_000
"""Nanoseconds down to which samples become shorter, by half after each round with a disturbed one:
most samples of 1 ms fit into a time slice, and none of 5 ms do."""
ALONE_S = 1.0
"""Seconds that a race which chooses may wait for a quiet machine where it has no rivals."""
LATE_S = 1.0
"""Seconds that a race may be late for its least rounds, without which all others prove nothing."""

LONG_RUN_NS = 30_000_000
"""Nanoseconds of a run that needs no warm-up in a race that chooses. It replaces in its first per
cent what the others left in the caches: first runs of Inception V3 (80 ms) took 0.992 to 1.001
times as long as second ones, those of SqueezeNet (13 ms) 1.014 (``lab/results/tune_time/``).
Near contestants are timed alike, so a long one beside a shorter one needs it, unless it is far
off."""


class RaceTooLongError(OutOfTimeError):
    """A race whose least rounds would take longer than the time left."""

    def __init__(self, needed_s: float, within_s: float) -> None:
        super().__init__(
            f"the least rounds of the race take {needed_s:.3g} s, and {max(0.0, within_s):.3g} s "
            "are left"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareOptions:
    """Options of a race: how contestants are timed.

    Raises
    ------
    OptionError
        If a value makes no sense.
    """

    warmup: int = 1
    """Runs before each sample that do not count: they refill caches the others evicted. They are
    left out for a contestant whose run takes 30 ms or more and four times as long as the fastest,
    and by a race that may end early where every contestant's run takes 30 ms or more."""
    number: int = 1
    """Fewest runs in a sample."""
    rounds: int = 25
    """Number of rounds that count, each with one sample of every contestant. One that is four times
    as slow as the fastest in each of the first six is in no other."""
    longest_s: float = 5.0
    """Seconds after which a race that may end early takes no more rounds, once it has ten (or six
    where a round alone takes that long). Races of builds may take four times as long, if the time
    budget allows; races of benchmarks take all rounds."""
    min_repeat_ms: float = 5.0
    """Shortest sample in milliseconds; ``number`` grows until it is reached."""
    confidence: float = 0.95
    """Confidence of the interval that has to exclude 1 before anything wins or loses."""
    mode: ModeOptions = field(default_factory=ModeOptions)
    reuse: bool = True
    """True takes the race that ends a call of ``tune`` from an earlier call, if nothing it depends
    on has changed. False races anew, and keeps the new race."""

    def __post_init__(self) -> None:
        require_flags(self)
        require_whole_fields(self, warmup=0, number=1, rounds=LEAST_ROUNDS)
        if not (math.isfinite(self.min_repeat_ms) and self.min_repeat_ms >= 0):
            raise OptionError(
                f"min_repeat_ms is {self.min_repeat_ms}; give milliseconds, 0 for no minimum"
            )
        if not (math.isfinite(self.longest_s) and self.longest_s > 0):
            raise OptionError(f"longest_s is {self.longest_s}; give seconds above 0")
        # It refuses a confidence that so many rounds cannot give.
        median_interval([1.0] * self.rounds, self.confidence)


def compare(
    contestants: Mapping[str, TimedRuns],
    *,
    options: CompareOptions | None = None,
    until_decided: bool = False,
    budget: TimeBudget | None = None,
    ping_pong_ns: Callable[[], float] | None = None,
    waits: Sequence[Callable[[], int | None]] = (),
    earlier: Sequence[CompareRound] = (),
    patience: Patience | None = None,
    clock_ns: Callable[[], int] = time.perf_counter_ns,
    sleep_s: Callable[[float], None] = time.sleep,
) -> Comparison:
    """Time contestants in interleaved rounds.

    Parameters
    ----------
    until_decided
        True ends the race once the fastest contestant is known, leaves out the warm-up of long
        runs, and stops timing contestants that have lost beyond doubt. The first one is timed on,
        unless it is far off, since reports give times of the others as ratios over it. False stops
        timing those that are far off.
    budget
        Time budget of the call. A race ends before the first round that would not end in time, with
        one round at least. It may be a second late for as many as an interval needs, since fewer
        prove nothing.
    earlier
        Undisturbed rounds of the same race, begun by an earlier call: this one goes on from there.
    waits
        The ``waited_ns`` of each pool of lanes that runs contestants; none where nobody counts.
    ping_pong_ns, patience, clock_ns, sleep_s
        As for :class:`~tvm_ios.measure.machine_mode.ModeWatch`; without a ping-pong no round is
        known to be slow.
    """
    if not contestants:
        raise OptionError("nothing to compare; give at least one contestant")
    options, budget = options or CompareOptions(), budget or TimeBudget()
    names = tuple(contestants)
    cells = [Cell(_explained(name, contestants[name]), options.number) for name in names]
    mode = options.mode
    if len(cells) == 1 and until_decided:
        mode = replace(mode, patience_s=min(mode.patience_s, ALONE_S))
    watch = ModeWatch(
        ping_pong_ns or (lambda: 0.0),
        mode,
        waited_ns=partial(_waited_together_ns, waits),
        patience=patience,
        budget=budget,
        clock_ns=clock_ns,
        sleep_s=sleep_s,
    )
    first, *others = cells
    run_ns = [_first_look_ns(first, options)]
    needed_s = least_rounds(options.confidence) * len(cells) * run_ns[0] / 1e9
    if others and not budget.allows(needed_s):
        raise RaceTooLongError(needed_s, budget.spare_s)
    run_ns += [_first_look_ns(cell, options) for cell in others]
    needs_none = _is_warm if until_decided else _is_far_off_and_warm
    warmups = [0 if needs_none(ns, min(run_ns)) else options.warmup for ns in run_ns]
    rivals = partial(_rivals if until_decided else _near, names, options.confidence)
    rounds, counted = _take_rounds(
        cells, warmups, options, watch, budget, clock_ns, rivals, earlier, until_decided
    )
    found = Comparison(
        names=names,
        rounds=tuple(rounds),
        confidence=options.confidence,
        notes=(),
        wanted=counted,
    )
    return replace(found, notes=_notes(found))


def _waited_together_ns(waits: Sequence[Callable[[], int | None]]) -> int | None:
    told = [waited_ns() for waited_ns in waits]
    known = [waited_ns for waited_ns in told if waited_ns is not None]
    return sum(known) if told and len(known) == len(told) else None


def _first_look_ns(cell: Cell, options: CompareOptions) -> float:
    """Nanoseconds of a warm run; sets the number of runs in a sample."""
    cell.time_ns(1)
    return timed_sample(cell, options.min_repeat_ms * 1e6)


def _is_warm(run_ns: float, shortest_ns: float) -> bool:
    """True if a contestant needs no warm-up beside one whose run is the shortest."""
    return shortest_ns >= LONG_RUN_NS or _is_far_off_and_warm(run_ns, shortest_ns)


def _is_far_off_and_warm(run_ns: float, shortest_ns: float) -> bool:
    """True if a contestant is far off and needs no warm-up beside one whose run is the shortest."""
    return run_ns >= max(LONG_RUN_NS, FAR_OFF * shortest_ns)


def _so_far(
    names: tuple[str, ...], confidence: float, rounds: Sequence[CompareRound]
) -> Comparison:
    """Race until now, with the confidence of early looks."""
    # As many have to be fast as at the end, not as many as the early confidence needs.
    used = used_rounds(rounds, confidence)
    return Comparison(names=names, rounds=used, confidence=EARLY_CONFIDENCE, notes=())


def _near(
    names: tuple[str, ...], confidence: float, rounds: Sequence[CompareRound]
) -> frozenset[int]:
    """Places of the contestants to time further where all are timed but those far off."""
    so_far = _so_far(names, confidence, rounds)
    best = so_far.fastest()
    return frozenset(
        place
        for place, name in enumerate(names)
        if name in so_far.rivals and min(so_far.ratios(best, over=name)) <= FAR_OFF
    )


def _rivals(
    names: tuple[str, ...], confidence: float, rounds: Sequence[CompareRound]
) -> frozenset[int]:
    """Places of the contestants to time further; none when the race is decided."""
    so_far = _so_far(names, confidence, rounds)
    best = so_far.fastest()
    # Rounds taken when patience had run out are counted, and out of use once enough are fast.
    looked = len(so_far.used_rounds)
    far_off = set()
    if looked >= EARLY_LOOKS[0]:
        if so_far.is_decided():
            return frozenset()
        lost = {
            name
            for name in so_far.rivals
            if name != best and so_far.speedup(best, over=name).verdict is Verdict.WINS
        }
    else:
        least = {name: min(so_far.ratios(best, over=name)) for name in names if name != best}
        far_off = {name for name, ratio in least.items() if ratio > FAR_OFF}
        if len(far_off) == len(names) - 1 > 0:
            return frozenset()
        lost = {name for name, ratio in least.items() if ratio > LOST}
    left = frozenset(
        place
        for place, name in enumerate(names)
        if name in so_far.rivals and name not in far_off and (place == 0 or name not in lost)
    )
    dropped = [name for name in so_far.rivals if names.index(name) not in left]
    if dropped:
        _LOG.info(
            "not timed any more after %d rounds, since %s is faster: %s",
            len(rounds),
            best,
            ", ".join(dropped),
        )
    return left


def _take_rounds(
    cells: Sequence[Cell],
    warmups: Sequence[int],
    options: CompareOptions,
    watch: ModeWatch,
    budget: TimeBudget,
    clock_ns: Callable[[], int],
    rivals: Callable[[Sequence[CompareRound]], frozenset[int]],
    earlier: Sequence[CompareRound],
    until_decided: bool,
) -> tuple[list[CompareRound], int]:
    """Rounds of the race, and how many of them counted when they were taken."""
    rounds = list(earlier)
    counted = len(rounds)
    timed = frozenset(range(len(cells)))
    if earlier:
        timed = frozenset(place for place in timed if earlier[-1].run_ns[place] is not None)
    longest_ns = options.longest_s * 1e9
    end_ns = clock_ns() + longest_ns
    least = least_rounds(options.confidence)
    looks = {least, *(count for count in EARLY_LOOKS if count > least)}
    shortest_ns = options.min_repeat_ms * 1e6
    watch.look()
    while counted < options.rounds:
        patient, began_s = watch.patient, budget.spent_s
        order = [place for place in _order(len(cells), len(rounds)) if place in timed]
        # `patient` as it was before the round: the round that spends the last of it is dropped.
        with watch.round() as round_:
            run_ns, waited, tries = _take_round(cells, order, warmups, shortest_ns, watch)
        slow = round_.slow or waited > MOST_WAITED
        rounds.append(
            CompareRound(
                run_ns=run_ns,
                ping_pong_ns=round_.ping_pong_ns,
                slow=slow,
                waited=waited,
                stolen=round_.stolen,
            )
        )
        if (waited > MOST_WAITED or tries > len(order)) and shortest_ns > SHORTEST_NS:
            shortest_ns = max(SHORTEST_NS, shortest_ns / 2)
            for cell in cells:
                cell.number = max(cell.least_number, math.ceil(cell.number / 2))
        counts = not (slow and patient)
        counted += counts
        if counts and counted in looks:
            timed = rivals(rounds)
        if counts and until_decided:
            # The longer a run, the more of what disturbs it is in every sample alike.
            is_long = sum(ns for ns in run_ns if ns is not None) >= longest_ns
            enough = max(least, 0 if is_long else EARLY_LOOKS[0])
            # Until six are fast, rounds that were dropped are among those in use.
            taken = min(counted, len(used_rounds(rounds, options.confidence)))
            # What was taken again is no reason to end with less.
            if not timed or (clock_ns() >= end_ns + watch.spent_ns and taken >= enough):
                break
        round_s = budget.spent_s - began_s
        ends = counted >= least or not budget.allows((least - counted) * round_s, late_s=LATE_S)
        if ends and not budget.allows(round_s) and 0 < counted < options.rounds:
            budget.cut(f"a race of {len(cells)} had {counted} rounds of {options.rounds}")
            break
    return rounds, counted


def _take_round(
    cells: Sequence[Cell],
    order: Sequence[int],
    warmups: Sequence[int],
    shortest_ns: float,
    watch: ModeWatch,
) -> tuple[tuple[float | None, ...], float, int]:
    """Nanoseconds of a run of each contestant, the largest share that one waited, and all tries."""
    run_ns: list[float | None] = [None] * len(cells)
    waited, tries = 0.0, 0
    for place in order:
        cell = cells[place]
        for _ in range(TRIES):
            tries += 1
            if warmups[place]:
                cell.time_ns(warmups[place])
            run_ns[place] = timed_sample(cell, shortest_ns, watch)
            if not watch.is_disturbed(cell.waited, cell.elapsed_ns) or not watch.patient:
                break
            watch.rest()
        waited = max(waited, cell.waited)
    return tuple(run_ns), waited, tries


def _order(count: int, round_number: int) -> list[int]:
    """Order of contestants in a round, rotated and reversed by turns: none has a fixed place."""
    shift = round_number // 2 % count
    order = [(place + shift) % count for place in range(count)]
    return order[::-1] if round_number % 2 else order


def _notes(found: Comparison) -> tuple[str, ...]:
    disturbance = found.disturbance
    if not disturbance:
        return ()
    if found.is_quiet:
        return (f"{disturbance}; these do not count",)
    advice = "gains from several cores look smaller than they are: measure again when it is quiet"
    return (f"{disturbance}; too few others were left, so some of them count, and {advice}",)


def _explained(name: str, time_ns: TimedRuns) -> TimedRuns:
    """Wrapped contestant, whose failures name it."""

    def checked(number: int) -> int:
        with explained(f"contestant {name!r} failed while it was timed"):
            elapsed_ns = time_ns(number)
        if elapsed_ns <= 0:
            raise CostError(
                f"contestant {name!r}: {number} runs took {elapsed_ns} ns; its clock must advance"
            )
        return elapsed_ns

    return checked
