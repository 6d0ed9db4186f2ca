"""Options of kernel tuning: budgets and measuring."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path

from tvm_ios.errors import OptionError
from tvm_ios.support.cache_folder import cache_directory
from tvm_ios.support.whole_number import require_whole_fields

__all__ = ["BACKEND_NAMES", "TUNERS", "TuningOptions", "default_records_path"]

BACKEND_NAMES = ("none", "autotvm", "auto_scheduler")
"""Names of kernel tuners in options, files and on the command line; the first tunes nothing."""
TUNERS = ("layout", "grid", "random", "xgb")
"""Names of AutoTVM's tuners: ``layout`` tries all schedules that keep the untuned network's data
layout; the others search the whole space."""
CPU_TIMEOUT_S, GPU_TIMEOUT_S = 20.0, 5.0
LONGEST_S = 1e9
"""Longest time limit of one candidate in seconds: TVM keeps limits in 32 bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningOptions:
    """Budgets and measuring options; names and meanings are those of TVM's tuners.

    Raises
    ------
    OptionError
        If a value is out of range.
    """

    backend: str = BACKEND_NAMES[0]
    """Name of the tuner, out of :data:`BACKEND_NAMES`; the argument ``tuning`` goes over it."""
    trials: int | None = None
    """Number of candidates to measure: for each task with AutoTVM, in all with auto_scheduler;
    those in a log count. None: AutoTVM tries every candidate of the ``layout`` tuner and 1000 a
    task of others; auto_scheduler 64 a task."""
    early_stopping: int | None = None
    """Candidates without a better one after which a task (auto_scheduler: everything) stops."""
    task_early_stopping: int | None = None
    """Candidates without a better one after which auto_scheduler stops a task."""
    time_budget_s: float | None = None
    """Seconds after which tuning stops; all measurements so far are used."""
    timeout_s: float | None = None
    """Seconds that one candidate may run; 20 on a CPU and 5 on a GPU where omitted."""
    build_timeout_s: float = 20.0
    """Seconds that one candidate may compile."""
    number: int = 1
    """Runs averaged in one measurement; more where they take less than ``min_repeat_ms``."""
    repeat: int = 3
    """Measurements of a candidate; the best counts, since noise only adds."""
    min_repeat_ms: int = 10
    """Milliseconds that a measurement takes at least."""
    tuner: str | None = None
    """Name out of :data:`TUNERS`; auto_scheduler has its own. Where omitted, ``layout`` on a CPU,
    and ``xgb`` on a GPU, whose templates keep one layout."""
    threads: int | None = None
    """Number of threads a kernel is measured on; where omitted, one, as in a concurrent stage."""

    def __post_init__(self) -> None:
        require_whole_fields(
            self,
            trials=1,
            early_stopping=1,
            task_early_stopping=1,
            number=1,
            repeat=1,
            min_repeat_ms=0,
            threads=1,
        )
        most_s = {"time_budget_s": math.inf, "timeout_s": LONGEST_S, "build_timeout_s": LONGEST_S}
        for name, most in most_s.items():
            value = getattr(self, name)
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if value is not None and (not number or not 0 < value <= most):
                raise OptionError(f"{name} is {value!r}; give seconds above 0, up to {most:g}")
        if self.backend not in BACKEND_NAMES:
            raise OptionError(
                f"backend is {self.backend!r}; choose from {', '.join(BACKEND_NAMES)}"
            )
        if self.tuner is not None and self.tuner not in TUNERS:
            raise OptionError(f"tuner is {self.tuner!r}; choose from {', '.join(TUNERS)}")

    def backend_for(self, tuning: str | None) -> str | None:
        """Kernel tuner of a call with the argument ``tuning``; None where nothing is tuned."""
        name = self.backend if tuning is None else tuning
        return None if name == BACKEND_NAMES[0] else name

    def used_by(self, backend: str | None) -> TuningOptions:
        """Options that a back end reads, with the rest at their defaults; None reads nothing."""
        match backend:
            case None | "none":
                return TuningOptions()
            case "autotvm":
                return replace(self, backend=backend, task_early_stopping=None)
            case "auto_scheduler":
                return replace(self, backend=backend, tuner=None)
            case _:  # it is refused where it is asked for
                return self

    def tuner_for(self, *, gpu: bool) -> str:
        """Name of the tuner of AutoTVM."""
        return self.tuner or ("xgb" if gpu else "layout")

    def run_timeout_s(self, *, gpu: bool) -> float:
        """Seconds that one candidate may run."""
        return self.timeout_s or (GPU_TIMEOUT_S if gpu else CPU_TIMEOUT_S)


def default_records_path(backend: str) -> Path:
    """Path of ``autotvm.log`` or ``auto_scheduler.log`` in the cache folder of tvm-ios."""
    return cache_directory() / f"{backend}.log"
