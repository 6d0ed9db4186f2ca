"""A service level: a latency to reach, first with what is known, then with more and more tuning.

The policy alone, which chains and jobs share; who builds and who measures is told to it. Free of
TVM.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, Self, TypeVar

from tvm_ios.driver.latency import Latency
from tvm_ios.errors import OptionError
from tvm_ios.support.json_nouns import noun_from, noun_record
from tvm_ios.support.stored_value import StoredValue
from tvm_ios.support.time_budget import TimeBudget

__all__ = ["Answer", "Reached", "ServiceLevel", "reach", "require_sla_ms", "trial_slices"]

ModelT = TypeVar("ModelT")
FIRST_TRIALS = (8, 16, 32)
"""Candidates of a task after which the model is evaluated, where nobody limits them."""
SHARES = (8, 4, 2)
"""Parts of the trials after which the model is evaluated: each slice is as long as all before it,
so that builds and evaluations in between never outweigh the tuning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One evaluation on the way to a service level."""

    trials: int | None
    """Candidates of the tuner so far, as its ``trials`` count them; 0 where records alone were
    used, None for as many as the tuner tries by itself."""
    latency: Latency


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceLevel:
    """A latency that was asked for, and every evaluation that was made to see whether it is met."""

    sla_ms: float
    answers: tuple[Answer, ...]
    """In order; the last one ended the tuning."""
    notes: tuple[str, ...] = ()
    """What was known before, and what was cut for time."""

    @property
    def is_met(self) -> bool:
        """Whether an evaluation met it."""
        return any(answer.latency.meets(self.sla_ms) for answer in self.answers)

    def as_text(self) -> str:
        """Whether it is met and at what cost, with a line for each evaluation."""
        found = "met" if self.is_met else "not met"
        lines = [f"service level {self.sla_ms:g} ms: {found}"]
        lines += [f"  {_told(each.trials)}: {each.latency.as_text()}" for each in self.answers]
        return "\n".join([*lines, *(f"  note: {note}" for note in self.notes)])

    def as_record(self) -> dict[str, Any]:
        """The fields as JSON has them, and the answer."""
        record: dict[str, Any] = noun_record(ServiceLevel, self)
        return record | {"met": self.is_met}

    @classmethod
    def from_record(cls, record: StoredValue) -> Self:
        """Read what :meth:`as_record` made."""
        rows = record.field("answers").rows()
        return cls(
            sla_ms=record.field("sla_ms").number(),
            answers=tuple(noun_from(Answer, row, whole=True) for row in rows),
            notes=record.field("notes").texts(),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached(Generic[ModelT]):
    """The end of the way to a service level: the fastest model that was built."""

    level: ServiceLevel
    model: ModelT
    latency: Latency
    """Of :attr:`model`."""


def reach(
    sla_ms: float,
    attempts: Iterable[int | None],
    build: Callable[[int | None], ModelT],
    evaluate: Callable[[ModelT], Latency],
    *,
    budget: TimeBudget,
    notes: tuple[str, ...] = (),
) -> Reached[ModelT]:
    """Build and evaluate with more and more trials, until an evaluation meets the service level.

    Parameters
    ----------
    attempts
        Trials of each attempt; 0 builds with the records there are. At least one, which is made
        whatever the budget says.
    build
        The model with so many trials; the tuner goes on from its log.
    evaluate
        The latency of a model.
    notes
        What is to be told with the answers.
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
            best = latency, model
            break
    if best is None:
        raise OptionError("there is no attempt to reach the service level with; give one")
    level = ServiceLevel(sla_ms=sla_ms, answers=tuple(answers), notes=(*notes, *budget.notes))
    return Reached(level=level, model=best[1], latency=best[0])


def trial_slices(
    trials: int | None, *, known: int = 0, tasks: int | None = None
) -> tuple[int | None, ...]:
    """Trials after which to look, rising; the last one is all that were asked for.

    Parameters
    ----------
    trials
        All of them; None for as many as the tuner tries by itself.
    known
        Candidates that the log has already, and which count: fewer need no look.
    tasks
        Tasks that share the trials; None where each task has so many.

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
    """A service level in milliseconds, above 0.

    Raises
    ------
    OptionError
        If it is none.
    """
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not 0 < value < math.inf:
        raise OptionError(f"sla_ms is {value!r}; give milliseconds above 0")
    return float(value)


def _told(trials: int | None) -> str:
    if trials is None:
        return "the tuner's own number of trials"
    return f"{trials} trials" if trials else "known records, no tuning"
