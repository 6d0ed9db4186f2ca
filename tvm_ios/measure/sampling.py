"""Sampling of several things in interleaved rounds, until each one's median is known.

Interleaving spreads a disturbance over everything that is compared. A sample whose lanes waited for
a core is dropped while patience lasts, as is a round in the machine's slow mode. Medians that are
still uncertain after ``repeat`` rounds are sampled on alone, so quiet stages stay cheap. A stage
that takes longer than its limit, where another way to do the same is faster, is sampled once if it
is long, else three times.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from statistics import median

from tvm_ios.errors import CostError, LostSessionError, OptionError
from tvm_ios.measure.machine_mode import ModeOptions, ModeWatch
from tvm_ios.measure.robust import median_error
from tvm_ios.support.time_budget import TimeBudget
from tvm_ios.support.whole_number import require_flags, require_whole_fields

__all__ = [
    "HOPELESS",
    "Cell",
    "MeasureOptions",
    "TimedRuns",
    "explained",
    "sample",
    "timed_sample",
]

TimedRuns = Callable[[int], int]
"""Function from a number of back-to-back runs to their nanoseconds."""

GROWTH = 1.618
"""Smallest growth of the runs in a sample that was too short; as in TVM's time evaluator."""
LARGEST_LEAD = 4
"""Tolerances that the fastest sample may lie below the median; normal noise stays within two."""
MOST_RUNS = 1000
"""Limit of runs in a sample, enough for a microsecond; shorter things need no exact price."""
LONGEST_SAMPLE = 10
"""Ratio to the shortest length above which a sample shrinks the runs of the next one."""
HOPELESS = 8
"""Ratio to another way to do the same from which on a long run is not timed again, if it has it in
its warm-up and in its first sample."""
LONG_SAMPLE_NS = 10_000_000
"""Nanoseconds of a run that is warm-up enough. Samples of shorter ones are cheap, and the time
slice of another process may be many times as long."""
LONGEST_SAMPLE_NS = 100_000_000
"""Nanoseconds of a run that contains the usual disturbances of a machine, as others do."""
LONG_LOOKS = 3
"""Samples of such a run that suffice if they agree; otherwise as many as others need."""
SHORT_LOOKS = 3
"""Samples above its limit, without a long warm-up, after which a thing is not timed again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureOptions:
    """Options of a measurement: how a stage is timed.

    The defaults price a stage of 20 to 100 microseconds in 6 to 10 ms: five samples of 1 ms, whose
    median stands two samples hit by another process. More follow, up to 15, where five leave the
    median uncertain by more than ``tolerance``.

    Raises
    ------
    OptionError
        If a value makes no sense.
    """

    warmup: int = 2
    """Runs before the first sample, which do not count; one that takes 10 ms is the last."""
    number: int = 1
    """Fewest runs in a sample."""
    repeat: int = 5
    """Fewest samples of a stage, one a round; the most for a stage of 100 ms or more."""
    min_repeat_ms: float = 1.0
    """Shortest sample in milliseconds; ``number`` grows until it is reached."""
    max_repeat: int = 15
    """Most samples of a stage whose median stays uncertain."""
    tolerance: float = 0.02
    """Standard error of the median, as a fraction of it, that is good enough; the fastest sample
    may lie four times as far below."""
    batch_size: int = 32
    """Number of stages measured and stored together: the most that a kill -9 can lose."""
    predict: bool = False
    """True predicts the times of operators on CPUs where no stages are searched (``list_only``),
    and measures those whose makers are closer than the errors of predictions."""
    mode: ModeOptions = field(default_factory=ModeOptions)
    """Thresholds of the machine's slow mode, and how long to wait."""
    wait_quiet_s: float = 0.0
    """Seconds that a call may wait, before it measures, until nobody else uses the cores."""

    def __post_init__(self) -> None:
        require_flags(self)
        require_whole_fields(self, warmup=0, number=1, repeat=1, batch_size=1)
        require_whole_fields(self, max_repeat=self.repeat)
        if not (math.isfinite(self.min_repeat_ms) and self.min_repeat_ms >= 0):
            raise OptionError(
                f"min_repeat_ms is {self.min_repeat_ms}; give milliseconds, 0 for no minimum"
            )
        if not (math.isfinite(self.tolerance) and self.tolerance > 0):
            raise OptionError(f"tolerance is {self.tolerance}; give a fraction above 0, as 0.02")
        if not (math.isfinite(self.wait_quiet_s) and self.wait_quiet_s >= 0):
            raise OptionError(
                f"wait_quiet_s is {self.wait_quiet_s}; give seconds, 0 for no waiting"
            )

    def looks(self, run_ns: float) -> tuple[int, int]:
        """Fewest samples that make a price of a run of this length, and the most."""
        if LONGEST_SAMPLE_NS <= run_ns < math.inf:
            return min(LONG_LOOKS, self.repeat), self.repeat
        return self.repeat, self.max_repeat


@dataclass(slots=True)
class Cell:
    """A stage or contestant that is measured, and its samples so far."""

    time_ns: TimedRuns
    number: int
    """Number of runs in the next sample."""
    failure: str = ""
    """Begin of the message where timing fails: what, and where; empty leaves errors alone."""
    fast_ns: list[float] = field(default_factory=list)
    """Nanoseconds of a run, one entry for each undisturbed sample."""
    slow_ns: list[float] = field(default_factory=list)
    """Nanoseconds of a run, one entry for each disturbed sample taken when patience had run out."""
    limit_ns: Callable[[], float] = lambda: math.inf
    """Nanoseconds above which no exact time is needed, since another way to do the same is
    faster."""
    warming_ns: float = math.inf
    """Nanoseconds of the last warm-up run, if that is as good as a sample; else infinity."""
    elapsed_ns: int = 0
    """Nanoseconds of the last sample."""
    waited: float = 0.0
    """Share of the last sample that a lane waited for a core."""
    least_number: int = field(init=False)

    def __post_init__(self) -> None:
        self.least_number = self.number

    def used_ns(self, repeat: int) -> list[float]:
        """Samples that count: the fast ones alone, if they are enough."""
        return self.fast_ns if len(self.fast_ns) >= repeat else self.fast_ns + self.slow_ns

    @property
    def least_ns(self) -> float:
        """Nanoseconds of the fastest run so far; infinity before the first."""
        return min(*self.fast_ns, *self.slow_ns, self.warming_ns, math.inf)

    @property
    def hopeless(self) -> bool:
        """True if always above the limit: in a long warm-up and a sample, or in three samples."""
        long = self.warming_ns < math.inf
        enough = len(self.fast_ns) + len(self.slow_ns) >= (1 if long else SHORT_LOOKS)
        return enough and self.limit_ns() < self.least_ns

    def complete(self, options: MeasureOptions) -> bool:
        """True if there are enough samples for a price."""
        least, _ = options.looks(self.least_ns)
        return len(self.used_ns(least)) >= least or self.hopeless

    def settled(self, options: MeasureOptions) -> bool:
        """True if more samples would not pay."""
        if self.hopeless:
            return True
        least, most = options.looks(self.least_ns)
        used = self.used_ns(least)
        if len(used) < least:
            return False
        # Slow samples that do not count cost as much time as others, and may be all that come.
        taken = max(len(used), len(self.slow_ns))
        return taken >= most or _certain(used, options.tolerance)


def _certain(run_ns: Sequence[float], tolerance: float) -> bool:
    """True if the median of these times can be trusted.

    Other processes only ever add time. So a median far above the fastest sample may be of disturbed
    samples, however well these agree; more samples will tell.
    """
    near = (1 - LARGEST_LEAD * tolerance) * median(run_ns) <= min(run_ns)
    return near and median_error(run_ns) <= tolerance


@contextmanager
def explained(failure: str) -> Iterator[None]:
    """Context that turns errors of what is timed into errors that say where they are from.

    It leaves them alone where the text is empty.
    """
    try:
        yield
    except LostSessionError:  # it names the device, and whoever waits for that begins again
        raise
    except Exception as error:
        if not failure:
            raise
        raise CostError(f"{failure}: {type(error).__name__}: {error}") from error


def sample(
    cells: Sequence[Cell],
    options: MeasureOptions,
    watch: ModeWatch,
    budget: TimeBudget | None = None,
) -> int:
    """Measure cells in interleaved rounds until all are settled; return the dropped rounds.

    A round is dropped whole in the slow mode; else its disturbed samples alone, not counted here.
    Each round adds its samples to the cells, so an interrupted call keeps what it has. When the
    budget is over, cells stay with the samples they have.
    """
    budget = budget or TimeBudget()
    shortest_ns = options.min_repeat_ms * 1e6
    for cell in cells:
        if budget.is_over:
            return 0
        with explained(cell.failure):
            warmed_ns = _warm_up(cell, options.warmup)
            # Runs that are long enough each need no trial of how many make a sample.
            if warmed_ns * cell.number < shortest_ns:
                timed_sample(cell, shortest_ns)
        if warmed_ns >= LONG_SAMPLE_NS:
            cell.warming_ns = warmed_ns
    dropped = 0
    watch.look()
    while not budget.is_over and (pending := [c for c in cells if not c.settled(options)]):
        patient = watch.patient
        taken: list[tuple[Cell, float, bool]] = []
        with watch.round() as round_:
            for cell in pending:
                if budget.is_over:
                    break
                with explained(cell.failure):
                    run_ns = timed_sample(cell, shortest_ns, watch)
                taken.append((cell, run_ns, watch.is_disturbed(cell.waited, cell.elapsed_ns)))
        if round_.slow and patient:
            dropped += 1
            continue
        if any(disturbed for *_, disturbed in taken):
            watch.rest()
        for cell, run_ns, disturbed in taken:
            if not (disturbed and patient):
                (cell.slow_ns if round_.slow or disturbed else cell.fast_ns).append(run_ns)
    return dropped


def _warm_up(cell: Cell, runs: int) -> float:
    """Nanoseconds of a warm-up run: the mean, or the first one if that is long; 0 without any."""
    if not runs:
        return 0.0
    run_ns: float = cell.time_ns(1)
    if runs > 1 and run_ns < LONG_SAMPLE_NS:
        run_ns = cell.time_ns(runs - 1) / (runs - 1)
    return run_ns


def timed_sample(cell: Cell, shortest_ns: float, watch: ModeWatch | None = None) -> float:
    """Nanoseconds of one run, from a sample no shorter than asked for.

    With a watch the cell knows afterwards for which share of the sample a lane waited for a core.
    A sample that was too short is thrown away and its ``number`` grows. After one that was far too
    long it shrinks: runs that were counted between two time slices of an overloaded machine may
    take a thousand times longer within them.
    """
    while True:
        time_ns = partial(cell.time_ns, cell.number)
        elapsed_ns, cell.waited = (time_ns(), 0.0) if watch is None else watch.timed(time_ns)
        cell.elapsed_ns = elapsed_ns
        if elapsed_ns < 0:
            raise ValueError(f"{cell.number} runs took {elapsed_ns} ns; the clock went back")
        if elapsed_ns >= shortest_ns or cell.number >= MOST_RUNS:
            run_ns = elapsed_ns / cell.number
            if elapsed_ns > LONGEST_SAMPLE * shortest_ns:
                cell.number = max(cell.least_number, math.ceil(shortest_ns / run_ns))
            return run_ns
        # A tenth is added, or the next sample could well be too short again.
        wanted = cell.number * max(GROWTH, 1.1 * shortest_ns / max(elapsed_ns, 1))
        cell.number = min(MOST_RUNS, math.ceil(wanted))
