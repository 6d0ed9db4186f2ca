"""Values of a build in bfloat16, where that is faster and results stay close to float32.

Comes after the form of a model is chosen and built in float32. Operators stay what they are, so one
of them may go back to float32 alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Generic, TypeVar

import numpy as np

from tvm_ios.compile.built_model import BuiltModel
from tvm_ios.compile.dialects.dialect import dialect_here
from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.precision.low_precision import BFLOAT16, FLOAT32, Precision
from tvm_ios.core.precision.precision_outcome import PrecisionOutcome
from tvm_ios.errors import OutOfTimeError
from tvm_ios.profile.build_choice import choose_build
from tvm_ios.profile.in_time.first_answer import answer_with
from tvm_ios.profile.measuring_call import MeasuringCall
from tvm_ios.profile.precision.regions import cheapest_regions, region_costs
from tvm_ios.profile.race import compiled_for
from tvm_ios.runtime.base.sample_inputs import sample_inputs
from tvm_ios.search.baselines import sequential_schedule

__all__ = [
    "LowBuild",
    "faster_in_bfloat16",
    "in_low_precision",
    "outcome_of",
    "outputs_of",
    "relative_errors",
]

B = TypeVar("B", bound=BuiltModel)
Make = Callable[[Any], B]
"""Function that builds a prepared module."""
_CHECK = "check bfloat16"
PARTS = 8
"""Parts of a model that go back to float32 as wholes."""
Try = Callable[[Collection[int]], tuple[B, PrecisionOutcome] | None]
"""Function that builds in bfloat16 all but some operators."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LowBuild(Generic[B]):
    """Build that is kept of one in float32 and those in bfloat16, with what was found."""

    built: B
    outcome: PrecisionOutcome
    notes: tuple[str, ...] = ()


def in_low_precision(
    built: B,
    precision: Precision,
    call: MeasuringCall,
    make: Make[B],
    inputs: Mapping[str, np.ndarray] | None = None,
) -> LowBuild[B]:
    """Faster of a build and the same in bfloat16; the one given if there is no time.

    One in bfloat16 is an answer of the call. Results are checked on the inputs given, or on made-up
    ones.
    """
    try:
        if call.budget.allows(call.clock.phase_s.get("build", 0.0)):
            found = faster_in_bfloat16(built, precision, call, make, inputs)
            if found.built is not built:
                answer_with(found.built, call)
            return found
        call.budget.cut("a build in bfloat16 was not tried")
    except OutOfTimeError as error:
        call.budget.cut(f"bfloat16 was not raced: {error}")
    outcome = PrecisionOutcome(dtype=FLOAT32, reason="the time budget had no time for bfloat16")
    return LowBuild(built=built, outcome=outcome)


def faster_in_bfloat16(
    built: B,
    precision: Precision,
    call: MeasuringCall,
    make: Make[B],
    inputs: Mapping[str, np.ndarray] | None = None,
) -> LowBuild[B]:
    """Build in bfloat16, if it is faster and its results are close enough; else the one given.

    Operators that hurt most go back to float32 until results are close enough. Results are those of
    the inputs given, or of made-up ones.
    """
    prepared = built.prepared
    costs = region_costs(prepared, built.libraries, call)
    exact = cache(lambda: outputs_of(built, call, inputs))

    def tried(back: Collection[int]) -> tuple[B, PrecisionOutcome] | None:
        """Build with some operators in float32, and its outcome; None where nothing is low."""
        low = cheapest_regions(costs, kept=back)
        if not low.operators:
            return None
        made = make(dialect_here().with_low_precision(prepared, low))
        return made, outcome_of(exact(), made, call, inputs)

    first = tried(())
    if first is None:
        reason = "no operator gains by it"
        return LowBuild(built=built, outcome=PrecisionOutcome(dtype=FLOAT32, reason=reason))
    made, outcome = first
    if not outcome.is_within(precision.max_relative_error):
        near = _near_enough(built, tried, precision)
        if near is None:
            reason = f"its error is above the bound of {precision.max_relative_error:g}"
            return LowBuild(built=built, outcome=outcome.as_float32(reason))
        made, outcome = near
    with call.stage(_CHECK, call.to_profile) as granted:
        choice = choose_build({FLOAT32: built, BFLOAT16: made}, call.at(granted))
    if not choice.certain:
        call.database.use.doubtful = True
    outcome = replace(outcome, speedup=choice.speedups[BFLOAT16])
    if choice.kept == FLOAT32:
        reason = f"it is {outcome.speedup:.2f} times as fast, no gain beyond the noise"
        return LowBuild(built=built, outcome=outcome.as_float32(reason), notes=choice.notes)
    return LowBuild(built=made, outcome=outcome, notes=choice.notes)


def _near_enough(
    built: B, tried: Try[B], precision: Precision
) -> tuple[B, PrecisionOutcome] | None:
    """Build in bfloat16 but for the parts of the model that hurt most; None where none is left.

    Each part is tried in bfloat16 alone. Errors of parts are about independent of each other, so
    their squares add up.
    """
    every = frozenset(range(len(built.graph)))
    parts = _parts(built.graph)
    alone = {part: tried(every - part) for part in parts}
    errors = {part: _worst(found[1]) if found else 0.0 for part, found in alone.items()}
    back: frozenset[int] = frozenset()
    for part in sorted(parts, key=errors.__getitem__, reverse=True):
        back |= part
        rest = math.hypot(*(error for each, error in errors.items() if not each <= back))
        if rest > precision.max_relative_error or back == every:
            continue
        found = tried(back)
        if found is not None and found[1].is_within(precision.max_relative_error):
            return found[0], replace(found[1], back=len(back))
    return None


def _worst(outcome: PrecisionOutcome) -> float:
    return math.inf if outcome.worst is None else outcome.worst


def _parts(graph: OperatorGraph) -> list[frozenset[int]]:
    """Operators that follow each other, in parts of about equal work."""
    total, done = sum(each.flops for each in graph.operators), 0
    parts: list[set[int]] = [set() for _ in range(PARTS)]
    for index, operator in enumerate(graph.operators):
        parts[min(PARTS - 1, done * PARTS // max(1, total))].add(index)
        done += operator.flops
    return [frozenset(part) for part in parts if part]


def outcome_of(
    exact: Sequence[np.ndarray],
    made: BuiltModel,
    call: MeasuringCall,
    inputs: Mapping[str, np.ndarray] | None,
) -> PrecisionOutcome:
    """Outcome of keeping a build in bfloat16, with its errors against the outputs of float32."""
    errors = relative_errors(exact, outputs_of(made, call, inputs))
    low = made.prepared.low
    return PrecisionOutcome(
        dtype=BFLOAT16,
        operators=0 if low is None else len(low.operators),
        errors=tuple(each if math.isfinite(each) else None for each in errors),
        inputs_given=inputs is not None,
    )


def relative_errors(exact: Sequence[np.ndarray], found: Sequence[np.ndarray]) -> tuple[float, ...]:
    """Error of each output: its largest absolute difference, by its largest absolute value.

    Infinite where one is finite and the other is not.
    """
    return tuple(_relative_error(*both) for both in zip(exact, found, strict=True))


def _relative_error(exact: np.ndarray, found: np.ndarray) -> float:
    finite = np.isfinite(exact)
    if not np.array_equal(exact[~finite], found[~finite], equal_nan=True):
        return float("inf")
    if not finite.any():
        return 0.0
    off = np.abs(exact[finite].astype("float64") - found[finite]).max()
    largest = np.abs(exact[finite]).max()
    return float(off / largest) if largest else float("inf" if off else 0.0)


def outputs_of(
    built: BuiltModel, call: MeasuringCall, inputs: Mapping[str, np.ndarray] | None
) -> list[np.ndarray]:
    """Outputs of sequential order for inputs, or for sample inputs."""
    order = sequential_schedule(built.graph)
    with call.stage(_CHECK, call.to_profile) as granted, call.at(granted).open() as session:
        model = compiled_for(session, built, order, lanes=call.lanes, database=call.database)
        with closing(model.executor()) as executor:
            if inputs is None:
                inputs = sample_inputs(model.plan, model.kernels.params)
            for name, value in inputs.items():
                executor.set_input(name, value)
            executor.run()
            count = executor.get_num_outputs()
            return [np.array(executor.get_output(number).numpy()) for number in range(count)]
