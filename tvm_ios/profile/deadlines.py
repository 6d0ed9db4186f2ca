"""Deadlines of parts in the last race: who keeps them by traced runs, and who is kept for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tvm_ios.compile.model import CompiledModel
from tvm_ios.core.parts import Part, parts_named
from tvm_ios.devices.protocol import MeasuringSession
from tvm_ios.measure.comparison import Comparison
from tvm_ios.measure.deadlines import PartDeadline
from tvm_ios.plan.parts.masks import launches_of_parts
from tvm_ios.plan.plan import ExecutionPlan
from tvm_ios.profile.race import Choice, choose, executors_of
from tvm_ios.report.contestants import Contestant

__all__ = ["choose_in_time", "measured_deadlines"]

LEAST_RUNS = 10
MOST_RUNS = 50
TRACED_S = 2.0
"""Seconds of a contestant's traced runs, as far as the least and most number of them allow."""


def measured_deadlines(
    models: Mapping[Contestant, CompiledModel],
    raced: Comparison,
    session: MeasuringSession,
    parts: tuple[Part, ...],
    deadlines_ms: Mapping[str, float],
) -> dict[Contestant, tuple[PartDeadline, ...]]:
    """Deadlines by contestant, with ends of traced runs, taken by turns."""
    named = {who.value: model for who, model in models.items()}
    run_ns = max(raced.median_ns(name) for name in named)
    # Each trace is of the second of two runs, since the first finds lanes asleep.
    rounds = min(MOST_RUNS, max(LEAST_RUNS, int(TRACED_S * 1e9 / (2 * run_ns))))
    due = parts_named(parts, deadlines_ms)
    needed = {name: _operators_of(model.plan, parts) for name, model in named.items()}
    ends: dict[str, list[dict[str, int]]] = {name: [] for name in named}
    with executors_of(named, session) as executors:
        for _ in range(rounds):
            for name, executor in executors.items():
                ended_ns = {event.operator: event.end_ns for event in executor.trace(2)}
                ends[name].append(
                    {
                        part.name: max(ended_ns.get(each, 0) for each in needed[name][part.name])
                        for part in due
                    }
                )
    return {
        who: tuple(
            PartDeadline(
                part=part.name,
                deadline_ns=round(deadlines_ms[part.name] * 1e6),
                ends_ns=tuple(each[part.name] for each in ends[who.value]),
            )
            for part in due
        )
        for who in models
    }


def _operators_of(plan: ExecutionPlan, parts: tuple[Part, ...]) -> dict[str, set[str]]:
    """Names of the operators that each part needs; an empty one where nothing is launched."""
    needed = launches_of_parts(replace(plan, parts=parts))
    return {
        name: {plan.launches[number].operator for number in own} or {""}
        for name, own in needed.items()
    }


def choose_in_time(
    raced: Comparison,
    names: Mapping[Contestant, str],
    promised_ns: Mapping[Contestant, int],
    deadlines: Mapping[Contestant, tuple[PartDeadline, ...]],
) -> Choice:
    """Contestant to keep: of those that keep all deadlines, the one that is kept without them.

    Where sequential order misses one, the fastest that keeps all is kept; where all miss one, the
    least late.
    """
    late_ns = {who: max(each.late_ns for each in deadlines[who]) for who in names}
    in_time = {
        who: name for who, name in names.items() if all(each.is_kept for each in deadlines[who])
    }
    if Contestant.SEQUENTIAL in in_time:
        return choose(raced, in_time, promised_ns)
    outcome = raced.outcome(over=names[Contestant.SEQUENTIAL], among=names.values())
    if in_time:
        fastest = raced.fastest(in_time.values())
        kept = next(who for who, name in in_time.items() if name == fastest)
        reason = "the fastest that keeps all deadlines, of which sequential order misses one"
        return Choice(kept=kept, outcome=outcome, reason=reason)
    kept = min(names, key=lambda who: (late_ns[who], raced.median_ns(names[who])))
    reason = (
        f"no schedule keeps all deadlines; this one is {late_ns[kept] / 1e6:.3g} ms late at most "
        "in nine of ten runs"
    )
    return Choice(kept=kept, outcome=outcome, reason=reason)
