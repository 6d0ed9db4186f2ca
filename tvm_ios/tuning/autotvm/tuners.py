"""AutoTVM's tuners: which candidates of a task are measured, in what order, and with what model."""

from __future__ import annotations

import importlib.util
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from tvm import autotvm
from tvm.autotvm.tuner import RandomTuner, Tuner, XGBTuner
from tvm.autotvm.tuner.model_based_tuner import ModelBasedTuner

from tvm_ios.errors import TuningError
from tvm_ios.tuning.autotvm.tasks import (
    KernelTask,
    Layout,
    default_candidate,
    layout_candidates,
)
from tvm_ios.tuning.options import TuningOptions

__all__ = [
    "PlannedTuner",
    "end_workers",
    "fits_next",
    "plan_tuner",
    "require_tuner",
    "use_cores",
]

WHOLE_SPACE_TRIALS = 1000
"""Candidates of a whole space to try if not given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTuner:
    """Tuner of TVM, and how many candidates it may still measure."""

    left: int
    """Number of candidates it may measure, at least 1."""
    make: Callable[[int], Tuner]
    """Makes the tuner, given the number of cores that a cost model may use."""
    first: tuple[int, ...] = ()
    """Candidates that are measured before those of the tuner, which passes them over."""
    learns_first: bool = False
    """True if making it trains a cost model with the records in the log."""


class ListTuner(Tuner):  # type: ignore[misc]
    """Tuner that tries given candidates in order."""

    def __init__(self, task: autotvm.task.Task, candidates: Sequence[int]) -> None:
        super().__init__(task)
        self._waiting = list(candidates)

    def has_next(self) -> bool:
        """True if a candidate is left."""
        return bool(self._waiting)

    def next_batch(self, batch_size: int) -> list[Any]:
        """Next candidates that are left, at most the batch size."""
        batch, self._waiting = self._waiting[:batch_size], self._waiting[batch_size:]
        return [self.space.get(index) for index in batch]


def plan_tuner(
    task: KernelTask, history: Sequence[tuple[Any, Any]], options: TuningOptions, name: str
) -> PlannedTuner | None:
    """Tuner that measures nothing twice; None where the budget is spent.

    All begin with the schedule of an untuned model, so that no log makes a kernel slower. The
    history is the task's records in the log; the name is one of
    :data:`~tvm_ios.tuning.options.TUNERS`.
    """
    known = {measured.config.index for measured, _ in history}
    space = len(task.task.config_space)
    if name == "layout":
        each = [layout_candidates(task.task, layout) for layout in Layout]
        # By turns, so that a few trials see something of each layout.
        turns = itertools.chain.from_iterable(itertools.zip_longest(*each))
        distinct = dict.fromkeys(index for index in turns if index is not None)
        candidates = list(distinct)[: options.trials]
        return _list_plan(task, [index for index in candidates if index not in known])
    left = min(options.trials or WHOLE_SPACE_TRIALS, space) - len(known)
    if left <= 0:
        return None
    default = default_candidate(task.task)
    first = () if default is None or default in known else (default,)
    if name == "grid":
        others = (index for index in range(space) if index not in known and index != default)
        return _list_plan(task, [*first, *itertools.islice(others, left - len(first))])
    seen = known.union(first)
    if name == "random":
        return PlannedTuner(left=left, make=partial(_random_tuner, task, seen), first=first)
    return PlannedTuner(
        left=left,
        make=partial(_xgb_tuner, task, seen, list(history)),
        first=first,
        learns_first=bool(history),
    )


def fits_next(tuner: Tuner, results: Sequence[Any]) -> bool:
    """True if an update with these results trains a cost model; other updates take no time."""
    if not isinstance(tuner, ModelBasedTuner):
        return False
    return bool(len(tuner.xs) + len(results) >= tuner.plan_size * (tuner.train_ct + 1))


def use_cores(tuner: Tuner, cores: int) -> None:
    """Limit a tuner's cost model, if it has one, to a number of cores; TVM would take all."""
    if isinstance(tuner, XGBTuner):
        # TVM reads the first for workers that extract features, and the second in each fit.
        tuner.cost_model.num_threads = cores
        tuner.cost_model.xgb_params["nthread"] = cores


def end_workers(tuner: Tuner) -> None:
    """End the processes of a tuner's cost model, if it has one."""
    if isinstance(tuner, XGBTuner):
        tuner.cost_model.pool = None  # its end ends them


def require_tuner(name: str) -> None:
    """Check that the packages of a tuner's cost model are installed."""
    if name == "xgb" and importlib.util.find_spec("xgboost") is None:
        raise TuningError(
            "tuner 'xgb' needs the package xgboost, which is not installed; "
            "run: python -m pip install xgboost, or choose the tuner 'layout'"
        )


def _list_plan(task: KernelTask, waiting: Sequence[int]) -> PlannedTuner | None:
    if not waiting:
        return None
    return PlannedTuner(left=len(waiting), make=lambda _cores: ListTuner(task.task, waiting))


def _random_tuner(task: KernelTask, known: set[int], _cores: int) -> Tuner:
    tuner = RandomTuner(task.task)
    # TVM's tuners have a list here, or a set.
    tuner.visited = type(tuner.visited)(known)
    return tuner


def _xgb_tuner(
    task: KernelTask, known: set[int], history: list[tuple[Any, Any]], cores: int
) -> Tuner:
    tuner = XGBTuner(task.task, loss_type="reg", num_threads=cores)
    if history:
        tuner.load_history(history, min_seed_records=1)
    tuner.visited = type(tuner.visited)(known)
    return tuner
