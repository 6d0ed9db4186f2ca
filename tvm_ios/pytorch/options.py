"""Options of the backend of ``torch.compile``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self

from tvm_ios.compile.dialects.dialect import dialect_here
from tvm_ios.driver.effort import Effort
from tvm_ios.driver.kept.tune_call import TuneCall, budget_of_call
from tvm_ios.driver.options import DEFAULTS, TuneOptions, options_of_call
from tvm_ios.errors import OptionError
from tvm_ios.runtime.base.device import is_gpu_target

__all__ = ["BackendOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendOptions:
    """Options of ``torch.compile(…, options={…})``: arguments of :func:`tvm_ios.tune`.

    Raises
    ------
    OptionError
        If the target is a GPU: tensors are used in place, in the memory of the CPU; there are an
        effort and options, or options that exclude each other.
    ModelError
        If TVM does not know the target.
    """

    target: str | None = None
    effort: str | None = None
    tuning: str | None = None
    tuning_records: str | Path | None = None
    time_budget: float | None = None
    """Time budget in seconds of each graph that is compiled."""
    lanes: int | None = None
    database: str | Path | None = None
    precision: str | None = None
    max_relative_error: float | None = None
    options: TuneOptions = DEFAULTS
    wait: bool | None = None
    """True waits for the finished model, False runs the first one until it is there. Where omitted,
    calls with a time budget, a tuner or the effort ``"thorough"`` wait, for these say how long, and
    so do calls that are to be deterministic, since results may change in their last bits."""

    def __post_init__(self) -> None:
        options_of_call(
            self.effort,
            self.options,
            precision=self.precision,
            max_relative_error=self.max_relative_error,
        )
        if not isinstance(self.wait, bool | None):
            raise OptionError(f"wait is {self.wait!r}; give True, False or None")
        if self.target is not None and is_gpu_target(dialect_here().resolve_target(self.target)):
            raise OptionError(
                f"target is {self.target!r}, but the backend tvm_ios runs on the CPU, where torch "
                "has the tensors; leave it out, or schedule one model for the GPU: "
                "tvm_ios.tune(*tvm_ios.from_torch(model, x), 'cuda')"
            )

    def waits(self, *, deterministic: bool = False) -> bool:
        """True if who calls the model first waits for the finished one.

        ``deterministic`` says that torch is asked for equal bits in every call.
        """
        if self.wait is not None:
            return self.wait
        effort = None if self.effort is None else Effort.of(self.effort)
        tuner = self.chosen.kernels.backend_for(self.tuning)
        limited = self.time_budget is not None or effort is Effort.THOROUGH or tuner is not None
        return limited or deterministic

    def call(self, mod: Any, params: Any) -> TuneCall:
        """Call of ``tune`` for a module and its parameters, whose time begins now."""
        return TuneCall(
            mod=mod,
            params=params,
            target=self.target,
            tuning=self.tuning,
            tuning_records=self.tuning_records,
            time_budget=budget_of_call(self.time_budget),
            lanes=self.lanes,
            database=self.database,
            options=self.chosen,
        )

    @property
    def chosen(self) -> TuneOptions:
        """Options that effort, options and what goes over them make."""
        return options_of_call(
            self.effort,
            self.options,
            self.tuning,
            precision=self.precision,
            max_relative_error=self.max_relative_error,
        )

    @classmethod
    def of(cls, given: Mapping[str, Any] | None) -> Self:
        """Options from the mapping that torch hands over."""
        names = [field.name for field in fields(cls)]
        if unknown := [name for name in given or {} if name not in names]:
            raise OptionError(
                f"the backend tvm_ios has no option {unknown[0]!r}; it has {', '.join(names)}"
            )
        return cls(**given or {})
