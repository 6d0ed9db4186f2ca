"""Arguments of a call of ``tune`` as one noun."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import tvm

from tvm_ios.core.parts import Part
from tvm_ios.cost.database import ProfileDatabase
from tvm_ios.driver.options import DEFAULTS, TuneOptions
from tvm_ios.runtime.artifact.decisions_file import DecisionFiles
from tvm_ios.runtime.base.module_attributes import parts_of
from tvm_ios.support.progress import ProgressListener
from tvm_ios.support.stage_gate import OpenGate, clock_at_work, gate_around
from tvm_ios.support.time_budget import TimeBudget

__all__ = ["TuneCall", "budget_of_call"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneCall:
    """Arguments of a call of :func:`tvm_ios.tune`, which documents them."""

    mod: tvm.IRModule
    params: Mapping[str, Any] | None = None
    target: Any = None
    tuning: str | None = None
    tuning_records: str | Path | Sequence[str | Path] | None = None
    time_budget: TimeBudget = field(default_factory=TimeBudget)
    """Time of the call, whose clock runs."""
    lanes: int | None = None
    database: ProfileDatabase | str | Path | None = None
    decisions: DecisionFiles = None
    inputs: Mapping[str, np.ndarray] | None = None
    """Inputs that errors are checked on; None for made-up ones."""
    progress: ProgressListener | None = None
    options: TuneOptions = DEFAULTS

    @property
    def parts(self) -> tuple[Part, ...]:
        """Parts of a network of several models; none of one model."""
        return parts_of(self.mod) if isinstance(self.mod, tvm.IRModule) else ()


def budget_of_call(given: TimeBudget | float | None) -> TimeBudget:
    """Budget that was given, or one that begins now and stands still while a job waits."""
    return TimeBudget.of(given, clock_s=clock_at_work(gate_around(OpenGate())))
