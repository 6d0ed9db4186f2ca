"""How kernels are tuned: budgets and measuring."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from tvm_ios.errors import OptionError
from tvm_ios.support.whole_number import require_whole_fields

__all__ = ["TUNERS", "TuningOptions"]

TUNERS = ("layout", "grid", "random", "xgb")
"""``layout`` tries all schedules that keep the data layout the untuned network has; the others are
AutoTVM's tuners over the whole space."""
CPU_TIMEOUT_S, GPU_TIMEOUT_S = 20.0, 5.0
LONGEST_S = 1e9
"""No limit of one candidate is longer: TVM keeps them in 32 bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningOptions:
    """Budgets and measuring options; names and meanings are those of TVM's tuners.

    Raises
    ------
    OptionError
        If a value is out of range.
    """

    trials: int | None = None
    """Candidates to measure: for each task with AutoTVM, in all with auto_scheduler. What a log
    already holds counts. None: AutoTVM tries every candidate of the ``layout`` tuner and 1000 a
    task of others; auto_scheduler 64 a task."""
    early_stopping: int | None = None
    """Stop a task (auto_scheduler: everything) after so many candidates without a better one."""
    task_early_stopping: int | None = None
    """With auto_scheduler: stop a task after so many candidates without a better one."""
    time_budget_s: float | None = None
    """Stop tuning after so many seconds; what was measured is used."""
    timeout_s: float | None = None
    """Seconds one candidate may run; 20 on a CPU and 5 on a GPU where omitted."""
    build_timeout_s: float = 20.0
    """Seconds one candidate may compile."""
    number: int = 1
    """Runs averaged in one measurement; more where they take less than ``min_repeat_ms``."""
    repeat: int = 3
    """Measurements of a candidate; the best counts, since noise only adds."""
    min_repeat_ms: int = 10
    """A measurement takes at least so long."""
    tuner: str | None = None
    """One of :data:`TUNERS`; auto_scheduler has its own. ``layout`` on a CPU and ``xgb`` on a GPU,
    whose templates keep one layout, where omitted."""
    threads: int | None = None
    """Threads a kernel is measured on; where omitted, one, as in a concurrent stage."""

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
        if self.tuner is not None and self.tuner not in TUNERS:
            raise OptionError(f"tuner is {self.tuner!r}; choose from {', '.join(TUNERS)}")

    def used_by(self, backend: str | None) -> TuningOptions:
        """Those that a back end reads, and the rest at their defaults; None reads nothing."""
        if backend is None:
            return TuningOptions()
        if backend == "autotvm":
            return replace(self, task_early_stopping=None)
        return replace(self, tuner=None) if backend == "auto_scheduler" else self

    def tuner_for(self, *, gpu: bool) -> str:
        """The tuner of AutoTVM."""
        return self.tuner or ("xgb" if gpu else "layout")

    def run_timeout_s(self, *, gpu: bool) -> float:
        """How long one candidate may run."""
        return self.timeout_s or (GPU_TIMEOUT_S if gpu else CPU_TIMEOUT_S)
