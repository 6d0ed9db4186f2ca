"""Choice among several builds of one model, by races of whole networks.

A kernel that wins alone may lose in its network, and so may another layout or padded channels. So
whole networks are timed. The first build stays unless another one is faster beyond the noise, or
faster within it and also by the prices of its operators.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median

from tvm_ios.compile.built_model import BuiltModel
from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.schedule import InterOpSchedule
from tvm_ios.cost.known_choices import BuildChoice
from tvm_ios.devices.protocol import MeasuringSession
from tvm_ios.measure.comparison import Comparison, Verdict
from tvm_ios.profile.measured_kernels import LONG_FLOPS, MeasuredKernels
from tvm_ios.profile.measuring_call import MeasuringCall
from tvm_ios.profile.race import compiled_for, race
from tvm_ios.profile.stage_kernels import StageKernels
from tvm_ios.profile.way_choice import settled_prices
from tvm_ios.runtime.libraries.protocol import OperatorLibrary
from tvm_ios.search.baselines import greedy_schedule, sequential_schedule

__all__ = ["choose_build", "with_libraries", "without_search"]

LONGER = 4
"""Factor by which a race of builds of a long network may last longer than another race: it is run
once, all that follows works on its winner, and ten rounds may not show a gain of 5 %. Of the rest
of a time budget it takes at most 1/LONGER."""


WIDE = 0.75
"""Stages of greedy order by operators up to which forms are raced in it as well: another form may
be the faster one where operators run side by side."""
AGREED = 1.02
"""Speedup that an undecided race and the prices both have to show for a build to be kept."""
_Run = tuple[str, InterOpSchedule, int]
"""Name of a build, its schedule, and the number of lanes."""


def with_libraries(question: str, libraries: Sequence[OperatorLibrary]) -> str:
    """Question to known choices, for answers that depend on the libraries that may compute."""
    return " with ".join((question, *(library.identity() for library in libraries)))


def without_search(
    built: BuiltModel, session: MeasuringSession, call: MeasuringCall
) -> list[InterOpSchedule]:
    """Sequential order, and greedy order where lanes may run many operators side by side.

    Each operator is computed by the operator library that was found to be faster.
    """
    orders = [sequential_schedule(built.graph)]
    greedy = greedy_schedule(built.graph)
    helped = call.lanes > 1 and call.device.traits.idle_lanes_help
    if helped and len(greedy.stages) <= WIDE * len(built.graph):
        orders.append(greedy)
    if not built.libraries:
        return orders
    database = call.database
    with StageKernels(built, lanes=call.lanes, session=session, database=database) as runner:
        kernels = MeasuredKernels(
            runner, database=database, options=call.measure, budget=call.budget
        )
        prices = settled_prices(kernels)
        return [prices.annotate(order) for order in orders]


def choose_build(
    builds: Mapping[str, BuiltModel],
    call: MeasuringCall,
    *,
    prices_count: bool = False,
) -> BuildChoice:
    """Fastest of the builds of one network that beat the first one, or the first one.

    A build beats it if it is faster beyond the noise. A long network has few rounds, in which the
    noise of a busy machine hides a few per cent. So if no build is, and prices count, one that is
    faster within the noise also beats it if its operators cost less. Operators have prices where
    operator libraries may compute.

    Each runs in sequential order with all lanes that help. Small networks are faster on one lane,
    so if operators are short on the average, that is timed as well; so is greedy order where many
    operators may run side by side; and the best time counts. On a GPU there is one stream.
    Operator libraries compute the operators for which prices favour them.

    Parameters
    ----------
    prices_count
        True lets prices of single operators count. They say nothing of tuned kernels, which were
        chosen by such prices.

    Raises
    ------
    OutOfTimeError
        If the call's time budget is over before the operators are priced and the least rounds run.
    """
    base, *others = builds
    if not others:
        return BuildChoice(kept=base, notes=(), certain=True)
    with call.open() as session:
        orders = {name: without_search(built, session, call) for name, built in builds.items()}
        runs = _runs(builds[base], orders, call)
        models = {
            run: compiled_for(session, builds[name], order, lanes=lanes, database=call.database)
            for run, (name, order, lanes) in runs.items()
        }
        usual_s = call.compare.longest_s
        longest_s = max(usual_s, min(LONGER * usual_s, call.budget.spare_s / LONGER))
        options = replace(call.compare, longest_s=longest_s)
        comparison = race(
            models, options=options, until_decided=True, budget=call.budget, session=session
        )
    fastest = {
        name: _fastest([run for run, (of, *_) in runs.items() if of == name], comparison)
        for name in builds
    }
    speedups = {name: comparison.speedup(fastest[name], over=fastest[base]) for name in others}
    notes = [
        f"{name}: {found.ratio:.3f} ({found.low:.3f} to {found.high:.3f}) times as fast as {base}, "
        "before a search"
        for name, found in speedups.items()
    ]
    # Round by round, not by medians alone: where times have two modes, those may say the opposite.
    priced = {
        name: _speedup_by_prices(order, orders[base][0]) for name, (order, *_) in orders.items()
    }
    winners = [found.contestant for found in speedups.values() if found.verdict is Verdict.WINS]
    if prices_count and not winners:
        agreed = [
            name
            for name, found in speedups.items()
            if found.verdict is Verdict.TIES and min(found.ratio, priced[name]) >= AGREED
        ]
        winners = [speedups[name].contestant for name in agreed]
        notes += [f"{name}: {priced[name]:.3f} by prices of operators, too" for name in agreed]
    best = comparison.fastest(winners) if winners else fastest[base]
    kept = next(name for name, run in fastest.items() if run == best)
    return BuildChoice(
        kept=kept,
        notes=tuple(notes),
        certain=comparison.is_settled,
        speedups={name: found.ratio for name, found in speedups.items()},
    )


def _runs(
    base: BuiltModel, orders: Mapping[str, Sequence[InterOpSchedule]], call: MeasuringCall
) -> dict[str, _Run]:
    """Contestants of a race of builds; each way to run a build is one for all of them."""
    # All lanes first: the first contestant's ping-pong tells of the machine's mode.
    most = call.lanes if call.device.traits.idle_lanes_help else 1
    ways = [(0, most)] if most == 1 or _is_long(base.graph) else [(0, most), (0, 1)]
    ways += [(place, most) for place in range(1, min(map(len, orders.values())))]
    return {
        f"{name}, {orders[name][place].scheduler}, lanes: {lanes}": (
            name,
            orders[name][place],
            lanes,
        )
        for place, lanes in ways
        for name in orders
    }


def _is_long(graph: OperatorGraph) -> bool:
    """True if the operators of a network are long on the average, so that help pays."""
    return sum(each.flops for each in graph.operators) > LONG_FLOPS * len(graph)


def _speedup_by_prices(order: InterOpSchedule, base: InterOpSchedule) -> float:
    """Speedup of a build over another by operator prices on one lane; 1 without prices."""
    costs_ns = sum(base.operator_ns), sum(order.operator_ns)
    return costs_ns[0] / costs_ns[1] if all(costs_ns) else 1.0


def _fastest(runs: Sequence[str], comparison: Comparison) -> str:
    """Fastest run of one build, by rounds in which it and the first one were both timed.

    Not the one timed longest: that is always the first contestant, however slow.
    """
    return max(runs, key=lambda run: median(comparison.ratios(run, over=runs[0])))
