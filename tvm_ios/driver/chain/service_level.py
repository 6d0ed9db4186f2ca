"""A service level: a latency to reach, first with known records, then with more and more tuning.

Only the policy, which chains and jobs share; callers build and measure. Free of TVM.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, Self, TypeVar

from tvm_ios.driver.chain.latency import Latency
from tvm_ios.errors import OptionError
from tvm_ios.support.json_nouns import noun_from, noun_record
from tvm_ios.support.stored_value import StoredValue
from tvm_ios.support.time_budget import TimeBudget

__all__ = ["Answer", "Reached", "ServiceLevel", "reach", "require_sla_ms", "trial_slices"]

ModelT = TypeVar("ModelT")
FIRST_TRIALS = (8, 16, 32)
"""Candidates of a task after which the model is evaluated, where their number has no limit."""
SHARES = (8, 4, 2)
"""Fractions (one over these) of the trials after which the model is evaluated: each slice is as
long as all before it, so builds and evaluations never outweigh the tuning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Evaluation on the way to a service level."""

    trials: int | None
    """Candidates of the tuner so far, as its ``trials`` count them; 0 with known records only, None
    for as many as the tuner tries by itself."""
    latency: Latency


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceLevel:
    """Latency that was asked for, with every evaluation on the way to it."""

    sla_ms: float
    answers: tuple[Answer, ...]
    """Evaluations in order; the last one ended the tuning."""
    notes: tuple[str, ...] = ()
    """Lines on what was known before, and what was cut for time."""

    @property
    def is_met(self) -> bool:
        """True if an evaluation met the level."""
        return any(answer.latency.meets(self.sla_ms) for answer in self.answers)

    def as_text(self) -> str:
        """Text: whether the level is met, with a line for each evaluation."""
        found = "met" if self.is_met else "not met"
        lines = [f"service level {self.sla_ms:g} ms: {found}"]
        lines += [f"  {_told(each.trials)}: {each.latency.as_text()}" for each in self.answers]
        return "\n".join([*lines, *(f"  note: {note}" for note in self.notes)])

    def as_record(self) -> dict[str, Any]:
        """Fields as JSON has them, with the answer."""
        record: dict[str, Any] = noun_record(ServiceLevel, self)
        return record | {"met": self.is_met}

    @classmethod
    def from_record(cls, record: StoredValue) -> Self:
        """Service level in the data of :meth:`as_record`."""
        return noun_from(cls, record.without("met"), whole=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached(Generic[ModelT]):
    """End of the way to a service level: the fastest model that was built."""

    level: ServiceLevel
    model: ModelT
    latency: Latency
    """Latency of :attr:`model`."""


def reach(
    sla_ms: float,
    attempts: Iterable[int | None],
    build: Callable[[int | None], ModelT],
    evaluate: Callable[[ModelT], Latency],
    *,
    budget: TimeBudget,
    notes: tuple[str, ...] = (),
) -> Reached[ModelT]:
    """Fastest of models built with more and more trials, until one meets the service level.

    Attempts are numbers of trials, at least one; 0 builds with known records. The first is made
    whatever the budget says. The notes are told with the answers.
    """
    answers: list[Answer] = []
    best: tuple[Latency, ModelT] | None = None
    for trials in attempts:
        if best is not None and not budget.allows(0):
            budget.cut(f"tuning to {_told(trials)} was left out")
            break
        model = build(trials)
        latency = evaluate(model)
        answers.append(Answer(trials=trials, latency=latency))
        if best is None or latency.median_ms < best[0].median_ms:
            best = latency, model
        if latency.meets(sla_ms):
            # What meets the level is kept, even if an earlier model's median is lower.
            best = latency, model
            break
    if best is None:
        raise OptionError("there is no attempt to reach the service level with; give one")
    level = ServiceLevel(sla_ms=sla_ms, answers=tuple(answers), notes=(*notes, *budget.notes))
    return Reached(level=level, model=best[1], latency=best[0])


def trial_slices(
    trials: int | None, *, known: int = 0, tasks: int | None = None
) -> tuple[int | None, ...]:
    """Numbers of trials after which to evaluate, rising; the last is all that were asked for.

    Parameters
    ----------
    trials
        Number of all trials; None for as many as the tuner tries by itself.
    known
        Candidates in the log already, which count: smaller numbers need no evaluation.
    tasks
        Number of tasks that share the trials; None where each task has that many.

    Examples
    --------
    >>> trial_slices(64)
    (8, 16, 32, 64)
    >>> trial_slices(None, known=10, tasks=2)
    (16, 32, 64, None)
    """
    if trials is None:
        early = [count * (tasks or 1) for count in FIRST_TRIALS]
    else:
        early = [math.ceil(trials / share) for share in SHARES]
    rising = dict.fromkeys(
        count for count in early if count > known and (trials is None or count < trials)
    )
    return (*rising, trials)


def require_sla_ms(value: Any) -> float:
    """Service level in milliseconds, above 0."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not 0 < value < math.inf:
        raise OptionError(f"sla_ms is {value!r}; give milliseconds above 0")
    return float(value)


def _told(trials: int | None) -> str:
    if trials is None:
        return "the tuner's own number of trials"
    return f"{trials} trials" if trials else "known records, no tuning"
